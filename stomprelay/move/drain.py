"""Drains queues: takes the messages that wait at one broker, OLD, and gives each to another broker, NEW.

A message is acknowledged at OLD only when NEW has confirmed its copy. So a crash loses nothing: OLD still has what was
not acknowledged, and the next run takes it. If NEW had the message already, the second copy is marked. OLD never gets
a NACK, because for a NACK some products discard the message.

`Drain` is a client of both brokers that speaks STOMP 1.2. It has no clock and no sockets: its inputs are what happened,
and each input returns the requests to perform, in order.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from math import inf
from typing import Final, NamedTuple

from stomprelay.move.copies import Copy, Queue, Refusal, carried, first, spell, temporary_reply
from stomprelay.relay.model.group import Reconnect
from stomprelay.relay.model.move import COPY, SHADOW
from stomprelay.relay.model.profile import ACTIVEMQ, ARTEMIS, RABBITMQ, Profile
from stomprelay.wire import names
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2, Headers
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame, Limits, compose, compose_raw

PREFETCH: Final = 100
"""How many messages of a queue OLD delivers before it gets ACKs. The other consumers of the queue get the rest."""
WINDOW: Final = 256 * 1024
"""The same for Artemis, in bytes of frames. When it delivers these messages again, it often marks only the first."""
HELD: Final = 8 * 1024 * 1024
"""OLD is not read from while so many bytes of bodies wait for NEW."""
REMEMBERED: Final = 4096
"""How many copies are remembered, to mark the message if OLD delivers it again after its connection was lost."""
BURST: Final = 0.1
"""With a rate: so many seconds may be made up for."""
CONFIRMED_WITHIN: Final = 30.0
"""A broker counts as lost if it confirms nothing for so many seconds."""
_SILENT: Final = f"no RECEIPT within {CONFIRMED_WITHIN:g} s"
FINISHED_WITHIN: Final = 10.0
"""At the end, the seconds that NEW has for its last RECEIPTs, and then OLD for its DISCONNECT."""
PATIENCE: Final = 60.0
"""A broker that was lost is tried again for at most so many seconds."""
SETTLED: Final = 5.0
"""A broker that was lost after so many seconds gets its whole patience again."""
STRIKES: Final = 2
"""How often NEW may be lost while a message is the only one under way. Then the message counts as refused."""


class End(Enum):
    """The two brokers. The values are for texts."""

    OLD = "the old broker"
    NEW = "the new broker"

    __hash__ = object.__hash__


class Open(NamedTuple):
    """Open a connection to a broker of this end. Then call `opened` or `lost`."""

    end: End


class Write(NamedTuple):
    """Write these bytes."""

    end: End
    data: bytes


class Close(NamedTuple):
    """Close the connection when all is written. Do not report its end."""

    end: End


class Hold(NamedTuple):
    """Stop reading from the end that gives messages (`on`), or read from it again."""

    on: bool


class Wake(NamedTuple):
    """Call `woke` at this time, instead of the time of the last `Wake`."""

    at: float


class Done(NamedTuple):
    """It is over; see `reason` of the drain or of the comparison."""


Request = Open | Write | Close | Hold | Wake | Done


SUBSCRIBING: Final[Mapping[str, Headers]] = {
    ACTIVEMQ.name: [(b"activemq.prefetchSize", b"%d" % PREFETCH)],
    RABBITMQ.name: [(b"prefetch-count", b"%d" % PREFETCH)],
    ARTEMIS.name: [(b"consumer-window-size", b"%d" % WINDOW), (b"subscription-type", b"ANYCAST")],
}
"""The headers of a SUBSCRIBE for a queue that limit how many messages wait for their ACKs, by product."""
GREETING: Final = compose_raw(
    names.CONNECT,
    [(names.ACCEPT_VERSION, V1_2.version), (names.HOST, b"/"), (names.HEART_BEAT, b"0,0")],
)
"""The CONNECT of a client of a relay of its own."""
_BYE: Final = b"bye"
BROKER_LOST: Final = b"connection to the broker was lost"
"""The ERROR of a relay whose broker is lost."""


class Talk:
    """The conversation with one end. `session`: its number, from 1 on. `open`: there is a connection, or an attempt.
    `up`: CONNECTED came. `up_at`: when. `subscribed`: how many SUBSCRIBEs OLD has confirmed. `error`: the text of the
    last ERROR. `retry_at`: when the next attempt is due.
    """

    def __init__(self, limits: Limits, reconnect: Reconnect | None) -> None:
        self._limits = limits
        self._reconnect = reconnect
        self.session = 0
        self.open = False
        self.up = False
        self.subscribed = 0
        self.error = ""
        self.retry_at = inf
        self._failures = 0
        self._failing_since = inf
        self.up_at = inf
        self.decoder = self._decoder()

    def _decoder(self) -> Decoder:
        return Decoder(V1_2, frozenset({names.CONNECTED, names.ERROR}), self._limits)

    def began(self) -> None:
        """Begin a conversation: a connection is being opened."""
        self.decoder = self._decoder()
        self.session += 1
        self.open = True
        self.subscribed = 0
        self.error = ""
        self.retry_at = inf

    def connected(self, now: float) -> None:
        """Record that CONNECTED came."""
        self.decoder.expect(V1_2, names.BROKER_COMMANDS)
        self.up = True
        self.up_at = now

    def progressed(self) -> None:
        """Record that the broker did something useful: the next loss is the first one again."""
        self._failures = 0
        self._failing_since = inf

    def lost(self, now: float) -> bool:
        """Record that the connection ended. Return whether to try again, at `retry_at`."""
        if now >= self.up_at + SETTLED:
            self.progressed()
        self.open = self.up = False
        self.up_at = inf
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
        return self.retry_at < patience and not 0 <= options.attempts < self._failures


class Drain:
    """Drains these queues of OLD to NEW. `limits` and `reconnect` are those of the upstreams; without `reconnect` a
    broker that is lost ends the drain. `profile` returns the product of an end that is connected. `epoch` is the time
    0 of all other times, in seconds since 1970. `rate`: how many messages a second; None: any number. `idle`: how many
    seconds nothing may come before the drain is over. `skip`: a message that NEW refuses does not end the drain.

    Call `begun` first, then the other inputs, until `Done`. `reason` is empty if the queues are drained.
    """

    def __init__(
        self,
        queues: Iterable[str],
        profile: Callable[[End], Profile],
        reconnect: Mapping[End, Reconnect | None],
        limits: Mapping[End, Limits],
        *,
        epoch: float = 0.0,
        rate: float | None = None,
        idle: float = 5.0,
        skip: bool = False,
    ) -> None:
        self.queues = [Queue(name) for name in queues]
        self.reason = ""
        self._profile = profile
        self._epoch = epoch
        self._rate = rate
        self._idle = idle
        self._skip = skip
        self._talks = {end: Talk(limits[end], reconnect[end]) for end in End}
        self._waiting: deque[Copy] = deque()
        self._under_way: dict[bytes, Copy] = {}
        self._remembered: dict[int, None] = {}
        self._number = 0
        self._held = 0
        self._holding = False
        self._quiet_since = 0.0
        self._first_at = inf
        self._confirmed_at = 0.0
        self._due = 0.0
        self._ends_at = inf
        self._leaving = False
        self.unconfirmed = 0
        self.done = False
        self._requests: list[Request] = []

    @property
    def under_way(self) -> int:
        """How many messages were taken from OLD, and are not acknowledged there."""
        return len(self._waiting) + len(self._under_way)

    @property
    def moved(self) -> int:
        """How many messages were moved."""
        return sum([each.moved for each in self.queues])

    @property
    def seconds(self) -> float:
        """How long it took, from the first message of OLD to the last RECEIPT of NEW."""
        return max(self._confirmed_at - self._first_at, 0.0)

    # Inputs

    def begun(self, now: float) -> Sequence[Request]:
        """Begin: NEW is connected first, so that nothing is taken from OLD in vain."""
        self._open(End.NEW)
        return self._after(now)

    def opened(self, end: End, now: float) -> Sequence[Request]:
        """A connection was opened."""
        self._write(end, GREETING)
        return self._after(now)

    def received(self, end: End, data: bytes, now: float) -> Sequence[Request]:
        """Bytes came from a broker."""
        talk = self._talks[end]
        session = talk.session
        try:
            talk.decoder.feed(data)
            for frame in talk.decoder.frames():
                self._read(end, talk, frame, now)
                if self.done or not talk.open or talk.session != session:
                    break
        except StompError as error:
            self._give_up(end, f"{error.message} ({error.detail})", now)
        return self._after(now)

    def lost(self, end: End, reason: str, now: float) -> Sequence[Request]:
        """A connection ended, or could not be opened."""
        if self._talks[end].open:
            self._lost(end, reason, now)
        return self._after(now)

    def stopped(self, reason: str, now: float) -> Sequence[Request]:
        """The drain shall end now, because of this reason. What is under way is waited for."""
        self._stop(reason, now)
        return self._after(now)

    def woke(self, now: float) -> Sequence[Request]:
        """The time of the last `Wake` has come."""
        for end, talk in self._talks.items():
            if now >= talk.retry_at:
                self._open(end)
        if self._under_way and now >= self._confirmed_at + CONFIRMED_WITHIN:
            self._give_up(End.NEW, _SILENT, now)
        if self._subscribing and now >= self._talks[End.OLD].up_at + CONFIRMED_WITHIN:
            self._give_up(End.OLD, _SILENT, now)
        if now >= self._ends_at:
            if self._leaving:
                self._end("it did not confirm DISCONNECT: some of the last ACKs may not have arrived")
            else:
                self._leave(now)
        return self._after(now)

    # Frames

    def _read(self, end: End, talk: Talk, frame: Frame, now: float) -> None:
        if frame.command is names.ERROR:
            self._erred(end, talk, frame, now)
        elif frame.command is names.CONNECTED:
            talk.connected(now)
            if end is End.OLD:
                self._subscribe()
            elif not self._talks[End.OLD].session:
                self._open(End.OLD)
        elif frame.command is names.MESSAGE and end is End.OLD:
            self._came(talk, frame, now)
        elif frame.command is names.RECEIPT:
            receipt = frame.header(names.RECEIPT_ID, V1_2) or b""
            if end is End.NEW:
                self._confirmed(receipt, now)
            elif receipt == _BYE:
                self._end("")
            else:
                talk.subscribed += 1
                self._quiet_since = now

    def _erred(self, end: End, talk: Talk, frame: Frame, now: float) -> None:
        text = told(frame)
        if not talk.up:
            talk.error = text
            if not self._profile(end).unavailable(frame):
                self._stop(f"{end.value} refused the connection: {text}", now)
            return  # the end of the connection follows
        if frame.header(names.MESSAGE_HEADER, V1_2) == BROKER_LOST:
            return  # the end of the connection follows, with the reason
        copy = None
        if not self._profile(end).leaves(frame):
            receipt = frame.header(names.RECEIPT_ID, V1_2)
            if end is End.NEW and receipt is not None:
                copy = self._under_way.pop(receipt, None)
            elif end is End.OLD and self._subscribing:
                self._stop(f"{end.value} refused the subscription: {text}", now)
        if copy is None:
            self._give_up(end, text, now)
        else:
            talk.error = text
            self._refused(copy, text, now)

    def _subscribe(self) -> None:
        profile = self._profile(End.OLD)
        for number, queue in enumerate(self.queues):
            id_ = b"%d" % number
            headers = [
                (names.ID, id_),
                (names.DESTINATION, queue.name.encode()),
                (names.ACK_HEADER, b"client-individual"),
                (names.RECEIPT_HEADER, b"subscribed-" + id_),
                *SUBSCRIBING.get(profile.name, ()),
            ]
            self._write(End.OLD, compose(names.SUBSCRIBE, headers, V1_2))

    def _came(self, talk: Talk, frame: Frame, now: float) -> None:
        headers = frame.headers(V1_2)
        number, ack = first(headers, names.SUBSCRIPTION), first(headers, names.ACK_HEADER)
        if number is None or not number.isdigit() or int(number) >= len(self.queues) or ack is None:
            return
        self._quiet_since = now
        self._first_at = min(self._first_at, now)
        if self._ended:
            return  # it stays at OLD
        queue = self.queues[int(number)]
        if SHADOW in (first(headers, COPY) or b""):
            queue.shadows += 1
            self._write(End.OLD, compose(names.ACK, [(names.ID, ack)], V1_2))
            return
        again = first(headers, names.REDELIVERED) == b"true"
        if again and self._profile(End.OLD) is ARTEMIS:
            queue.doubted = WINDOW
        copy = Copy(queue, talk.session, ack, headers, frame.payload, again or queue.doubted > 0)
        queue.doubted -= sum([len(name) + len(value) for name, value in headers]) + len(copy.body)
        if talk.session > 1 and not copy.marked:
            copy.marked = copy.key in self._remembered
        self._held += len(copy.body)
        self._waiting.append(copy)

    def _confirmed(self, receipt: bytes, now: float) -> None:
        copy = self._under_way.pop(receipt, None)
        if copy is None:
            return
        self._confirmed_at = self._quiet_since = now
        self._held -= len(copy.body)
        self._talks[End.NEW].progressed()
        old = self._talks[End.OLD]
        if not old.up or copy.session != old.session:
            return  # OLD delivers it again
        old.progressed()
        self._write(End.OLD, compose(names.ACK, [(names.ID, copy.ack)], V1_2))
        queue = copy.queue
        queue.moved += 1
        queue.bytes += len(copy.body)
        queue.marked += copy.marked
        queue.repliless += temporary_reply(copy.headers)

    def _refused(self, copy: Copy, reason: str, now: float) -> None:
        self._held -= len(copy.body)
        copy.queue.refused.append(Refusal(copy.name, reason))
        if not self._skip:
            self._stop(f"{End.NEW.value} refused message {copy.name} of {copy.queue.name}: {reason}", now)

    # Losses and the end

    @property
    def _ended(self) -> bool:
        """Whether nothing more is taken from OLD or sent to NEW."""
        return bool(self.reason) or self._leaving

    def _open(self, end: End) -> None:
        if not self._ended:
            self._talks[end].began()
            self._requests.append(Open(end))

    def _give_up(self, end: End, reason: str, now: float) -> None:
        """Close a connection that is of no use any more."""
        if self._talks[end].open:
            self._requests.append(Close(end))
            self._lost(end, reason, now)

    def _lost(self, end: End, reason: str, now: float) -> None:
        talk = self._talks[end]
        told = "; ".join(dict.fromkeys(filter(None, (talk.error, reason))))
        again = talk.lost(now)
        if end is End.OLD:
            self._drop()
        else:
            self._return(told, now)
        if self._leaving:
            if end is End.OLD:
                self._end(f"it was lost before it confirmed DISCONNECT: {told}")
        elif not again:
            talk.retry_at = inf
            self._stop(f"{end.value} was lost: {told}", now)

    def _drop(self) -> None:
        """Forget what waits: OLD delivers it again, or has it again."""
        for copy in self._waiting:
            self._held -= len(copy.body)
        self._waiting.clear()

    def _return(self, reason: str, now: float) -> None:
        """NEW was lost: what is under way has to be sent again, one message after the other, because one of them may be
        the reason.
        """
        session = self._talks[End.OLD].session
        returned = [each for each in self._under_way.values() if each.session == session]
        self._held -= sum([len(each.body) for each in self._under_way.values() if each.session != session])
        self._under_way.clear()
        if len(returned) == 1 and returned[0].alone:
            copy = returned[0]
            copy.strikes += 1
            if copy.strikes >= STRIKES:
                returned = []
                self._refused(copy, f"{reason} (when nothing else was under way, too)", now)
        for copy in reversed(returned):
            copy.alone = copy.marked = True
            self._waiting.appendleft(copy)

    def _stop(self, reason: str, now: float) -> None:
        """Send nothing more; end when NEW has confirmed what is under way."""
        if not self._ended:
            self.reason = reason
            self._ends_at = now + FINISHED_WITHIN
            for talk in self._talks.values():
                talk.retry_at = inf

    def _leave(self, now: float) -> None:
        """Leave OLD: it has again what was not acknowledged, and confirms that it got all ACKs."""
        self._leaving = True
        self.unconfirmed += len(self._under_way)
        self._under_way.clear()
        self._ends_at = now + FINISHED_WITHIN
        if self._talks[End.OLD].up:
            headers = [(names.RECEIPT_HEADER, _BYE)]
            self._write(End.OLD, compose(names.DISCONNECT, headers, V1_2))
        else:
            self._end("")

    def _end(self, trouble: str) -> None:
        if trouble:
            self.reason = "; ".join(filter(None, (self.reason, f"{End.OLD.value}: {trouble}")))
        refused = sum([len(each.refused) for each in self.queues])
        if refused and not self.reason:
            self.reason = f"{End.NEW.value} refused what is still at {End.OLD.value}, messages: {refused}"
        if self._talks[End.NEW].up:
            self._write(End.NEW, compose(names.DISCONNECT, [], V1_2))
        self._requests += [Close(end) for end, talk in self._talks.items() if talk.open]
        for talk in self._talks.values():
            talk.open = talk.up = False
        self.done = True
        self._requests.append(Done())

    # After each input

    def _after(self, now: float) -> Sequence[Request]:
        if not self.done:
            self._go_on(now)
        requests, self._requests = self._requests, []
        return requests

    def _go_on(self, now: float) -> None:
        if self.reason and not self._leaving:
            self.unconfirmed += sum([each.sent for each in self._waiting])
            self._drop()
            if not self._under_way:
                self._leave(now)
        elif not self._leaving:
            self._send(now)
            if self._idles and now >= self._quiet_since + self._idle:
                self._leave(now)
        if self.done:
            return
        held = self._held > (HELD // 2 if self._holding else HELD)
        if held is not self._holding:
            self._holding = held
            self._requests.append(Hold(held))
        self._requests.append(Wake(min(self._times(now))))

    @property
    def _idles(self) -> bool:
        """Whether a message of OLD is all that is waited for."""
        both = all(each.up for each in self._talks.values())
        return both and not self._subscribing and not self.under_way

    @property
    def _subscribing(self) -> bool:
        """Whether OLD has not confirmed all SUBSCRIBEs."""
        old = self._talks[End.OLD]
        return old.up and old.subscribed < len(self.queues)

    def _times(self, now: float) -> Iterator[float]:
        """Yield the times at which something is to be done if nothing comes."""
        yield self._ends_at
        if self._leaving:
            return
        yield from [each.retry_at for each in self._talks.values()]
        if self._under_way:
            yield self._confirmed_at + CONFIRMED_WITHIN
        if self._subscribing:
            yield self._talks[End.OLD].up_at + CONFIRMED_WITHIN
        if self._idles:
            yield self._quiet_since + self._idle
        if self._waiting and self._due > now and self._talks[End.NEW].up:
            yield self._due

    def _send(self, now: float) -> None:
        """Send what waits, in the order in which it came."""
        waiting, under_way = self._waiting, self._under_way
        if not self._talks[End.NEW].up:
            return
        while waiting:
            copy = waiting[0]
            if under_way and (copy.alone or next(iter(under_way.values())).alone):
                return
            if self._rate is not None:
                if self._due > now:
                    return
                self._due = max(self._due, now - BURST) + 1 / self._rate
            waiting.popleft()
            if not under_way:
                self._confirmed_at = now
            self._number += 1
            receipt = b"%d" % self._number
            under_way[receipt] = copy
            copy.sent = True
            self._remember(copy)
            headers = carried(copy, self._profile(End.OLD), self._profile(End.NEW), self._epoch + now)
            head = [(names.RECEIPT_HEADER, receipt), *headers]
            self._write(End.NEW, compose(names.SEND, head, V1_2, copy.body))

    def _remember(self, copy: Copy) -> None:
        self._remembered[copy.key] = None
        if len(self._remembered) > REMEMBERED:
            del self._remembered[next(iter(self._remembered))]

    def _write(self, end: End, data: bytes) -> None:
        self._requests.append(Write(end, data))


def told(error: Frame) -> str:
    """Return the content of an ERROR as one line of text."""
    message = spell(error.header(names.MESSAGE_HEADER, V1_2) or b"ERROR")
    body = " ".join(error.payload[:500].decode("utf-8", "replace").split("\n\tat ")[0].split())
    return f"{message}: {spell(body.encode())}" if body and body != message else message
