"""How a session ends: what its client is sent, and how long what is still to be done may take."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple

from stomprelay.relay.client.buffer import InputBuffer
from stomprelay.relay.effects import Outbox
from stomprelay.relay.flow import DISCONNECTING, DisconnectState, Flow, broker_lost
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.notes import End, ended, failed, stopped, unconfirmed, vanished
from stomprelay.session.effects import Close, How, Note, Resume, Send, Wake
from stomprelay.session.heartbeat import BEAT
from stomprelay.session.leg import Leg, State
from stomprelay.session.reasons import CLOSED
from stomprelay.session.refusal import complain, not_stomp
from stomprelay.session.session import Session
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.names import SEND

ECHO: Final = 0.5
"""Seconds within which the system of a client that is gone answers what is sent to it. In the name of such a client
brokers are sent no DISCONNECT but those that need one: it has not left in good order.
"""


class Reason(NamedTuple):
    """Why the relay ends a session that might go on: message and detail of the ERROR that its client is sent, the
    `text` for the log, and what of the client's own bytes the ERROR is about.
    """

    message: str
    detail: str
    text: str
    quoted: bytes | None = None


STOPPING: Final = Reason("the relay is stopping", "connect again", "the relay stops")
KILLED: Final = Reason(
    "the session was ended", "by an operator of the relay", "an operator ended the session"
)
REFUSED: Final = Reason(
    "access refused", "the relay does not let this client in", "the client's new token was refused"
)
EXPIRED: Final = Reason("the token has expired", "connect again with a new one", "the client's token expired")


class Shutdown:
    """The end of a session, from the first sign of it on.

    It alone decides that the client is gone (`Leg.gone`): its connection has ended, and only what it sent is still to
    be delivered, within one `disconnect_timeout`, whatever brokers do meanwhile. `lost` is how many SENDs may be lost
    by the session's end. `until` is when the step that is under way must be done; then call `unanswered` and `overdue`.
    `finish_at`: when to call `finish` for a client that half-closed its connection. `expires`: when to call `stopped`,
    because the client may be there no longer.
    """

    __slots__ = (
        "_buffer",
        "_client",
        "_dismissed",
        "_finish_by",
        "_flow",
        "_last",
        "_listener",
        "_outbox",
        "_session",
        "_spoken_for",
        "_stopping",
        "_tries",
        "expires",
        "finish_at",
        "lost",
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
        self.until = self.finish_at = self._finish_by = self.expires = inf
        self.lost = 0
        self._spoken_for = False
        self._last = inf
        self._stopping = False
        self._dismissed = False
        self._tries = len(listener.upstream.brokers)

    @property
    def deadline(self) -> float:
        """When it must be looked at next, or at the client's beats, in seconds; infinity for never."""
        due = min(self.until, self.finish_at, self.expires)
        beating = self.listening and self._client.beating
        return min(due, self._client.heartbeat.deadline) if beating else due

    @property
    def begun(self) -> bool:
        """Whether the session's end has begun in any way."""
        return self._stopping or self._dismissed or self.until < inf

    # The steps of an orderly end

    def disconnecting(self, now: float) -> None:
        """The client's DISCONNECT came a step further; each step has its time."""
        confirmed = self._flow.disconnect is DisconnectState.CONFIRMED
        self._client.heartbeat.paused()  # it has sent all that it will send
        if self.finish_at < inf:
            self._finish_within(now, steps=2)
        self.until = min(now + self._listener.linger, self._last) if confirmed else self._answered_by(now)
        for link in self._flow.links:
            link.stay()

    def searching(self) -> None:
        """A broker was lost. Where there are too few now they are sought, which has a time of its own; but for a
        client that is gone no more than is left of its own, nor after too many closed at DISCONNECT.
        """
        if not self._flow.ready and self._tries >= 0:
            self.until = self._last

    def found(self, now: float) -> None:
        """A broker was found: what was under way goes on. For a client that is there it has its time again, unless too
        many closed at DISCONNECT.
        """
        if self._client.gone or (self._flow.disconnect is not DisconnectState.NONE and self._tries >= 0):
            self.until = self._answered_by(now)

    def _answered_by(self, now: float) -> float:
        """Return until when brokers may take to answer what they were sent. Of what is left for a client that is gone
        they get half, so that others can be tried in their place.
        """
        if not self._client.gone:
            return now + self._listener.upstream.disconnect_timeout
        return (now + self._last) / 2 if self._tries > 0 else self._last

    @property
    def listening(self) -> bool:
        """Whether the client is there, and waits for something."""
        return not self._client.gone and self._flow.disconnect is not DisconnectState.CONFIRMED

    @property
    def owing(self) -> bool:
        """Whether the client, which sends nothing more, may still be owed something: nobody is who has said nothing
        since CONNECTED.
        """
        client, asked = self._client, self._flow.guard.asked
        said = self._session.client_frames or self._buffer.unread or client.decoder.buffered or asked
        return self.listening and bool(said or client.state is not State.CONNECTED)

    @property
    def delivered(self) -> bool:
        """Whether the client is gone and nothing is left to be done for it."""
        flow = self._flow
        return (
            self._client.gone
            and not self._buffer.unread
            and (not flow.survives or (flow.ready and flow.safe))
        )

    def half_closed(self, now: float) -> None:
        """The client has sent all that it will send, and perhaps waits for answers; call `finish`. It is sent an EOL,
        which may stand between frames: if nobody reads it, the client's system resets the connection.
        """
        self._client.heartbeat.paused()
        self._outbox.send(self._client, BEAT, now)
        self._finish_within(now, steps=1 if self._flow.disconnect is DisconnectState.NONE else 2)
        self.finish_at = min(now + ECHO, self._finish_by)

    def _finish_within(self, now: float, *, steps: int) -> None:
        """Take a client that half-closed for gone after so many times `disconnect_timeout`, whatever brokers do."""
        self.finish_at = self._finish_by = now + steps * self._listener.upstream.disconnect_timeout

    def may_finish(self, now: float) -> bool:
        """Whether the client half-closed its connection and has not reset it since, and all that it sent was carried.
        One that is subscribed to something gets messages until the time is over: nobody knows which is the last.
        """
        early = now < self.finish_at < self._finish_by
        if self.finish_at == inf or early:
            return False
        if self._buffer.unread or self._client.state is not State.CONNECTED or not self._flow.flowing:
            return False
        return now >= self._finish_by or not any(len(link.session.subscriptions) for link in self._flow.links)

    def finish(self, now: float) -> None:
        """Where the client `may_finish`, send the DISCONNECT that it has not sent: its brokers answer all that came
        before, and close. Where it may not within the `disconnect_timeout`, it is taken for gone. Raises as
        `Flow.to_broker`.
        """
        if self.may_finish(now):
            self._spoken_for = True
            self._flow.finish(now)
        elif now >= self._finish_by:
            self.vanished(CLOSED, now)
        elif now >= self.finish_at:
            self.finish_at = self._finish_by

    def vanished(self, reason: str, now: float) -> None:
        """The client's connection ended. What it sent is still delivered, as by a broker that had it in its buffers."""
        client, flow = self._client, self._flow
        leaving = flow.disconnect is not DisconnectState.NONE and not self._spoken_for
        self.finish_at = self._finish_by = inf
        self._spoken_for = False
        if not leaving:
            self._session.counters["clients_vanished"] += 1
        early = client.state is State.CONNECTING and client.decoder.buffered
        if early or self._buffer.unread or (flow.survives and not flow.safe):
            self._outbox.put(vanished("client left; what it said is still delivered", delivering=True))
            self._deliver(now)
            return
        text = f"client left: {reason}"
        self.close(How.FLUSH, ended(End.CLIENT, text, quiet=False) if leaving else vanished(text))

    def _deliver(self, now: float) -> None:
        """The client is gone: its time begins, and it wants no more messages."""
        self._client.lost()
        self.expires = inf
        self._last = min(self.until, now + self._listener.upstream.disconnect_timeout)
        flow = self._flow
        asked = flow.ready or any(link.leaving for link in flow.links)
        self.until = self._answered_by(now) if asked else self._last
        for link in flow.links:
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
            self._tell(error)
            self._outbox.put(Close(client, How.LINGER))
            self._dismissed = True
            self._deliver(now)

    # The relay stops

    def stop_began(self) -> None:
        """Read from the client no more, unless the session is about to end anyway; it ends when it is `drained`, which
        may be now.
        """
        client, flow = self._client, self._flow
        if client.gone or flow.disconnect is not DisconnectState.NONE:
            return
        self._stopping = True
        self._buffer.stop()
        for link in flow.links:
            link.stay()
            if link.up and link.leg is not None:
                # The receipts that are awaited may stand behind messages that the client owes too many ACKs for.
                self._outbox.put(Resume(link.leg))
        if self.drained:
            self.stopped()

    @property
    def drained(self) -> bool:
        """Whether the relay stops and all that the client sent is where it shall be: then call `stopped`. A client
        that was not answered CONNECTED has sent nothing that counts.
        """
        if not self._stopping or self._flow.disconnect is not DisconnectState.NONE:
            return False
        return self._client.state is State.CONNECTING or self._finished

    def stopped(self, why: Reason = STOPPING) -> None:
        """End the session because the relay stops, or an operator wants it. What may be lost by that is counted."""
        client, flow = self._client, self._flow
        if flow.settled:
            self.close(How.FLUSH if client.gone else How.LINGER, ended(End.CLIENT, "client said goodbye"))
            return
        if not self._finished or client.gone:
            self.lose(flow.links)
        note = stopped(why.text, self.lost)
        if client.gone:
            self.close(How.FLUSH, note)
            return
        detail = why.detail
        if self.lost:
            detail += "; what has no receipt may be lost"
        error = StompError(why.message, detail, quoted=why.quoted, receipt=flow.disconnect_receipt)
        self._outbox.put(replace(failed(client.side.value, error), quiet=True))
        self._tell(error)
        self.close(How.LINGER, note)

    @property
    def _finished(self) -> bool:
        return not self._buffer.unread and self._flow.safe

    def lose(self, links: Iterable[Link]) -> int:
        """Count what may be lost with the session, which ends because of these links: what their brokers had not
        confirmed, and what waited for a broker. Return how many SENDs that is.
        """
        lost = sum(map(self._flow.uncertain, links)) + self._unsent()
        self._session.counters["possibly_lost"] += lost
        self.lost += lost
        return lost

    # What does not happen in time

    def unanswered(self) -> list[Link]:
        """What had to happen by now did not, because these have brokers that do not answer: take them for lost. None
        where there is no other broker, or all of them were tried; then call `overdue`.
        """
        flow = self._flow
        sent = flow.disconnect is DisconnectState.SENT
        impatient = self._listener.upstream.confirm or self._client.gone or sent
        if flow.settled or self._tries <= 0 or not impatient:
            return []
        self._tries -= 1
        return flow.unanswered()

    def answered_by_closing(self, link: Link) -> bool:
        """A broker closes its connection. Return whether that is all that will be heard of the client's DISCONNECT, for
        as many brokers as there are did so before: then call `overdue`. Where others may still confirm it, they have
        what is left of the time.
        """
        flow = self._flow
        waiting = flow.unanswered() if flow.disconnect is DisconnectState.SENT and link.up else []
        if link not in waiting or self._client.gone or flow.over(link):
            return False
        self._tries -= 1
        return self._tries < 0 and len(waiting) == 1

    def overdue(self, now: float, what: str = "did not confirm DISCONNECT in time") -> None:
        """End the step that is not done in time, or will not be: send the DISCONNECT that waits, or close the session.
        `what`: what brokers did instead.
        """
        flow, upstream, counters = self._flow, self._listener.upstream, self._session.counters
        gone = self._client.gone
        if flow.disconnect is DisconnectState.WAITING and flow.ready and not gone:
            flow.send_disconnect(now)
            self.disconnecting(now)
            return
        if flow.settled:
            self.close(How.LINGER, ended(End.CLIENT, "client said goodbye"))
            return
        if gone and now < self._last:  # brokers had their half, and there is no other to be asked
            self.until = self._last
            return
        counters["brokers_lost"] += flow.ready
        missing = self.lose(flow.links)
        if gone:
            counters["clients_undelivered"] += 1
            what = "did not confirm all that was said"
        # One that was being left was reported then, and is not the session's any more.
        owing = [(None if link.leaving else link.broker, link.group, link.upstream) for link in flow.links]
        self._outbox.put(*unconfirmed(owing, upstream, what, missing))
        self.fail(self._client, broker_lost(upstream, flow.disconnect_receipt), End.BROKER)

    def _unsent(self) -> int:
        """Return how many SENDs the client sent that were not read, for want of a broker; they are not kept."""
        client, count = self._client, 0
        if client.state is State.CONNECTING and client.gone:
            client.enter(State.CONNECTED)
        if client.state is not State.CONNECTED:
            return 0
        with suppress(StompError):  # what is behind it would have been refused
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
        self._outbox.put(failed(leg.side.value, error, detail=end is not None))
        end = end or (End.RELAY if leg is self._client else End.BROKER)
        note = ended(end, f"the session ended in an ERROR: {error.message}")
        if self._client.gone:
            self.close(How.FLUSH, note)
            return
        if leg is not self._client and not isinstance(error, Refused):
            error = not_stomp(error)
        self._tell(error)
        self.close(How.LINGER, note)

    def _tell(self, error: StompError) -> None:
        """Send the client, if it is there, an ERROR of the relay's, and count it."""
        if not self._client.gone and not self._client.closed:
            self._session.counters["errors_sent"] += 1
            self._outbox.put(Send(self._client, complain(error, self._session.dialect)))

    def refuse(self, error: bytes, note: Note) -> None:
        """End the session with this ERROR frame, which is sent to the client unless it is gone."""
        if not self._client.gone and not self._client.closed:
            self._outbox.put(Send(self._client, error))
        self.close(How.LINGER, note)

    def close(self, how: How, note: Note) -> None:
        """Close all legs, the client's in this way; nothing is due any more. A broker that needs DISCONNECT gets it
        where the client has not said it. `note` reports the session's end; there is only one.
        """
        self.until = self.finish_at = self.expires = self._last = inf
        self._buffer.clear()
        if not self._client.closed:
            if self._spoken_for and note.facts.get("end") == End.CLIENT.value:
                self._session.counters["clients_vanished"] += 1
                note = vanished("client left, and has its answers")
            if self.lost:
                note = replace(note, facts={**note.facts, "possibly_lost": self.lost})
            self._client.enter(State.CLOSED)
            self._outbox.put(note)
            if not self._dismissed:
                self._outbox.put(Close(self._client, how))
        for link in self._flow.links:
            if link.up:
                product, leg = link.connection.product, link.connection.leg
                if product.needs_disconnect and leg.state is State.CONNECTED and not leg.gone:
                    self._outbox.put(Send(leg, DISCONNECTING))
            link.end()
        self._outbox.put(Wake(inf))
