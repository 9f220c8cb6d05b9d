"""A session's place in one group: whom it asks for CONNECTED and when, what it finds, and how it is left."""

from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from stomprelay.relay.effects import Effect, Open
from stomprelay.relay.link.handshake import Accepted
from stomprelay.relay.link.link import Link, Stage
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.health import Checks
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.resend.resender import Resender
from stomprelay.session.effects import Close, Event, How, Note, Send
from stomprelay.session.handshake import Offer
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import State
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.errors import ProtocolError, StompError
from stomprelay.wire.limits import Limits
from stomprelay.wire.names import CLIENT_COMMANDS
from tests.playbook import VERSIONS, Cut, in_all_cuts, listener, upstream
from tests.relay.failing import movable, said_welcome

in_all_versions = pytest.mark.parametrize("version", VERSIONS, ids=bytes.decode)

SEND = b"SEND\ndestination:/queue/a\n\nx\0"
ASKING = b"SEND\ndestination:/queue/a\nreceipt:r\n\nx\0"
SUBSCRIBE = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0"
MESSAGE = b"MESSAGE\nsubscription:1\nmessage-id:m\nack:k\ndestination:/queue/a\n\nx\0"
OTHERS = b"ERROR\nmessage:no such version\nversion:%b\n\n\0"
OUTAGE = b"ERROR\nmessage:service unavailable\n\n\0"
DENIED = b"ERROR\nmessage:Bad CONNECT\n\nno such user\0"


class Scene:
    """A session of `s` and its place in the first group of an upstream. `now` is the time of whatever is told."""

    def __init__(
        self, over: Upstream | None = None, *, version: bytes = b"1.2", carried: bool = False, **settings: Any
    ) -> None:
        self.over = over or movable(**settings)
        self.counters = Counters()
        self.session = Session(b"s", DIALECTS[version], 10, self.counters)
        self.link = Link(
            listener(self.over),
            self.over,
            self.over.groups[0],
            Offer([], frozenset(VERSIONS[: VERSIONS.index(version) + 1]), None),
            self.session,
            lambda: 0.5,  # the middle of every spread
            carried=carried,
        )
        self.effects: list[Effect] = []
        self.now = 100.0

    @property
    def leg(self) -> Leg:
        """The leg that it has."""
        assert self.link.leg is not None
        return self.link.leg

    @property
    def resender(self) -> Resender:
        """Of a session that survives its broker."""
        assert self.link.resender is not None
        return self.link.resender

    def seeks(self, prefer: Broker | None = None) -> None:
        """The search begins."""
        self.link.seek(self.effects, self.now, prefer)

    def accepts(self) -> None:
        """The connection is there."""
        self.link.connected(self.leg, self.effects, self.now)

    def refuses(self, reason: str = "Connection refused") -> None:
        """The broker that is asked cannot be reached."""
        self.link.refused(reason, self.effects, self.now)

    def answers(self, data: bytes) -> Accepted | bytes | None:
        """The broker that is asked says this."""
        return self.link.answered(data, self.effects, self.now)

    def wakes(self) -> None:
        """At the time that it asked for."""
        assert self.link.until < inf
        self.now = max(self.now, self.link.until)
        self.link.woke(self.effects, self.now)

    def reconsiders(self) -> None:
        """A broker came back."""
        self.link.reconsidered(self.effects, self.now)

    def finds(self, version: bytes = b"1.2", product: str = "generic") -> None:
        """The next broker that is asked accepts."""
        while self.link.stage is Stage.SEARCHING:
            self.wakes()
        assert isinstance(self.answers(said_welcome(version, product)), Accepted)
        self.effects.clear()

    def loses(self) -> None:
        """Its broker is gone, and another one is sought."""
        self.resender.lost()
        self.link.hang_up(How.ABORT, self.effects)
        self.effects.clear()
        self.seeks()

    def client_says(self, data: bytes) -> None:
        """By the resender."""
        decoder = Decoder(self.session.dialect, CLIENT_COMMANDS, Limits())
        decoder.feed(data)
        for frame in decoder.frames():
            self.resender.say(frame)
        self.resender.flush([], self.now)

    def asked(self) -> list[str]:
        """The brokers that were asked for since the last look; everything else is forgotten."""
        opened = [str(each.broker) for each in self.effects if isinstance(each, Open)]
        self.effects.clear()
        return opened

    def notes(self) -> list[tuple[Event, str]]:
        """What is logged."""
        return [(each.event, each.text) for each in self.effects if isinstance(each, Note)]

    def ways(self) -> list[tuple[Leg, How]]:
        """Which legs are closed, and how."""
        return [(each.leg, each.how) for each in self.effects if isinstance(each, Close)]

    def quiet(self) -> bool:
        """Whether its broker could be left."""
        return self.link.quiet

    def moves(self) -> bool:
        """Whether it is to leave its broker."""
        return self.link.moving

    def sent(self) -> bytes:
        """What is written, to the leg that it has."""
        sends = [each for each in self.effects if isinstance(each, Send)]
        assert all(each.leg is self.leg for each in sends)
        return b"".join(each.data for each in sends).replace(b"\0\n", b"\0")


def started(over: Upstream | None = None, **settings: Any) -> Scene:
    """A session that is on the first broker."""
    play = Scene(over, **settings)
    play.seeks()
    play.finds()
    return play


# Before the search


@pytest.mark.parametrize(
    ("over", "carried", "carries"),
    [(upstream(), False, False), (upstream(), True, True), (movable(), False, True), (movable(), True, True)],
    ids=["plain", "plain among others", "failover", "failover among others"],
)
def test_before_the_search(over: Upstream, carried: bool, carries: bool) -> None:
    """Nothing is due, nobody was asked; there is a resender where the session survives its broker or has others."""
    link = Scene(over, carried=carried).link
    assert link.stage is Stage.SEARCHING
    assert link.until == inf
    assert [link.leg, link.broker, link.asked, link.bridges, link.parting] == [None] * 5
    assert (link.resender is not None) == carries
    assert link.fresh
    assert not link.up
    assert not link.quiet
    assert not link.moving
    assert link.news is Event.CONNECTED
    assert link.verdict == ""
    assert link.uncertain == 0


# Attempts


def test_the_first_attempt_is_made_at_once() -> None:
    """A broker is asked for its connection, and has until `connect_timeout` to be CONNECTED."""
    play = Scene(connect_timeout=3.0)
    play.seeks()
    first = play.over.brokers[0]
    assert play.effects == [Open(play.leg, first)]
    assert play.link.stage is Stage.BINDING
    assert play.link.asked is first
    assert play.link.until == 103.0
    assert play.link.broker is None
    assert not play.link.up
    assert (first.health.coming, first.health.sessions) == (1, 0)


def test_connect_is_said_when_the_connection_is_there() -> None:
    """Not before; it counts for the beats of that leg."""
    play = Scene(host=b"there")
    play.seeks()
    assert play.sent() == b""
    play.now += 1.0
    play.accepts()
    assert play.sent() == (b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:there\nheart-beat:10000,10000\n\n\0")
    assert play.leg.heartbeat.sent_at == 101.0


def test_a_connection_that_nobody_waits_for_any_more() -> None:
    """It is closed, and is told nothing."""
    play = Scene()
    play.seeks()
    late = play.leg
    play.refuses()
    play.effects.clear()
    play.link.connected(late, play.effects, play.now)
    assert play.effects == [Close(late, How.ABORT)]
    play.finds()
    play.link.connected(play.leg, play.effects, play.now)
    assert play.effects == [Close(play.leg, How.ABORT)]


@in_all_cuts
@in_all_versions
def test_a_broker_accepts(version: bytes, cut: Cut) -> None:
    """From then on there is a broker, nothing is due, and it counts the session among its own."""
    play = Scene()
    play.seeks()
    play.accepts()
    play.effects.clear()
    answers = [play.answers(chunk) for chunk in cut.chunks(said_welcome(version))]
    assert [type(each) for each in answers if each is not None] == [Accepted]
    assert answers[-1] is not None
    link, first = play.link, play.over.brokers[0]
    assert play.effects == []
    assert link.up
    assert link.stage is Stage.UP
    assert link.broker is first
    assert link.asked is None
    assert link.bridges is not None
    assert not link.fresh
    assert link.until == inf
    assert play.leg.state is State.CONNECTED
    assert play.leg.dialect.version == version
    assert (first.health.up, first.health.sessions, first.health.coming) == (True, 1, 0)
    assert link.news is Event.CONNECTED


def test_what_follows_connected_in_its_chunk() -> None:
    """It stays in the leg's decoder, for whoever carries frames."""
    play = Scene()
    play.seeks()
    assert isinstance(play.answers(said_welcome(b"1.2") + MESSAGE), Accepted)
    assert [frame.wire for frame in play.leg.decoder.frames()] == [MESSAGE]


@pytest.mark.parametrize(("product", "cumulative"), [("rabbitmq", False), ("activemq", True)])
def test_the_carrier_learns_what_receipts_mean(product: str, cumulative: bool) -> None:
    """It has a broker, too, with the ways of its product."""
    play = Scene(confirm=True)
    play.seeks()
    play.finds(product=product)
    assert play.resender.unconfirmed.cumulative == cumulative
    play.client_says(SEND * 3)
    assert len(play.resender.unconfirmed) == (1 if cumulative else 3)


def test_a_broker_that_cannot_be_reached() -> None:
    """The next one is asked at once; the log is told why, and what was learnt of the broker is forgotten."""
    play = Scene()
    first, second = play.over.brokers
    first.versions = frozenset({b"1.1"})
    play.seeks()
    leg = play.leg
    play.effects.clear()
    play.refuses("Connection refused")
    assert play.effects == [
        Note(
            Event.REFUSED,
            "broker tcp://a did not connect: Connection refused",
            {"broker": "tcp://a", "upstream": "main", "reason": "did not connect: Connection refused"},
        ),
        Close(leg, How.ABORT),
        Open(play.leg, second),
    ]
    assert leg.closed
    assert play.leg is not leg
    assert [broker.versions for broker in play.over.brokers] == [None, None]
    assert (first.health.up, first.health.failures, first.health.coming) == (False, 1, 0)
    assert first.health.out_until == 101.0
    assert play.counters["brokers_refused"] == 1
    assert play.link.fresh


def test_a_pause_between_passes() -> None:
    """With no broker left to try it waits, and wakes when the next attempt is due, not before."""
    play = Scene(options={"initial_delay": 4.0}, checks=Checks(failures=9))
    play.seeks()
    play.refuses()
    play.refuses()
    assert play.asked() == ["tcp://a", "tcp://b"]
    assert play.link.stage is Stage.SEARCHING
    assert play.link.until == 104.0
    play.wakes()
    assert play.asked() == ["tcp://a"]
    assert play.link.until == 114.0


def test_who_has_a_broker_looks_for_no_other() -> None:
    """Whatever the time is."""
    play = started(options={"timeout": 60.0})
    play.now += 1000.0
    play.link.woke(play.effects, play.now)
    assert play.effects == []
    assert play.link.up


def test_a_preferred_broker_comes_first() -> None:
    """Then the others in their order."""
    play = Scene(brokers=3)
    play.seeks(play.over.brokers[1])
    play.refuses()
    play.refuses()
    assert play.asked() == ["tcp://b", "tcp://a", "tcp://c"]


def test_a_broker_that_was_paused_meanwhile() -> None:
    """When the time of its attempt comes another one is asked."""
    play = started(options={"initial_delay": 2.0})
    first, second = play.over.brokers
    play.loses()
    assert play.link.until == 102.0
    assert second.health.coming == 1
    second.health.paused = True
    play.wakes()
    assert play.asked() == ["tcp://a"]
    assert play.link.asked is first
    assert second.health.coming == 0


def test_all_brokers_are_paused() -> None:
    """It waits without end, though its time is bounded, until one is resumed."""
    play = Scene(options={"timeout": 5.0})
    for broker in play.over.brokers:
        broker.health.paused = True
    play.seeks()
    assert play.asked() == []
    assert play.link.stage is Stage.SEARCHING
    assert play.link.until == inf
    play.now += 1000.0
    play.over.brokers[1].health.paused = False
    play.reconsiders()
    assert play.asked() == ["tcp://b"]
    play.finds()


# A broker came back


def test_a_broker_comes_back_while_it_waits() -> None:
    """It is asked at once, for nobody need wait for the end of a pause."""
    play = started(options={"initial_delay": 10.0, "exponential": False}, brokers=1)
    play.loses()
    assert play.asked() == []
    assert play.link.until == 110.0
    play.now = 101.0
    play.reconsiders()
    assert play.asked() == ["tcp://a"]
    assert play.link.stage is Stage.BINDING


@pytest.mark.parametrize("stage", [Stage.BINDING, Stage.UP, Stage.PARTING, Stage.ENDED])
def test_a_broker_comes_back_at_any_other_time(stage: Stage) -> None:
    """Nothing follows from it."""
    play = Scene()
    play.seeks()
    if stage is not Stage.BINDING:
        play.finds()
    if stage is Stage.PARTING:
        play.link.part(play.effects, play.now)
    if stage is Stage.ENDED:
        play.link.end(play.effects)
    play.effects.clear()
    until = play.link.until
    play.reconsiders()
    assert play.effects == []
    assert play.link.stage is stage
    assert play.link.until == until


def test_sessions_come_back_one_after_the_other() -> None:
    """So many a second, after a loss; clients that have just come do not wait."""
    over = movable(1, reconnect_rate=2.0, options={"initial_delay": 0.0})
    plays = [started(over) for _ in range(3)]
    for play in plays:
        play.loses()
    assert [play.link.until for play in plays] == [110.0, 100.5, 101.0]  # the first one is asking already
    assert [play.asked() for play in plays] == [["tcp://a"], [], []]
    newcomer = Scene(over)
    newcomer.seeks()
    assert newcomer.asked() == ["tcp://a"]


# Too late


@pytest.mark.parametrize("accepts", [True, False])
def test_no_connected_in_time(accepts: bool) -> None:
    """The time is for the connection and the answer together; then the next broker is asked."""
    play = Scene(connect_timeout=3.0)
    play.seeks()
    leg = play.leg
    play.now += 2.0
    if accepts:
        play.accepts()
    assert play.link.until == 103.0
    play.effects.clear()
    play.wakes()
    assert play.notes() == [(Event.REFUSED, "broker tcp://a did not connect: no CONNECTED in time")]
    assert play.ways() == [(leg, How.ABORT)]
    assert play.asked() == ["tcp://b"]
    assert play.link.until == 106.0
    assert play.over.brokers[0].health.failures == 1
    assert play.counters["brokers_refused"] == 1


def test_the_time_is_over_while_a_broker_is_asked() -> None:
    """The session is given up at that time; the broker has done nothing wrong."""
    play = Scene(options={"timeout": 2.5}, connect_timeout=3.0)
    play.seeks()
    leg = play.leg
    play.accepts()
    assert play.link.until == 102.5
    play.effects.clear()
    play.wakes()
    assert play.effects == [Close(leg, How.ABORT)]
    assert play.link.stage is Stage.ENDED
    assert play.link.until == inf
    assert play.link.verdict == "none could be had within 2.5 s"
    first = play.over.brokers[0]
    assert (first.health.up, first.health.failures, first.health.coming) == (None, 0, 0)


def test_the_time_is_over_while_it_waits() -> None:
    """No attempt is made any more."""
    play = started(options={"timeout": 2.0, "initial_delay": 5.0})
    play.loses()
    assert play.link.until == 102.0
    play.wakes()
    assert play.effects == []
    assert play.link.stage is Stage.ENDED
    assert play.link.verdict == "none could be had within 2 s"
    assert [broker.health.coming for broker in play.over.brokers] == [0, 0]


# Verdicts


@pytest.mark.parametrize(
    ("options", "asked", "verdict"),
    [
        ({"attempts": 1}, "ab", "none could be had in 1 attempt"),
        ({"attempts": 2}, "abab", "none could be had in 2 attempts"),
        ({"startup_attempts": 3}, "ababab", "none could be had in 3 attempts"),
        ({"attempts": 0}, "ab", "none could be had in 1 attempt"),
        ({"attempts": 5, "startup_attempts": 0}, "ab", "none could be had in 1 attempt"),
    ],
)
def test_attempts_at_the_start(options: dict[str, Any], asked: str, verdict: str) -> None:
    """So many passes over the whole group; but there is always one."""
    play = Scene(options=options, checks=Checks(failures=99))
    play.seeks()
    while play.link.stage is not Stage.ENDED:
        if play.link.stage is Stage.SEARCHING:
            play.wakes()
        else:
            play.refuses()
    assert play.link.verdict == verdict
    assert play.link.until == inf
    assert play.link.fresh
    assert sorted(play.asked()) == sorted(f"tcp://{name}" for name in asked)


def test_no_attempts_after_a_loss() -> None:
    """The place has no broker any more, and is not fresh."""
    play = started(options={"attempts": 0})
    play.loses()
    assert play.effects == []
    assert play.link.stage is Stage.ENDED
    assert play.link.verdict == "none could be had in 0 attempts"
    assert not play.link.fresh


def test_a_plain_address() -> None:
    """There is one attempt, and nothing after a loss."""
    play = Scene(upstream())
    play.seeks()
    play.refuses()
    assert len(play.asked()) == 1
    assert play.link.stage is Stage.ENDED
    assert play.link.verdict == "none could be had in 1 attempt"
    play = started(upstream())
    play.link.hang_up(How.ABORT, play.effects)
    play.effects.clear()
    play.seeks()
    assert play.effects == []
    assert play.link.stage is Stage.ENDED


def test_counts_begin_anew() -> None:
    """With each loss there are as many attempts as before."""
    play = started(brokers=1, options={"attempts": 2}, checks=Checks(failures=99))
    for _ in range(3):
        play.loses()
        play.wakes()
        play.refuses()
        assert play.link.stage is Stage.SEARCHING
        play.finds()


def test_the_log_is_told_that_nothing_is_found() -> None:
    """Each time that so many passes more were in vain."""
    play = Scene(options={"warn_after": 2}, checks=Checks(failures=99))
    play.seeks()
    for _ in range(4):
        play.refuses()
        play.refuses()
        play.wakes()
    told = [text for _, text in play.notes() if not text.startswith("broker ")]
    assert told == [
        "no broker of tcp://a,tcp://b in 2 attempts",
        "no broker of tcp://a,tcp://b in 4 attempts",
    ]


# Versions


@in_all_cuts
def test_a_broker_that_speaks_another_version_only(cut: Cut) -> None:
    """It is asked again on a new leg, with time of its own, for what it said that it speaks."""
    play = Scene(version=b"1.1", connect_timeout=3.0)
    play.seeks()
    old = play.leg
    play.accepts()
    play.effects.clear()
    play.now += 2.0
    for chunk in cut.chunks(OTHERS % b"1.2"):
        assert old.closed or play.answers(chunk) is None
    broker = play.over.brokers[0]
    assert play.effects == [
        Note(
            Event.RETRIED,
            "broker tcp://a speaks 1.2 only",
            {"broker": "tcp://a", "upstream": "main", "versions": "1.2"},
        ),
        Close(old, How.FLUSH),
        Open(play.leg, broker),
    ]
    assert play.leg is not old
    assert play.link.stage is Stage.BINDING
    assert play.link.until == 105.0
    assert broker.versions == frozenset({b"1.2"})
    play.effects.clear()
    play.accepts()
    assert play.sent().startswith(b"CONNECT\naccept-version:1.2\n")
    play.finds()
    assert play.link.broker is broker
    assert (broker.health.coming, broker.health.failures, play.counters["brokers_refused"]) == (0, 0, 0)


def test_a_broker_that_changes_its_mind() -> None:
    """What was asked for already is not tried again: its second ERROR is the client's."""
    play = Scene(version=b"1.1")
    play.seeks()
    assert play.answers(OTHERS % b"1.2") is None
    play.effects.clear()
    assert play.answers(OTHERS % b"1.1") == OTHERS % b"1.1"
    assert play.effects == []


def test_versions_that_were_asked_for_tell_nothing() -> None:
    """RabbitMQ names its versions in every ERROR; and what an operator asked for is not asked otherwise."""
    play = Scene()
    play.seeks()
    assert play.answers(OTHERS % b"1.0,1.1,1.2") == OTHERS % b"1.0,1.1,1.2"
    play = Scene(versions=frozenset({b"1.1"}))
    play.seeks()
    assert play.answers(OTHERS % b"1.2") == OTHERS % b"1.2"


def test_a_broker_that_is_gone_when_it_is_asked_again() -> None:
    """The next one is asked for everything, and so is this one when its turn comes."""
    play = Scene(version=b"1.1")
    play.seeks()
    play.answers(OTHERS % b"1.2")
    play.refuses()
    assert play.asked() == ["tcp://a", "tcp://a", "tcp://b"]
    assert play.over.brokers[0].versions is None
    play.accepts()
    assert play.sent().startswith(b"CONNECT\naccept-version:1.0,1.1\n")


# ERROR in place of CONNECTED


@in_all_cuts
def test_a_broker_that_serves_nobody_now(cut: Cut) -> None:
    """It is as good as not there: the client is told nothing, and the next one is asked."""
    play = Scene()
    play.seeks()
    leg = play.leg
    play.accepts()
    play.effects.clear()
    for chunk in cut.chunks(OUTAGE):
        assert leg.closed or play.answers(chunk) is None
    assert play.notes() == [
        (
            Event.REFUSED,
            "broker tcp://a did not connect: it answered CONNECT with an ERROR: unavailable",
        )
    ]
    assert play.ways() == [(leg, How.ABORT)]
    assert play.asked() == ["tcp://b"]
    assert play.counters["brokers_refused"] == 1
    assert play.over.brokers[0].health.up is False


@pytest.mark.parametrize("carried", [False, True])
def test_a_plain_address_that_serves_nobody_now(carried: bool) -> None:
    """There is no other: the ERROR is the client's."""
    play = Scene(upstream(), carried=carried)
    play.seeks()
    play.effects.clear()
    assert play.answers(OUTAGE) == OUTAGE
    assert play.effects == []


@in_all_cuts
def test_a_broker_that_denies(cut: Cut) -> None:
    """Its ERROR is the client's, whole; what becomes of the leg is for whoever passes it on."""
    play = Scene()
    play.seeks()
    play.accepts()
    play.effects.clear()
    answers = [play.answers(chunk) for chunk in cut.chunks(DENIED)]
    assert [each for each in answers if each is not None] == [DENIED]
    assert play.effects == []
    assert not play.leg.closed
    assert play.link.stage is Stage.BINDING
    play.link.end(play.effects)
    assert play.effects == [Close(play.leg, How.FLUSH)]
    assert play.over.brokers[0].health.coming == 0


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (MESSAGE, ProtocolError),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", StompError),
        (b"CONNECTED\nversion:9.9\n\n\0", ProtocolError),
    ],
)
def test_what_is_not_stomp(data: bytes, error: type[StompError]) -> None:
    """It is for the caller to say whether another broker is asked."""
    play = Scene()
    play.seeks()
    play.effects.clear()
    with pytest.raises(error):
        play.answers(data)
    assert play.effects == []
    assert play.link.stage is Stage.BINDING
    assert play.link.broker is None


# The broker is lost


def test_the_lost_broker_comes_last() -> None:
    """And what is sought after it is not for a client that has just come."""
    play = started(brokers=3)
    assert str(play.link.broker) == "tcp://a"
    play.loses()
    assert play.link.stage is Stage.SEARCHING
    play.wakes()
    play.refuses()
    play.refuses()
    assert play.asked() == ["tcp://b", "tcp://c", "tcp://a"]


def test_a_broker_that_fell_silent() -> None:
    """It is no better for others: they leave it out for a while."""
    play = Scene()
    play.link.failed(play.now)
    play.seeks()
    play.link.failed(play.now)
    assert [broker.health.failures for broker in play.over.brokers] == [0, 0]
    play.finds()
    play.link.failed(play.now)
    health = play.over.brokers[0].health
    assert (health.up, health.failures, health.out_until) == (False, 1, 101.0)


@pytest.mark.parametrize("how", list(How))
def test_hanging_up(how: How) -> None:
    """The leg ends in this way, once; the broker counts one session less."""
    play = started()
    broker = play.link.broker
    assert broker is not None
    assert broker.health.sessions == 1
    play.link.hang_up(how, play.effects)
    assert play.effects == [Close(play.leg, how)]
    assert play.leg.closed
    assert play.link.broker is None
    play.link.hang_up(how, play.effects)
    assert len(play.effects) == 1
    assert broker.health.sessions == 0
    assert not play.link.fresh


def test_hanging_up_where_nothing_is() -> None:
    """Before the first attempt there is nothing to close, and what was closed is not closed again."""
    play = Scene()
    play.link.hang_up(How.ABORT, play.effects)
    assert play.effects == []
    play.seeks()
    play.effects.clear()
    play.leg.enter(State.CLOSED)
    play.link.hang_up(How.ABORT, play.effects)
    assert play.effects == []
    assert play.link.asked is None


def test_hanging_up_forgets_a_move() -> None:
    """It was for the broker that is gone."""
    play = started()
    play.link.leave(play.now, 5.0, None)
    play.link.part(play.effects, play.now)
    play.link.parted = True
    play.link.hang_up(How.FLUSH, play.effects)
    assert not play.link.moving
    assert not play.link.parted
    assert play.link.parting is None


@pytest.mark.parametrize("stage", [Stage.SEARCHING, Stage.BINDING, Stage.UP])
def test_the_end(stage: Stage) -> None:
    """What there is of a leg is closed, nothing is due, and no broker waits for this session."""
    play = started(options={"initial_delay": 5.0})
    if stage is not Stage.UP:
        play.loses()
    if stage is Stage.BINDING:
        play.wakes()
    play.effects.clear()
    play.link.end(play.effects)
    assert play.ways() == ([] if stage is Stage.SEARCHING else [(play.leg, How.FLUSH)])
    assert play.link.stage is Stage.ENDED
    assert play.link.until == inf
    assert [broker.health.coming for broker in play.over.brokers] == [0, 0]
    assert [broker.health.sessions for broker in play.over.brokers] == [0, 0]
    play.link.woke(play.effects, inf)
    assert play.asked() == []


# Moving


def test_to_leave_a_broker() -> None:
    """At a quiet moment, which others wait for, or when the time is over."""
    play = started()
    play.link.leave(play.now, 5.0, None)
    assert play.link.moving
    assert play.link.until == 105.0
    assert play.link.up
    assert play.effects == []


@pytest.mark.parametrize("over", [upstream(), movable()], ids=["plain", "searching"])
def test_there_is_nothing_to_leave(over: Upstream) -> None:
    """A plain address is all that there is, and who searches has no broker."""
    play = Scene(over)
    play.seeks()
    if not over.movable:
        play.finds()
    until = play.link.until
    play.link.leave(play.now, 5.0, None)
    assert not play.link.moving
    assert play.link.until == until


def test_to_stay() -> None:
    """A client that leaves need not move; what was begun is finished."""
    play = started()
    play.link.stay()
    play.link.leave(play.now, 5.0, None)
    play.link.stay()
    assert not play.moves()
    assert play.link.until == inf
    play.link.leave(play.now, 5.0, None)
    play.link.part(play.effects, play.now)
    play.link.stay()
    assert play.moves()
    assert play.link.stage is Stage.PARTING


@in_all_versions
def test_to_part(version: bytes) -> None:
    """The broker is told DISCONNECT with a receipt of the relay's own, and has a while to confirm."""
    play = Scene(disconnect_timeout=2.0)
    play.seeks()
    play.finds(version)
    play.link.leave(play.now, 5.0, None)
    play.now += 1.0
    play.link.part(play.effects, play.now)
    assert play.sent() == b"DISCONNECT\nreceipt:s-receipt-1\n\n\0"
    assert play.link.parting == b"s-receipt-1"
    assert not play.link.parted
    assert play.link.stage is Stage.PARTING
    assert play.link.until == 103.0
    assert not play.link.up
    assert not play.link.quiet
    assert play.leg.state is State.LEAVING
    assert play.leg.heartbeat.sent_at == 101.0
    assert play.over.brokers[0].health.sessions == 1


@pytest.mark.parametrize("to", [None, 2], ids=["anywhere", "to the third"])
def test_to_move(to: int | None) -> None:
    """The old leg ends, the next broker is asked at once where one is preferred, and the log will be told."""
    play = started(brokers=3)
    old = play.leg
    play.link.leave(play.now, 5.0, None if to is None else play.over.brokers[to])
    play.link.part(play.effects, play.now)
    play.effects.clear()
    play.link.move(play.effects, play.now)
    assert play.ways() == [(old, How.FLUSH)]
    assert play.counters["brokers_moved"] == 1
    assert play.link.news is Event.MOVED
    assert not play.link.moving
    assert play.link.parting is None
    if to is None:
        play.wakes()
    assert play.asked() == ["tcp://b" if to is None else "tcp://c"]
    play.finds()
    assert [broker.health.sessions for broker in play.over.brokers] == [0, to is None, to is not None]
    assert play.link.news is Event.MOVED
    assert play.link.until == inf


def test_to_move_away_from_a_paused_broker() -> None:
    """There is no waiting for a pause between passes, for nothing was lost."""
    play = started(options={"initial_delay": 9.0, "attempts": 0})
    play.over.brokers[0].health.paused = True
    play.link.leave(play.now, 5.0, None)
    play.link.part(play.effects, play.now)
    play.link.move(play.effects, play.now)
    assert play.asked() == ["tcp://b"]


def test_what_the_log_is_told_of_the_next_broker() -> None:
    """What the connection says of it lasts through the search."""
    play = started()
    play.link.news = Event.RECOVERED
    play.loses()
    play.wakes()
    play.refuses()
    assert play.link.news is Event.RECOVERED
    play.finds()
    assert play.link.news is Event.RECOVERED


# Quiet, uncertain


def _a_delivery(play: Scene) -> None:
    play.client_says(SUBSCRIBE)
    (subscription,) = play.session.subscriptions
    play.session.ledger.noted(subscription, b"m", b"k")


@pytest.mark.parametrize(
    ("busy", "done"),
    [
        (
            lambda play: play.client_says(b"BEGIN\ntransaction:t\n\n\0"),
            lambda play: play.client_says(b"ABORT\ntransaction:t\n\n\0"),
        ),
        (_a_delivery, lambda play: play.client_says(b"ACK\nid:k\n\n\0")),
        (
            lambda play: play.client_says(SEND),
            lambda play: play.resender.unconfirmed.received(b"s-receipt-1"),
        ),
        (lambda play: play.client_says(ASKING), lambda play: play.resender.unconfirmed.received(b"r")),
    ],
    ids=["transaction", "delivery", "unconfirmed", "receipt"],
)
def test_quiet(busy: Callable[[Scene], object], done: Callable[[Scene], object]) -> None:
    """Nothing is open, unacknowledged or unconfirmed; a subscription alone is no reason."""
    play = started(confirm=True)
    assert play.quiet()
    busy(play)
    assert not play.quiet()
    done(play)
    assert play.quiet()
    play.loses()
    assert not play.quiet()


def test_a_plain_address_is_never_quiet() -> None:
    """Nobody can leave it without the session."""
    assert not started(upstream()).link.quiet
    assert started(upstream(), carried=True).link.quiet


def test_uncertain_at_a_plain_address() -> None:
    """The SENDs whose receipts are owed."""
    play = started(upstream())
    for receipt in (b"1", b"2"):
        play.session.owed(receipt)
    assert play.link.uncertain == 2
    play.session.received(b"1")
    assert play.link.uncertain == 1


@pytest.mark.parametrize(("confirm", "after"), [(False, 1), (True, 3)])
def test_uncertain_where_the_session_survives(confirm: bool, after: int) -> None:
    """All that is kept, and what was said without being kept and not shown to have been received."""
    play = started(confirm=confirm)
    play.client_says(SEND + ASKING + SEND)
    assert play.link.uncertain == 3
    play.loses()
    assert play.link.uncertain == after
    play.client_says(SEND)
    assert play.link.uncertain == after + 1
    play.finds()
    assert play.link.uncertain == after + 1
    play.resender.replay()
    assert play.link.uncertain == after + 1
    play.resender.unconfirmed.received(b"r")
    assert play.link.uncertain == (0 if not confirm else after)
