"""Scenes in which brokers fail: a session in front of a failover list, and the broker that it finds next.

with started(b"1.2", confirm=True) as play:
    play.client_says(b"SEND\\ndestination:/queue/a\\n\\nhello\\0")
    play.broker_reads()
    play.broker_goes()
    found(play)
    play.broker_gets(b"SEND\\nrelay-resent:true\\n...")
"""

from math import inf
from typing import Any

from stomprelay.relay import inputs
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.group import Broker, Group, Reconnect
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.resend.resender import SOON
from tests.playbook import SAY_HELLO, Cut, Playbook, listener, said_welcome, upstream

NAMES = ("a", "b", "c")

STOPPING = b"ERROR\nmessage:the broker is stopping\ncontent-length:19\n\nconnect again later\0"
"""What a broker says that goes away, whoever it says it to; here, the built-in one."""


def middle() -> float:
    """Chance at its mean: delays are as long as they are configured, and nobody is favoured."""
    return 0.5


def movable(brokers: int = 2, *, options: dict[str, Any] | None = None, **settings: Any) -> Upstream:
    """An upstream called `main` with so many brokers, `tcp://a`, `tcp://b` and so on, tried in that order.

    `options` are those of `Reconnect`, `settings` those of the upstream.
    """
    reconnect = Reconnect(**{"randomize": False, "jitter": 0.0, **(options or {})})
    listed = tuple(Broker(f"tcp://{name}", f"tcp:{name}:61613") for name in NAMES[:brokers])
    return upstream(groups=(Group("main", listed, reconnect),), **settings)


def started(
    client: bytes = b"1.2",
    broker: bytes | None = None,
    *,
    product: str = "generic",
    cut: Cut = Cut.WHOLE,
    brokers: int = 2,
    options: dict[str, Any] | None = None,
    hello: bytes = b"",
    welcome: bytes = b"",
    front: dict[str, Any] | None = None,
    **settings: Any,
) -> Playbook:
    """A playbook whose client is on the first of several brokers, which answered CONNECTED in this version.

    `hello` and `welcome` are more headers of CONNECT and CONNECTED, `front` the listener's settings, `settings` the
    upstream's.
    """
    play = Playbook(listener(movable(brokers, options=options, **settings), **(front or {})), cut=cut)
    play.client_says(SAY_HELLO[client].replace(b"CONNECT\n", b"CONNECT\n" + hello))
    play.broker_welcomes(broker or client, product, welcome)
    assert play.client_reads().startswith(b"CONNECTED\n")
    play.both_stay()
    return play


def asked(play: Playbook) -> None:
    """Time passes until another broker's connection is asked for."""
    while play.brokers[-1].accepted or play.brokers[-1].closed is not None:
        assert play.wake < inf, "no broker will ever be asked for"
        play.time_passes(play.wake - play.now)


def found(play: Playbook, version: bytes = b"1.2", product: str = "generic", welcome: bytes = b"") -> None:
    """The next broker that is asked for answers CONNECTED, if it has not. What it is told then is left for the script
    to read.
    """
    if play.brokers[-1].arriving and play.brokers[-1].closed is None:
        play.brokers[-1].arriving = False
        assert link(play).state.leg is play.brokers[-1].leg
        return
    asked(play)
    play.broker_welcomes(version, product, welcome)


def moves(play: Playbook, version: bytes = b"1.2", product: str = "generic") -> None:
    """The broker is lost, and the next one answers CONNECTED."""
    play.broker_goes()
    found(play, version, product)


def goes_by_itself(play: Playbook) -> None:
    """The broker is lost so long after it was sent something that it cannot be for that."""
    play.time_passes(SOON + 1)
    play.broker_goes()


def link(play: Playbook) -> Link:
    """The session's only place."""
    (only,) = play.relay.links
    return only


def client_waits(play: Playbook) -> bool:
    """Whether the relay does not read from the client."""
    return play.client.paused


def over(play: Playbook) -> bool:
    """Whether the session is."""
    return play.relay.over


def sent_away(play: Playbook, within: float = 5.0, *, welcome: bytes | None = said_welcome(b"1.2")) -> None:
    """An operator pauses the first broker of the list, and its sessions are asked to leave it."""
    play.relay.listener.upstream.brokers[0].health.paused = True
    asked_to_leave(play, within, welcome=welcome)


def asked_to_leave(
    play: Playbook,
    within: float = 5.0,
    *,
    to: int | None = None,
    may_stay: bool = False,
    welcome: bytes | None = said_welcome(b"1.2"),
) -> None:
    """The session is asked to leave the first broker, for another one that is better for it. One that is asked for it
    answers CONNECT with `welcome`; None: it is for the script.
    """
    brokers = play.relay.listener.upstream.brokers
    target = None if to is None else brokers[to]
    before = len(play.brokers)
    play._perform(play.relay.handle(inputs.Leave(brokers[0], within, target, may_stay=may_stay), play.now))
    if len(play.brokers) > before and welcome is not None:
        uri = play.brokers[-1].uri
        assert play.broker_is_asked(at=uri).startswith(b"CONNECT\n")
        play.broker_says(welcome, at=uri)
