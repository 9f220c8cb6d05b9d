"""Neighbouring frames that pass without a look at each, and the rules that select them. Only the compiled scanner finds
runs; without it each frame comes by itself, with the same results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sys import maxsize
from typing import Final, NamedTuple, cast, final

from stomprelay.wire.dialect import Dialect
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import RECEIPT_HEADER

_ANY: Final = Limits(maxsize, maxsize, maxsize)
"""A frame that was found was within its limits."""


class Rule(NamedTuple):
    """Which frames of one `command` may pass without a look at each, by the names of their headers as they are written.

    unless  names of headers: a frame that has one of them needs a look. `name:value` means a value that begins so.
    wants   names of headers whose values the run gives; without one of them a frame needs a look
    needs   False: a frame without one of `wants` passes, too
    plain   a frame needs a look unless each header line is `name:value`, with nothing in it to decode
    parts   the run tells where the parts of each frame are
    stays   the frames pass to nobody
    sure    a frame needs a look if a broker may read another of its headers as one of these names
    """

    command: bytes
    unless: tuple[bytes, ...] = ()
    wants: tuple[bytes, ...] = ()
    needs: bool = True
    plain: bool = False
    parts: bool = False
    stays: bool = False
    sure: bool = False


Rules = tuple[Rule, ...]
"""At most one rule for each command."""


class Keep(NamedTuple):
    """What a record keeps of each frame of a run: its head, and `bodies` bytes of its body. `secrets`: headers (in any
    spelling) whose frames need a look.
    """

    bodies: int
    secrets: tuple[bytes, ...]


@final
@dataclass(slots=True, eq=False, repr=False)
class Run:
    """Frames of one command that one rule lets pass, back to back in one chunk.

    `data[start:after]` is all of it. `count`: frames. `last`: where the last one starts; `head`: its header lines.
    `values`: those that the rule wants, each with an LF behind it. `plain`: all heads are. `parts`: three `Py_ssize_t`
    of each frame: its header lines, its body, and behind it. `instead`: the run that goes out in its place, or None.
    Use it before the next chunk is fed: it keeps the chunk alive.

    `kept`: for a `Keep` the sizes of each head, kept body and body, 4 bytes each, lowest first; else None.
    """

    rule: Rule
    data: bytes
    start: int
    after: int
    count: int
    last: int
    head: int
    values: bytes
    plain: bool = True
    parts: bytearray | None = None
    kept: bytes | None = None
    instead: "Run | None" = None

    def replace(self, data: bytes, last: int, head: int) -> None:
        """Let the same frames go out as these bytes; `last` and `head` are as in a run."""
        self.instead = Run(self.rule, data, 0, len(data), self.count, last, head, b"", self.plain)

    @property
    def command(self) -> bytes:
        """The command of all its frames."""
        return self.rule.command

    @property
    def wire(self) -> bytes:
        """The frames as they came, each with its NUL and the LF directly behind it."""
        return self.data[self.start : self.after]

    @property
    def ends(self) -> Sequence[int]:
        """Where each frame ends in `data`, for a rule that wants `parts`."""
        return memoryview(self.parts or b"").cast("P")[2::3]

    def asking(self, receipts: list[bytes]) -> bytes:
        """Return the frames, each with a receipt from these in front; for a rule that wants `parts`."""
        from stomprelay.wire._scan import with_header  # what found this run

        return with_header(self.data, self.start, self.parts or b"", RECEIPT_HEADER, receipts)

    def frames(self, dialect: Dialect) -> list[Frame]:
        """Return the frames one by one; `dialect` is that of their leg."""
        return self._found(dialect, self.start, self.count)

    def last_frame(self, dialect: Dialect) -> Frame:
        """Return the last one."""
        return self._found(dialect, self.last, 1)[0]

    def _found(self, dialect: Dialect, at: int, count: int) -> list[Frame]:
        from stomprelay.wire._scan import Scanner  # what found this run

        found = Scanner(_ANY, dialect, frozenset({self.command})).some(self.data, at, count, count)
        return cast("list[Frame]", found)  # without a rule there is no run

    @property
    def payload(self) -> bytes:
        """The head of each frame and the kept part of its body, back to back; only for a run with `kept`."""
        from stomprelay.wire._scan import kept_of  # what found this run

        return kept_of(self)

    def __repr__(self) -> str:
        """Command, number and size only: heads carry secrets."""
        return f"<{self.count} {self.command.decode()} frames, {self.after - self.start} bytes>"


class Passing(NamedTuple):
    """Rules, and `takes`, which records a run and returns True; or records nothing and returns False: then its frames
    are looked at one by one.
    """

    rules: Rules
    takes: Callable[[Run], bool]


NOTHING_PASSES: Final = Passing((), lambda run: False)
