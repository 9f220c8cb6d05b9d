"""Runs: neighbouring frames that pass without a look at each frame; and the rules for these frames. Only the compiled
scanner finds runs; without the scanner the frames come one by one, with the same results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sys import maxsize
from typing import Final, NamedTuple, cast, final

from stomprelay.wire.dialect import Dialect
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import RECEIPT_HEADER

_ANY: Final = Limits(maxsize, maxsize, maxsize)
"""No limits: the frames of a run were already found to be within the limits."""


MOST_NAMES: Final = 32
"""The scanner takes rules with at most so many names, as `NAMES` in `_scan.pyx`. With more, no frame is in a run."""


class Rule(NamedTuple):
    """Says which frames of one `command` may pass in a run. The relay has to look at all other frames one by one.
    Header names are compared as they are written.

    unless  names of headers: a frame that has one of them is in no run. `name:text`: only if the value begins with text
    wants   names of headers whose values the run has; a frame that lacks one of them is in no run
    needs   False: a frame that lacks one of `wants` may be in a run, too
    plain   only frames whose header lines all are `name:value`, with nothing to decode, are in a run
    parts   the run has the offsets of each frame's parts
    stays   the frames are not sent on
    sure    a frame is in no run if a broker may read another of its headers as one of these names or content-length
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
    """What a record keeps of each frame of a run: the head, and `bodies` bytes of the body. A frame with one of the
    headers `secrets`, in any spelling, is in no run.
    """

    bodies: int
    secrets: tuple[bytes, ...]


@final
@dataclass(slots=True, eq=False, repr=False)
class Run:
    """Frames of one command that one rule lets pass, back to back in one chunk.

    `data[start:after]`: all frames. `count`: the number of frames. `last`: where the last frame starts; `head`:
    where its header lines start. `values`: the values that the rule wants, each with an LF behind it. `plain`: all
    heads are plain. `parts`: three `Py_ssize_t` for each frame: where its header lines and its body start, and
    where it ends. `instead`: the run that is sent in place of this one, or None. `added`: headers that each frame
    is to lose, names of headers that it is to get, and their values, frame by frame, each with an LF behind it. Use
    a run before the next chunk is fed: it keeps the chunk alive.

    `kept`: for a `Keep` the sizes of each head, kept body and body, in 4 bytes each, lowest byte first; otherwise None.
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
    added: tuple[tuple[bytes, ...], tuple[bytes, ...], bytes] = (), (), b""

    def replace(self, data: bytes, last: int, head: int) -> None:
        """Let these bytes be sent in place of the frames. `last` and `head` are offsets in these bytes, as in a run."""
        self.instead = Run(self.rule, data, 0, len(data), self.count, last, head, b"", self.plain)

    @property
    def command(self) -> bytes:
        """The command of all frames."""
        return self.rule.command

    @property
    def place(self) -> bytes:
        """The values of each frame, if all frames have the same values."""
        return self.values[: len(self.values) // self.count]

    @property
    def wire(self) -> bytes:
        """The frames as they came, each with its NUL and the LF directly behind it."""
        return self.data[self.start : self.after]

    @property
    def ends(self) -> Sequence[int]:
        """The end of each frame in `data`. Only for a rule with `parts`."""
        return memoryview(self.parts or b"").cast("P")[2::3]

    def asking(self, receipts: list[bytes]) -> bytes:
        """Return the frames as bytes. In front of each frame's headers is a `receipt` header with the next of these
        receipts. The rule must have `parts`.
        """
        from stomprelay.wire._scan import with_header  # it is there, because it found this run

        return with_header(self.data, self.start, self.parts or b"", RECEIPT_HEADER, receipts)

    def frames(self, dialect: Dialect) -> list[Frame]:
        """Return the frames one by one; `dialect` is that of their leg."""
        return self._found(dialect, self.start, self.count)

    def last_frame(self, dialect: Dialect) -> Frame:
        """Return the last frame."""
        return self._found(dialect, self.last, 1)[0]

    def _found(self, dialect: Dialect, at: int, count: int) -> list[Frame]:
        from stomprelay.wire._scan import Scanner  # it is there, because it found this run

        found = Scanner(_ANY, dialect, frozenset({self.command})).some(self.data, at, count, count)
        return cast("list[Frame]", found)  # without a rule there is no run

    @property
    def payload(self) -> bytes:
        """The head of each frame and the kept part of its body, back to back; only for a run with `kept`."""
        from stomprelay.wire._scan import kept_of  # it is there, because it found this run

        return kept_of(self)

    def __repr__(self) -> str:
        """Command, number and size only: heads carry secrets."""
        return f"<{self.count} {self.command.decode()} frames, {self.after - self.start} bytes>"


class Passing(NamedTuple):
    """Rules for runs, and the function `takes`, which is called with each run. `takes` either records the run and
    returns True, or records nothing and returns False. After False the frames are looked at one by one.
    """

    rules: Rules
    takes: Callable[[Run], bool]


NOTHING_PASSES: Final = Passing((), lambda run: False)
