"""From a client's CONNECT to a broker's CONNECTED."""

from typing import NamedTuple

from stomprelay.relay.bridge.negotiation import Bridges, asked, credentials, pair, profile
from stomprelay.relay.effects import Effect, Open
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.profile import Profile
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.effects import Event, Note
from stomprelay.session.handshake import Accord, Offer, spell_versions, versions
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import Side, State
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import VERSION


class Accepted(NamedTuple):
    """A broker accepted the session: its bridges, what it agreed to, what it is, and a line for the log."""

    bridges: Bridges
    accord: Accord
    product: Profile
    note: str


class Handshake:
    """One session asking one broker: what was offered, what was asked, and on which leg. `tracked`: the session keeps
    account of its deliveries whatever the versions.

    Perform what `opened` answers; when the connection is there send `connect()`; give the first frame that comes
    back to `accepted` or, where it is an ERROR, to `retried`.
    """

    __slots__ = (
        "_asked",
        "_loss",
        "_offer",
        "_session",
        "_traced",
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
        *,
        tracked: bool = False,
    ) -> None:
        self._tracked = tracked
        self.broker = broker
        self._upstream = upstream
        self._loss = listener.loss
        self._traced = listener.trace
        self._offer = offer
        self._session = session
        self._asked = asked(upstream, broker, session.dialect)
        self._tried = self._asked
        self.leg = Leg(Side.UPSTREAM, upstream.limits)

    def opened(self) -> list[Effect]:
        """The broker's connection is asked for; its CONNECTED has to come in time."""
        return [Open(self.leg, self.broker)]

    def connect(self) -> bytes:
        """The CONNECT frame for the broker."""
        upstream = self._upstream
        return self._offer.connect(
            self._asked,
            upstream.heart_beat,
            host=upstream.host,
            credentials=credentials(upstream, self.broker),
        )

    def accepted(self, frame: Frame, now: float) -> Accepted:
        """CONNECTED came: the broker's leg speaks from here on, with beats of its own.

        Raises `ProtocolError` when the broker settled on a version that is not known.
        """
        upstream = self._upstream
        accord = Accord.read(frame)
        product = profile(upstream, self.broker, accord)
        dialect = self._session.dialect
        bridges = pair(
            dialect.version,
            accord.dialect.version,
            product.name,
            self._loss,
            tracked=self._tracked,
            traced=self._traced,
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

    def retried(self, frame: Frame) -> Note | None:
        """ERROR came instead. Where it says that the broker speaks other versions, they are remembered and this
        handshake has a new leg to open; otherwise None, and the ERROR is the client's.
        """
        upstream = self._upstream
        spoken = versions(frame.raw(VERSION) or b"") & DIALECTS.keys()
        # RabbitMQ names its versions in every ERROR: only ones that were not asked for tell anything.
        if not spoken or spoken & self._tried or upstream.versions is not None:
            return None
        self.broker.versions = self._asked = spoken
        self._tried |= spoken
        self.leg.enter(State.CLOSED)
        self.leg = Leg(Side.UPSTREAM, upstream.limits)
        only = spell_versions(spoken).decode()
        facts = {"broker": str(self.broker), "upstream": upstream.name, "versions": only}
        return Note(Event.RETRIED, f"broker {self.broker} speaks {only} only", facts)
