"""From a client's CONNECT to a broker's CONNECTED."""

from typing import NamedTuple

from stomprelay.relay.bridge.negotiation import (
    Bridges,
    asked,
    bridges_between,
    client_address,
    credentials,
    profile,
)
from stomprelay.relay.effects import Open, Outbox
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.profile import Profile
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.notes import found
from stomprelay.session.effects import Close, Event, How, Note
from stomprelay.session.handshake import Accord, Offer, spell_versions, versions
from stomprelay.session.leg import Leg, Side, State
from stomprelay.session.session import Session
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import VERSION


class Accepted(NamedTuple):
    """A broker accepted the session: the bridges to it, what it agreed to, which product it is, a line for the log."""

    bridges: Bridges
    accord: Accord
    product: Profile
    text: str

    def note(self, broker: Broker, before: Broker | None, upstream: Upstream, resent: int) -> Note:
        """Return the note of this broker, which was found after the one `before`, and sent so many frames again."""
        version = self.accord.dialect.version
        return found(self.text, broker, before, upstream, version, self.product, resent)


class Handshake:
    """A session asks one broker. `tracked`: the session keeps account of its deliveries whatever the versions.

    Send the bytes of `connect` when the connection is there. Give the first frame to `accepted`, or an ERROR to
    `retry`.
    """

    __slots__ = (
        "_asked",
        "_loss",
        "_offer",
        "_outbox",
        "_retried",
        "_session",
        "_tracked",
        "_tried",
        "_upstream",
        "broker",
        "leg",
    )

    def __init__(
        self,
        listener: Listener,
        upstream: Upstream,
        broker: Broker,
        offer: Offer,
        session: Session,
        outbox: Outbox,
        *,
        tracked: bool = False,
    ) -> None:
        self._tracked = tracked
        self.broker = broker
        self._upstream = upstream
        self._loss = listener.loss
        self._offer = offer
        self._session = session
        self._outbox = outbox
        self._asked = asked(upstream, broker, session.dialect)
        self._tried = self._asked
        self._retried = False
        self.leg = Leg(Side.UPSTREAM, upstream.limits)

    def open(self) -> None:
        """Ask for the broker's connection."""
        self._outbox.put(Open(self.leg, self.broker))

    def connect(self, address: str | None) -> bytes:
        """Return the CONNECT frame for the broker; `address` is the client's, None where that is unknown."""
        upstream = self._upstream
        return self._offer.connect(
            self._asked,
            upstream.heart_beat,
            host=upstream.host,
            credentials=credentials(upstream, self.broker, self._offer.credentials),
            added=client_address(upstream, self.broker, address),
        )

    def accepted(self, frame: Frame, now: float) -> Accepted:
        """Connect the leg, and return what CONNECTED settled. Raises `ProtocolError` for an unknown version."""
        upstream = self._upstream
        accord = Accord.read(frame)
        product = profile(upstream, self.broker, accord, self._offer)
        if self._retried:
            self.broker.speaks(self._asked)
        dialect = self._session.dialect
        bridges = bridges_between(
            dialect.version,
            accord.dialect.version,
            product.name,
            self._loss,
            tracked=self._tracked,
            parting=product.parts_silently and self.broker.path is not None,
        )
        self.leg.enter(State.CONNECTED, bridges.broker)
        self.leg.heartbeat.agree(
            self._offer.terms_toward(self._asked, upstream.heart_beat),
            accord.terms,
            now,
        )
        if upstream.keep_alive and not accord.dialect.heart_beats:
            self.leg.heartbeat.keep_alive(upstream.keep_alive, now)
        pair_of_versions = f"STOMP {dialect.version.decode()} to {accord.dialect.version.decode()}"
        return Accepted(bridges, accord, product, f"{pair_of_versions}, {product.name} at {self.broker}")

    def retry(self, frame: Frame) -> bool:
        """Read an ERROR that came instead of CONNECTED. Return whether it names other versions of the broker: then the
        leg is closed, and a new one is to be opened. Otherwise the ERROR is for the client. The versions are remembered
        once CONNECTED names one: ActiveMQ does not escape an ERROR, so its `version` may be the client's text.
        """
        upstream = self._upstream
        spoken = versions(frame.raw(VERSION) or b"") & frozenset(DIALECTS)
        # RabbitMQ names its versions in every ERROR: only ones that were not asked for tell anything.
        if not spoken or spoken & self._tried or upstream.versions is not None:
            return False
        self._asked = spoken
        self._retried = True
        self._tried |= spoken
        only = spell_versions(spoken).decode()
        facts = {"broker": str(self.broker), "upstream": upstream.name, "versions": only}
        old, self.leg = self.leg, Leg(Side.UPSTREAM, upstream.limits)
        old.enter(State.CLOSED)
        self._outbox.put(
            Note(Event.RETRIED, f"broker {self.broker} speaks {only} only", facts), Close(old, How.FLUSH)
        )
        return True
