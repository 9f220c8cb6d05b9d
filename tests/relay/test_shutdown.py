"""How sessions end: what the client is sent, what a client that is gone still has delivered, and until when."""

from math import inf
from typing import Any

import pytest

from stomprelay.relay.client.shutdown import Shutdown
from stomprelay.relay.client.turns import InputBuffer
from stomprelay.relay.effects import Effect, Outbox
from stomprelay.relay.flow import DisconnectState
from stomprelay.relay.guard import Guard
from stomprelay.relay.link.link import Link
from stomprelay.relay.link.states import Ended
from stomprelay.relay.model.access import ANYBODY
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.notes import End
from stomprelay.relay.single import Single
from stomprelay.session.effects import Close, Event, How, Note, Send, Wake
from stomprelay.session.handshake import Offer
from stomprelay.session.heartbeat import Terms
from stomprelay.session.leg import Leg, Side, State
from stomprelay.session.session import Session
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.errors import StompError
from tests.playbook import listener
from tests.relay.failing import movable

NOBODY = Offer([], frozenset({b"1.2"}), None)


class Scripted(Single):
    """A flow that is as a script sets it."""

    survives = True
    ready = True
    safe = False
    settled = False

    def send_disconnect(self, now: float) -> None:
        """A note tells of it."""
        self.disconnect = DisconnectState.SENT
        self._outbox.put(Note(Event.DISCONNECTED, "DISCONNECT is sent"))


class CountedLink(Link):
    """Counts how often it is told to stay."""

    stayed = 0

    def stay(self) -> None:
        """It need not move."""
        self.stayed += 1


class Scene:
    """A session in front of two brokers, with 5 seconds to disconnect and 2 to linger."""

    def __init__(self, state: State = State.CONNECTED, **settings: Any) -> None:
        front: Listener = listener(movable(**settings))
        self.counters = Counters()
        self.client = Leg(Side.DOWNSTREAM, front.limits)
        self.client.enter(state, V1_2)
        session = Session(b"relay-session", V1_2, 10, self.counters)
        upstream = front.upstream
        self.outbox = Outbox()
        self.link = CountedLink(
            front, upstream, upstream.groups[0], NOBODY, session, self.outbox, lambda: 0.0
        )
        guard = Guard(None, ANYBODY, self.counters)
        self.flow = Scripted(self.client, self.link, self.outbox, guard)
        self.buffer = InputBuffer(self.client, self.outbox, 100)
        self.shutdown = Shutdown(self.client, front, session, self.flow, self.buffer, self.outbox)

    def unconfirmed(self, count: int) -> None:
        """So many SENDs are kept."""
        assert self.link.resender is not None
        for number in range(count):
            self.link.resender.unconfirmed.keep(b"SEND", b"%d" % number)

    def reaches(self, disconnect: DisconnectState, now: float) -> None:
        """The client's DISCONNECT comes this far."""
        self.flow.disconnect = disconnect
        self.shutdown.disconnecting(now)

    def vanishes(self, now: float, reason: str = "Connection reset") -> list[Effect]:
        """The client's connection ended. Returns what is asked for."""
        self.shutdown.vanished(reason, now)
        return self.outbox.drain()

    def is_overdue(self, now: float) -> list[Effect]:
        """What had to happen by now did not. Returns what is asked for."""
        self.shutdown.overdue(now)
        return self.outbox.drain()

    def fails(self, leg: Leg, error: StompError, end: End | None = None) -> list[Effect]:
        """The session ends in this error. Returns what is asked for."""
        self.shutdown.fail(leg, error, 1.0, end)
        return self.outbox.drain()


def sent(effects: list[Effect]) -> bytes:
    """What the client is sent."""
    return b"".join(each.data for each in effects if isinstance(each, Send))


def ways(effects: list[Effect]) -> list[How]:
    """How legs are closed, in order."""
    return [each.how for each in effects if isinstance(each, Close)]


def notes(effects: list[Effect]) -> list[tuple[Event, str]]:
    """What is logged."""
    return [(each.event, each.text) for each in effects if isinstance(each, Note) and not each.quiet]


def ends(effects: list[Effect]) -> list[object]:
    """Who ended the session, as often as it is told."""
    return [each.facts["end"] for each in effects if isinstance(each, Note) and "end" in each.facts]


# The client went


def test_a_client_that_goes_with_everything_delivered() -> None:
    """There is nothing to wait for."""
    play = Scene()
    play.flow.safe = True
    effects = play.vanishes(1.0)
    assert notes(effects) == [(Event.VANISHED, "client left: Connection reset")]
    assert ends(effects) == ["client"]
    assert ways(effects) == [How.FLUSH]
    assert effects[-1] == Wake(inf)
    assert play.client.closed
    assert not play.client.gone
    assert play.counters["clients_vanished"] == 1


def test_a_client_that_sends_disconnect_and_goes() -> None:
    """It did not vanish."""
    play = Scene()
    play.flow.safe = True
    play.reaches(DisconnectState.SENT, 1.0)
    effects = play.vanishes(2.0, "Connection was closed cleanly.")
    assert notes(effects) == [(Event.DISCONNECTED, "client left: Connection was closed cleanly.")]
    assert ends(effects) == ["client"]
    assert play.counters["clients_vanished"] == 0
    assert play.shutdown.until == inf


def test_a_client_that_goes_with_something_unconfirmed() -> None:
    """It is gone; its broker has half of `disconnect_timeout` to confirm, so that there is time for another one."""
    play = Scene()
    effects = play.vanishes(1.0)
    assert notes(effects) == [(Event.VANISHED, "client left; what it said is still delivered")]
    assert [note.facts for note in effects if isinstance(note, Note)] == [{"end": "client", "delivering": 1}]
    assert ways(effects) == []
    assert play.client.gone
    assert play.shutdown.until == 1.0 + 2.5
    assert not play.shutdown.delivered
    play.flow.safe = True
    assert play.shutdown.delivered


def test_a_client_that_goes_with_something_buffered() -> None:
    """What waits for a broker is delivered when there is one within `disconnect_timeout`, in all."""
    play = Scene()
    play.flow.ready = False
    play.flow.safe = True
    play.buffer.append(b"SEND")
    play.vanishes(1.0)
    assert play.client.gone
    assert play.shutdown.until == 1.0 + 5.0
    play.flow.ready = True
    play.shutdown.found(2.0)
    assert play.shutdown.until == 4.0
    assert not play.shutdown.delivered
    play.buffer.take()
    assert play.shutdown.delivered


def test_a_broker_that_takes_it_is_needed() -> None:
    """While none is there nothing is delivered, though nothing is unconfirmed."""
    play = Scene()
    play.vanishes(1.0)
    play.flow.ready = False
    play.flow.safe = True
    assert not play.shutdown.delivered


def test_nothing_is_delivered_for_a_client_that_is_there() -> None:
    """What is safe then is no reason to close."""
    play = Scene()
    play.flow.safe = True
    assert not play.shutdown.delivered


def test_a_client_whose_session_does_not_survive() -> None:
    """It goes with what it sent, as a plain connection would, but not with what no broker could be sent yet."""
    play = Scene()
    play.flow.survives = False
    assert ways(play.vanishes(1.0)) == [How.FLUSH]
    play = Scene(State.CONNECTING)
    play.flow.survives = False
    play.client.decoder.feed(b"SEND\ndestination:/queue/a\n\nx\0")
    play.vanishes(1.0)
    assert play.client.gone
    assert play.shutdown.delivered


def test_its_time_is_not_begun_anew_by_its_going() -> None:
    """A client that waits for the answer to DISCONNECT and then goes leaves its brokers what is left of the time."""
    play = Scene()
    play.reaches(DisconnectState.WAITING, 1.0)
    play.vanishes(4.0)
    assert play.shutdown.until == 5.0
    play.flow.ready = False
    play.shutdown.searching()
    assert play.shutdown.until == 1.0 + 5.0


def test_a_client_that_is_gone_has_one_time_whatever_brokers_do() -> None:
    """Neither the loss of a broker nor the next one moves the end; each gets half of what is left, the last all."""
    play = Scene()
    play.unconfirmed(1)
    play.vanishes(0.0)
    ends = []
    for at in (1.0, 2.0, 3.0):
        play.flow.ready = False
        play.shutdown.searching()
        assert play.shutdown.until == 5.0
        play.flow.ready = True
        play.shutdown.found(at)
        ends.append(play.shutdown.until)
    assert ends == [3.0, 3.5, 4.0]
    play.shutdown.unanswered()
    play.shutdown.unanswered()
    play.shutdown.found(4.5)
    assert play.shutdown.until == 5.0


def test_what_a_client_that_is_gone_left_unread() -> None:
    """SENDs that no broker was there for are counted, whole ones only, up to DISCONNECT and what is not STOMP."""
    play = Scene(State.CONNECTING)
    play.flow.ready = False
    send = b"SEND\ndestination:/queue/a\n\nx\0"
    play.client.decoder.feed(send + send)
    play.buffer.append(send + b"BEGIN\ntransaction:t\n\n\0" + send[:10])
    play.buffer.append(send[10:] + b"nonsense\n")
    play.vanishes(0.0)
    play.is_overdue(5.0)
    assert play.counters["possibly_lost"] == 4
    assert play.counters["clients_undelivered"] == 1
    assert play.counters["brokers_lost"] == 0
    assert not play.buffer.cost


def test_its_time_is_not_prolonged_by_an_answer() -> None:
    """A client that is gone need not read the receipt of its DISCONNECT."""
    play = Scene()
    play.reaches(DisconnectState.WAITING, 1.0)
    play.vanishes(4.0)
    play.reaches(DisconnectState.CONFIRMED, 5.5)
    assert play.shutdown.until == 1.0 + 5.0


def test_a_gone_client_whose_broker_does_not_confirm() -> None:
    """It has all of the client's time where there is no other to be asked. Then the rest may be lost, which is counted;
    there is no client to send an ERROR to.
    """
    play = Scene()
    play.unconfirmed(3)
    play.vanishes(1.0)
    assert not play.is_overdue(play.shutdown.until)
    assert play.shutdown.until == 6.0
    effects = play.is_overdue(play.shutdown.until)
    assert sent(effects) == b""
    assert notes(effects)[0] == (
        Event.LOST,
        "broker tcp://a,tcp://b did not confirm all that was said: 3 SENDs may be lost",
    )
    assert ways(effects) == [How.FLUSH]
    assert (play.counters["possibly_lost"], play.counters["brokers_lost"], play.counters["errors_sent"]) == (
        3,
        1,
        0,
    )


# DISCONNECT


def test_each_step_of_a_disconnect_has_its_time() -> None:
    """To wait for receipts, then for its own, then for the client to close; a search has a time of its own."""
    play = Scene()
    assert play.shutdown.until == inf
    play.reaches(DisconnectState.WAITING, 10.0)
    assert play.shutdown.until == 15.0
    play.reaches(DisconnectState.SENT, 12.0)
    assert play.shutdown.until == 17.0
    play.shutdown.searching()
    assert play.shutdown.until == 17.0  # there are brokers enough without the one that was lost
    play.flow.ready = False
    play.shutdown.searching()
    assert play.shutdown.until == inf
    play.shutdown.found(60.0)
    assert play.shutdown.until == 65.0
    play.reaches(DisconnectState.CONFIRMED, 61.0)
    assert play.shutdown.until == 63.0


def test_a_client_that_sent_disconnect_need_not_beat() -> None:
    """It has sent all that it will send."""
    play = Scene()
    play.client.heartbeat.agree(Terms(1000, 1000), Terms(1000, 1000), 10.0)
    play.reaches(DisconnectState.WAITING, 10.0)
    assert not play.client.heartbeat.dead(100.0)


def test_a_broker_that_is_found_while_nothing_ends() -> None:
    """Nothing is due."""
    play = Scene()
    play.shutdown.searching()
    play.shutdown.found(60.0)
    assert play.shutdown.until == inf


def test_receipts_that_do_not_come() -> None:
    """DISCONNECT is sent without them, and has as long again to be answered."""
    play = Scene()
    play.reaches(DisconnectState.WAITING, 10.0)
    assert play.is_overdue(15.0) == [Note(Event.DISCONNECTED, "DISCONNECT is sent")]
    assert play.shutdown.until == 20.0
    assert not play.client.closed


def test_a_disconnect_that_is_not_answered() -> None:
    """It ends in an ERROR that names its receipt."""
    play = Scene()
    play.unconfirmed(1)
    play.flow.disconnect_receipt = b"bye"
    play.reaches(DisconnectState.SENT, 10.0)
    effects = play.is_overdue(15.0)
    assert sent(effects).startswith(
        b"ERROR\nmessage:connection to the broker was lost\nreceipt-id:bye\ncontent-type:text/plain\n"
    )
    assert b"upstream main" in sent(effects)
    assert b"tcp://" not in sent(effects)
    assert ends(effects) == ["broker"]
    assert ways(effects) == [How.LINGER]
    assert (play.counters["possibly_lost"], play.counters["brokers_lost"], play.counters["errors_sent"]) == (
        1,
        1,
        1,
    )


@pytest.mark.parametrize("step", [DisconnectState.SENT, DisconnectState.CONFIRMED])
def test_a_client_that_is_owed_nothing_and_does_not_close(step: DisconnectState) -> None:
    """It is closed, and that is no loss."""
    play = Scene()
    play.flow.settled = True
    play.reaches(step, 10.0)
    effects = play.is_overdue(play.shutdown.until)
    assert sent(effects) == b""
    assert notes(effects) == []
    assert ends(effects) == ["client"]
    assert ways(effects) == [How.LINGER]
    assert play.counters["brokers_lost"] == 0


@pytest.mark.parametrize(("ready", "gone"), [(False, False), (True, True), (False, True)])
def test_a_disconnect_that_cannot_be_sent(ready: bool, gone: bool) -> None:
    """Without a broker, or for a client that is gone, the wait ends the session."""
    play = Scene()
    play.reaches(DisconnectState.WAITING, 10.0)
    if gone:
        play.vanishes(10.0)
    play.flow.ready = ready
    effects = play.is_overdue(15.0)
    assert play.client.closed
    assert play.flow.disconnect is DisconnectState.WAITING
    assert sent(effects).startswith(b"ERROR\n") is not gone


def test_a_session_that_ends_need_not_move() -> None:
    """A link that was to go to another broker stays where it is."""
    play = Scene()
    play.reaches(DisconnectState.WAITING, 10.0)
    assert play.link.stayed == 1


# Failures


def test_a_gone_client_is_sent_nothing() -> None:
    """What fails for it is logged, and not counted as an ERROR."""
    play = Scene()
    play.vanishes(1.0)
    play.link.end()
    effects = play.fails(play.client, StompError("no broker available"), End.BROKER)
    assert notes(effects) == [(Event.ERROR, "client: no broker available")]
    assert ends(effects) == ["broker"]
    assert sent(effects) == b""
    assert ways(effects) == [How.FLUSH]
    assert play.counters["errors_sent"] == 0


def test_closed_twice() -> None:
    """Each leg is closed once, the end is told once, and nothing is due any more."""
    play = Scene()
    play.reaches(DisconnectState.SENT, 10.0)
    leg = Leg(Side.UPSTREAM, listener().limits)
    play.link.state = Ended(leg=leg)
    note = Note(Event.DISCONNECTED, "it is over", {"end": "client"})
    play.shutdown.close(How.FLUSH, note)
    assert play.outbox.drain() == [
        note,
        Close(play.client, How.FLUSH),
        Close(leg, How.LINGER),
        Wake(inf),
    ]
    assert play.shutdown.until == inf
    play.shutdown.close(How.LINGER, note)
    assert play.outbox.drain() == [Wake(inf)]


@pytest.mark.parametrize("gone", [False, True])
def test_an_error_of_a_broker_that_ends_the_session(gone: bool) -> None:
    """It is sent as it is to a client that is there, and is not counted as an ERROR of the relay."""
    play = Scene()
    if gone:
        play.vanishes(1.0)
    note = Note(Event.DISCONNECTED, "a broker answered CONNECT with ERROR", {"end": "broker"})
    play.shutdown.refuse(b"ERROR\nmessage:no\n\n\0", note)
    effects = play.outbox.drain()
    assert sent(effects) == (b"" if gone else b"ERROR\nmessage:no\n\n\0")
    assert effects[-3:] == [note, Close(play.client, How.LINGER), Wake(inf)]
    assert play.counters["errors_sent"] == 0
