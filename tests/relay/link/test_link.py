"""A session's link to one group: which broker it asks and when, and what comes of it.

Schedules are told in test_schedule, handshakes in test_handshake, what a loss means for frames in test_failover.
"""

from math import inf

import pytest

from stomprelay.relay import inputs
from stomprelay.relay.effects import Open
from stomprelay.relay.link.handshake import Accepted
from stomprelay.relay.link.states import Asking, Connected, Ended, Leaving, Waiting
from stomprelay.relay.model.health import Checks
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.effects import Close, Event, How, Note, Send
from stomprelay.session.leg import Leg, Side, State
from stomprelay.wire.errors import ProtocolError, StompError
from tests.playbook import VERSIONS, Cut, in_all_cuts, upstream
from tests.relay.failing import STOPPING, movable, said_welcome
from tests.relay.link.scene import Scene, started

in_all_versions = pytest.mark.parametrize("version", VERSIONS, ids=bytes.decode)

SEND = b"SEND\ndestination:/queue/a\n\nx\0"
MESSAGE = b"MESSAGE\nsubscription:1\nmessage-id:m\nack:k\ndestination:/queue/a\n\nx\0"
OTHERS = b"ERROR\nmessage:no such version\nversion:%b\n\n\0"
OUTAGE = STOPPING
DENIED = b"ERROR\nmessage:Bad CONNECT\n\nno such user\0"
NO_STOMP = [
    (MESSAGE, ProtocolError),
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", StompError),
    (b"CONNECTED\nversion:9.9\n\n\0", ProtocolError),
]

ADVICE = "; try again later; the relay's log says why"
"""What a client is told to do for want of a broker; the log has the reason, with the broker's address."""


# Before the search


@pytest.mark.parametrize(
    ("over", "resends", "has"),
    [(upstream(), False, False), (upstream(), True, True), (movable(), False, True), (movable(), True, True)],
    ids=["plain", "plain among others", "failover", "failover among others"],
)
def test_before_the_search(over: Upstream, resends: bool, has: bool) -> None:
    """Nothing is due, nobody was asked; there is a resender where the session survives its broker or has others."""
    link = Scene(over, resends=resends).link
    assert link.state == Waiting(None)
    assert link.until == inf
    assert [link.leg, link.broker, link.asked] == [None] * 3
    with pytest.raises(LookupError):
        link.connection.leg.enter(State.CLOSED)
    assert (link.resender is not None) == has
    assert link.fresh
    assert not any([link.up, link.quiet, link.moving, link.leaving, link.done, link.recovering])
    assert link.reason == ""
    assert link.uncertain == 0


# Attempts


def test_the_first_attempt_is_made_at_once() -> None:
    """A broker is asked for its connection, and has until `connect_timeout` to be CONNECTED."""
    play = Scene(connect_timeout=3.0)
    play.seeks()
    first = play.over.brokers[0]
    assert play.effects() == [Open(play.leg, first)]
    assert play.link.asking
    assert play.link.asked is first
    assert play.link.until == play.search.deadline == 103.0
    assert play.link.broker is None
    assert not play.link.up
    assert (first.health.coming, first.health.sessions) == (1, 0)


def test_connect_is_sent_when_the_connection_is_there() -> None:
    """Not before; it counts for the beats of that leg."""
    play = Scene(host=b"there")
    play.seeks()
    play.effects()
    play.now += 1.0
    play.accepts()
    assert play.effects() == [
        Send(play.leg, b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:there\nheart-beat:10000,10000\n\n\0")
    ]
    assert play.leg.heartbeat.sent_at == 101.0


def test_a_connection_that_nobody_waits_for() -> None:
    """One that comes too late, was never asked for, or is there already: it is closed, and is sent nothing."""
    play = Scene()
    play.seeks()
    late, stranger = play.leg, Leg(Side.UPSTREAM, play.over.limits)
    play.refuses()
    play.effects()
    for leg in (late, stranger):
        play.hears(inputs.BrokerConnected(leg))
        assert play.effects() == [Close(leg, How.ABORT)]
    play.link.connected(late, play.now)
    assert play.effects() == [Close(late, How.ABORT)]
    play.finds()
    play.accepts()
    assert play.effects() == [Close(play.leg, How.ABORT)]


@in_all_cuts
@in_all_versions
def test_a_broker_accepts(version: bytes, cut: Cut) -> None:
    """From then on there is a broker, nothing is due, and it counts the session among its own."""
    play = Scene()
    play.seeks()
    play.accepts()
    play.effects()
    answers = [play.answers(chunk) for chunk in cut.chunks(said_welcome(version))]
    assert [type(each) for each in answers if each is not None] == [Accepted]
    assert answers[-1] is not None
    link, first = play.link, play.over.brokers[0]
    assert play.effects() == []
    assert link.up
    assert type(link.state) is Connected
    assert link.broker is link.connection.broker is first
    assert link.asked is None
    assert not link.fresh
    assert link.until == inf
    assert play.leg.state is State.CONNECTED
    assert play.leg.dialect.version == version
    assert play.search._link(play.leg) is link
    assert (first.health.up, first.health.sessions, first.health.coming) == (True, 1, 0)
    assert not link.recovering


def test_what_follows_connected_in_its_chunk() -> None:
    """It stays in the leg's decoder, for whoever carries frames."""
    play = Scene()
    play.seeks()
    assert isinstance(play.answers(said_welcome(b"1.2") + MESSAGE), Accepted)
    assert [frame.wire for frame in play.leg.decoder.frames()] == [MESSAGE]


def test_the_beats_of_a_broker_are_a_deadline() -> None:
    """Its leg has to be looked at, too."""
    play = started()
    assert play.search.deadline == inf
    play.leg.heartbeat.keep_alive(3.0, play.now)
    assert play.search.deadline == play.now + 3.0


@pytest.mark.parametrize(("product", "cumulative"), [("rabbitmq", False), ("activemq", True)])
def test_the_resender_learns_what_receipts_mean(product: str, cumulative: bool) -> None:
    """It has a broker, too, with the ways of its product."""
    play = Scene(confirm=True)
    play.seeks()
    play.finds(product=product)
    assert play.resender.unconfirmed.cumulative == cumulative
    play.client_sends(SEND * 3)
    assert len(play.resender.unconfirmed) == (1 if cumulative else 3)


def test_a_broker_that_cannot_be_reached() -> None:
    """The next one is asked at once; the log is told why, and what was learnt of the broker is forgotten."""
    play = Scene()
    first, second = play.over.brokers
    first.speaks(frozenset({b"1.1"}))
    play.seeks()
    leg = play.leg
    play.effects()
    play.refuses("Connection refused")
    assert play.effects() == [
        Note(
            Event.REFUSED,
            "broker tcp://a did not connect: Connection refused",
            {"broker": "tcp://a", "upstream": "main", "reason": "did not connect: Connection refused"},
            detail=True,
        ),
        Close(leg, How.ABORT),
        Open(play.leg, second),
    ]
    assert leg.closed
    assert play.leg is not leg
    assert play.search._link(leg) is None
    assert [broker.versions for broker in play.over.brokers] == [None, None]
    assert (first.health.up, first.health.failures, first.health.coming) == (False, 1, 0)
    assert first.health.out_until == 101.0
    assert play.counters["brokers_refused"] == 1
    assert play.link.fresh
    play.hears(inputs.NotConnected(leg, "again"))
    assert play.effects() == []


@pytest.mark.parametrize("accepts", [True, False])
def test_no_connected_in_time(accepts: bool) -> None:
    """The time is for the connection and the answer together; then the next broker is asked, with time of its own."""
    play = Scene(connect_timeout=3.0)
    play.seeks()
    leg = play.leg
    play.now += 2.0
    if accepts:
        play.accepts()
    assert play.link.until == 103.0
    play.effects()
    play.now = 102.9
    play.hears(inputs.Woke())
    assert play.effects() == []
    play.wakes()
    note, *effects = play.effects()
    assert isinstance(note, Note)
    assert (note.event, note.text) == (Event.REFUSED, "broker tcp://a did not connect: no CONNECTED in time")
    assert effects == [Close(leg, How.ABORT), Open(play.leg, play.over.brokers[1])]
    assert play.link.until == 106.0
    assert play.over.brokers[0].health.failures == 1
    assert play.counters["brokers_refused"] == 1


def test_a_pause_between_passes() -> None:
    """With no broker left to try it waits, and wakes when the next attempt is due, not before."""
    play = Scene(options={"initial_delay": 4.0}, checks=Checks(failures=9))
    play.seeks()
    play.refuses()
    play.refuses()
    assert play.asked() == ["tcp://a", "tcp://b"]
    assert play.link.state == Waiting(play.over.brokers[0])
    assert play.link.until == play.search.deadline == 104.0
    play.now = 103.9
    play.hears(inputs.Woke())
    assert play.asked() == []
    play.wakes()
    assert play.asked() == ["tcp://a"]
    assert play.link.until == 114.0


def test_who_has_a_broker_looks_for_no_other() -> None:
    """Whatever the time is."""
    play = started(options={"timeout": 60.0})
    play.now = play.now + 1000.0
    play.hears(inputs.Woke())
    assert play.effects() == []
    assert play.link.up


def test_a_broker_that_was_paused_meanwhile() -> None:
    """When the time of its attempt comes another one is asked."""
    play = started(options={"initial_delay": 2.0})
    first, second = play.over.brokers
    play.loses()
    assert play.link.until == 102.0
    assert second.health.coming == 1
    second.health.pause()
    play.wakes()
    assert play.asked() == ["tcp://a"]
    assert play.link.asked is first
    assert second.health.coming == 0


def test_all_brokers_are_paused() -> None:
    """It waits without end, though its time is bounded, until one is resumed."""
    play = Scene(options={"timeout": 5.0})
    for broker in play.over.brokers:
        broker.health.pause()
    play.seeks()
    assert play.asked() == []
    assert play.link.state == Waiting(None)
    assert play.link.until == inf
    play.now += 1000.0
    play.over.brokers[1].health.resume()
    play.hears(inputs.Reconsidered())
    assert play.asked() == ["tcp://b"]
    play.finds()


def test_the_log_is_told_that_nothing_is_found() -> None:
    """Each time that so many passes more were in vain."""
    play = Scene(options={"warn_after": 2}, checks=Checks(failures=99))
    play.seeks()
    for _ in range(4):
        play.refuses()
        play.refuses()
        play.wakes()
    notes = [each.text for each in play.effects() if isinstance(each, Note)]
    assert [text for text in notes if not text.startswith("broker ")] == [
        "no broker of tcp://a,tcp://b in 2 attempts",
        "no broker of tcp://a,tcp://b in 4 attempts",
    ]


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


# A broker came back


def test_a_broker_comes_back_while_it_waits() -> None:
    """It is asked at once, for nobody need wait for the end of a pause."""
    play = started(options={"initial_delay": 10.0, "exponential": False}, brokers=1)
    play.loses()
    assert play.asked() == []
    assert play.link.until == play.search.deadline == 110.0
    play.now = 101.0
    play.hears(inputs.Reconsidered())
    assert play.asked() == ["tcp://a"]
    assert play.link.asking


@pytest.mark.parametrize("state", [Asking, Connected, Leaving, Ended])
def test_a_broker_comes_back_at_any_other_time(state: type[object]) -> None:
    """Nothing follows from it."""
    play = Scene()
    play.seeks()
    if state is not Asking:
        play.finds()
    if state is Leaving:
        play.link.disconnect(play.now)
    if state is Ended:
        play.link.end()
    play.effects()
    before, until = play.link.state, play.link.until
    assert type(before) is state
    play.link.reconsidered(play.now)
    assert play.effects() == []
    assert play.link.state is before
    assert play.link.until == until


# Given up


def test_nobody_is_there() -> None:
    """When the passes are over the client is told no more than that."""
    play = Scene(options={"startup_attempts": 2, "attempts": 1}, checks=Checks(failures=99))
    play.seeks()
    play.refuses()
    play.refuses()
    play.wakes()
    play.refuses()
    assert play.asked() == ["tcp://a", "tcp://b", "tcp://a", "tcp://b"]
    play.is_over("broker not available", f"upstream main did not connect{ADVICE}")
    assert play.link.reason == "none could be had in 2 attempts"
    assert play.link.until == inf
    assert play.link.fresh


def test_nobody_is_there_any_more() -> None:
    """The client is told how often it was tried, and no address."""
    play = started(options={"attempts": 1})
    play.loses()
    play.wakes()
    play.refuses()
    play.is_over("no broker available", f"upstream main: none could be had in 1 attempt{ADVICE}")
    assert not play.link.fresh


def test_no_attempts_after_a_loss() -> None:
    """Nobody is asked at all."""
    play = started(options={"attempts": 0})
    with pytest.raises(StompError) as failure:
        play.loses()
    assert failure.value.detail == f"upstream main: none could be had in 0 attempts{ADVICE}"
    assert play.effects() == []
    assert play.link.ended
    assert not play.link.fresh


def test_a_plain_address() -> None:
    """There is one attempt, and nothing after a loss."""
    play = Scene(upstream())
    play.seeks()
    assert len(play.asked()) == 1
    leg = play.leg
    play.is_over("broker not available", f"upstream main did not connect{ADVICE}")
    assert play.link.state == Ended("none could be had in 1 attempt", leg)
    assert [type(each) for each in play.effects()] == [Note]
    play = started(upstream())
    play.link.hang_up(How.ABORT)
    play.effects()
    play.link.seek(play.now)
    assert play.effects() == []
    assert play.link.ended


def test_a_plain_address_that_is_paused_while_it_is_asked() -> None:
    """The connection that did not answer is closed, and another one is asked for when the broker is resumed."""
    play = Scene(upstream(connect_timeout=3.0))
    (only,) = play.over.brokers
    play.seeks()
    play.accepts()
    leg = play.leg
    only.health.pause()
    play.effects()
    play.wakes()
    note, *effects = play.effects()
    assert isinstance(note, Note)
    assert effects == [Close(leg, How.ABORT)]
    assert play.link.state == Waiting(None)
    only.health.resume()
    play.hears(inputs.Reconsidered())
    assert play.effects() == [Open(play.leg, only)]


def test_the_time_is_over_while_a_broker_is_asked() -> None:
    """The session is given up at that time; the broker has done nothing wrong."""
    play = Scene(options={"timeout": 2.5}, connect_timeout=3.0)
    play.seeks()
    leg = play.leg
    play.accepts()
    assert play.link.until == play.search.deadline == 102.5
    play.effects()
    with pytest.raises(StompError):
        play.wakes()
    assert play.effects() == [Close(leg, How.ABORT)]
    assert play.link.state == Ended("none could be had within 2.5 s")
    assert play.link.until == inf
    first = play.over.brokers[0]
    assert (first.health.up, first.health.failures, first.health.coming) == (None, 0, 0)


def test_the_time_is_over_while_it_waits() -> None:
    """No attempt is made any more."""
    play = started(options={"timeout": 2.0, "initial_delay": 5.0})
    play.loses()
    assert play.link.until == 102.0
    with pytest.raises(StompError):
        play.wakes()
    assert play.effects() == []
    assert play.link.state == Ended("none could be had within 2 s")
    assert [broker.health.coming for broker in play.over.brokers] == [0, 0]


# Another answer than CONNECTED


def test_a_broker_that_speaks_another_version_only() -> None:
    """It is asked again on a new leg, with time of its own, for what it said that it speaks."""
    play = Scene(version=b"1.1", connect_timeout=3.0)
    play.seeks()
    old = play.leg
    play.accepts()
    play.effects()
    play.now += 2.0
    assert play.answers(OTHERS % b"1.2") is None
    assert old.closed
    broker = play.over.brokers[0]
    assert play.effects() == [
        Note(
            Event.RETRIED,
            "broker tcp://a speaks 1.2 only",
            {"broker": "tcp://a", "upstream": "main", "versions": "1.2"},
        ),
        Close(old, How.FLUSH),
        Open(play.leg, broker),
    ]
    assert play.leg is not old
    assert play.link.asking
    assert play.link.until == 105.0
    assert play.over.brokers[0].versions is None
    play.accepts()
    (connect,) = play.effects()
    assert isinstance(connect, Send)
    assert connect.leg is play.leg
    assert connect.data.startswith(b"CONNECT\naccept-version:1.2\n")
    play.finds()
    assert play.link.broker is broker
    assert broker.versions == frozenset({b"1.2"})
    assert (broker.health.coming, broker.health.failures, play.counters["brokers_refused"]) == (0, 0, 0)


def test_a_broker_that_changes_its_mind() -> None:
    """What was asked for already is not tried again: its second ERROR is the client's."""
    play = Scene(version=b"1.1")
    play.seeks()
    assert play.answers(OTHERS % b"1.2") is None
    play.effects()
    assert play.answers(OTHERS % b"1.1") == OTHERS % b"1.1"
    assert play.effects() == []


def test_versions_that_a_client_made_up() -> None:
    """ActiveMQ quotes a login with its LF, as it is: the session asks for them, but nobody remembers them."""
    play = Scene(version=b"1.0")
    play.seeks()
    denied = b"ERROR\nmessage:User name [x\nversion:1.1\nfoo:] or password is invalid.\n\nUser name [x\n\0"
    assert play.answers(denied) is None
    play.accepts()
    assert play.answers(denied) == denied
    assert play.asked() == ["tcp://a", "tcp://a"]
    assert play.over.brokers[0].versions is None


def test_a_broker_that_is_gone_when_it_is_asked_again() -> None:
    """The next one is asked for everything, and so is this one when its turn comes."""
    play = Scene(version=b"1.1")
    play.seeks()
    play.answers(OTHERS % b"1.2")
    play.refuses()
    assert play.asked() == ["tcp://a", "tcp://a", "tcp://b"]
    assert play.over.brokers[0].versions is None
    play.accepts()
    (connect,) = play.effects()
    assert isinstance(connect, Send)
    assert connect.data.startswith(b"CONNECT\naccept-version:1.0,1.1\n")


def test_a_broker_that_serves_nobody_now() -> None:
    """It is as good as not there: the client is told nothing, and the next one is asked."""
    play = Scene()
    play.seeks()
    leg = play.leg
    play.accepts()
    play.effects()
    assert play.answers(OUTAGE) is None
    note, *effects = play.effects()
    assert isinstance(note, Note)
    text = "broker tcp://a did not connect: it answered CONNECT with an ERROR: unavailable"
    assert (note.event, note.text) == (Event.REFUSED, text)
    assert effects == [Close(leg, How.ABORT), Open(play.leg, play.over.brokers[1])]
    assert play.counters["brokers_refused"] == 1
    assert (play.over.brokers[0].health.up, play.over.brokers[0].health.doubted) == (None, True)


@pytest.mark.parametrize("resends", [False, True])
def test_a_plain_address_that_serves_nobody_now(resends: bool) -> None:
    """There is no other: the ERROR is the client's."""
    play = Scene(upstream(), resends=resends)
    play.seeks()
    play.effects()
    assert play.answers(OUTAGE) == OUTAGE
    assert play.effects() == []


@in_all_cuts
def test_a_broker_that_denies(cut: Cut) -> None:
    """Its ERROR is the client's, whole; what becomes of the leg is for whoever passes it on."""
    play = Scene()
    play.seeks()
    play.accepts()
    play.effects()
    answers = [play.answers(chunk) for chunk in cut.chunks(DENIED)]
    assert [each for each in answers if each is not None] == [DENIED]
    assert play.effects() == []
    assert play.link.asking
    leg = play.leg
    assert not leg.closed
    play.link.end()
    assert play.effects() == [Close(leg, How.LINGER)]
    assert play.over.brokers[0].health.coming == 0


@pytest.mark.parametrize(("data", "error"), NO_STOMP)
def test_what_is_not_stomp(data: bytes, error: type[StompError]) -> None:
    """It is one more broker that is not there; at a plain address, where there is no other, an error of the session."""
    play = Scene()
    play.seeks()
    first = play.leg
    play.search._answered(play.leg, data, play.now)
    opened, note, *effects = play.effects()
    assert opened == Open(first, play.over.brokers[0])
    assert isinstance(note, Note)
    assert "did not connect: it answered CONNECT with what is not STOMP: " in note.text
    assert effects == [Close(first, How.ABORT), Open(play.leg, play.over.brokers[1])]
    assert play.counters["brokers_refused"] == 1
    play = Scene(upstream())
    play.seeks()
    play.effects()
    with pytest.raises(error):
        play.search._answered(play.leg, data, play.now)
    assert play.effects() == []
    assert play.link.asking
    assert play.link.broker is None


def test_what_is_not_stomp_byte_by_byte() -> None:
    """It is the same, whichever byte shows it."""
    play = Scene()
    play.seeks()
    play.accepts()
    first = play.leg
    for byte in NO_STOMP[1][0]:
        if play.link.leg is first:
            play.search._answered(play.leg, bytes([byte]), play.now)
    assert play.asked() == ["tcp://a", "tcp://b"]
