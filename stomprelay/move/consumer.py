"""A client of brokers that takes messages from one of them. It speaks STOMP 1.2. It has no clock and no sockets: its
inputs are what happened, and each input returns the requests to perform, in order.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from math import inf
from typing import Final, NamedTuple

from stomprelay.relay.effects import words
from stomprelay.relay.model.profile import ACTIVEMQ, ARTEMIS, RABBITMQ, Profile
from stomprelay.relay.model.upstream import Upstream
from stomprelay.wire import names
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2, Headers
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame, compose

PREFETCH: Final = 100
"""How many messages of a queue a broker delivers before it gets ACKs. The other consumers of the queue get the rest."""
WINDOW: Final = 256 * 1024
"""The same for Artemis, in bytes of frames."""
FINISHED_WITHIN: Final = 10.0
"""At the end, the seconds that a broker has for its last answers."""
PATIENCE: Final = 60.0
"""A broker that was lost is tried again for at most so many seconds."""
SETTLED: Final = 5.0
"""A broker that was lost after so many seconds gets its whole patience again."""
_LIMITED: Final[Mapping[str, Headers]] = {
    ACTIVEMQ.name: [(b"activemq.prefetchSize", b"%d" % PREFETCH)],
    RABBITMQ.name: [(b"prefetch-count", b"%d" % PREFETCH)],
    ARTEMIS.name: [(b"consumer-window-size", b"%d" % WINDOW), (b"subscription-type", b"ANYCAST")],
}
"""The headers of a SUBSCRIBE for a queue that limit how many messages wait for their ACKs, by product."""
BYE: Final = b"bye"
"""The receipt that DISCONNECT asks for."""
BROKER_LOST: Final = b"connection to the broker was lost"
"""The ERROR of a relay whose broker is lost."""


class End(Enum):
    """The two brokers. The values are for texts."""

    OLD = "the old broker"
    NEW = "the new broker"

    __hash__ = object.__hash__


class Connect(NamedTuple):
    """Open a connection to a broker of this end. Then call `opened` or `lost`."""

    end: End


class Write(NamedTuple):
    """Write these bytes."""

    end: End
    data: bytes


class HangUp(NamedTuple):
    """Close the connection when all is written. Do not report its end."""

    end: End


Request = Connect | Write | HangUp


class Talk:
    """The conversation with one end. `session`: its number, from 1 on. `open`: there is a connection, or an attempt.
    `up_at`: when CONNECTED came. `subscribed`: how many SUBSCRIBEs were confirmed. `error`: the text of the last ERROR,
    then the reason why the conversation ended. `retry_at`: when the next attempt is due.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._limits = upstream.limits
        self._reconnect = upstream.groups[0].reconnect
        self.session = self.subscribed = 0
        self.open = False
        self.error = ""
        self.retry_at = self.up_at = inf
        self._failures = 0
        self._failing_since = inf
        self.decoder: Decoder

    @property
    def up(self) -> bool:
        """Whether CONNECTED came."""
        return self.up_at < inf

    def began(self) -> None:
        """Begin a conversation: a connection is being opened."""
        self.decoder = Decoder(V1_2, frozenset({names.CONNECTED, names.ERROR}), self._limits)
        self.session += 1
        self.open = True
        self.subscribed = 0
        self.error = ""
        self.retry_at = inf

    def connected(self, now: float) -> None:
        """Record that CONNECTED came."""
        self.decoder.expect(V1_2, names.BROKER_COMMANDS)
        self.up_at = now

    def progressed(self) -> None:
        """Record that the broker did something useful: the next loss is the first one again."""
        self._failures = 0
        self._failing_since = inf

    def ended(self) -> None:
        """Record that there is no connection any more."""
        self.open, self.up_at = False, inf

    def lost(self, reason: str, now: float) -> bool:
        """Record that the connection was lost. Return whether to try again, at `retry_at`."""
        if now >= self.up_at + SETTLED:
            self.progressed()
        self.ended()
        self.error = "; ".join(dict.fromkeys(filter(None, (self.error, reason))))
        options = self._reconnect
        if options is None:
            return False
        self._failing_since = min(self._failing_since, now)
        pause = options.initial_delay
        if options.exponential:
            pause *= options.multiplier ** min(self._failures, 64)
        self._failures += 1
        self.retry_at = now + min(pause, options.longest_delay)
        patience = self._failing_since + min(options.timeout, PATIENCE)
        again = self.retry_at < patience and not 0 <= options.attempts < self._failures
        if not again:
            self.retry_at = inf
        return again


class Consumer(ABC):
    """A client of the brokers of these upstreams. `profile` returns the product of an end that is connected. `epoch` is
    the time 0 of all other times, in seconds since 1970.

    Call `begun` first, then the other inputs, until it is `done`; `reason` is empty if all went well. After each input,
    `holding` is whether the end that gives messages must not be read from, and `wakes_at` is when to call `woke`.
    """

    def __init__(
        self, upstreams: Mapping[End, Upstream], profile: Callable[[End], Profile], epoch: float
    ) -> None:
        self.reason = ""
        self.done = self.holding = False
        self.wakes_at = inf
        self._talks = {end: Talk(each) for end, each in upstreams.items()}
        self._profile = profile
        self._epoch = epoch
        self._leaving = False
        self._ends_at = inf
        self._requests: list[Request] = []

    # Inputs

    def opened(self, end: End, now: float) -> Sequence[Request]:
        """A connection was opened."""
        headers = [(names.ACCEPT_VERSION, V1_2.version), (names.HOST, b"/"), (names.HEART_BEAT, b"0,0")]
        self._write(end, names.CONNECT, headers)
        return self._after(now)

    def received(self, end: End, data: bytes, now: float) -> Sequence[Request]:
        """Bytes came from a broker."""
        talk = self._talks[end]
        session = talk.session
        try:
            talk.decoder.feed(data)
            for frame in talk.decoder.frames():
                self._read(end, talk, frame, now)
                if not talk.open or talk.session != session:
                    break
        except StompError as error:
            self._give_up(end, f"{error.message} ({error.detail})", now)
        return self._after(now)

    def lost(self, end: End, reason: str, now: float) -> Sequence[Request]:
        """A connection ended, or could not be opened."""
        talk = self._talks[end]
        if talk.open:
            self._lost(end, talk, now, again=talk.lost(reason, now))
        return self._after(now)

    def woke(self, now: float) -> Sequence[Request]:
        """The time `wakes_at` has come."""
        for end, talk in self._talks.items():
            if now >= talk.retry_at:
                self._open(end)
        self._timed_out(now)
        return self._after(now)

    # What the client does

    @abstractmethod
    def _read(self, end: End, talk: Talk, frame: Frame, now: float) -> None:
        """A frame came."""

    @abstractmethod
    def _lost(self, end: End, talk: Talk, now: float, *, again: bool) -> None:
        """A connection was lost. `again`: it is tried again."""

    @abstractmethod
    def _timed_out(self, now: float) -> None:
        """Do what is due at this time."""

    @abstractmethod
    def _go_on(self, now: float) -> None:
        """Do what became possible by an input, and set `holding`."""

    def _after(self, now: float) -> Sequence[Request]:
        if not self.done:
            self._go_on(now)
        self.wakes_at = inf if self.done else min(self._times(now))
        requests, self._requests = self._requests, []
        return requests

    def _times(self, now: float) -> Iterator[float]:
        """Yield the times at which something is to be done if nothing comes."""
        yield self._ends_at
        if not self._leaving:
            yield from [each.retry_at for each in self._talks.values()]

    def _open(self, end: End) -> None:
        if not (self.reason or self._leaving):
            self._talks[end].began()
            self._requests.append(Connect(end))

    def _write(self, end: End, command: bytes, headers: Headers, body: bytes = b"") -> None:
        self._requests.append(Write(end, compose(command, headers, V1_2, body)))

    def _subscribe(self, end: End, id_: bytes, destination: str, *, topic: bool = False) -> None:
        """Subscribe. The RECEIPT has the subscription's id."""
        headers = [
            (names.ID, id_),
            (names.DESTINATION, destination.encode()),
            (names.ACK_HEADER, b"auto" if topic else b"client-individual"),
            (names.RECEIPT_HEADER, id_),
        ]
        limited = () if topic else _LIMITED.get(self._profile(end).name, ())
        self._write(end, names.SUBSCRIBE, [*headers, *limited])

    def _give_up(self, end: End, reason: str, now: float) -> None:
        """Close a connection that is of no use any more."""
        talk = self._talks[end]
        if talk.open:
            self._requests.append(HangUp(end))
            self._lost(end, talk, now, again=talk.lost(reason, now))

    def _leave(self, end: End, now: float) -> bool:
        """Send DISCONNECT to the end that gives messages. Return whether that was possible."""
        self._leaving = True
        self._ends_at = now + FINISHED_WITHIN
        if self._talks[end].up:
            self._write(end, names.DISCONNECT, [(names.RECEIPT_HEADER, BYE)])
        return self._talks[end].up

    def _finish(self) -> None:
        """Close all connections: it is over."""
        self._requests += [HangUp(end) for end, talk in self._talks.items() if talk.open]
        for talk in self._talks.values():
            talk.ended()
        self.done = True


def told(error: Frame) -> str:
    """Return the content of an ERROR as one line of text."""
    return words(error, V1_2, ()) or "ERROR"
