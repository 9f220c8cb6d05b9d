from _typeshed import ReadableBuffer

from stomprelay.wire.dialect import Dialect
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.run import Keep, Rules, Run

def with_header(data: bytes, start: int, parts: bytes | bytearray, name: bytes, values: list[bytes]) -> bytes:
    """Return the frames from `start` on that have these `parts` (see `Run`), each with the header of this name, and the
    value at its place as it stands, in front of its own.
    """

def place_of(kind: type, name: str) -> int:
    """Return where the slot of this name is in an object of this class. Raises `TypeError` if it is no slot."""

def kept_of(run: Run) -> bytes:
    """Return `Run.payload`."""

class Scanner:
    """Finds whole, good frames. `seen` counts the bytes that it looked at; `trails`: one had an LF behind its NUL.
    `need` tells of the frame that it looked at last: 0, it was good; how many bytes it has, where only a part of its
    body is there; -1, the Python decoder has to judge.
    """

    seen: int
    need: int
    trails: bool

    def __init__(
        self,
        limits: Limits,
        dialect: Dialect,
        commands: frozenset[bytes],
        rules: Rules = (),
        keep: Keep | None = None,
    ) -> None: ...
    def scan(self, data: bytes, at: int) -> Frame | Run | None:
        """Return the good frame, or the run, that begins at `at`; None if the Python decoder has to judge."""

    def some(self, data: bytes, at: int, most: int, few: int) -> list[Frame | Run] | Run:
        """The good frames that begin at `at`, `few` of them at most, or the run of `most` frames at most; nothing where
        the Python decoder has to judge, or to wait for what the frame needs.
        """

    def offsets(self, data: ReadableBuffer, at: int) -> tuple[int, int, int, int, bool] | None:
        """What `scan` finds first, in any buffer: head, body, end, after, plain; for tests of what is read."""

class Secrets:
    """What stands in the headers that a `Keep` calls secrets is replaced by the mask."""

    def __init__(self, keep: Keep, mask: bytes) -> None: ...
    def masked(self, frame: Frame) -> bytes:
        """Return a frame's head, from the command to the blank line, with the mask in place of each secret value.
        Blanks around a name, and its case, make no difference.
        """
