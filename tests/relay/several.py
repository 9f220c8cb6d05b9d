"""A client with several brokers: upstreams with groups called `main-1` and so on, whose brokers are `a`, `b`, `c`."""

from typing import Any, Final

from stomprelay.relay.model.group import Broker, Group, Reconnect, alone
from stomprelay.relay.model.listener import Listener, Match, Route
from stomprelay.relay.model.upstream import Upstream
from tests.playbook import SAY_HELLO, Playbook, listener
from tests.relay.frames import message, send, tell

SOON: Final = 0.02
"""Longer than a group waits before it tries a broker again."""


def group(name: str, *hosts: str, **options: Any) -> Group:
    """A group of brokers at these addresses, with options of `failover:` (seconds)."""
    brokers = tuple(Broker(host, f"tcp:{host}:61613") for host in hosts)
    return Group(name, brokers, Reconnect(randomize=False, **options))


def fan_out(count: int = 2, *, options: dict[str, Any] | None = None, **settings: Any) -> Upstream:
    """An upstream called `main` with so many groups of one broker each."""
    groups = [group(f"main-{at + 1}", "abcd"[at], **(options or {})) for at in range(count)]
    return Upstream("main", tuple(groups), **settings)


def plain(name: str, host: str, **settings: Any) -> Upstream:
    """An upstream that is an address."""
    return Upstream(name, alone(Broker(host, f"tcp:{host}:61613")), **settings)


def lasting(name: str, host: str, **settings: Any) -> Upstream:
    """An upstream of one broker whose loss sessions survive."""
    return Upstream(name, (group(name, host),), **settings)


def routed(main: Upstream, *others: Upstream, **settings: Any) -> Listener:
    """A listener for `main`; what begins with `/queue/NAME.` goes to the other of that name."""
    routes = tuple(Route(Match.PREFIX, f"/queue/{other.name}.", other) for other in others)
    return listener(main, routes=routes, **settings)


def comes_back(play: Playbook, at: str, version: bytes = b"1.2") -> None:
    """The broker that was lost accepts the session again."""
    before = len(play.opened)
    play.time_passes(SOON)
    assert str(play.opened[-1]) == at
    assert len(play.opened) > before
    play.broker_welcomes(version, at=at)


def begun(front: Listener, client: bytes = b"1.2", brokers: str = "ab", *versions: bytes) -> Playbook:
    """A playbook whose client and brokers shook hands already; `versions` are those of the brokers."""
    play = Playbook(front)
    play.client_says(SAY_HELLO[client])
    for at, broker in enumerate(brokers):
        play.broker_welcomes(versions[at] if versions else client, at=broker)
    assert play.client_reads().startswith(b"CONNECTED\n")
    return play


def fanned(count: int = 2, quorum: int = 1, **settings: Any) -> Playbook:
    """A 1.2 client with so many brokers of 1.2."""
    return begun(listener(fan_out(count, quorum=quorum, **settings)), b"1.2", "abcd"[:count])


HERE, THERE = b"/queue/here", b"/queue/there.1"
"""Destinations of `two_upstreams`: of the listener's own, and of the other."""


def two_upstreams(**settings: Any) -> Playbook:
    """A client that uses two upstreams, `main` with broker a and `there` with broker b."""
    play = begun(routed(lasting("main", "a"), lasting("there", "b"), **settings), b"1.2", "a")
    play.client_says(send(b"", THERE))
    play.broker_welcomes(at="b")
    play.broker_gets(send(b"", THERE), at="b")
    return play


def both_get(play: Playbook, expected: bytes) -> None:
    """Brokers a and b were sent these bytes and no others."""
    play.broker_gets(expected, at="a")
    play.broker_gets(expected, at="b")


def subscribed(play: Playbook, **headers: str) -> Playbook:
    """The client is subscribed at all brokers, with these headers."""
    play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", **headers))
    for peer in play.brokers:
        peer.written = b""
    return play


def delivers(play: Playbook, at: str, number: int) -> None:
    """A broker sends a message with the `ack` of `at` and `number`, and the client receives it."""
    wire = message(b"", message_id=f"m{at}{number}", ack=f"{at}{number}")
    play.broker_tells_client(wire, at=at)
