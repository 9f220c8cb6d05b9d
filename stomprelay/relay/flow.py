"""What a relay needs of whatever joins its client to brokers: one of them, or many."""

from collections import deque
from enum import Enum
from typing import Protocol

from stomprelay.relay.effects import Effect
from stomprelay.relay.link.link import Link
from stomprelay.session.effects import Pause, Resume
from stomprelay.session.leg import Leg
from stomprelay.wire.errors import StompError


class DisconnectState(Enum):
    """How far a client's DISCONNECT has come."""

    UNSAID = "unsaid"
    WAITING = "waiting"
    """It waits for the receipts that are owed for earlier SENDs: a broker may answer it before them."""
    SAID = "said"
    """The broker was told."""
    CONFIRMED = "confirmed"
    """The receipt that it asked for was passed to the client."""


class Flow(Protocol):
    """What flows between a client and its brokers. Methods append their effects.

    `links` are its places, each to be sought by whoever made the flow. While `disconnect` is WAITING, `send_disconnect`
    sends it on regardless. `deaf` is set when the client is gone and only what it said is still to be delivered.
    """

    links: list[Link]
    deaf: bool

    @property
    def disconnect(self) -> DisconnectState:
        """How far the client's DISCONNECT is."""

    @property
    def disconnect_receipt(self) -> bytes | None:
        """The receipt that it asked for, if any."""

    @property
    def erred(self) -> bool:
        """Whether the last word that the client was passed was an ERROR."""

    @property
    def survives(self) -> bool:
        """Whether the session may outlive a broker, so that what the client says may have to wait for the next."""

    @property
    def ready(self) -> bool:
        """Whether there are brokers enough to answer the client's CONNECT."""

    @property
    def flowing(self) -> bool:
        """Whether what the client says may be read; otherwise it has to wait."""

    @property
    def full(self) -> bool:
        """Whether the client must not be read from, for too much is unconfirmed."""

    @property
    def crowded(self) -> bool:
        """Whether it is too early to read on from a client that was paused for being `full`."""

    @property
    def safe(self) -> bool:
        """Whether all that the client said is where it shall be, as far as anybody asked to know."""

    @property
    def settled(self) -> bool:
        """Whether the client said goodbye and is owed nothing: brokers that close now have done their duty."""

    def opened(self) -> list[Link]:
        """Branches that were added since the last call, and now have to seek their brokers."""

    def to_broker(self, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the client's leg has. Answers what was wrong, after what was right."""

    def to_client(self, link: Link, effects: list[Effect], now: float) -> StompError | None:
        """Carry what the broker's leg of a link has; otherwise as `to_broker`."""

    def bound(self, link: Link, effects: list[Effect], now: float) -> StompError | None:
        """A link has a broker: tell it what it has to know. Answers what cannot be said to it."""

    def over(self, link: Link) -> bool:
        """Whether the session ends when a link's broker closes now, because of what the two said last."""

    def lost(self, link: Link, effects: list[Effect], now: float) -> StompError | None:
        """A link lost its broker. Answers what the session cannot survive, if it cannot."""

    def given_up(self, link: Link, effects: list[Effect], now: float) -> StompError | None:
        """A link found no broker any more. Answers what the session cannot survive, if it cannot."""

    def denied(self, link: Link, error: bytes, effects: list[Effect], now: float) -> bytes | None:
        """A broker answered CONNECT with this ERROR frame. Answers what the client has to be told before its session
        ends, if it has to end.
        """

    def unanswered(self) -> list[Link]:
        """Branches whose brokers owe an answer, where another broker may be asked in their place."""

    def send_disconnect(self, effects: list[Effect], now: float) -> None:
        """The DISCONNECT that waited goes to the brokers."""

    def blocked(self, leg: Leg) -> None:
        """A broker's connection cannot take more for now."""

    def unblocked(self, leg: Leg, effects: list[Effect], now: float) -> StompError | None:
        """It can again."""


class InputBuffer:
    """Octets of a client that nobody reads yet. With `most` of them, the client is not read from any more.

    Say `paced` after each change, with what else speaks against reading.
    """

    __slots__ = ("_chunks", "_client", "_most", "_octets", "_paused")

    def __init__(self, client: Leg, most: int) -> None:
        self._client = client
        self._most = most
        self._chunks: deque[bytes] = deque()
        self._octets = 0
        self._paused = False

    def __len__(self) -> int:
        return self._octets

    @property
    def paused(self) -> bool:
        """Whether the client is not read from because of this hold."""
        return self._paused

    def take(self, data: bytes) -> None:
        """Keep a chunk."""
        self._chunks.append(data)
        self._octets += len(data)

    def give(self) -> bytes:
        """The oldest chunk, which is kept no longer."""
        data = self._chunks.popleft()
        self._octets -= len(data)
        return data

    def clear(self) -> None:
        """Nobody will want to know."""
        self._chunks.clear()
        self._octets = 0

    def paced(self, effects: list[Effect], *, full: bool, crowded: bool) -> None:
        """Stop reading from the client when too much is held or elsewhere too much waits (`full`); go on when all is
        given and not too much waits any more (`crowded`).
        """
        if self._paused:
            if not self._octets and not crowded:
                self._paused = False
                effects.append(Resume(self._client))
        elif full or self._octets >= self._most:
            self._paused = True
            effects.append(Pause(self._client))
