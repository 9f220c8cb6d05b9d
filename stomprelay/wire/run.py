"""Neighbouring frames that pass without a look at each, taken together, and the rules that say which may.

A rule is told by whoever decides; a run is found by the compiled scanner. It is an economy, never a judgement: where
there is no compiled scanner every frame comes by itself, and nothing else differs.
"""

from collections.abc import Callable, Sequence
from sys import maxsize
from typing import Final, NamedTuple, cast, final

from stomprelay.wire.dialect import Dialect
from stomprelay.wire.frame import Frame
from stomprelay.wire.head import Limits
from stomprelay.wire.names import RECEIPT_HEADER

_ANY: Final = Limits(maxsize, maxsize, maxsize)
"""A frame that was found was within its limits."""


class Rule(NamedTuple):
    """Which frames of a command may pass without a look. Names are header names as they stand on the wire.

    `unless`: a frame that has one of these needs a look; one with a colon and text behind it stands for those whose
    value begins so. `wants`: the headers whose values are needed of each frame,
    of each name the first; a frame without one needs a look, or, where `needs` is False and `wants` one name, passes
    and adds nothing to the values. `plain`: a frame whose head is not plain, as `Frame` has it, needs a look. `parts`:
    the run has to tell where the parts of its frames are, because they go out in other bytes. `stays`: the frames go
    no further; they are all for who takes the run. `sure`: a frame needs a look where a broker may read another header
    as one of these names, or as content-length: a repeated one, one in capitals, or any with blanks around its name.
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
    """What is kept of each frame of a run for a record: its head, and `bodies` bytes of its body at most.

    `secrets`: a frame that may have a header of one of these names needs a look, in whatever case it stands, with
    blanks around it or with a backslash in it. They have no colon, backslash or line end.
    """

    bodies: int
    secrets: tuple[bytes, ...]


@final
class Run:
    """One frame or more of one command that one rule lets pass, back to back in one chunk.

    `data[start:after]` is all of it: frames with nothing between them but the LF right behind a NUL. `count` is how
    many; `last` is where the last one starts, and `head` where that one's header lines start. `values` are those that
    the rule wants, frame by frame, each as it stands between the colon and the LF, with an LF behind it. `plain`: all
    heads are. Where the rule wants `parts`, these are three offsets of each frame, as C has `Py_ssize_t`: its header
    lines, its body, and behind it. `instead` is the run that goes out in the place of this one; None where it goes out
    as it came. Use it before the next chunk is fed, then let it go: it keeps the chunk alive.

    `kept` is there where a `Keep` asks for it, else None: for each frame the sizes of its head, of what is kept of its
    body, and of its body, 4 bytes each, the lowest first.
    """

    __slots__ = (
        "after",
        "count",
        "data",
        "head",
        "instead",
        "kept",
        "last",
        "parts",
        "plain",
        "rule",
        "start",
        "values",
    )

    def __init__(
        self,
        rule: Rule,
        data: bytes,
        start: int,
        after: int,
        count: int,
        last: int,
        head: int,
        values: bytes,
        plain: bool = True,
        parts: bytearray | None = None,
        kept: bytes | None = None,
    ) -> None:
        self.rule = rule
        self.data = data
        self.start = start
        self.after = after
        self.count = count
        self.last = last
        self.head = head
        self.values = values
        self.plain = plain
        self.parts = parts
        self.instead: Run | None = None
        self.kept = kept

    def replace(self, data: bytes, last: int, head: int) -> None:
        """From now on the same frames go out in these bytes; `last` and `head` are as those of a run."""
        self.instead = Run(self.rule, data, 0, len(data), self.count, last, head, b"", self.plain)

    @property
    def command(self) -> bytes:
        """The command of all its frames."""
        return self.rule.command

    @property
    def wire(self) -> bytes:
        """The frames as they came, each with its NUL and the LF right behind it."""
        return self.data[self.start : self.after]

    @property
    def ends(self) -> Sequence[int]:
        """Where each frame ends in `data`, for a rule that wants `parts`."""
        return memoryview(self.parts or b"").cast("P")[2::3]

    def asking(self, receipts: list[bytes]) -> bytes:
        """Return the frames, each with a header in front that asks for the receipt at its place; for a rule that wants
        `parts`.
        """
        from stomprelay.wire._scan import with_header  # what found this run

        return with_header(self.data, self.start, self.parts or b"", RECEIPT_HEADER, receipts)

    def frames(self, dialect: Dialect) -> list[Frame]:
        """Return all of them, one by one; `dialect` is that of the leg that they came on."""
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
        """Of each frame the head and what is kept of its body, back to back; for a run with `kept`."""
        from stomprelay.wire._scan import kept_of  # what found this run

        return kept_of(self)

    def __repr__(self) -> str:
        """Command, number and size only: heads carry secrets."""
        return f"<{self.count} {self.command.decode()} frames, {self.after - self.start} bytes>"


class Passing(NamedTuple):
    """Rules, and who is asked about each run that they find: `takes` records what has to be known of it and returns
    True, or returns False; then its frames are looked at one by one, and nothing was recorded that would be wrong then.
    """

    rules: Rules
    takes: Callable[[Run], bool]


NOTHING_PASSES: Final = Passing((), lambda run: False)
