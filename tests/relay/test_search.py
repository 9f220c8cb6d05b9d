"""The brokers of a session as they are sought, found, left and given up, and what the session learns of it."""

from math import inf
from typing import Any

import pytest
from stomprelay.relay.link.search import Search

from stomprelay.relay.effects import Effect, Open
from stomprelay.relay.flow import DisconnectState, Flow
from stomprelay.relay.link.handshake import Accepted
from stomprelay.relay.link.link import Link, Stage
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.relay import join
from stomprelay.relay.single import Single
from stomprelay.session.effects import Close, Event, How, Note, Resume, Send
from stomprelay.session.handshake import Offer
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import Side, State
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.errors import StompError
from stomprelay.wire.names import BEGIN, COMMIT, TRANSACTION
from tests.playbook import listener, upstream
from tests.relay.failing import movable, said_welcome

OFFER = Offer([], frozenset({b"1.2"}), None)


class Scene:
    """A session's search, and what it asked for so far. `now` is the time of whatever is told."""

    def __init__(self, over: Upstream | None = None, **settings: Any) -> None:
        self.over = over or movable(**settings)
        front = listener(self.over)
        self.counters = Counters()
        client = Leg(Side.DOWNSTREAM, front.limits)
        client.enter(State.CONNECTED, V1_2)
        session = Session(b"relay-session", V1_2, 10, self.counters)
        self.session = session
        self.flow: Flow = join(client, front, OFFER, session, lambda: 0.0)
        self.search = Search(self.flow)
        self.effects: list[Effect] = []
        self.now = 100.0

    @property
    def link(self) -> Link:
        """The session's only place."""
        (only,) = self.flow.links
        return only

    @property
    def leg(self) -> Leg:
        """The leg that it has there."""
        assert self.link.leg is not None
        return self.link.leg

    def begins(self) -> StompError | None:
        """The search."""
        return self.search.begin(self.flow.links, self.effects, self.now)

    def refuses(self, reason: str = "Connection refused") -> StompError | None:
        """The broker that is asked."""
        return self.search.refused(self.leg, reason, self.effects, self.now)

    def answers(self, data: bytes) -> Accepted | bytes | None:
        """The broker that is asked says this."""
        return self.search.answered(self.link, data, self.effects, self.now)

    def wakes(self) -> StompError | None:
        """At the deadline."""
        assert self.search.deadline < inf
        self.now = max(self.now, self.search.deadline)
        return self.search.woke(self.effects, self.now)

    def asked(self) -> list[str]:
        """The brokers that were asked for since the last look; everything else is forgotten."""
        opened = [str(each.broker) for each in self.effects if isinstance(each, Open)]
        self.effects.clear()
        return opened

    def finds(self) -> None:
        """A broker accepts."""
        while self.link.stage is Stage.SEARCHING:
            assert self.wakes() is None
        assert isinstance(self.answers(said_welcome(b"1.2")), Accepted)
        self.effects.clear()


def started(over: Upstream | None = None, **settings: Any) -> Scene:
    """A session that is on the first broker."""
    play = Scene(over, **settings)
    assert play.begins() is None
    play.finds()
    return play


def test_brokers_are_asked_one_after_the_other() -> None:
    """Until one accepts; then nothing is due but its beats, of which there are none here."""
    play = Scene()
    assert play.begins() is None
    assert play.asked() == ["tcp://a"]
    assert play.search.deadline == play.now + play.over.connect_timeout
    assert play.refuses() is None
    assert play.asked() == ["tcp://b"]
    assert isinstance(play.answers(said_welcome(b"1.2")), Accepted)
    assert play.search.link(play.leg) is play.link
    assert play.search.deadline == inf


def test_the_beats_of_a_broker_are_a_deadline() -> None:
    """Its leg has to be looked at, too."""
    play = started()
    play.leg.heartbeat.keep_alive(3.0, play.now)
    assert play.search.deadline == play.now + 3.0


def test_a_broker_that_does_not_answer() -> None:
    """When its time is over the next one is asked, and what it says then is nobody's."""
    play = Scene()
    play.begins()
    play.search.connected(play.leg, play.effects, play.now)
    play.asked()
    first = play.leg
    assert play.wakes() is None
    assert play.asked() == ["tcp://b"]
    assert play.search.link(first) is None
    assert play.search.refused(first, "too late", play.effects, play.now) is None
    assert play.effects == []


@pytest.mark.parametrize("opened_meanwhile", [True, False])
def test_a_connection_that_nobody_waits_for(opened_meanwhile: bool) -> None:
    """It came too late, or was never asked for: it is closed at once."""
    play = Scene()
    play.begins()
    late = play.leg if opened_meanwhile else Leg(Side.UPSTREAM, play.over.limits)
    play.wakes()
    play.asked()
    play.search.connected(late, play.effects, play.now)
    assert play.effects == [Close(late, How.ABORT)]


def test_what_answers_is_not_stomp() -> None:
    """It is one more broker that is not there."""
    play = Scene()
    play.begins()
    first = play.leg
    assert play.answers(b"220 smtp.example.net\r\n\r\n\0") is None
    assert Close(first, How.ABORT) in play.effects
    assert play.asked() == ["tcp://a", "tcp://b"]
    assert play.counters["brokers_refused"] == 1


def test_what_answers_is_not_stomp_octet_by_octet() -> None:
    """It is the same, whichever octet shows it."""
    play = Scene()
    play.begins()
    play.search.connected(play.leg, play.effects, play.now)
    first = play.leg
    for octet in b"HTTP/1.1 400 Bad Request\r\n\r\n":
        if play.link.leg is first:
            assert play.search.answered(play.link, bytes([octet]), play.effects, play.now) is None
    assert play.asked() == ["tcp://a", "tcp://b"]


def test_what_answers_at_a_plain_address_is_not_stomp() -> None:
    """There is no other: it is an error of the session."""
    play = Scene(upstream())
    play.begins()
    with pytest.raises(StompError):
        play.answers(b"220 smtp.example.net\r\n\r\n\0")


def test_an_error_is_handed_over() -> None:
    """Credentials that are wrong here are wrong everywhere; a broker that is not ready is passed by."""
    play = Scene()
    play.begins()
    error = b"ERROR\nmessage:Bad CONNECT\n\n\0"
    assert play.answers(error) == error
    play = Scene()
    play.begins()
    assert play.answers(b"ERROR\nmessage:the broker is shutting down\n\n\0") is None
    assert play.asked() == ["tcp://a", "tcp://b"]


def test_nobody_is_there() -> None:
    """When the passes are over the session is told, in other words than one that was connected."""
    play = Scene(options={"startup_attempts": 2, "attempts": 1})
    assert play.begins() is None
    for _ in range(3):
        assert play.refuses() is None
        if play.link.stage is Stage.SEARCHING:
            assert play.wakes() is None
    assert play.asked() == ["tcp://a", "tcp://b"] * 2
    failure = play.refuses()
    assert failure is not None
    assert (failure.message, failure.detail) == ("broker not available", "upstream main did not connect")
    assert play.search.deadline == inf


def test_nobody_is_there_any_more() -> None:
    """The client is told how long it was tried, and no address."""
    play = started(options={"attempts": 1})
    play.link.hang_up(How.ABORT, play.effects)
    play.link.seek(play.effects, play.now)
    assert play.wakes() is None
    assert play.refuses() is None
    failure = play.refuses()
    assert failure is not None
    assert failure.message == "no broker available"
    assert failure.detail == "upstream main: none could be had in 1 attempt"


def test_the_time_is_over() -> None:
    """In the middle of an attempt, which is given up."""
    play = Scene(options={"timeout": 4.0})
    play.begins()
    first = play.leg
    assert play.search.deadline == play.now + 4.0
    failure = play.wakes()
    assert failure is not None
    assert Close(first, How.ABORT) in play.effects
    assert play.link.stage is Stage.ENDED


def test_a_plain_address_is_tried_once() -> None:
    """And the session ends with it."""
    play = Scene(upstream())
    assert play.begins() is None
    failure = play.refuses()
    assert failure is not None
    assert failure.message == "broker not available"


def test_woken_for_nothing() -> None:
    """A clock that is early changes nothing."""
    play = Scene()
    play.begins()
    play.asked()
    assert play.search.woke(play.effects, play.now + 0.001) is None
    assert play.effects == []


def test_a_broker_that_came_back() -> None:
    """Who waits for the end of a pause tries at once; who asks a broker, or has one, goes on."""
    play = Scene(options={"initial_delay": 20.0})
    play.begins()
    play.asked()
    play.search.reconsidered(play.effects, play.now)
    assert play.effects == []
    play.refuses()
    play.refuses()
    assert play.search.deadline == play.now + 20.0
    play.asked()
    assert play.search.reconsidered(play.effects, play.now + 1.0) is None
    assert play.asked() == ["tcp://a"]
    play.finds()
    play.search.reconsidered(play.effects, play.now)
    assert play.effects == []


# Moving


def other(play: Scene) -> Broker:
    """The broker that the session is not on."""
    return next(each for each in play.over.brokers if each is not play.link.broker)


def leaves(play: Scene, within: float = 5.0, to: Broker | None = None) -> None:
    """The session shall leave its broker."""
    assert play.link.broker is not None
    play.search.leave(play.link.broker, play.effects, play.now, within, to)


def test_a_session_moves_at_once_where_it_is_quiet() -> None:
    """It says DISCONNECT, and the broker has the time of a disconnect to answer."""
    play = started()
    leaves(play)
    disconnect = b"DISCONNECT\nreceipt:relay-session-receipt-1\n\n\0\n"
    assert play.effects == [
        Note(Event.MOVED, "leaving broker tcp://a", {"broker": "tcp://a", "upstream": "main"}),
        Send(play.leg, disconnect),
        Resume(play.leg),
    ]
    assert play.link.stage is Stage.PARTING
    assert play.search.deadline == play.now + play.over.disconnect_timeout


def test_a_session_moves_at_its_quiet_moment() -> None:
    """Whoever carries frames asks after each of them."""
    play = started()
    play.session.observed(BEGIN, [(TRANSACTION, b"t")])
    leaves(play)
    assert play.effects == []
    assert play.link.moving
    play.search.move(play.effects, play.now)
    assert play.effects == []
    play.session.observed(COMMIT, [(TRANSACTION, b"t")])
    play.search.move(play.effects, play.now)
    assert [type(each) for each in play.effects] == [Note, Send, Resume]
    play.effects.clear()
    play.search.move(play.effects, play.now)
    assert play.effects == []


def test_a_session_without_a_quiet_moment_moves_when_its_time_is_over() -> None:
    """Its transaction ends with the broker that began it."""
    play = started()
    play.session.observed(BEGIN, [(TRANSACTION, b"t")])
    leaves(play, within=7.0)
    assert play.search.deadline == play.now + 7.0
    assert play.wakes() is None
    assert play.link.stage is Stage.PARTING
    assert [type(each) for each in play.effects] == [Note, Send, Resume]


def test_a_session_elsewhere_stays() -> None:
    """It is not on the broker that shall be left."""
    play = started()
    play.search.leave(other(play), play.effects, play.now, 5.0, None)
    assert play.effects == []
    assert not play.link.moving


def test_a_session_of_a_plain_address_stays() -> None:
    """It has nowhere to go."""
    play = started(upstream())
    leaves(play)
    assert play.effects == []
    assert not play.link.moving


def test_a_session_that_says_goodbye_stays() -> None:
    """It leaves anyway."""
    play = started()
    assert isinstance(play.flow, Single)
    play.flow.disconnect = DisconnectState.WAITING
    leaves(play)
    assert play.effects == []
    assert play.search.deadline == inf


def test_a_session_that_searches_cannot_leave() -> None:
    """It has no broker."""
    play = Scene()
    play.begins()
    play.asked()
    for broker in play.over.brokers:
        play.search.leave(broker, play.effects, play.now, 5.0, None)
    assert play.effects == []


def test_whom_a_session_is_sent_to_is_asked_first() -> None:
    """Of three, the one that is named."""
    play = started(brokers=3)
    leaves(play, to=play.over.brokers[2])
    play.effects.clear()
    play.link.move(play.effects, play.now)
    assert play.asked() == ["tcp://c"]
    assert play.counters["brokers_moved"] == 1
