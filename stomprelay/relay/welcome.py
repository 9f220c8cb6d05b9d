"""The answer to a client's CONNECT, which it gets once however many brokers follow."""

from stomprelay.relay.binding import Bound
from stomprelay.relay.effects import Effect
from stomprelay.relay.listener import Listener
from stomprelay.session.effects import Send
from stomprelay.session.handshake import Offer
from stomprelay.session.heartbeat import Terms
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.session.states import State


class Welcome:
    """Says CONNECTED to a client, with the client's version and our own heart-beats."""

    __slots__ = ("_client", "_listener", "_offer", "_session")

    def __init__(self, client: Leg, listener: Listener, offer: Offer, session: Session) -> None:
        self._client = client
        self._listener = listener
        self._offer = offer
        self._session = session

    @property
    def awaited(self) -> bool:
        """Whether the client still waits for it."""
        return self._client.state is State.BINDING

    def say(self, bound: Bound, effects: list[Effect], now: float, *, gone: bool) -> None:
        """There are brokers enough, `bound` being the last of them. A client that is `gone` hears nothing."""
        client, session, terms = self._client, self._session, self._offer.terms
        client.enter(State.CONNECTED)
        client.heartbeat.agree(self._listener.heart_beat, terms or Terms(), now)
        session.tally["sessions_connected"] += 1
        if not gone:
            beats = terms and self._listener.heart_beat
            effects.append(Send(client, bound.accord.connected(session.dialect, beats, session.name)))
