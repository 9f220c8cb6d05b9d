"""A move of destinations from one upstream to another, in phases."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple
from zlib import crc32

COPY: Final = b"relay-copy"
"""A header with the same value in all copies of a SEND, so that consumers recognise copies."""
SHADOW: Final = "^(.*)-shadow-([0-9]+)-([0-9a-f]+)$"
"""Matches the value of `relay-copy` of each copy that NEW gets in the phase `shadow`, and of no other message. The
groups are the values of its `Mark`.
"""
_SHADOW: Final = re.compile(SHADOW.encode())


class Mark(NamedTuple):
    """What the value of `relay-copy` says of the SEND that was copied: its `session`, its `number` among the client's
    frames (as in the journal), and the CRC-32 of its body.
    """

    session: bytes
    number: int
    check: int

    @classmethod
    def of(cls, session: bytes, number: int, body: bytes | memoryview) -> "Mark":
        """Return the mark of a SEND."""
        return cls(session, number, crc32(body))

    @property
    def value(self) -> bytes:
        """The mark as the value of a header."""
        return b"%b-shadow-%d-%08x" % self

    @classmethod
    def parse(cls, value: bytes | None) -> "Mark | None":
        """Return the mark in a value of `relay-copy`. None: the message is no copy of the phase `shadow`."""
        found = None if value is None else _SHADOW.match(value)
        return None if found is None else cls(found[1], int(found[2]), int(found[3], 16))


class Phase(Enum):
    """How far a move is, from the first phase to the last. OLD is the upstream that serves the destinations without the
    move, NEW is the upstream to which they move.
    """

    OFF = "off"
    """Everything is at OLD."""
    SHADOW = "shadow"
    """NEW gets a copy of each SEND."""
    BOTH = "both"
    """Subscriptions are at OLD and at NEW, SENDs go to OLD."""
    NEW = "new"
    """Subscriptions are at OLD and at NEW, SENDs go to NEW."""
    DONE = "done"
    """Everything is at NEW."""

    __hash__ = object.__hash__  # Enum's own is written in Python

    @property
    def sends_new(self) -> bool:
        """Whether SENDs go to NEW."""
        return self in (Phase.NEW, Phase.DONE)

    @property
    def subscribes_new(self) -> bool:
        """Whether subscriptions are at NEW."""
        return self.sends_new or self is Phase.BOTH

    def step(self, many: int) -> "Phase | None":
        """Return the phase so many steps later (negative: earlier), or None."""
        every: list[Phase] = [*Phase]
        at = every.index(self) + many
        return every[at] if 0 <= at < len(every) else None

    def toward(self, goal: "Phase") -> "Phase":
        """Return the next phase on the way to another one."""
        every: list[Phase] = [*Phase]
        here, there = every.index(self), every.index(goal)
        return every[here + (there > here) - (there < here)]


class Kept(NamedTuple):
    """What is on disk of a move, as `Move.enter` takes it."""

    phase: Phase = Phase.OFF
    since: float = 0.0
    stopped: str = ""
    durable: Mapping[str, bool] = {}


MOST: Final = 1000
"""How many durable subscribers of a move are known."""


@dataclass(slots=True, eq=False, repr=False)
class Move:
    """A move, as all sessions of a process share it. Sessions follow `phase` one by one, each phase in turn.

    `since`: when the phase began, in seconds since 1970. `copied`: SENDs that NEW got a copy of in this phase.
    `failed`: copies that failed, and errors of NEW. `stopped`: why the phase goes wrong; "" if it does not. `durable`:
    the durable subscribers that were connected since the move began, and whether each was at OLD and at NEW in this
    phase. `announce` is called when a session stops the phase, and with a durable subscriber when that changes.
    """

    name: str
    phase: Phase = Phase.OFF
    since: float = 0.0
    copied: int = 0
    failed: int = 0
    stopped: str = ""
    durable: dict[str, bool] = field(default_factory=dict)
    announce: Callable[["Move", str], None] | None = None

    @property
    def kept(self) -> Kept:
        """What has to outlive the process."""
        return Kept(self.phase, self.since, self.stopped, self.durable)

    def enter(
        self, phase: Phase, since: float, stopped: str = "", durable: Mapping[str, bool] | None = None
    ) -> None:
        """Begin a phase, or go on with one. Then tell all sessions by the input `Phased`."""
        self.phase, self.since, self.stopped = phase, since, stopped
        self.copied = self.failed = 0
        known = {} if phase is Phase.OFF else dict.fromkeys(self.durable, False)
        self.durable = known if durable is None else {**durable}

    @property
    def away(self) -> list[str]:
        """The durable subscribers that must be connected before the next phase, if that lets OLD or NEW go."""
        between = self.phase in (Phase.BOTH, Phase.NEW)
        return [each for each, there in self.durable.items() if between and not there]

    def met(self, subscriber: str, there: bool | None) -> None:
        """Record a durable subscriber; see `durable`. None: it has ended its subscription."""
        if self.phase is Phase.OFF:
            return
        known = self.durable.get(subscriber)
        if there is None:
            self.durable.pop(subscriber, None)  # another process may know it
        elif known or known is there or (known is None and len(self.durable) >= MOST):
            return
        else:
            self.durable[subscriber] = there
        if self.announce is not None:
            self.announce(self, subscriber)

    def fault(self, reason: str, count: int = 1) -> None:
        """Count something that went wrong at NEW. With a reason, the phase is `stopped`; the first reason is kept."""
        self.failed += count
        if reason and not self.stopped:
            self.stopped = reason
            if self.announce is not None:
                self.announce(self, "")


# What is shown

SHOWN: Final = 20
"""How many of the sessions that stay at OLD are named."""
NEXT: Final = "next"
BACK: Final = "back"


class NotNow(Exception):
    """A phase cannot begin; the text is the reason, for the operator."""


class MoveRow(NamedTuple):
    """A move, as it is shown. `to`: the upstream NEW. `since`: see `Move`. `sessions`: those of its listeners.
    `followed`: how many of them have followed it to this phase. `staying`: how many stay at OLD, because NEW cannot be
    had; `stays` has some of them by name, each with the reason. `older`: how many are older than its table. `old`: the
    upstream OLD; by routes there may be several. `away`: see `Move`; some of them.
    """

    name: str
    pattern: str
    to: str
    phase: str
    since: float
    sessions: int
    followed: int
    staying: int
    older: int
    copied: int
    failed: int
    stopped: str
    stays: list[list[str]]
    away: list[str]
    old: str = ""

    @property
    def waiting(self) -> int:
        """How many sessions have not followed yet, but will."""
        return self.sessions - self.followed - self.staying - self.older

    @property
    def shown(self) -> dict[str, Any]:
        """The row as it is in JSON."""
        return {**self._asdict(), "waiting": self.waiting}

    def plus(self, other: "MoveRow") -> "MoveRow":
        """Return the sum of this row and that of the same move in another process."""
        counts = ("sessions", "followed", "staying", "older", "copied", "failed")
        sums = {name: getattr(self, name) + getattr(other, name) for name in counts}
        stays = [*self.stays, *other.stays][:SHOWN]
        return self._replace(**sums, stopped=self.stopped or other.stopped, stays=stays)

    def chosen(self, order: str) -> Phase:
        """Return the phase that an order means: `next`, `back`, or the phase's name. Raises `NotNow`: `next` is refused
        while a session or a durable subscriber has not followed to where SENDs are about to go, or the move is stopped.
        """
        here = Phase(self.phase)
        if order not in (NEXT, BACK):
            return Phase(order)
        phase = here.step(1 if order == NEXT else -1)
        if phase is None:
            raise NotNow(
                f"{self.name} is {self.phase}: there is no phase {'after' if order == NEXT else 'before'} it"
            )
        if order == BACK:
            return phase
        if self.stopped:
            raise NotNow(
                f"{self.name} is stopped: {self.stopped}; go back with `stomprelay move back {self.name}`"
            )
        if self.away:
            raise NotNow(
                f"durable subscribers have not been connected since {self.name} is {self.phase}: "
                f"{', '.join(self.away)}; "
                f"`stomprelay move to {self.name} {phase.value}` does not wait for them"
            )
        left = {"waiting": self.waiting, "staying at OLD": self.staying, "older than the move": self.older}
        missing = ", ".join(f"{count} {what}" for what, count in left.items() if count)
        if phase.sends_new and missing:
            raise NotNow(
                f"not all sessions have followed {self.name} to {self.phase}: {missing}; "
                f"`stomprelay move to {self.name} {phase.value}` does not wait for them"
            )
        return phase
