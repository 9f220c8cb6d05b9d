"""What a relay needs of whatever joins its client to brokers, asked of both: one broker at a time, and several."""

import inspect
from collections.abc import Callable
from typing import Final

import pytest

from stomprelay.relay.client.opening import join
from stomprelay.relay.effects import Outbox
from stomprelay.relay.fanout.fanout import Fanout
from stomprelay.relay.flow import DisconnectState, Flow
from stomprelay.relay.guard import Guard
from stomprelay.relay.link.handshake import Accepted
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.access import ANYBODY
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.single import Single
from stomprelay.session.effects import How, Send
from stomprelay.session.handshake import Offer
from stomprelay.session.leg import Leg, Side, State
from stomprelay.session.session import Session
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.errors import StompError
from tests.playbook import SAY_WELCOME, Cut, in_all_cuts, listener
from tests.relay.several import copied, fan_out, group, lasting, message, plain, receipt, routed, send, tell

KINDS: Final[tuple[type[Flow], ...]] = (Single, Fanout)

PLAIN: Final = "plain"
FAILOVER: Final = "failover"
FAN_OUT: Final = "fan-out"
ROUTED: Final = "routed"
FEW: Final = {"startup_attempts": 1, "attempts": 3}


def failover() -> Upstream:
    """An upstream whose broker is sought three times after it was lost."""
    return Upstream("main", (group("main", "a", **FEW),))


FRONTS: Final[dict[str, Callable[[], Listener]]] = {
    PLAIN: lambda: listener(plain("main", "a")),
    FAILOVER: lambda: listener(failover()),
    FAN_OUT: lambda: listener(fan_out(2, options=FEW)),
    ROUTED: lambda: routed(failover(), lasting("there", "b")),
}

in_all_flows = pytest.mark.parametrize("front", FRONTS)
in_flows_that_survive = pytest.mark.parametrize("front", [FAILOVER, FAN_OUT, ROUTED])

DISCONNECT: Final = tell(b"DISCONNECT", receipt="end")
MEMBERS: Final = [name for name in (*vars(Flow), *Flow.__annotations__) if not name.startswith("_")]
NONE, WAITING, SENT, CONFIRMED = DisconnectState


def joined(front: Listener, outbox: Outbox) -> tuple[Leg, Session, Flow]:
    """Return the leg, the session and the flow of a client of this listener that has just connected."""
    client = Leg(Side.DOWNSTREAM, front.limits)
    client.enter(State.CONNECTED, V1_2)
    session = Session(b"relay-session", V1_2, 10, Counters())
    offer = Offer([], frozenset({b"1.2"}), None)
    return (
        client,
        session,
        join(client, front, offer, session, outbox, lambda: 0.5, Guard(None, ANYBODY, session.counters)),
    )


class Harness:
    """A flow, its legs, and what it asked for. All that raises does so as the flow does."""

    def __init__(self, kind: str) -> None:
        self.outbox = Outbox()
        self.client, self.session, self.flow = joined(FRONTS[kind](), self.outbox)
        self.now = 100.0

    def finds(self) -> None:
        """Each link that has no broker gets one."""
        for link in self.flow.links:
            if not link.up:
                self._finds_one(link)

    def _finds_one(self, link: Link) -> None:
        if link.fresh:
            link.seek(self.now)
        while link.asked is None:
            self.now = link.until
            link.woke(self.now)
        assert isinstance(link.answered(SAY_WELCOME[b"1.2"], self.now), Accepted)
        self.flow.connected(link, self.now)

    def finds_none(self, link: Link) -> None:
        """A link that seeks a broker is refused until it seeks no more."""
        while not link.ended:
            if link.asked is None:
                self.now = link.until
                link.woke(self.now)
            link.refused("secret.example refused", self.now)
        self.flow.given_up(link, self.now)

    def loses(self, link: Link) -> None:
        """A broker is gone; another one is sought if the session survives."""
        try:
            self.flow.lost(link, self.now)
        finally:
            link.hang_up(How.ABORT)
            link.seek(self.now)

    def loses_all(self) -> None:
        """All brokers are."""
        for link in list(self.flow.links):
            self.loses(link)

    def client_sends(self, data: bytes) -> None:
        """The client sent these bytes."""
        self.client.decoder.feed(data)
        self.flow.to_broker(self.now)

    def broker_sends(self, data: bytes, link: Link) -> None:
        """A broker sent these bytes."""
        link.connection.leg.decoder.feed(data)
        self.flow.to_client(link, self.now)

    def all_send(self, data: bytes) -> None:
        """All brokers that are there did."""
        for link in list(self.flow.links):
            if link.up:
                self.broker_sends(data, link)

    def client_receives(self) -> bytes:
        """Return what the client was sent; what brokers were sent is forgotten with it."""
        return self._sent().get(self.client, b"")

    def brokers_receive(self) -> set[bytes]:
        """Return what the brokers that are there were sent; what the client was sent is forgotten with it."""
        sent = self._sent()
        return {sent.get(link.connection.leg, b"") for link in self.flow.links if link.up}

    def _sent(self) -> dict[Leg, bytes]:
        sent: dict[Leg, bytes] = {}
        for each in self.outbox.drain():
            if isinstance(each, Send):
                sent[each.leg] = sent.get(each.leg, b"") + each.data
        return {leg: data.replace(b"\0\n", b"\0") for leg, data in sent.items()}


def started(front: str) -> Harness:
    """A flow all of whose links have brokers."""
    play = Harness(front)
    play.finds()
    play.outbox.drain()
    return play


def to_all(front: str, frame: bytes) -> bytes:
    """What a broker is sent of the first SEND."""
    return copied(1, frame) if front == FAN_OUT else frame


# Which clients have which flow


def test_one_broker_at_a_time() -> None:
    """One group and no routes: the two legs are coupled, and the only link has the client's session."""
    for front in (listener(), listener(lasting("main", "a")), listener(fan_out(1))):
        _, session, flow = joined(front, Outbox())
        assert isinstance(flow, Single)
        assert flow.coupled
        assert [link.session for link in flow.links] == [session]


@pytest.mark.parametrize(
    ("front", "groups"),
    [
        (listener(fan_out(3)), ["main-1", "main-2", "main-3"]),
        (routed(plain("main", "a"), plain("there", "b")), ["a"]),
        (routed(fan_out(2), plain("there", "c")), ["main-1", "main-2"]),
    ],
)
def test_several(front: Listener, groups: list[str]) -> None:
    """Each link has an account of its own, the client's own being the first; none has sought a broker yet."""
    _, session, flow = joined(front, Outbox())
    assert isinstance(flow, Fanout)
    assert not flow.coupled
    assert [link.group.name for link in flow.links] == groups
    sessions = [link.session for link in flow.links]
    assert sessions[0] is session
    assert len(set(map(id, sessions))) == len(groups)
    assert all(link.resender is not None for link in flow.links)


def test_members() -> None:
    """Both flows have all members of the protocol; their methods have its signatures."""
    assert {"links", "coupled", "disconnect", "to_broker", "unblocked"} <= set(MEMBERS)
    for kind in KINDS:
        for name in MEMBERS:
            wanted, found = vars(Flow).get(name), inspect.getattr_static(kind, name)
            if inspect.isfunction(wanted):
                assert inspect.isfunction(found)
                assert inspect.signature(found) == inspect.signature(wanted), (kind, name)


# Before and after there are brokers


@in_all_flows
def test_before_there_are_brokers(front: str) -> None:
    """The client has to wait, and nothing has happened."""
    flow = Harness(front).flow
    assert flow.opened() == []
    assert flow.links
    assert [link.leg for link in flow.links] == [None] * len(flow.links)
    assert (flow.ready, flow.flowing, flow.full, flow.crowded) == (False, False, False, False)
    assert (flow.disconnect, flow.disconnect_receipt, flow.settled) == (NONE, None, False)
    assert (flow.erred, flow.safe) == (False, True)
    assert flow.survives == (front != PLAIN)
    assert flow.unanswered() == []


@in_all_flows
def test_with_brokers(front: str) -> None:
    """Frames flow both ways, and no DISCONNECT is under way."""
    play = started(front)
    flow = play.flow
    assert (flow.ready, flow.flowing, flow.full, flow.crowded) == (True, True, False, False)
    play.client_sends(send(b"x"))
    assert play.brokers_receive() == {to_all(front, send(b"x"))}
    play.client_sends(tell(b"SUBSCRIBE", id="1", destination="/queue/a"))
    assert len(play.brokers_receive()) == 1
    play.broker_sends(message(b"m"), flow.links[0])
    assert play.client_receives() == message(b"m")
    assert flow.opened() == []
    assert not any(flow.over(link) for link in flow.links)
    assert flow.disconnect is NONE


@in_all_flows
def test_what_was_wrong_comes_after_what_was_right(front: str) -> None:
    """Frames before a bad one reach the brokers."""
    play = started(front)
    with pytest.raises(StompError):
        play.client_sends(send(b"x") + b"SENT\n\n\0")
    assert play.brokers_receive() == {to_all(front, send(b"x"))}


# DISCONNECT


@in_all_cuts
@in_all_flows
def test_a_disconnect_that_need_not_wait(front: str, cut: Cut) -> None:
    """Nothing is owed, so that it is sent at once; the receipt that it asked for confirms it."""
    play = started(front)
    for chunk in cut.chunks(DISCONNECT):
        play.client_sends(chunk)
    assert (play.flow.disconnect, play.flow.disconnect_receipt, play.flow.settled) == (SENT, b"end", False)
    assert play.client.state is State.LEAVING
    assert play.brokers_receive() == {DISCONNECT}
    play.all_send(receipt("end"))
    assert (play.flow.disconnect, play.flow.settled) == (CONFIRMED, True)
    assert play.client_receives() == receipt("end")
    assert all(play.flow.over(link) for link in play.flow.links)


@in_all_cuts
@in_all_flows
def test_a_disconnect_that_waits(front: str, cut: Cut) -> None:
    """A receipt is owed: brokers are sent it only when that came, for they may confirm the DISCONNECT first."""
    play = started(front)
    frame = send(b"x", receipt="r")
    for chunk in cut.chunks(frame + DISCONNECT):
        play.client_sends(chunk)
    assert (play.flow.disconnect, play.flow.safe, play.flow.settled) == (WAITING, False, False)
    assert play.client.state is State.LEAVING
    assert play.brokers_receive() == {to_all(front, frame)}
    play.all_send(receipt("r"))
    assert (play.flow.disconnect, play.flow.safe) == (SENT, True)
    assert play.brokers_receive() == {DISCONNECT}
    play.all_send(receipt("end"))
    assert play.flow.disconnect is CONFIRMED


@in_all_flows
def test_a_disconnect_that_waited_long_enough(front: str) -> None:
    """It is sent regardless; the client is still owed its receipt, and gets it if it comes."""
    play = started(front)
    play.client_sends(send(b"x", receipt="r") + DISCONNECT)
    play.outbox.drain()
    play.flow.send_disconnect(play.now)
    assert (play.flow.disconnect, play.flow.safe, play.flow.settled) == (SENT, False, False)
    assert play.brokers_receive() == {DISCONNECT}
    play.all_send(receipt("r", "end"))
    assert play.client_receives() == receipt("r", "end")
    assert (play.flow.disconnect, play.flow.settled) == (CONFIRMED, True)


@in_all_flows
def test_a_disconnect_without_receipt(front: str) -> None:
    """It is settled when it was sent, for nothing will confirm it."""
    play = started(front)
    play.client_sends(tell(b"DISCONNECT"))
    assert (play.flow.disconnect, play.flow.disconnect_receipt, play.flow.settled) == (SENT, None, True)
    assert play.brokers_receive() == {tell(b"DISCONNECT")}
    assert all(play.flow.over(link) for link in play.flow.links)


@in_all_flows
def test_a_disconnect_that_is_owed_more_than_its_own_receipt(front: str) -> None:
    """Sent before its time and without a receipt, it is not settled until the other one came."""
    play = started(front)
    play.client_sends(send(b"x", receipt="r") + tell(b"DISCONNECT"))
    play.flow.send_disconnect(play.now)
    assert not play.flow.settled
    assert not any(play.flow.over(link) for link in play.flow.links)
    play.all_send(receipt("r"))
    assert play.flow.safe
    assert (play.flow.disconnect, play.flow.settled) == (SENT, True)


@in_all_flows
def test_frames_behind_a_disconnect(front: str) -> None:
    """No broker is sent them."""
    play = started(front)
    play.client_sends(DISCONNECT + send(b"x"))
    assert play.brokers_receive() == {DISCONNECT}


@in_all_flows
def test_a_disconnect_that_is_confirmed_twice(front: str) -> None:
    """As ActiveMQ may do: the client gets one receipt."""
    play = started(front)
    play.client_sends(DISCONNECT)
    play.all_send(receipt("end") * 2)
    assert play.flow.disconnect is CONFIRMED
    assert play.client_receives() == receipt("end")


@in_flows_that_survive
def test_a_disconnect_whose_broker_is_lost(front: str) -> None:
    """The next one is sent it again."""
    play = started(front)
    play.client_sends(DISCONNECT)
    play.loses_all()
    play.finds()
    assert play.flow.disconnect is SENT
    assert play.brokers_receive() == {DISCONNECT}
    play.all_send(receipt("end"))
    assert (play.flow.disconnect, play.client_receives()) == (CONFIRMED, receipt("end"))


@in_flows_that_survive
def test_a_disconnect_while_there_is_no_broker(front: str) -> None:
    """Brokers are sent again what was before it, and it only when they confirmed that."""
    play = started(front)
    frame = send(b"x", receipt="r")
    play.client_sends(frame + DISCONNECT)
    play.loses_all()
    assert play.flow.disconnect is WAITING
    play.outbox.drain()
    play.finds()
    assert play.flow.disconnect is WAITING
    again = to_all(front, frame).replace(b"SEND\n", b"SEND\nrelay-resent:true\n")
    assert play.brokers_receive() == {again}
    play.all_send(receipt("r"))
    assert play.flow.disconnect is SENT
    assert play.brokers_receive() == {DISCONNECT}


# A client that is gone


@in_all_flows
def test_a_client_that_is_gone(front: str) -> None:
    """It is sent nothing; what it sent is still safe when brokers have it."""
    play = started(front)
    play.client_sends(send(b"x", receipt="r"))
    play.client.lost()
    play.outbox.drain()
    play.all_send(receipt("r"))
    assert play.flow.safe
    assert play.client_receives() == b""


# Brokers come and go


@in_all_flows
def test_a_lost_broker(front: str) -> None:
    """The session goes with it, and the client learns which upstream that was; or it survives."""
    play = started(front)
    link = play.flow.links[0]
    if front == PLAIN:
        with pytest.raises(StompError) as failure:
            play.loses(link)
        assert (failure.value.message, failure.value.detail) == (
            "connection to the broker was lost",
            "upstream main; connect again; what has no receipt may be lost",
        )
        return
    play.loses(link)
    assert play.flow.ready == (front == FAN_OUT)
    play.finds()
    assert play.flow.ready
    assert play.flow.flowing


@in_all_flows
def test_no_broker_for_a_client_that_has_just_come(front: str) -> None:
    """It is told which upstream, not why: reasons hold addresses. With others, it is enough that they can be had."""
    play = Harness(front)
    link = play.flow.links[0]
    link.seek(play.now)
    if front == FAN_OUT:
        play.finds_none(link)
        return
    with pytest.raises(StompError) as failure:
        play.finds_none(link)
    assert (failure.value.message, failure.value.detail) == (
        "broker not available",
        "upstream main did not connect; try again later; the relay's log says why",
    )


@in_all_flows
def test_no_broker_any_more(front: str) -> None:
    """A client that was connected is told how long was tried, and that its DISCONNECT was not confirmed."""
    play = started(front)
    play.client_sends(DISCONNECT)
    *others, last = list(play.flow.links)
    for link in others:
        play.loses(link)
        play.finds_none(link)
    if front == PLAIN:
        with pytest.raises(StompError) as failure:
            play.loses(last)
    else:
        play.loses(last)
        with pytest.raises(StompError) as failure:
            play.finds_none(last)
        assert "none could be had in 3 attempts" in failure.value.detail
    assert failure.value.receipt == b"end"


@in_all_flows
def test_a_broker_that_denies(front: str) -> None:
    """The client is sent its ERROR whole where no other broker can take its place."""
    play = Harness(front)
    link = play.flow.links[0]
    link.seek(play.now)
    error = b"ERROR\nmessage:no\n\n\0"
    assert play.flow.denied(link, error, play.now) == (None if front == FAN_OUT else error)


@in_all_flows
def test_which_brokers_owe_an_answer(front: str) -> None:
    """Those whose place another one may take; where there are several, only those that a DISCONNECT waits for."""
    play = started(front)
    play.client_sends(send(b"x", receipt="r") + DISCONNECT)
    links = [] if front == PLAIN else play.flow.links
    assert play.flow.unanswered() == links
    if front == FAN_OUT:
        play.broker_sends(receipt("r"), links[0])
        assert play.flow.unanswered() == links[1:]


@in_all_flows
def test_a_broker_whose_connection_takes_no_more(front: str) -> None:
    """Where legs are coupled, the service stops reading; elsewhere what is sent to the broker waits in its member."""
    play = started(front)
    leg = play.flow.links[0].connection.leg
    play.flow.blocked(leg)
    play.client_sends(send(b"x"))
    waits = not play.flow.coupled
    assert (leg not in [each.leg for each in play.outbox.drain() if isinstance(each, Send)]) == waits
    play.flow.unblocked(leg, play.now)
    assert play.outbox.drain() == ([Send(leg, to_all(front, send(b"x")))] if waits else [])
