"""The relay's own conversation with a broker, as scripts; and when it is due."""

from collections.abc import Callable
from math import inf
from typing import Any, Final, NamedTuple

import pytest

from stomprelay.relay.effects import Effect, Open
from stomprelay.relay.link.probe import Probe
from stomprelay.relay.model.group import Broker, Checks, Group, Policy, Reconnect
from stomprelay.relay.model.profile import ARTEMIS
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.brokers import Watch
from stomprelay.session.effects import Close, Event, How, Note, Send, Wake
from stomprelay.session.handshake import Credentials
from stomprelay.session.leg import LegState
from tests.relay.failing import middle

NOW: Final = 1000.0
HELLO: Final = b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:/\nheart-beat:0,0\n\n\0"
WELCOME: Final = b"CONNECTED\nversion:1.2\nserver:RabbitMQ/3.10.8\nheart-beat:0,0\n\n\0\n"
GOODBYE: Final = b"DISCONNECT\n\n\0"
CANARY: Final = b"SEND\ndestination:/queue/canary\nreceipt:probe\n\n\0"
RECEIVED: Final = b"RECEIPT\nreceipt-id:probe\n\n\0\n"
WITH_CANARY: Final = Checks(probe=5.0, destination="/queue/canary")

ways = pytest.mark.parametrize(
    "cut",
    [
        lambda data: [data],
        lambda data: [data[at : at + 1] for at in range(len(data))],
        lambda data: [data + b"\n\r\n\0\n"],
    ],
    ids=["whole", "octets", "trailed"],
)
Cut = Callable[[bytes], list[bytes]]


class Script:
    """A probe of one broker, and all that it asked for."""

    def __init__(
        self, *, up: bool | None = None, told: bool = False, cut: Cut = lambda data: [data], **settings: Any
    ) -> None:
        self.broker = Broker("tcp://a:61613", "tcp:a:61613", "a")
        if up is not None:
            (self.broker.health.answered if up else self.down)()
        group = Group("main", (self.broker,), Reconnect())
        self.upstream = Upstream("main", (group,), **settings)
        self.probe = Probe(self.upstream, self.broker, middle, told=told)
        self.cut = cut
        self.now = NOW
        self.wake = inf
        self.notes: list[Note] = []
        self.sent = b""
        self.closed: How | None = None
        self.perform(self.probe.begin(self.now))

    def down(self) -> None:
        """It failed long ago."""
        self.broker.health.failed(Checks(), 0.0, middle)

    def perform(self, effects: list[Effect]) -> None:
        """As the service does."""
        for effect in effects:
            match effect:
                case Open():
                    assert (effect.leg, effect.broker) == (self.probe.leg, self.broker)
                case Send():
                    assert self.closed is None
                    assert effect.leg is self.probe.leg
                    self.sent += effect.data
                case Close():
                    assert effect.leg is self.probe.leg
                    self.closed = effect.how
                case Wake():
                    assert effect.at >= self.now
                    self.wake = effect.at
                case Note():
                    self.notes.append(effect)
                case _:
                    pytest.fail(f"{effect} is nothing for a probe")

    def accepts(self) -> None:
        """The broker takes the connection."""
        self.perform(self.probe.connected(self.now))

    def says(self, data: bytes) -> None:
        """The broker wrote this; as it is cut, and no more once the leg is closed."""
        for chunk in self.cut(data):
            if self.closed is None:
                self.perform(self.probe.received(chunk, self.now))

    def gets(self, data: bytes) -> None:
        """The broker was sent exactly this since it was last asked."""
        sent, self.sent = self.sent, b""
        assert sent == data

    def wakes(self) -> None:
        """Nothing happens until the time of the last `Wake`."""
        self.now = self.wake
        self.perform(self.probe.woke(self.now))

    def ends(self, well: bool, how: How = How.FLUSH, *, events: str = "") -> None:
        """This is the outcome; the broker's health knows it, and the log these events."""
        health = self.broker.health
        assert self.probe.well is well
        assert health.up is well
        assert health.out(self.now) is not well
        assert self.closed is how
        assert self.wake == inf
        assert self.probe.leg.state is LegState.CLOSED
        assert " ".join(note.event.value for note in self.notes) == events
        assert self.sent == b""
        for note in self.notes:
            assert (note.facts["broker"], note.facts["upstream"]) == ("tcp://a:61613", "main")
            if note.event is Event.LOST:
                assert note.text.endswith(f"is down: {note.facts['reason']}")

    def said(self) -> str:
        """What the log was told."""
        return " ".join(note.text for note in self.notes)


@pytest.mark.parametrize(
    ("up", "events"), [(None, "lost"), (True, "lost"), (False, "")], ids=["unknown", "up", "down"]
)
def test_no_connection(up: bool | None, events: str) -> None:
    """It is down; the log is told unless it knows. It may come back as another one: its versions are forgotten."""
    script = Script(up=up)
    script.broker.versions = frozenset({b"1.0"})
    script.perform(script.probe.refused("Connection refused", script.now))
    script.ends(False, events=events)
    assert not script.broker.versions
    if events:
        assert script.said() == "broker tcp://a:61613 is down: it did not connect: Connection refused"


@pytest.mark.parametrize("accepted", [False, True], ids=["no connection", "no answer"])
def test_no_connected_in_time(accepted: bool) -> None:
    """A listener that accepts and never answers is no broker (peers: balancers in front of dead ones do that)."""
    script = Script(connect_timeout=3.0)
    if accepted:
        script.accepts()
        script.gets(HELLO)
        script.says(b"\n")
        script.says(WELCOME[:-3])
    assert script.wake == NOW + 3
    script.wakes()
    script.ends(False, How.ABORT, events="lost")
    assert "no CONNECTED in time" in script.said()


@pytest.mark.parametrize("credentials", [None, Credentials(b"relay", b"x")])
def test_a_broker_that_closes_on_who_has_no_login(credentials: Credentials | None) -> None:
    """Where it serves others, and the relay has no credentials of its own, it is as well as it was."""
    script = Script(up=True, credentials=credentials)
    script.broker.health.joined()
    script.accepts()
    script.sent = b""
    script.perform(script.probe.lost("reset by peer", script.now))
    assert script.broker.health.up is (credentials is None)
    assert script.probe.well is False
    assert script.closed is How.FLUSH
    assert len(script.notes) == (0 if credentials is None else 1)


REFUSED: Final = b"ERROR\nmessage:Bad CONNECT\ncontent-length:32\n\nAccess refused for user 'guest'\n\0\n"
UNAVAILABLE: Final = b"ERROR\nmessage:broker not available\n\nupstream main did not connect\0\n"
OTHERS: Final = b"RECEIPT\nreceipt-id:other\n\n\0\nMESSAGE\nsubscription:0\nmessage-id:1\n\nhello\0\n\n"
DENIED: Final = b"ERROR\nmessage:access_refused\\n\xff\nreceipt-id:probe\n\nBODY\0\n"


class Talk(NamedTuple):
    """What the broker says, each with what it is sent then; whether it is up, and what the log is told."""

    steps: list[tuple[bytes, bytes]]
    well: bool
    events: str = ""
    said: str = ""
    settings: dict[str, Any] = {}


TALKS: Final = {
    # Without credentials of its own the relay expects no better; no message is sent.
    "a stranger is refused": Talk([(REFUSED, b"")], True),
    "a stranger with a message": Talk([(REFUSED, b"")], True, settings={"checks": WITH_CANARY}),
    # A mistake in the configuration is no outage.
    "wrong credentials": Talk(
        *([(REFUSED, b"")], True, "refused", "credentials"), {"credentials": Credentials(b"relay", b"SECRET")}
    ),
    "a message and its receipt": Talk(
        [(WELCOME, CANARY), (RECEIVED, GOODBYE)], True, settings={"checks": WITH_CANARY}
    ),
    "a message to a queue of Artemis": Talk(
        [(WELCOME, CANARY.replace(b"\n", b"\ndestination-type:ANYCAST\n", 1)), (RECEIVED, GOODBYE)],
        True,
        settings={"checks": WITH_CANARY, "profile": ARTEMIS},
    ),
    "what is no receipt of ours": Talk(
        [(WELCOME, CANARY), (OTHERS, b""), (RECEIVED, GOODBYE)], True, settings={"checks": WITH_CANARY}
    ),
    # Whatever its reason; the log has its header and not its body.
    "a message that is refused": Talk(
        *([(WELCOME, CANARY), (DENIED, b"")], False, "lost", "it refused a message: access_refused\\n\\xff"),
        {"checks": WITH_CANARY},
    ),
    # Something else listens there.
    "HTTP": Talk([(b"HTTP/1.1 400 Bad Request\r\n\r\n", b"")], False, "lost"),
    "TLS": Talk([(b"\x15\x03\x01\x00\x02\x02\x16", b"")], False, "lost"),
    "MESSAGE": Talk([(b"MESSAGE\nsubscription:0\nmessage-id:1\n\n\0", b"")], False, "lost"),
    "RECEIPT": Talk([(b"RECEIPT\nreceipt-id:probe\n\n\0", b"")], False, "lost"),
    "another version": Talk([(b"CONNECTED\nversion:9.9\n\n\0", b"")], False, "lost"),
    "a body": Talk([(b"CONNECTED\nversion:1.2\ncontent-length:2\n\nhi\0", b"")], False, "lost"),
}


@ways
@pytest.mark.parametrize("talk", TALKS.values(), ids=TALKS)
def test_what_it_answers(talk: Talk, cut: Cut) -> None:
    """Up is who takes a message, or answers CONNECT where none is configured; no passcode is told."""
    script = Script(cut=cut, **talk.settings)
    script.accepts()
    if "credentials" not in talk.settings:
        script.gets(HELLO)
    script.sent = b""
    for says, sent in talk.steps:
        assert (script.probe.well, script.broker.health.up) == (None, None)
        script.says(says)
        script.gets(sent)
    script.ends(talk.well, events=talk.events)
    assert script.probe.denied is ("credentials" in talk.settings)
    assert talk.said in script.said()
    assert "SECRET" not in script.said() + repr(script.notes)
    assert "BODY" not in script.said()


def test_nothing_is_answered_when_it_is_over() -> None:
    """What comes late changes nothing; a stop closes the connection, and nothing is concluded from it."""
    script = Script()
    script.wakes()
    script.ends(False, How.ABORT, events="lost")
    probe = script.probe
    assert probe.connected(script.now) == [Close(probe.leg, How.ABORT)]
    assert probe.received(WELCOME, script.now) == []
    assert probe.refused("late", script.now) == []
    assert probe.lost("late", script.now) == []
    script.ends(False, How.ABORT, events="lost")
    assert script.broker.health.failures == 1
    script = Script(up=True)
    script.accepts()
    script.perform(script.probe.stopped())
    assert script.closed is How.ABORT
    assert script.probe.well is None
    assert script.broker.health.up is True
    assert script.probe.stopped() == []


def watch(
    *, reconnect: Reconnect | None = None, policy: Policy = Policy.FAILOVER, **settings: Any
) -> tuple[Watch, Broker]:
    """A watch over the first of two brokers of an upstream with these settings."""
    brokers = tuple(Broker(f"tcp://{name}", f"tcp:{name}", name) for name in "ab")
    group = Group("main", brokers, reconnect or Reconnect(), policy)
    return Watch(Upstream("main", (group,), **settings), group, brokers[0], NOW, middle), brokers[0]


def finish(probe: Probe, now: float, *, well: bool) -> None:
    """The conversation is over at once."""
    probe.begin(now)
    if well:
        probe.connected(now)
        probe.received(WELCOME, now)
    else:
        probe.refused("no", now)
    assert probe.well is well


def test_it_is_due_every_so_often() -> None:
    """The first time somewhere within the period, then once in each, a fifth sooner or later."""
    watching, _ = watch(checks=Checks(probe=10.0))
    found = []
    for tenth in range(600):
        now = NOW + tenth / 10
        if watching.due(now):
            found.append(now)
            finish(watching.probe(now), now, well=True)
    assert found == pytest.approx([NOW + 5 + 10 * each for each in range(6)])


@pytest.mark.parametrize("well", [True, False])
def test_a_broker_that_is_doubted(well: bool) -> None:
    """It is due at once, whatever the configuration, and not more than once in a pause."""
    watching, broker = watch()
    assert not watching.due(NOW)
    for now in NOW, NOW + 1:
        broker.health.doubt(broker.health.sight())
        assert watching.due(now)
        finish(watching.probe(now), now, well=well)
        assert not watching.due(now)
        broker.health.doubt(broker.health.sight())
        assert not watching.due(now + 0.5)
        assert broker.health.up is well


@pytest.mark.parametrize(
    ("reconnect", "policy"),
    [
        (Reconnect(priority_backup=True), Policy.FAILOVER),
        (Reconnect(), Policy.ROUND_ROBIN),
        (Reconnect(), Policy.RANDOM),
        (Reconnect(), Policy.LEAST_SESSIONS),
    ],
)
def test_somebody_finds_out_that_a_wanted_broker_is_back(reconnect: Reconnect, policy: Policy) -> None:
    """Without a period, too, it is due when the pause for its failure is over, again and again."""
    watching, broker = watch(reconnect=reconnect, policy=policy)
    assert not watching.due(NOW)
    broker.health.answered()
    assert not watching.due(NOW)
    broker.health.failed(Checks(), NOW, middle)
    found = []
    for tenth in range(200):
        now = NOW + tenth / 10
        if watching.due(now):
            found.append(now - NOW)
            finish(watching.probe(now), now, well=False)
    assert found == pytest.approx([1.0, 3.0, 7.0, 15.0])
    now = broker.health.out_until
    assert watching.due(now)
    finish(watching.probe(now), now, well=True)
    assert not watching.due(now + 1e6)


@pytest.mark.parametrize("checks", [Checks(), Checks(probe=1.0)])
def test_a_paused_broker_is_left_alone(checks: Checks) -> None:
    """By the relay as by its sessions."""
    watching, broker = watch(checks=checks, policy=Policy.RANDOM)
    broker.health.failed(checks, NOW, middle)
    assert watching.due(NOW + 10)
    broker.health.paused = True
    assert not watching.due(NOW + 10)
    broker.health.paused = False
    assert watching.due(NOW + 10)


def test_what_the_log_knows_is_handed_on() -> None:
    """Credentials that stay wrong are told once; once they were right, anew."""
    watching, _ = watch(credentials=Credentials(b"relay", b"x"), checks=Checks(probe=1.0))
    found = []
    for answer in (REFUSED, REFUSED, WELCOME, REFUSED, UNAVAILABLE, REFUSED):
        probe = watching.probe(NOW)
        probe.begin(NOW)
        probe.connected(NOW)
        effects = probe.received(answer, NOW)
        found.append([each.event for each in effects if isinstance(each, Note)])
    assert found == [[Event.REFUSED], [], [], [Event.REFUSED], [Event.LOST], [Event.CONNECTED, Event.REFUSED]]
