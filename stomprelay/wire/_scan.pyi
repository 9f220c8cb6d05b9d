from _typeshed import ReadableBuffer

from stomprelay.wire.dialect import Dialect
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.run import Keep, Rules, Run

def with_header(data: bytes, start: int, parts: bytes | bytearray, name: bytes, values: list[bytes]) -> bytes:
    """Return the frames from `start` on, each with one more header of this `name` in front. `parts`: the parts of the
    frames, see `Run`. `values`: the value for each frame, already escaped.
    """

def place_of(kind: type, name: str) -> int:
    """Return the offset of the slot of this name in objects of this class. Raises `TypeError` if it is no slot."""

def kept_of(run: Run) -> bytes:
    """Return the result of `Run.payload`."""

class Scanner:
    """Finds complete, valid frames. `seen`: how many bytes it looked at so far. `trails`: a frame had an LF behind its
    NUL. `need` describes the last frame that it looked at: 0, the frame was valid; above 0, the body is incomplete, and
    this is the size of the whole frame; -1, the Python decoder has to judge the frame.
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
        """Return the valid frame, or the run, that begins at `at`; None if there is none, see `need`."""

    def some(self, data: bytes, at: int, most: int, few: int) -> list[Frame | Run] | Run:
        """Return the valid frames from `at` on, at most `few`; or the run that begins at `at`, of at most `most`
        frames. The list is empty if the first frame is not valid or not complete, see `need`.
        """

    def offsets(self, data: ReadableBuffer, at: int) -> tuple[int, int, int, int, bool] | None:
        """Return head, body, end, after and plain of the frame at `at`, or None. Only tests call this."""

class Secrets:
    """Replaces the values of the headers that a `Keep` calls secrets by the mask."""

    def __init__(self, keep: Keep, mask: bytes) -> None: ...
    def masked(self, frame: Frame) -> bytes:
        """Return a frame's head, from the command to the blank line, with the mask in place of each secret value. A
        header's name is recognised in any case, and with blanks around it.
        """
