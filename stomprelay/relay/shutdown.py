"""How a session ends: what its client is sent, and how long what is still to be done may take."""

from contextlib import suppress
from math import inf

from stomprelay.relay.effects import Outbox
from stomprelay.relay.flow import DisconnectState, Flow, InputBuffer
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.notes import End, ended, failed, unconfirmed, vanished
from stomprelay.session.effects import Close, How, Note, Send, Wake
from stomprelay.session.leg import Leg, State
from stomprelay.session.refusal import complain, not_stomp
from stomprelay.session.session import Session
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.names import SEND


class Shutdown:
    """The end of a session, from the first sign of it on.

    It alone decides that the client is gone (`Leg.gone`): its connection has ended, and only what it sent is still to
    be delivered, within one `disconnect_timeout`, whatever brokers do meanwhile. `until` is when the step that is
    under way must be done; then call `unanswered` and `overdue`.
    """

    __slots__ = (
        "_buffer",
        "_client",
        "_dismissed",
        "_flow",
        "_last",
        "_listener",
        "_outbox",
        "_session",
        "_tries",
        "until",
    )

    def __init__(
        self,
        client: Leg,
        listener: Listener,
        session: Session,
        flow: Flow,
        buffer: InputBuffer,
        outbox: Outbox,
    ) -> None:
        self._client = client
        self._listener = listener
        self._session = session
        self._flow = flow
        self._buffer = buffer
        self._outbox = outbox
        self.until = inf
        self._last = inf
        self._dismissed = False
        self._tries = len(listener.upstream.brokers)

    # The steps of an orderly end

    def disconnecting(self, now: float) -> None:
        """The client's DISCONNECT came a step further; each step has its time."""
        confirmed = self._flow.disconnect is DisconnectState.CONFIRMED
        self._client.heartbeat.paused()  # it has sent all that it will send
        self.until = now + self._listener.linger if confirmed else self._answered_by(now)
        for link in self._flow.links:
            link.stay()

    def searching(self) -> None:
        """A broker was lost. Where there are too few now they are sought, which has a time of its own; but for a
        client that is gone no more than is left of its own.
        """
        if not self._flow.ready:
            self.until = self._last

    def found(self, now: float) -> None:
        """A broker was found: what was under way goes on. For a client that is there it has its time again."""
        if self._client.gone or self._flow.disconnect is not DisconnectState.NONE:
            self.until = self._answered_by(now)

    def _answered_by(self, now: float) -> float:
        """Return until when brokers may take to answer what they were sent. Of what is left for a client that is gone
        they get half, so that others can be tried in their place.
        """
        if not self._client.gone:
            return now + self._listener.upstream.disconnect_timeout
        return (now + self._last) / 2 if self._tries else self._last

    @property
    def listening(self) -> bool:
        """Whether the client is there, and waits for something."""
        return not self._client.gone and self._flow.disconnect is not DisconnectState.CONFIRMED

    @property
    def delivered(self) -> bool:
        """Whether the client is gone and nothing is left to be done for it."""
        flow = self._flow
        return self._client.gone and not self._buffer and (not flow.survives or (flow.ready and flow.safe))

    def vanished(self, reason: str, now: float) -> None:
        """The client's connection ended. What it sent is still delivered, as by a broker that had it in its buffers."""
        client, flow = self._client, self._flow
        leaving = flow.disconnect is not DisconnectState.NONE
        if not leaving:
            self._session.counters["clients_vanished"] += 1
        unread = client.state is State.CONNECTING and client.decoder.buffered
        if unread or self._buffer or (flow.survives and not flow.safe):
            self._outbox.put(vanished("client left; what it said is still delivered", delivering=True))
            self._deliver(now)
            return
        text = f"client left: {reason}"
        self.close(How.FLUSH, ended(End.CLIENT, text, quiet=False) if leaving else vanished(text))

    def _deliver(self, now: float) -> None:
        """The client is gone: its time begins, and it wants no more messages."""
        self._client.lost()
        self._last = min(self.until, now + self._listener.upstream.disconnect_timeout)
        self.until = self._answered_by(now) if self._flow.ready else self._last
        for link in self._flow.links:
            if link.up and link.resender is not None:
                link.resender.unsubscribe()
                link.resender.flush(now)

    def dismiss(self, error: StompError, now: float) -> None:
        """A frame that the client sent long ago is refused. It is sent an ERROR and its connection is closed; what else
        it sent is still delivered, as for a client that went by itself.
        """
        client = self._client
        self._outbox.put(failed(client.side.value, error))
        if not client.gone and not client.closed:
            self._session.counters["errors_sent"] += 1
            self._outbox.put(Send(client, complain(error, self._session.dialect)), Close(client, How.LINGER))
            self._dismissed = True
            self._deliver(now)

    # What does not happen in time

    def unanswered(self) -> list[Link]:
        """What had to happen by now did not, because these have brokers that do not answer: take them for lost. None
        where there is no other broker, or all of them were tried; then call `overdue`.
        """
        flow = self._flow
        sent = flow.disconnect is DisconnectState.SENT
        impatient = self._listener.upstream.confirm or self._client.gone or sent
        if flow.settled or not self._tries or not impatient:
            return []
        self._tries -= 1
        return flow.unanswered()

    def overdue(self, now: float) -> None:
        """End the step that is not done in time: send the DISCONNECT that waits, or close the session."""
        flow, upstream, counters = self._flow, self._listener.upstream, self._session.counters
        gone = self._client.gone
        if flow.disconnect is DisconnectState.WAITING and flow.ready and not gone:
            flow.send_disconnect(now)
            self.disconnecting(now)
            return
        if flow.settled:
            self.close(How.LINGER, ended(End.CLIENT, "client said goodbye"))
            return
        counters["brokers_lost"] += flow.ready
        missing = sum(link.uncertain for link in flow.links) + self._unsent()
        counters["possibly_lost"] += missing
        what = "did not confirm DISCONNECT in time"
        if gone:
            counters["clients_undelivered"] += 1
            what = "did not confirm all that was said"
        owing = [(link.broker, link.group, link.upstream) for link in flow.links]
        self._outbox.put(*unconfirmed(owing, upstream, what, missing))
        name, receipt = upstream.name, flow.disconnect_receipt
        error = StompError("connection to the broker was lost", f"upstream {name}", receipt=receipt)
        self.fail(self._client, error, End.BROKER)

    def _unsent(self) -> int:
        """Return how many SENDs the client sent that were not read, for want of a broker; they are not kept."""
        client, count = self._client, 0
        if client.state is State.CONNECTING:
            client.enter(State.CONNECTED)
        with suppress(StompError):
            while True:
                for frame in client.decoder.frames():
                    count += frame.command is SEND
                if not self._buffer:
                    break
                client.decoder.feed(self._buffer.take())
        return count

    # Ends

    def deliver(self) -> None:
        """Close the session of a client that is gone: what it sent is `delivered`."""
        end = End.RELAY if self._dismissed else End.CLIENT
        self.close(How.FLUSH, ended(end, "what the client said is delivered"))

    def fail(self, leg: Leg, error: StompError, end: End | None = None) -> None:
        """End the session with an ERROR to the client; `leg` is the one whose bytes are the cause. `end` is the
        side that ended the session, where that does not follow from `leg`: the broker for its own leg, the relay
        for the client's.
        """
        self._outbox.put(failed(leg.side.value, error))
        end = end or (End.RELAY if leg is self._client else End.BROKER)
        note = ended(end, f"the session ended in an ERROR: {error.message}")
        if self._client.gone:
            self.close(How.FLUSH, note)
            return
        if leg is not self._client and not isinstance(error, Refused):
            error = not_stomp(error)
        self._session.counters["errors_sent"] += 1
        self.refuse(complain(error, self._session.dialect), note)

    def refuse(self, error: bytes, note: Note) -> None:
        """End the session with this ERROR frame, which is sent to the client unless it is gone."""
        if not self._client.gone and not self._client.closed:
            self._outbox.put(Send(self._client, error))
        self.close(How.LINGER, note)

    def close(self, how: How, note: Note) -> None:
        """Close all legs, the client's in this way; nothing is due any more. `note` reports the session's end;
        there is only one.
        """
        self.until = self._last = inf
        self._buffer.clear()
        if not self._client.closed:
            self._client.enter(State.CLOSED)
            self._outbox.put(note)
            if not self._dismissed:
                self._outbox.put(Close(self._client, how))
        for link in self._flow.links:
            link.end()
        self._outbox.put(Wake(inf))
