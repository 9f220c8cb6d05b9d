"""From a client's CONNECT to a broker's CONNECTED."""

from typing import NamedTuple

from stomprelay.relay.effects import Effect, Open
from stomprelay.relay.listener import Listener
from stomprelay.relay.pairing import Pairing, asked, credentials, pair, profile
from stomprelay.session.effects import Event, Note, Wake
from stomprelay.session.handshake import Accord, Offer, spell_versions, versions
from stomprelay.session.heartbeat import Terms
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import Side, State
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import VERSION


class Bound(NamedTuple):
    """A broker accepted the session: its bridges, what the client is answered, and a line for the log."""

    pairing: Pairing
    connected: bytes
    note: str


class Binding:
    """One session looking for its broker: what was offered, what was asked, and on which leg.

    Perform what `opened` answers; when the connection is there send `connect()`; give the first frame that comes
    back to `accepted` or, where it is an ERROR, to `retried`.
    """

    __slots__ = ("_asked", "_listener", "_offer", "_session", "_tried", "leg")

    def __init__(self, listener: Listener, offer: Offer, session: Session) -> None:
        self._listener = listener
        self._offer = offer
        self._session = session
        self._asked = asked(listener.upstream, session.dialect)
        self._tried = self._asked
        self.leg = Leg(Side.UPSTREAM, listener.upstream.limits)

    def opened(self, now: float) -> list[Effect]:
        """The broker's connection is asked for, and its CONNECTED expected in time."""
        upstream = self._listener.upstream
        return [Open(self.leg, upstream.broker), Wake(now + upstream.connect_timeout)]

    def connect(self) -> bytes:
        """The CONNECT frame for the broker."""
        upstream = self._listener.upstream
        return self._offer.connect(
            self._asked,
            upstream.heart_beat,
            host=upstream.host,
            credentials=credentials(upstream),
        )

    def accepted(self, client: Leg, frame: Frame, now: float) -> Bound:
        """CONNECTED came: both legs speak from here on, each with beats of its own.

        Raises `ProtocolError` when the broker settled on a version that is not known.
        """
        listener, upstream = self._listener, self._listener.upstream
        accord = Accord.read(frame)
        product = profile(upstream, accord)
        dialect = self._session.dialect
        pairing = pair(dialect.version, accord.dialect.version, product.name, listener.loss)
        terms = self._offer.terms
        self.leg.enter(State.CONNECTED, pairing.broker)
        self.leg.heartbeat.agree(
            self._offer.terms_toward(self._asked, upstream.heart_beat),
            accord.terms,
            now,
        )
        if upstream.keep_alive and not accord.dialect.heart_beats:
            self.leg.heartbeat.keep_alive(upstream.keep_alive, now)
        client.enter(State.CONNECTED)
        client.heartbeat.agree(listener.heart_beat, terms or Terms(), now)
        pair_of_versions = f"STOMP {dialect.version.decode()} to {accord.dialect.version.decode()}"
        return Bound(
            pairing,
            accord.connected(dialect, terms and listener.heart_beat, self._session.name),
            f"{pair_of_versions}, {product.name} at {upstream.broker}",
        )

    def retried(self, frame: Frame) -> Note | None:
        """ERROR came instead. Where it says that the broker speaks other versions, they are remembered and this
        binding has a new leg to open; otherwise None, and the ERROR is the client's.
        """
        upstream = self._listener.upstream
        spoken = versions(frame.raw(VERSION) or b"") & DIALECTS.keys()
        # RabbitMQ names its versions in every ERROR: only ones that were not asked for tell anything.
        if not spoken or spoken & self._tried or upstream.versions is not None:
            return None
        upstream.broker.versions = self._asked = spoken
        self._tried |= spoken
        self.leg.enter(State.CLOSED)
        self.leg = Leg(Side.UPSTREAM, upstream.limits)
        only = spell_versions(spoken).decode()
        return Note(Event.RETRIED, f"broker {upstream.broker} speaks {only} only")
