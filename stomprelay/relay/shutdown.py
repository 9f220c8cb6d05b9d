"""How a connection is closed: what its client is told, and how long what is still to be done may take."""

from math import inf

from stomprelay.relay.effects import Effect
from stomprelay.relay.flow import DisconnectState, Flow, InputBuffer
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.notes import End, ended, failed, unconfirmed, vanished
from stomprelay.session.complaint import complain, not_stomp
from stomprelay.session.effects import Close, How, Note, Send, Wake
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import State
from stomprelay.wire.errors import Refused, StompError


class Shutdown:
    """The end of a session, from the first sign of it on.

    `until` is when the step that is under way must be done; then call `overdue`. `gone` tells that the client is no
    more and only what it said is still to be delivered.
    """

    __slots__ = ("_client", "_flow", "_hold", "_listener", "_session", "_tries", "gone", "until")

    def __init__(
        self, client: Leg, listener: Listener, session: Session, flow: Flow, hold: InputBuffer
    ) -> None:
        self._client = client
        self._listener = listener
        self._session = session
        self._flow = flow
        self._hold = hold
        self.until = inf
        self.gone = False
        self._tries = len(listener.upstream.brokers)

    def disconnect(self, now: float) -> None:
        """The client's disconnect came a step further; each step has its time."""
        done = self._flow.disconnect is DisconnectState.CONFIRMED
        self._client.heartbeat.paused()  # it has said all it will say
        self.until = now + (self._listener.linger if done else self._listener.upstream.disconnect_timeout)
        for link in self._flow.links:
            link.stay()

    def searching(self) -> None:
        """A broker was lost. Where there are too few now they are sought, which has a time of its own."""
        if not self._flow.ready:
            self.until = inf

    def found(self, now: float) -> None:
        """A broker was found: what was under way goes on, and has its time again."""
        if self.gone or self._flow.disconnect is not DisconnectState.UNSAID:
            self.until = now + self._listener.upstream.disconnect_timeout

    @property
    def listening(self) -> bool:
        """Whether the client is there, and waits for something."""
        return not self.gone and self._flow.disconnect is not DisconnectState.CONFIRMED

    @property
    def delivered(self) -> bool:
        """Whether the client is gone and nothing is left to be done for it."""
        flow = self._flow
        return self.gone and not self._hold and (not flow.survives or (flow.ready and flow.safe))

    def vanished(self, reason: str, now: float) -> list[Effect]:
        """The client went. What it said is still delivered, as a broker would do that had it in its buffers."""
        client, flow = self._client, self._flow
        leaving = flow.disconnect is not DisconnectState.UNSAID
        if not leaving:
            self._session.counters["clients_vanished"] += 1
        unread = client.state is State.BINDING and client.decoder.buffered
        if unread or self._hold or (flow.survives and not flow.safe):
            self.gone = flow.deaf = True
            text = "client left; what it said is still delivered"
            effects: list[Effect] = [vanished(text, delivering=True)]
            for link in flow.links:
                if link.up and link.resender is not None:
                    link.resender.unsubscribe()
                    link.resender.flush(effects, now)
            if flow.ready:
                self.until = min(self.until, now + self._listener.upstream.disconnect_timeout)
            return effects
        text = f"client left: {reason}"
        note = ended(End.CLIENT, text, quiet=False) if leaving else vanished(text)
        return self.closed(How.FLUSH, note)

    def unanswered(self) -> list[Link]:
        """What had to happen by now did not, because these have brokers that do not answer: take them for lost. None
        where there is no other broker, or all of them were tried; then say `overdue`.
        """
        flow = self._flow
        impatient = self._listener.upstream.confirm or self.gone or flow.disconnect is DisconnectState.SAID
        if flow.settled or not self._tries or not impatient:
            return []
        self._tries -= 1
        return flow.unanswered()

    def overdue(self, now: float) -> list[Effect]:
        """What had to happen by now did not."""
        flow, upstream, counters = self._flow, self._listener.upstream, self._session.counters
        if flow.disconnect is DisconnectState.WAITING and flow.ready and not self.gone:
            effects: list[Effect] = []
            flow.send_disconnect(effects, now)
            self.disconnect(now)
            return effects
        if flow.settled:
            return self.closed(How.LINGER, ended(End.CLIENT, "client said goodbye"))
        counters["brokers_lost"] += 1
        counters["possibly_lost"] += sum(link.uncertain for link in flow.links)
        what = "did not confirm all that was said" if self.gone else "did not confirm DISCONNECT in time"
        owing = [(link.broker, link.group, link.upstream) for link in flow.links]
        error = StompError(
            "connection to the broker was lost", f"upstream {upstream.name}", receipt=flow.disconnect_receipt
        )
        return [*unconfirmed(owing, upstream, what), *self.failed(self._client, error, End.BROKER)]

    def failed(self, leg: Leg, error: StompError, end: End | None = None) -> list[Effect]:
        """The session ends in an ERROR to the client; `leg` is whose octets are to blame. `end` says whose doing it
        is, if it is neither the broker's that sent these nor the relay's that cannot go on with the client's.
        """
        effects: list[Effect] = [failed(leg.side.value, error)]
        end = end or (End.RELAY if leg is self._client else End.BROKER)
        note = ended(end, f"the session ended in an ERROR: {error.message}")
        if leg is not self._client and not isinstance(error, Refused):
            error = not_stomp(error)
        if self.gone:
            return [*effects, *self.closed(How.FLUSH, note)]
        self._session.counters["errors_sent"] += 1
        effects.append(Send(self._client, complain(error, self._session.dialect)))
        return [*effects, *self.closed(How.LINGER, note)]

    def closed(self, how: How, note: Note) -> list[Effect]:
        """All legs end, the client's in this way; nothing is due any more. `note` tells of the session's end, of
        which there is but one.
        """
        effects: list[Effect] = []
        if not self._client.closed:
            self._client.enter(State.CLOSED)
            effects += [note, Close(self._client, how)]
        for link in self._flow.links:
            link.end(effects)
        self.until = inf
        self._hold.clear()
        return [*effects, Wake(inf)]
