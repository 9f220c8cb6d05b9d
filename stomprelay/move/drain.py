"""Drains queues: takes the messages that wait at one broker, OLD, and gives each to another broker, NEW.

A message is acknowledged at OLD only when NEW has confirmed its copy. So a crash loses nothing: OLD still has what was
not acknowledged, and the next run takes it. If NEW had the message already, the second copy is marked. OLD never gets
a NACK, because for a NACK some products discard the message.

`Drain` is a client of both brokers, see `move.consumer`.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from stomprelay.move.consumer import (
    BROKER_LOST,
    BYE,
    FINISHED_WITHIN,
    WINDOW,
    Consumer,
    End,
    Request,
    Talk,
    told,
)
from stomprelay.move.copies import Copy, Queue, Refusal, carried, temporary_reply
from stomprelay.relay.model.move import COPY, Mark
from stomprelay.relay.model.profile import Profile
from stomprelay.relay.model.upstream import Upstream
from stomprelay.wire import names
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.frame import Frame

HELD: Final = 8 * 1024 * 1024
"""OLD is not read from while so many bytes of bodies wait for NEW."""
REMEMBERED: Final = 4096
"""How many copies are remembered, to mark the message if OLD delivers it again after its connection was lost."""
BURST: Final = 0.1
"""With a rate: so many seconds may be made up for."""
CONFIRMED_WITHIN: Final = 30.0
"""A broker counts as lost if it confirms nothing for so many seconds."""
_SILENT: Final = f"no RECEIPT within {CONFIRMED_WITHIN:g} s"
STRIKES: Final = 2
"""How often NEW may be lost while a message is the only one under way. Then the message counts as refused."""


class Drain(Consumer):
    """Drains these queues of OLD to NEW. Without `reconnect` a broker that is lost ends the drain. `rate`: how many
    messages a second; None: any number. `idle`: how many seconds nothing may come before the drain is over. `skip`: a
    message that NEW refuses does not end the drain. For the rest see `Consumer`.
    """

    def __init__(
        self,
        queues: Iterable[str],
        upstreams: Mapping[End, Upstream],
        profile: Callable[[End], Profile],
        *,
        epoch: float = 0.0,
        rate: float | None = None,
        idle: float = 5.0,
        skip: bool = False,
    ) -> None:
        super().__init__(upstreams, profile, epoch)
        self.queues = [Queue(name) for name in queues]
        self.unconfirmed = 0
        self._rate = rate
        self._idle = idle
        self._skip = skip
        self._waiting: deque[Copy] = deque()
        self._under_way: dict[bytes, Copy] = {}
        self._remembered: dict[int, None] = {}
        self._doubted: Counter[Queue] = Counter()  # NEW may have the next messages of so many bytes
        self._number = 0
        self._held = 0
        self._quiet_since = 0.0
        self._first_at = inf
        self._confirmed_at = 0.0
        self._due = 0.0

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

    def stopped(self, reason: str, now: float) -> Sequence[Request]:
        """The drain shall end now, because of this reason. What is under way is waited for."""
        self._stop(reason, now)
        return self._after(now)

    def _timed_out(self, now: float) -> None:
        if self._under_way and now >= self._confirmed_at + CONFIRMED_WITHIN:
            self._give_up(End.NEW, _SILENT, now)
        if self._subscribing and now >= self._talks[End.OLD].up_at + CONFIRMED_WITHIN:
            self._give_up(End.OLD, _SILENT, now)
        if now < self._ends_at:
            return
        if self._leaving:
            self._end("it did not confirm DISCONNECT: some of the last ACKs may not have arrived")
        else:
            self._leave_old(now)

    # Frames

    def _read(self, end: End, talk: Talk, frame: Frame, now: float) -> None:
        if frame.command is names.ERROR:
            self._erred(end, talk, frame, now)
        elif frame.command is names.CONNECTED:
            talk.connected(now)
            if end is End.OLD:
                for number, queue in enumerate(self.queues):
                    self._subscribe(end, b"%d" % number, queue.name)
            elif not self._talks[End.OLD].session:
                self._open(End.OLD)
        elif frame.command is names.MESSAGE and end is End.OLD:
            self._came(talk, frame, now)
        elif frame.command is names.RECEIPT:
            receipt = frame.header(names.RECEIPT_ID, V1_2) or b""
            if end is End.NEW:
                self._confirmed(receipt, now)
            elif receipt == BYE:
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

    def _came(self, talk: Talk, frame: Frame, now: float) -> None:
        number, ack = frame.header(names.SUBSCRIPTION, V1_2), frame.header(names.ACK_HEADER, V1_2)
        if number is None or not number.isdigit() or int(number) >= len(self.queues) or ack is None:
            return
        self._quiet_since = now
        self._first_at = min(self._first_at, now)
        if self._ended:
            return  # it stays at OLD
        queue = self.queues[int(number)]
        if Mark.parse(frame.header(COPY, V1_2)) is not None:
            queue.shadows += 1
            self._write(End.OLD, names.ACK, [(names.ID, ack)])
            return
        again = frame.header(names.REDELIVERED, V1_2) == b"true"
        if again and self._profile(End.OLD).marks_first:
            self._doubted[queue] = WINDOW
        headers = frame.headers(V1_2)
        copy = Copy(queue, talk.session, ack, headers, frame.payload, again or self._doubted[queue] > 0)
        self._doubted[queue] -= sum([len(name) + len(value) for name, value in headers]) + len(copy.body)
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
        self._write(End.OLD, names.ACK, [(names.ID, copy.ack)])
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

    def _lost(self, end: End, talk: Talk, now: float, *, again: bool) -> None:
        if end is End.OLD:
            self._drop()
        else:
            self._return(talk.error, now)
        if self._leaving:
            if end is End.OLD:
                self._end(f"it was lost before it confirmed DISCONNECT: {talk.error}")
        elif not again:
            self._stop(f"{end.value} was lost: {talk.error}", now)

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

    def _leave_old(self, now: float) -> None:
        """Leave OLD: it has again what was not acknowledged, and confirms that it got all ACKs."""
        self.unconfirmed += len(self._under_way)
        self._under_way.clear()
        if not self._leave(End.OLD, now):
            self._end("")

    def _end(self, trouble: str) -> None:
        if trouble:
            self.reason = "; ".join(filter(None, (self.reason, f"{End.OLD.value}: {trouble}")))
        refused = sum([len(each.refused) for each in self.queues])
        if refused and not self.reason:
            self.reason = f"{End.NEW.value} refused what is still at {End.OLD.value}, messages: {refused}"
        if self._talks[End.NEW].up:
            self._write(End.NEW, names.DISCONNECT, [])
        self._finish()

    # After each input

    def _go_on(self, now: float) -> None:
        if self.reason and not self._leaving:
            self.unconfirmed += sum([each.sent for each in self._waiting])
            self._drop()
            if not self._under_way:
                self._leave_old(now)
        elif not self._leaving:
            self._send(now)
            if self._idles and now >= self._quiet_since + self._idle:
                self._leave_old(now)
        self.holding = self._held > (HELD // 2 if self.holding else HELD)

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
        yield from super()._times(now)
        if self._leaving:
            return
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
            self._write(End.NEW, names.SEND, [(names.RECEIPT_HEADER, receipt), *headers], copy.body)

    def _remember(self, copy: Copy) -> None:
        self._remembered[copy.key] = None
        if len(self._remembered) > REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
