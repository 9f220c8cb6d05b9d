from _typeshed import ReadableBuffer

from stomprelay.wire.dialect import Dialect
from stomprelay.wire.frame import Frame
from stomprelay.wire.head import Limits
from stomprelay.wire.run import Keep, Rules, Run

def with_header(data: bytes, start: int, parts: bytes | bytearray, name: bytes, values: list[bytes]) -> bytes:
    """Return the frames from `start` on that have these `parts` (see `Run`), each with the header of this name, and the
    value at its place as it stands, in front of its own.
    """

class Scanner:
    """Finds whole, good frames. `seen` counts the bytes that it looked at; `trails`: one had an LF behind its NUL."""

    seen: int
    trails: bool

    def __init__(
        self,
        limits: Limits,
        dialect: Dialect,
        commands: frozenset[bytes],
        rules: Rules = (),
        keep: Keep | None = None,
    ) -> None: ...
    def scan(self, data: bytes, at: int, most: int = ...) -> Frame | Run | None:
        """The good frame that begins at `at`, or the run of `most` frames at most; None where the Python decoder has to
        judge.
        """

    def offsets(self, data: ReadableBuffer, at: int) -> tuple[int, int, int, int, bool] | None:
        """What `scan` finds first, in any buffer: head, body, end, after, plain; for tests of what is read."""
