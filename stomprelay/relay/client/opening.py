"""A client before its session starts: its CONNECT is read, and its identity is found out. Every refused client gets
the same ERROR after the same time, a multiple of `REFUSAL` seconds.
"""

from collections.abc import Callable
from dataclasses import InitVar, dataclass
from math import ceil, inf
from typing import Any, ClassVar, Final, NamedTuple

from stomprelay.relay import inputs
from stomprelay.relay.bridge import Tracer
from stomprelay.relay.client.turns import Flow
from stomprelay.relay.counting import DestinationCounter
from stomprelay.relay.effects import (
    CROWDED,
    REFUSED,
    STOPPING,
    End,
    Identify,
    Outbox,
    Reason,
    ended,
    failed,
    turned_away,
    vanished,
)
from stomprelay.relay.fanout.fanout import Fanout
from stomprelay.relay.guard import Guard
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.move import Phase
from stomprelay.relay.model.rules import ANYBODY, Claim, Ground, Identity, Refusal
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.single import Single
from stomprelay.session.effects import Close, Event, How, Note, Pause, Send, Wake
from stomprelay.session.handshake import Offer, read_opening, spell_versions
from stomprelay.session.leg import Leg, LegState
from stomprelay.session.reasons import CLOSED
from stomprelay.session.refusal import Foreign, complain
from stomprelay.session.session import Session
from stomprelay.wire.dialect import V1_0, Dialect
from stomprelay.wire.errors import StompError
from stomprelay.wire.names import LOGIN, PASSCODE

REFUSAL: Final = 1.0
"""Seconds from CONNECT to the ERROR for a refused client. It is longer than it takes to compare a passcode."""
_SLOW: Final = Refusal(Ground.UNCHECKED, "it could not be found out in time who it is")


def turn_away(
    refusal: Refusal, counters: dict[str, int], outbox: Outbox, note: Callable[[Refusal], Note] = turned_away
) -> None:
    """Count and report the refusal of a client, or of a client's new token."""
    counters["logins_unchecked" if refusal.ground is Ground.UNCHECKED else "logins_failed"] += 1
    outbox.put(note(refusal))


class Let(NamedTuple):
    """The result of `Opening`: the client's session may start, with its offer in CONNECT, its dialect and identity."""

    offer: Offer
    dialect: Dialect
    identity: Identity


@dataclass(slots=True, eq=False, repr=False)
class Opening:
    """A client's connection, from its beginning until its session starts or the connection is closed. `until`: when
    CONNECT must have come. `deadline`: when `Woke` is due.

    After a `Let`, call nothing more. `left`: why the connection ended while the client's identity was found out.
    `half_closed`: the client sends no more. `paused`: the client is not read from, because it sent more than CONNECT.
    """

    _client: Leg
    _listener: Listener
    _counters: Counters
    _outbox: Outbox
    now: InitVar[float]
    until: float = inf
    left: str | None = None
    half_closed: bool = False
    paused: bool = False
    _offered: tuple[Offer, Dialect] | None = None
    _asked_at: float = inf
    _refuse_at: float = inf

    def __post_init__(self, now: float) -> None:
        self.until = now + self._listener.connect_timeout

    @property
    def deadline(self) -> float:
        """When `Woke` must be reported next, in seconds."""
        return min(self.until, self._refuse_at)

    @property
    def _asking(self) -> bool:
        """Whether the service is still finding out who the client is."""
        return self._offered is not None and self._refuse_at == inf

    def received(self, data: bytes, now: float) -> Let | None:
        """Read bytes of the client. Return a `Let` if the session may start now. After a `StompError` call `fail`."""
        client, listener = self._client, self._listener
        self._counters["client_bytes"] += len(data)
        client.heartbeat.received_at = now
        if self._offered is not None:
            client.decoder.feed(data)
            if not self.paused:
                self.paused = True
                self._outbox.put(Pause(client))
            return None
        offer = read_opening(client.decoder, data, listener.before_connect)
        if offer is None:
            return None
        if isinstance(offer, Foreign):
            self._counters["foreign"] += 1
            self._outbox.put(Note(Event.FOREIGN, offer.what))
            if offer.answer:
                self._outbox.put(Send(client, offer.answer))
            self._close(How.LINGER)
            return None
        dialect = offer.agree(listener.versions)
        if listener.auth is None:
            return Let(offer, dialect, ANYBODY)
        self._offered = offer, dialect
        self._asked_at = now
        claim = Claim(offer.first(LOGIN), offer.first(PASSCODE))
        self._outbox.put(Identify(client, claim))
        return None

    def identified(self, identity: Identity) -> Let | None:
        """The client is identified. Return a `Let`; None if the client has gone in the meantime."""
        if not self._asking or self._offered is None:
            return None
        offer, dialect = self._offered
        return Let(offer.with_credentials(identity.credentials), dialect, identity)

    def _unwanted(self, event: inputs.Unwanted, now: float) -> None:
        if self._asking:
            self.fail(event.error)

    def _unknown(self, event: inputs.Unknown, now: float) -> None:
        """The client is not identified. The client will get an ERROR, at a time that does not show the reason."""
        if self._asking:
            self._refuse(event.refusal, now)

    def _refuse(self, refusal: Refusal, now: float) -> None:
        turn_away(refusal, self._counters, self._outbox)
        if self.left is not None:
            self._vanish(self.left)
            return
        self.until = inf
        steps = max(1, ceil((now - self._asked_at) / REFUSAL))
        self._refuse_at = self._asked_at + steps * REFUSAL
        self._outbox.put(Wake(self._refuse_at))

    def _lost(self, event: inputs.Lost, now: float) -> None:
        """The client's connection ended. If the client's identity is still being found out, the session may start to
        deliver what the client sent after CONNECT.
        """
        if self._asking and self._client.decoder.buffered:
            self.left = event.reason
        else:
            self._vanish(event.reason)

    def _half_closed(self, event: inputs.HalfClosed, now: float) -> None:
        """The client half-closed its connection. If it sent no CONNECT, it counts as gone. Otherwise it is answered at
        the usual time, so that the time does not show the reason.
        """
        if self._client.closed:
            return
        if self._offered is not None:
            self.half_closed = True
        else:
            self._vanish(CLOSED)

    def _paused(self, event: inputs.Paused, now: float) -> None:
        event.leg.heartbeat.reading = False

    def _resumed(self, event: inputs.Resumed, now: float) -> None:
        event.leg.heartbeat.resumed(now)
        self._outbox.put(Wake(self.deadline))

    def _woke(self, event: inputs.Woke, now: float) -> None:
        if self._client.closed:
            return
        if now < self.deadline:
            self._outbox.put(Wake(self.deadline))
        elif self._asking:
            self._refuse(_SLOW, now)
        elif self._offered is not None:
            self.fail(StompError(REFUSED.message, REFUSED.detail), noted=True)
        else:
            limit = f"the limit is {self._listener.connect_timeout:g} s"
            self.fail(StompError("no CONNECT in time", limit))

    def _stopped(self, event: inputs.StopBegan | inputs.Stopped, now: float) -> None:
        self._end(STOPPING)

    def _killed(self, event: inputs.Killed, now: float) -> None:
        self._counters["sessions_crowded"] += event.why is CROWDED and not self._client.closed
        self._end(event.why)

    def _end(self, why: Reason) -> None:
        if not self._client.closed:
            self.fail(StompError(why.message, why.detail))

    def fail(self, error: StompError, *, noted: bool = False) -> None:
        """Send the client an ERROR and close the connection. `noted`: the reason was already logged."""
        client = self._client
        if self.left is not None:
            self._vanish(self.left)
            return
        self._counters["errors_sent"] += 1
        if not noted:
            self._outbox.put(failed(client.side.value, error))
        self._outbox.put(
            Send(client, complain(error, V1_0, spell_versions(self._listener.versions))),
            ended(End.RELAY, "there was no session"),
        )
        self._close(How.LINGER)

    def _vanish(self, reason: str) -> None:
        self._counters["clients_vanished"] += 1
        self._outbox.put(vanished(f"client left: {reason}"))
        self._close(How.FLUSH)

    def _close(self, how: How) -> None:
        self._client.enter(LegState.CLOSED)
        self._offered = None
        self.until = self._refuse_at = inf
        self._outbox.put(Close(self._client, how), Wake(inf))

    inputs: ClassVar[dict[type[Any], Callable[[Any, Any, float], None]]] = {
        inputs.Lost: _lost,
        inputs.HalfClosed: _half_closed,
        inputs.Paused: _paused,
        inputs.Resumed: _resumed,
        inputs.Woke: _woke,
        inputs.Unwanted: _unwanted,
        inputs.Unknown: _unknown,
        inputs.StopBegan: _stopped,
        inputs.Stopped: _stopped,
        inputs.Killed: _killed,
    }
    """What `Opening` does for each input."""


def join(
    client: Leg,
    listener: Listener,
    offer: Offer,
    session: Session,
    outbox: Outbox,
    chance: Callable[[], float],
    guard: Guard,
    counter: DestinationCounter | None = None,
) -> Flow:
    """Return the flow from this client to the listener's upstream and routes. Next, let its links `seek` brokers. If
    all moves are off, a flow with one link may be enough for now: see `spread`.
    """
    upstream = listener.upstream
    off = upstream.movable and all(each.move and each.move.phase is Phase.OFF for each in listener.routes)
    if len(upstream.groups) == 1 and (off or not listener.routes):
        only = Link(listener, upstream, upstream.groups[0], offer, session, outbox, chance)
        return Single(client, only, outbox, guard, Tracer(session.name) if listener.trace else None, counter)
    sessions = [session]

    def links(needed: Upstream) -> list[Link]:
        """Return a link for each group. The first has the client's session, each other link a session `beside` it."""
        found = []
        for group in needed.groups:
            own = sessions.pop() if sessions else session.beside()
            found.append(Link(listener, needed, group, offer, own, outbox, chance, resends=True))
        return found

    return Fanout(client, listener, session, outbox, links, guard, counter)


def spread(
    single: Single, client: Leg, listener: Listener, outbox: Outbox, chance: Callable[[], float]
) -> Fanout:
    """Return a flow with several links that takes the place of this one, which is `parting`. `listener` has moves, and
    the group of the link.
    """
    (link,) = single.links
    session, found = link.session, [link]

    def links(needed: Upstream) -> list[Link]:
        """Return the link that is there; for another upstream a new one."""
        if found:
            return [found.pop()]
        offer = link.offered
        return [
            Link(listener, needed, group, offer, session.beside(), outbox, chance, resends=True)
            for group in needed.groups
        ]

    fanout = Fanout(client, listener, session, outbox, links, single.guard, single.counter)
    fanout.opened()  # the link has its broker
    fanout.take_over(single.tracer)
    return fanout
