"""How a session ends: what the client is sent, and how long each remaining step may take."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from stomprelay.relay.client.turns import Flow, InputBuffer
from stomprelay.relay.effects import (
    End,
    Outbox,
    Reason,
    ended,
    ended_with,
    failed,
    unconfirmed,
    unheard,
    vanished,
    with_loss,
)
from stomprelay.relay.link.link import DISCONNECTING, LOST, Connected, DisconnectState, Link, broker_lost
from stomprelay.relay.model.listener import Listener
from stomprelay.session.effects import Close, How, Note, Send, Wake
from stomprelay.session.leg import BEAT, Leg, LegState
from stomprelay.session.reasons import CLOSED
from stomprelay.session.refusal import complain, not_stomp
from stomprelay.session.session import Session
from stomprelay.wire.errors import Refused, StompError
from stomprelay.wire.names import COMMIT, SEND, TRANSACTION

ECHO: Final = 0.5
"""Seconds to wait for the reset with which a system answers bytes for a client that is gone."""


def _because(error: StompError, end: End) -> Reason:
    """Return the reason of a session that ends with this error."""
    text = f"the session ended in an ERROR: {error.message}"
    return Reason(error.message, error.detail, text, error.quoted, error.receipt, end)


@dataclass(slots=True, eq=False, repr=False)
class Shutdown:
    """The end of a session. A session is

    stopping    if the relay stops (`stop_began`): the client is not read from; when all its SENDs are confirmed,
                the session is ending
    answering   if its client half-closed the connection (`half_closed`, `finish`): brokers were sent DISCONNECT in
                the client's name, and the client gets their answers
    delivering  if its client's connection ended (`vanished`): brokers still get what the client sent
    ending      if the relay ends it, with a reason (`end`) or an ERROR (`fail`): the client is not read from and gets
                no MESSAGE; brokers get what the client sent, and DISCONNECT; the client gets their RECEIPTs, then the
                ERROR
    over        if everything is delivered (`conclude`), the time is over (`overdue`), the broker closed
                (`ended_with`), nothing was to be delivered (`close`), or the relay ends it at once (`cut`)

    A session that is delivering or ending has one `disconnect_timeout` for everything.

    `lost`: SENDs that may be lost. `until`: when the present step must be done; then call `unanswered` and `overdue`.
    `finish_at`: when to call `finish`. `expires`: when to call `end`. `ending`: why the relay ends the session.
    """

    _client: Leg
    _listener: Listener
    _session: Session
    _flow: Flow
    _buffer: InputBuffer
    _outbox: Outbox
    stopping: bool = False
    ending: Reason | None = None
    lost: int = 0
    until: float = inf
    finish_at: float = inf
    expires: float = inf
    _answering: bool = False
    _finish_by: float = inf
    _last: float = inf
    _tried: int = 0

    @property
    def deadline(self) -> float:
        """When the end, or the client's heart-beats, must be looked at next, in seconds; infinity: never."""
        due, client = min(self.until, self.finish_at, self.expires), self._client
        if client.gone or self._flow.disconnect is DisconnectState.CONFIRMED:
            return due
        return min(due, client.heartbeat.deadline)

    @property
    def begun(self) -> bool:
        """Whether the end of the session has begun in any way."""
        asked = self.stopping or self._answering or self.until < inf
        return asked or self._limited or self._client.closed

    @property
    def _tries(self) -> int:
        """Return how many more silent brokers may be treated as lost."""
        return sum([len(group.brokers) for group in self._listener.upstream.groups]) - self._tried

    @property
    def _limited(self) -> bool:
        """Whether one `disconnect_timeout` limits everything that remains to be done."""
        return self._client.gone or self.ending is not None

    def follow(self, flow: Flow) -> None:
        """Another flow has taken the place of the session's."""
        self._flow = flow

    # The steps of an orderly end

    def disconnecting(self, now: float) -> None:
        """The DISCONNECT has made progress. Each step gets its own time limit. If the relay sent DISCONNECT for the
        client and it is confirmed, the session ends.
        """
        confirmed = self._flow.disconnect is DisconnectState.CONFIRMED
        if confirmed and (self.ending or self._answering) and not self._client.closed:
            if not self._flow.safe:  # time was over for the receipts
                self.lose(self._flow.links)
            self.conclude()
            return
        self._client.heartbeat.reading = False  # it has sent all that it will send
        if self.finish_at < inf:
            self._finish_within(now, steps=2)
        self.until = min(now + self._listener.linger, self._last) if confirmed else self._answered_by(now)
        self._stay()

    def searching(self) -> None:
        """A broker was lost, and the session looks for another broker. Such a search has time limits of its own. If the
        whole end has one time limit, set `until` to it, so that the search does not take longer.
        """
        if not self._flow.ready and self._tries >= 0:
            self.until = self._last

    def found(self, now: float) -> None:
        """A broker was found. The time for answers begins again, unless too many brokers failed at DISCONNECT."""
        if self._limited or (self._flow.disconnect is not DisconnectState.NONE and self._tries >= 0):
            self.until = self._answered_by(now)

    def _answered_by(self, now: float) -> float:
        """Return the time until which a broker may answer. If one time limits the whole end, a broker gets half of the
        remaining time, so that other brokers can be tried.
        """
        if not self._limited:
            return now + self._listener.upstream.disconnect_timeout
        return (now + self._last) / 2 if self._tries > 0 else self._last

    @property
    def listening(self) -> bool:
        """Whether the client's connection is open, and the client waits for something."""
        return not self._client.gone and self._flow.disconnect is not DisconnectState.CONFIRMED

    @property
    def owing(self) -> bool:
        """Whether a client that sends no more may be owed an answer: it waits for CONNECTED or has sent frames."""
        return self.listening and (self._said or self._client.state is not LegState.CONNECTED)

    @property
    def _said(self) -> bool:
        """Whether the client has sent anything since CONNECTED."""
        asked, pending = self._flow.guard.asked, self._buffer.unread or self._client.decoder.buffered
        return bool(self._session.client_frames or pending or asked)

    @property
    def delivered(self) -> bool:
        """Whether nothing is left to be done: then call `conclude`. Either all is delivered and the client is gone, or
        no broker is there to confirm the relay's DISCONNECT.
        """
        flow, client = self._flow, self._client
        if self._buffer.unread or client.closed:
            return False
        if self.ending and (flow.disconnect is not DisconnectState.NONE or not client.gone):
            return flow.safe and not any(link.up for link in flow.links)
        return client.gone and (not flow.survives or (flow.ready and flow.safe))

    def half_closed(self, now: float) -> None:
        """The client sends no more, but may wait for answers. An LF tests whether it reads. Then call `finish`."""
        if self.ending:
            return
        self._client.heartbeat.reading = False
        self._outbox.send(self._client, BEAT, now)
        self._finish_within(now, steps=1 if self._flow.disconnect is DisconnectState.NONE else 2)
        self.finish_at = min(now + ECHO, self._finish_by)

    def _finish_within(self, now: float, *, steps: int) -> None:
        """The client half-closed its connection: treat it as gone after `steps` times `disconnect_timeout`."""
        self.finish_at = self._finish_by = now + steps * self._listener.upstream.disconnect_timeout

    def may_finish(self, now: float) -> bool:
        """Whether brokers may be sent DISCONNECT in the client's name, because the relay ends the session, or because
        the client half-closed and has not reset its connection. A half-closed client with subscriptions gets messages
        until its time is over.
        """
        client, flow = self._client, self._flow
        early = now < self.finish_at < self._finish_by
        if client.gone or not (self.ending or (self.finish_at < inf and not early)):
            return False
        if self._buffer.unread or client.state is not LegState.CONNECTED or not flow.flowing:
            return False
        subscribed = any(len(link.session.subscriptions) for link in flow.links)
        return self.ending is not None or now >= self._finish_by or not subscribed

    def finish(self, now: float) -> None:
        """Send DISCONNECT if it `may_finish`; the client is gone in the end. Raises as `Flow.to_broker` does."""
        if self.may_finish(now):
            self._answering = self.ending is None
            self._flow.finish(now)
        elif now >= self._finish_by:
            self.vanished(CLOSED, now)
        elif now >= self.finish_at:
            self.finish_at = self._finish_by

    def vanished(self, reason: str, now: float) -> None:
        """The client's connection ended. What the client sent is still delivered."""
        client, flow = self._client, self._flow
        if self.ending:
            client.gone = True
            return
        leaving = flow.disconnect is not DisconnectState.NONE and not self._answering
        self._answering = False
        self.finish_at = self._finish_by = inf
        if not leaving:
            self._session.counters["clients_vanished"] += 1
        early = client.state is LegState.CONNECTING and client.decoder.buffered
        if early or self._buffer.unread or (flow.survives and not flow.safe):
            self._outbox.put(vanished("client left; what it said is still delivered", delivering=True))
            client.gone = True
            self._limit(now)
            for link in flow.links:
                # An ACK that waits needs its subscription, and nothing may follow DISCONNECT.
                waits = self._buffer.unread or (not flow.coupled and flow.waits(link))
                there = link.up and link.connection.leg.state is LegState.CONNECTED
                if there and link.resender is not None and not waits:
                    link.resender.unsubscribe()
                    link.resender.flush(now)
                link.read_all()
            return
        text = f"client left: {reason}"
        self.close(How.FLUSH, ended(End.CLIENT, text, quiet=False) if leaving else vanished(text))

    def _limit(self, now: float) -> None:
        """Start the one `disconnect_timeout` for everything that remains to be done."""
        flow = self._flow
        self.expires = self.finish_at = self._finish_by = inf
        self._last = min(self.until, now + self._listener.upstream.disconnect_timeout)
        asked = flow.ready or any(link.leaving for link in flow.links)
        self.until = self._answered_by(now) if asked else self._last

    # The relay ends the session

    def end(self, why: Reason, now: float) -> None:
        """Begin to end the session for this reason, unless the client left. What the client sent is still delivered."""
        self.expires = inf
        if self._client.closed or self._client.gone or self._flow.disconnect is not DisconnectState.NONE:
            return
        if why.message:
            self._outbox.put(replace(self._noted(why), quiet=True))
        self._begin(why, now)

    def fail(
        self, leg: Leg, error: StompError, now: float, end: End | None = None, *, rest: bool = False
    ) -> None:
        """Begin to end the session with an ERROR. `leg`: the leg whose bytes are the cause. `end`: the side that ended
        the session, if no frame of `leg` did. `rest`: the bytes that were already read are still delivered.
        """
        client, flow = self._client, self._flow
        self._outbox.put(failed(leg.side.value, error, detail=end is not None))
        for link in flow.links:
            link.session.received(error.receipt)  # of the frame at fault, which no broker was sent
            # The broker's frames cannot be read any more, or the broker made an error while the session was ending.
            if link.state.leg is leg and (self.ending or not isinstance(error, Refused)):
                self.lose([link])
                link.end()
        stays = rest or end is End.CLIENT or client.state is not LegState.CONNECTED
        if not stays and (leg is not client or self.ending):
            self.lose(())  # the client is not told that it waits behind a frame at fault
        if leg is not client and not isinstance(error, Refused):
            error = not_stomp(error)
        if rest and self.ending:
            self.lost += 1  # the client is not told of this frame
        self._begin(_because(error, end or (End.RELAY if leg is client else End.BROKER)), now)
        if stays or client.state is not LegState.CONNECTED:
            return
        self._buffer.clear()
        if client.gone:
            client.enter(LegState.LEAVING)
            return
        try:
            flow.finish(now)
        except StompError as another:
            self._outbox.put(unheard(another))

    def _noted(self, why: Reason) -> Note:
        return failed(self._client.side.value, StompError(why.message, why.detail))

    def _begin(self, why: Reason, now: float) -> None:
        """Begin to end the session for this reason, unless it is ending. End it now if nothing can be delivered."""
        client, flow = self._client, self._flow
        if client.closed:
            return
        if not self.ending:
            self.ending = why
            client.heartbeat.reading = False
            if not client.gone:
                self._limit(now)
            flow.stop_messages()
            self._stay()
        if client.state is LegState.CONNECTING or not self._said or all(link.ended for link in flow.links):
            self.conclude()

    def conclude(self) -> None:
        """End the session now, even if not everything is confirmed. The client gets its ERROR, if there is one."""
        client, why = self._client, self.ending
        if why is None:
            how = How.FLUSH if client.gone else How.LINGER
            self.close(how, ended(End.CLIENT, "what the client said is delivered"))
            return
        if why.message and not (client.gone or client.closed):
            detail = why.detail
            if self.lost and LOST not in detail:
                detail = f"{detail}; {LOST}" if detail else LOST
            error = StompError(why.message, detail, quoted=why.quoted, receipt=why.receipt)
            self._session.counters["errors_sent"] += 1
            self._outbox.put(Send(client, complain(error, self._session.dialect)))
        self.close(How.FLUSH if client.gone else How.LINGER, ended(why.end, why.text))

    # The relay stops

    def stop_began(self) -> None:
        """Stop reading from the client. The session ends when it is `drained`, which may be now."""
        client, flow = self._client, self._flow
        if client.gone or flow.disconnect is not DisconnectState.NONE:
            return
        self.stopping = True
        self._buffer.stop()
        self._stay()

    def _stay(self) -> None:
        """Stop all moves, and read from all brokers."""
        for link in self._flow.links:
            link.stay()
            link.read_all()

    @property
    def drained(self) -> bool:
        """Whether the relay stops, and all SENDs that asked for receipts are confirmed: then call `end`."""
        if not self.stopping or self._limited or self._flow.disconnect is not DisconnectState.NONE:
            return False
        finished = not self._buffer.unread and self._flow.safe
        return finished or self._client.state is LegState.CONNECTING

    def cut(self, why: Reason) -> None:
        """End the session at once, for this reason if it is not ending yet. Count the SENDs that may be lost."""
        flow = self._flow
        if flow.settled and not self.ending:
            how = How.FLUSH if self._client.gone else How.LINGER
            self.close(how, ended(End.CLIENT, "the client sent DISCONNECT"))
            return
        self.lose(flow.links)
        if self.ending is None:
            self.ending = why._replace(receipt=flow.disconnect_receipt)
            self._outbox.put(replace(self._noted(why), quiet=True))
        self.conclude()

    def lose(self, links: Iterable[Link]) -> int:
        """Count the SENDs that may be lost because the session ends with these links, and return how many they are."""
        lost = sum(map(self._flow.write_off, links)) + self._unsent()
        self._session.counters["possibly_lost"] += lost
        self.lost += lost
        return lost

    def ended_with(self, link: Link, reason: str, *, clean: bool) -> None:
        """End the session with its broker. If the broker closed `clean` and all was settled, no SENDs are lost."""
        flow = self._flow
        if self.ending or not (clean and flow.settled):
            self.lose([link])
        if self.ending:
            self.conclude()
        else:
            what = ended_with(link.broker, link.upstream, reason, settled=flow.settled)
            self.close(How.LINGER, what)

    # When time is over

    def unanswered(self) -> list[Link]:
        """Return the links whose silent brokers are treated as lost now. If the list is empty, call `overdue`."""
        flow = self._flow
        sent = flow.disconnect is DisconnectState.SENT
        # If a broker sent an ERROR without a receipt for a frame, no other broker will confirm this frame either.
        impatient = (self._listener.upstream.confirm and not flow.erred) or self._limited or sent
        if flow.settled or self._tries <= 0 or not impatient:
            return []
        self._tried += 1
        return self._replaceable

    @property
    def _replaceable(self) -> list[Link]:
        """The links whose brokers still owe an answer and can be replaced."""
        return [link for link in self._flow.unanswered() if link.upstream.movable]

    def answered_by_closing(self, link: Link) -> bool:
        """A broker closed its connection. Return True if this was the last broker that could answer DISCONNECT. Then
        call `overdue`. Otherwise other brokers are tried in the remaining time.
        """
        flow = self._flow
        waiting = self._replaceable if flow.disconnect is DisconnectState.SENT and link.up else []
        if link not in waiting or self._client.gone or flow.over(link):
            return False
        self._tried += 1
        return self._tries < 0 and len(waiting) == 1

    def overdue(self, now: float, what: str = "did not confirm DISCONNECT in time") -> None:
        """End the overdue step: send the waiting DISCONNECT, wait for the rest of the time, or close the session.
        `what`: what brokers failed to do, as text for the log.
        """
        flow, upstream, counters = self._flow, self._listener.upstream, self._session.counters
        gone, within = self._client.gone, now < self._last
        if flow.disconnect is DisconnectState.WAITING and flow.ready and flow.flowing and not gone and within:
            flow.send_disconnect(now)
            self.disconnecting(now)
            return
        if flow.settled and not self.ending:
            self.close(How.LINGER, ended(End.CLIENT, "the client sent DISCONNECT"))
            return
        if self._limited and within:  # there is no other broker to ask in the second half of the time
            self.until = self._last
            return
        counters["brokers_lost"] += sum(link.up for link in flow.unanswered())
        missing = self.lose(flow.links)
        counters["clients_undelivered"] += gone
        if self._limited:
            what = "did not confirm all that was said"
        # A broker that was being left was reported before, and the session does not have it any more.
        owing = [(None if link.leaving else link.broker, link.group, link.upstream) for link in flow.links]
        self._outbox.put(*unconfirmed(owing, upstream, what, missing))
        if not self.ending:
            error = broker_lost(upstream, flow.disconnect_receipt)
            self._outbox.put(failed(self._client.side.value, error, detail=True))
            self.ending = _because(error, End.BROKER)
        self.conclude()

    def _unsent(self) -> int:
        """Return how many SENDs of the client were received, but not carried; or were, and their COMMIT was not."""
        client, count = self._client, 0
        if client.state is LegState.CONNECTING and client.gone:
            client.enter(LegState.CONNECTED)
        if client.state is not LegState.CONNECTED:
            return 0
        with suppress(StompError):  # frames after an error would have been refused
            while True:
                for frame in client.decoder.frames():
                    count += frame.command is SEND
                    if frame.command is COMMIT:
                        name = frame.header(TRANSACTION, client.dialect) or b""
                        opened = [link.session.transactions.get(name) for link in self._flow.links]
                        count += max([0, *[len(each.frames) - 1 for each in opened if each]])
                if not self._buffer.cost:
                    break
                client.decoder.feed(self._buffer.take())
        return count

    # Ends

    def close(self, how: How, note: Note) -> None:
        """Close all legs, the client's with `how`. Brokers get a DISCONNECT if they were sent none, because Artemis
        may otherwise keep a message until its restart. Count what brokers lack. `note` reports the end of the session;
        only the first call uses it.
        """
        self.until = self.finish_at = self.expires = self._last = inf
        self._buffer.clear()
        if not self._client.closed:
            self.lose(self._flow.lacking)
            if self._answering and not self.ending and note.facts.get("end") == End.CLIENT.value:
                self._session.counters["clients_vanished"] += 1
                note = vanished("client left, and has its answers")
            self._client.enter(LegState.CLOSED)
            self._outbox.put(with_loss(note, self.lost), Close(self._client, how))
        for link in self._flow.links:
            if type(link.state) is Connected:
                leg = link.state.leg
                if leg.state is LegState.CONNECTED and not leg.gone:
                    self._outbox.put(Send(leg, DISCONNECTING))
            link.end()
        self._outbox.put(Wake(inf))
