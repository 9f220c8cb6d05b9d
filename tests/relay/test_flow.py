"""What a relay needs of whatever joins its client to brokers, asked of both: one broker at a time, and several."""

import inspect
from collections.abc import Callable
from typing import Final

import pytest

from stomprelay.relay.effects import Effect
from stomprelay.relay.fanout.fanout import Fanout
from stomprelay.relay.flow import DisconnectState, Flow
from stomprelay.relay.link.handshake import Accepted
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.relay import join
from stomprelay.relay.single import Single
from stomprelay.session.effects import How, Send
from stomprelay.session.handshake import Offer
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import Side, State
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.errors import StompError
from tests.playbook import SAY_WELCOME, Cut, in_all_cuts, listener
from tests.relay.several import copied, fan_out, lasting, message, plain, receipt, routed, send, tell

KINDS: Final[tuple[type[Flow], ...]] = (Single, Fanout)

PLAIN: Final = "plain"
FAILOVER: Final = "failover"
FAN_OUT: Final = "fan-out"
ROUTED: Final = "routed"
FRONTS: Final[dict[str, Callable[[], Listener]]] = {
    PLAIN: lambda: listener(plain("main", "a")),
    FAILOVER: lambda: listener(lasting("main", "a")),
    FAN_OUT: lambda: listener(fan_out(2)),
    ROUTED: lambda: routed(lasting("main", "a"), lasting("there", "b")),
}

in_all_flows = pytest.mark.parametrize("front", FRONTS)
in_flows_that_survive = pytest.mark.parametrize("front", [FAILOVER, FAN_OUT, ROUTED])

BYE: Final = tell(b"DISCONNECT", receipt="bye")
MEMBERS: Final = [name for name in (*vars(Flow), *Flow.__annotations__) if not name.startswith("_")]


class Scene:
    """A flow and what it asked for so far."""

    def __init__(self, kind: str) -> None:
        front = FRONTS[kind]()
        self.client = Leg(Side.DOWNSTREAM, front.limits)
        self.client.enter(State.CONNECTED, V1_2)
        self.counters = Counters()
        self.session = Session(b"relay-session", V1_2, 10, self.counters)
        offer = Offer([], frozenset({b"1.2"}), None)
        self.flow: Flow = join(self.client, front, offer, self.session, lambda: 0.5)
        self.effects: list[Effect] = []
        self.now = 100.0

    def finds(self) -> None:
        """Each link that has no broker gets one."""
        for link in self.flow.links:
            if not link.up:
                self.finds_one(link)

    def finds_one(self, link: Link) -> None:
        """This one does."""
        if link.fresh:
            link.seek(self.effects, self.now)
        while link.asked is None:
            self.now = link.until
            link.woke(self.effects, self.now)
        assert isinstance(link.answered(SAY_WELCOME[b"1.2"], self.effects, self.now), Accepted)
        assert self.flow.bound(link, self.effects, self.now) is None

    def client_says(self, data: bytes) -> StompError | None:
        """The client wrote this."""
        self.client.decoder.feed(data)
        return self.flow.to_broker(self.effects, self.now)

    def broker_says(self, data: bytes, link: Link) -> StompError | None:
        """A broker wrote this."""
        assert link.leg is not None
        link.leg.decoder.feed(data)
        return self.flow.to_client(link, self.effects, self.now)

    def all_say(self, data: bytes) -> None:
        """All brokers that are there did."""
        for link in list(self.flow.links):
            if link.up:
                assert self.broker_says(data, link) is None

    def loses(self, link: Link) -> StompError | None:
        """A broker is gone; another one is sought if the session survives."""
        failure = self.flow.lost(link, self.effects, self.now)
        link.hang_up(How.ABORT, self.effects)
        link.seek(self.effects, self.now)
        return failure

    def client_gets(self) -> bytes:
        """What was written to the client; what was written to brokers is forgotten with it."""
        return self._wrote(self.client)

    def brokers_get(self) -> set[bytes]:
        """What was written to each broker that is there; what was written to the client is forgotten with it."""
        legs = [link.leg for link in self.flow.links if link.up]
        effects = self.effects
        told = set()
        for leg in legs:
            assert leg is not None
            self.effects = effects
            told.add(self._wrote(leg))
        return told

    def _wrote(self, leg: Leg) -> bytes:
        effects, self.effects = self.effects, []
        wrote = b"".join(each.data for each in effects if isinstance(each, Send) and each.leg is leg)
        return wrote.replace(b"\0\n", b"\0")

    def stage(self) -> DisconnectState:
        """How far the client's DISCONNECT is."""
        return self.flow.disconnect


def started(front: str) -> Scene:
    """A flow all of whose links have brokers."""
    play = Scene(front)
    play.finds()
    play.effects.clear()
    return play


def to_all(front: str, frame: bytes) -> bytes:
    """What a broker gets of the first SEND."""
    return copied(1, frame) if front == FAN_OUT else frame


# The protocol's members


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MEMBERS)
def test_members(name: str, kind: type[Flow]) -> None:
    """Each is there: what is asked can be asked, and what is told has the protocol's own signature."""
    wanted = vars(Flow).get(name)
    if inspect.isfunction(wanted):
        found = inspect.getattr_static(kind, name)
        assert inspect.isfunction(found)
        assert inspect.signature(found) == inspect.signature(wanted)
    else:
        assert inspect.isdatadescriptor(inspect.getattr_static(kind, name))


def test_there_is_something_to_ask() -> None:
    """The list that is gone through is that of the protocol."""
    assert {"links", "deaf", "disconnect", "to_broker", "unblocked"} <= set(MEMBERS)
    assert len(MEMBERS) == len(set(MEMBERS)) > 20


@in_all_flows
def test_members_have_values(front: str) -> None:
    """Whatever can be asked is answered before there is any broker, and after."""
    play = Scene(front)
    for name in MEMBERS:
        getattr(play.flow, name)
    play.finds()
    for name in MEMBERS:
        getattr(play.flow, name)


# Before and after there are brokers


@in_all_flows
def test_before_there_are_brokers(front: str) -> None:
    """The client has to wait, and nothing has happened."""
    play = Scene(front)
    flow = play.flow
    assert flow.opened() == []
    assert flow.links
    assert [link.leg for link in flow.links] == [None] * len(flow.links)
    assert (flow.ready, flow.flowing, flow.full, flow.crowded) == (False, False, False, False)
    assert (flow.disconnect, flow.disconnect_receipt, flow.settled) == (DisconnectState.UNSAID, None, False)
    assert (flow.erred, flow.deaf, flow.safe) == (False, False, True)
    assert flow.survives == (front != PLAIN)
    assert flow.unanswered() == []


@in_all_flows
def test_with_brokers(front: str) -> None:
    """Frames flow both ways, and nothing was said of a disconnect."""
    play = started(front)
    flow = play.flow
    assert (flow.ready, flow.flowing) == (True, True)
    assert play.client_says(send(b"x")) is None
    assert play.brokers_get() == {to_all(front, send(b"x"))}
    assert play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a")) is None
    assert len(play.brokers_get()) == 1
    assert play.broker_says(message(b"m"), flow.links[0]) is None
    assert play.client_gets() == message(b"m")
    assert flow.opened() == []
    assert not any(flow.over(link) for link in flow.links)
    assert flow.disconnect is DisconnectState.UNSAID


@in_all_flows
def test_what_was_wrong_comes_after_what_was_right(front: str) -> None:
    """Frames before a bad one reach the brokers."""
    play = started(front)
    failure = play.client_says(send(b"x") + b"SENT\n\n\0")
    assert isinstance(failure, StompError)
    assert play.brokers_get() == {to_all(front, send(b"x"))}


# DisconnectState


def test_the_stages_of_a_goodbye() -> None:
    """In this order, from the first to the last."""
    assert [each.value for each in DisconnectState] == ["unsaid", "waiting", "said", "confirmed"]


@in_all_cuts
@in_all_flows
def test_a_goodbye_that_need_not_wait(front: str, cut: Cut) -> None:
    """Nothing is owed, so that it is said at once; the receipt that it asked for confirms it."""
    play = started(front)
    for chunk in cut.chunks(BYE):
        assert play.client_says(chunk) is None
    assert (play.stage(), play.flow.disconnect_receipt, play.flow.settled) == (
        DisconnectState.SAID,
        b"bye",
        False,
    )
    assert play.client.state is State.LEAVING
    assert play.brokers_get() == {BYE}
    play.all_say(receipt("bye"))
    assert (play.stage(), play.flow.settled) == (DisconnectState.CONFIRMED, True)
    assert play.client_gets() == receipt("bye")
    assert all(play.flow.over(link) for link in play.flow.links)


@in_all_cuts
@in_all_flows
def test_a_goodbye_that_waits(front: str, cut: Cut) -> None:
    """A receipt is owed: brokers are told only when it came, for they may answer the disconnect first."""
    play = started(front)
    frame = send(b"x", receipt="r")
    for chunk in cut.chunks(frame + BYE):
        assert play.client_says(chunk) is None
    assert (play.stage(), play.flow.safe, play.flow.settled) == (DisconnectState.WAITING, False, False)
    assert play.client.state is State.LEAVING
    assert play.brokers_get() == {to_all(front, frame)}
    play.all_say(receipt("r"))
    assert (play.stage(), play.flow.safe) == (DisconnectState.SAID, True)
    assert play.brokers_get() == {BYE}
    play.all_say(receipt("bye"))
    assert play.stage() is DisconnectState.CONFIRMED


@in_all_flows
def test_a_goodbye_that_waited_long_enough(front: str) -> None:
    """It is said regardless; the client is still owed its receipt, and gets it if it comes."""
    play = started(front)
    play.client_says(send(b"x", receipt="r") + BYE)
    play.effects.clear()
    play.flow.send_disconnect(play.effects, play.now)
    assert (play.stage(), play.flow.safe, play.flow.settled) == (DisconnectState.SAID, False, False)
    assert play.brokers_get() == {BYE}
    play.all_say(receipt("r", "bye"))
    assert play.client_gets() == receipt("r", "bye")
    assert (play.stage(), play.flow.settled) == (DisconnectState.CONFIRMED, True)


@in_all_flows
def test_a_goodbye_without_receipt(front: str) -> None:
    """It is settled when it was said, for nothing will confirm it."""
    play = started(front)
    play.client_says(tell(b"DISCONNECT"))
    assert (play.stage(), play.flow.disconnect_receipt, play.flow.settled) == (
        DisconnectState.SAID,
        None,
        True,
    )
    assert play.brokers_get() == {tell(b"DISCONNECT")}
    assert all(play.flow.over(link) for link in play.flow.links)


@in_all_flows
def test_a_goodbye_that_is_owed_more_than_its_own_receipt(front: str) -> None:
    """Said before its time and without a receipt, it is not settled until the other one came."""
    play = started(front)
    play.client_says(send(b"x", receipt="r") + tell(b"DISCONNECT"))
    play.flow.send_disconnect(play.effects, play.now)
    assert not play.flow.settled
    assert not any(play.flow.over(link) for link in play.flow.links)
    play.all_say(receipt("r"))
    assert play.flow.safe
    assert (play.stage(), play.flow.settled) == (DisconnectState.SAID, True)


@in_all_flows
def test_a_goodbye_is_the_last_word(front: str) -> None:
    """What the client says behind it reaches nobody."""
    play = started(front)
    assert play.client_says(BYE + send(b"x")) is None
    assert play.brokers_get() == {BYE}


@in_all_flows
def test_a_goodbye_that_is_confirmed_twice(front: str) -> None:
    """As ActiveMQ may do: the client is told once."""
    play = started(front)
    play.client_says(BYE)
    play.all_say(receipt("bye") * 2)
    assert play.stage() is DisconnectState.CONFIRMED
    assert play.client_gets() == receipt("bye")


@in_flows_that_survive
def test_a_goodbye_that_a_lost_broker_took_along(front: str) -> None:
    """The next one is told it again."""
    play = started(front)
    play.client_says(BYE)
    for link in list(play.flow.links):
        assert play.loses(link) is None
    play.finds()
    assert play.stage() is DisconnectState.SAID
    assert play.brokers_get() == {BYE}
    play.all_say(receipt("bye"))
    assert (play.stage(), play.client_gets()) == (DisconnectState.CONFIRMED, receipt("bye"))


@in_flows_that_survive
def test_a_goodbye_while_there_is_no_broker(front: str) -> None:
    """Brokers are asked for what was said before it, and only then told it."""
    play = started(front)
    frame = send(b"x", receipt="r")
    play.client_says(frame + BYE)
    for link in list(play.flow.links):
        assert play.loses(link) is None
    assert play.stage() is DisconnectState.WAITING
    play.effects.clear()
    play.finds()
    assert play.stage() is DisconnectState.WAITING
    again = to_all(front, frame).replace(b"SEND\n", b"SEND\nrelay-resent:true\n")
    assert play.brokers_get() == {again}
    play.all_say(receipt("r"))
    assert play.stage() is DisconnectState.SAID
    assert play.brokers_get() == {BYE}


# A client that is gone


@in_all_flows
def test_a_client_that_is_gone(front: str) -> None:
    """It is told nothing; what it said is still safe when brokers have it."""
    play = started(front)
    play.client_says(send(b"x", receipt="r"))
    play.flow.deaf = True
    assert play.flow.deaf
    play.effects.clear()
    play.all_say(receipt("r"))
    assert play.flow.safe
    assert play.client_gets() == b""


# Brokers come and go


@in_all_flows
def test_a_lost_broker(front: str) -> None:
    """The session goes with it, and the client learns which upstream that was; or it survives."""
    play = started(front)
    failure = play.loses(play.flow.links[0])
    if front == PLAIN:
        assert failure is not None
        assert (failure.message, failure.detail) == ("connection to the broker was lost", "upstream main")
    else:
        assert failure is None
        assert play.flow.ready == (front == FAN_OUT)
        play.finds()
        assert play.flow.ready
        assert play.flow.flowing


@in_all_flows
def test_no_broker_for_a_client_that_has_just_come(front: str) -> None:
    """It is told which upstream, not why: reasons hold addresses. With others, it is enough that they can be had."""
    play = Scene(front)
    link = play.flow.links[0]
    link.verdict = "secret.example refused"
    link.end(play.effects)
    failure = play.flow.given_up(link, play.effects, play.now)
    if front == FAN_OUT:
        assert failure is None
    else:
        assert failure is not None
        assert (failure.message, failure.detail) == (
            "broker not available",
            "upstream main did not connect",
        )


@in_all_flows
def test_no_broker_any_more(front: str) -> None:
    """A client that was connected is told how long was tried, and that its disconnect did not come through."""
    play = started(front)
    play.client_says(BYE)
    for link in list(play.flow.links):
        failure = play.loses(link)
        if front == PLAIN:
            assert failure is not None
            assert failure.receipt == b"bye"
            continue
        link.verdict = "none could be had in 3 attempts"
        link.end(play.effects)
        failure = play.flow.given_up(link, play.effects, play.now)
    assert failure is not None
    if front != PLAIN:
        assert "none could be had in 3 attempts" in failure.detail


@in_all_flows
def test_a_broker_that_denies(front: str) -> None:
    """The client gets its words where nobody else can take its place."""
    play = Scene(front)
    link = play.flow.links[0]
    link.seek(play.effects, play.now)
    error = b"ERROR\nmessage:no\n\n\0"
    told = play.flow.denied(link, error, play.effects, play.now)
    assert told == (None if front == FAN_OUT else error)


@in_all_flows
def test_who_owes_an_answer(front: str) -> None:
    """Brokers that another one may take the place of; where there are several, only those in the way."""
    play = started(front)
    play.client_says(send(b"x", receipt="r") + BYE)
    links = [] if front == PLAIN else play.flow.links
    assert play.flow.unanswered() == links
    if front == FAN_OUT:
        play.broker_says(receipt("r"), links[0])
        assert play.flow.unanswered() == links[1:]


@in_all_flows
def test_a_broker_whose_connection_is_full(front: str) -> None:
    """Where there is one, the service sees to it; where there are several, what is said to it waits in its member."""
    play = started(front)
    leg = play.flow.links[0].leg
    assert leg is not None
    play.flow.blocked(leg)
    play.client_says(send(b"x"))
    waits = isinstance(play.flow, Fanout)
    told = [each.leg for each in play.effects if isinstance(each, Send)]
    assert (leg not in told) == waits
    play.effects.clear()
    assert play.flow.unblocked(leg, play.effects, play.now) is None
    assert play.effects == ([Send(leg, to_all(front, send(b"x")))] if waits else [])
