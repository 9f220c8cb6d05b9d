"""A probe is a short session of the relay's own with a broker. It sends CONNECT, a SEND with a receipt if a destination
is configured, and DISCONNECT. A broker counts as alive even if it refuses the probe's credentials, or refuses the probe
because it has no credentials.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final

from stomprelay.relay.bridge import asked, credentials, profile
from stomprelay.relay.effects import Effect, Open, Outbox, words
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.effects import Close, Event, Fact, How, Note, Send, Wake
from stomprelay.session.handshake import Accord, Offer
from stomprelay.session.leg import NO_BEATS, Leg, LegState, Side
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import (
    CONNECTED,
    DESTINATION,
    DISCONNECT,
    ERROR,
    RECEIPT,
    RECEIPT_HEADER,
    RECEIPT_ID,
    SEND,
)

_OFFER: Final = Offer([], frozenset(), None)
_ASKED: Final = b"probe"


@dataclass(slots=True, eq=False, repr=False)
class Probe:
    """One probe of one broker. The inputs get `now`; each returns the effects to perform.

    Call `begin`, then the method for each event on `leg`, until `well` is True or False. The broker's health is then
    updated. `denied`: the broker refused the relay's credentials. `told`: this was logged before.
    """

    _upstream: Upstream
    _broker: Broker
    _chance: Callable[[], float]
    told: bool = False
    well: bool | None = None
    denied: bool = False
    leg: Leg = field(init=False)
    _outbox: Outbox = field(default_factory=Outbox)
    _until: float = inf

    def __post_init__(self) -> None:
        self.leg = Leg(Side.UPSTREAM, self._upstream.limits)

    # Inputs

    def begin(self, now: float) -> list[Effect]:
        """Ask for a connection. Until there is a result, sessions do not try a broker that is just out of its pause."""
        self._broker.health.trial(now)
        self._broker.health.doubted = False
        self._until = now + self._upstream.connect_timeout
        self._outbox.put(Open(self.leg, self._broker), Wake(self._until))
        return self._outbox.drain()

    def connected(self, now: float) -> list[Effect]:
        """The connection is established: send CONNECT."""
        if self.leg.closed:
            self._outbox.put(Close(self.leg, How.ABORT))
        else:
            upstream, broker = self._upstream, self._broker
            connect = _OFFER.connect(
                asked(upstream, broker, V1_2),
                NO_BEATS,
                host=upstream.host,
                credentials=credentials(upstream, broker),
            )
            self._outbox.put(Send(self.leg, connect))
        return self._outbox.drain()

    def refused(self, reason: str, now: float) -> list[Effect]:
        """The connection failed, for this reason."""
        self._fail(f"it did not connect: {reason}", now)
        return self._outbox.drain()

    def received(self, data: bytes, now: float) -> list[Effect]:
        """The broker sent bytes."""
        if not self.leg.closed:
            try:
                self.leg.decoder.feed(data)
                for frame in self.leg.decoder.frames():
                    self._receive(frame, now)
                    if self.well is not None:
                        break
            except StompError as error:
                self._fail(f"it sent what is not STOMP: {error.message}", now)
        return self._outbox.drain()

    def lost(self, reason: str, now: float) -> list[Effect]:
        """The connection ended. This does not count against the broker if it ended before CONNECTED, the relay has no
        credentials for the broker, and the broker serves sessions.
        """
        unknown = self._upstream.credentials is None and self.leg.state is LegState.OPENING
        if unknown and self._broker.health.sessions:
            self.well = False
            self._close(How.FLUSH)
        else:
            self._fail(f"it closed the connection: {reason}", now)
        return self._outbox.drain()

    def woke(self, now: float) -> list[Effect]:
        """The time of the last `Wake` has come."""
        if now < self._until:
            self._outbox.put(Wake(self._until))
        else:
            missing = "CONNECTED" if self.leg.state is LegState.OPENING else "RECEIPT"
            self._fail(f"no {missing} in time", now, How.ABORT)
        return self._outbox.drain()

    def stopped(self) -> list[Effect]:
        """End the probe without a result: the service stops."""
        if not self.leg.closed:
            self._close(How.ABORT)
        return self._outbox.drain()

    # The conversation

    def _receive(self, frame: Frame, now: float) -> None:
        if frame.command is CONNECTED:
            self._accept(Accord.read(frame))
        elif self.leg.state is LegState.OPENING:
            self._deny(frame, now)
        elif frame.command is ERROR:
            self._fail(f"it refused a message: {words(frame, self.leg.dialect)}", now)
        elif frame.command is RECEIPT and frame.header(RECEIPT_ID, self.leg.dialect) == _ASKED:
            self._succeed()

    def _accept(self, accord: Accord) -> None:
        product = profile(self._upstream, self._broker, accord, _OFFER)
        self.leg.enter(LegState.CONNECTED, product.dialects[accord.dialect.version])
        destination = self._upstream.checks.destination
        if destination is None:
            self._succeed()
            return
        place, spoken = destination.encode(), self._upstream.map.at(product.name)
        added = (
            () if spoken is None else spoken.added(SEND, place)
        )  # without them Artemis drops what nobody reads
        head = self.leg.dialect.write([*added, (DESTINATION, place), (RECEIPT_HEADER, _ASKED)])
        self._outbox.put(Send(self.leg, b"%b\n%b\n\0" % (SEND, head)))

    def _deny(self, frame: Frame, now: float) -> None:
        """Read an ERROR in place of CONNECTED. The broker counts as down only if the ERROR's words show this."""
        if self._upstream.profile.unavailable(frame):
            self._fail("it answered CONNECT with an ERROR: unavailable", now)
            return
        self.denied = self._upstream.credentials is not None
        self._succeed()
        if self.denied and not self.told:
            text = f"broker {self._broker} answered the CONNECT of a probe with ERROR: are our credentials right?"
            self._outbox.put(Note(Event.REFUSED, text, self._facts()))

    # Outcomes

    def _succeed(self) -> None:
        health = self._broker.health
        if health.up is False and not health.paused:
            text = f"broker {self._broker} is up again"
            self._outbox.put(Note(Event.CONNECTED, text, self._facts()))
        if self.leg.state is LegState.CONNECTED:
            self._outbox.put(Send(self.leg, b"%b\n\n\0" % DISCONNECT))
        self.well = True
        health.answered()
        self._close(How.FLUSH)

    def _fail(self, reason: str, now: float, how: How = How.FLUSH) -> None:
        if self.leg.closed:
            return
        health = self._broker.health
        if health.up is not False and not health.paused:
            facts = self._facts() | {"reason": reason}
            self._outbox.put(Note(Event.LOST, f"broker {self._broker} is down: {reason}", facts))
        self.well = False
        self._broker.versions = None  # when it comes back it may be another one
        health.failed(self._upstream.checks, now, self._chance)
        self._close(how)

    def _facts(self) -> dict[str, Fact]:
        return {"broker": str(self._broker), "upstream": self._upstream.name}

    def _close(self, how: How) -> None:
        self.leg.enter(LegState.CLOSED)
        self._until = inf
        self._outbox.put(Close(self.leg, how), Wake(inf))
