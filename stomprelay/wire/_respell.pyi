from collections.abc import Sequence

class Speller:
    """Writes frames for another dialect, by the tables of `bridge.Spelling`."""

    def __init__(
        self,
        octets: Sequence[bytes | None],
        escapes: Sequence[bytes | None] | None,
        padded: bool,
        stripped: Sequence[bytes],
    ) -> None: ...
    def values(self, text: bytes) -> bytes | None:
        """Return values, each with an LF behind it, in the other spelling; None if the tables lack a part of one."""

    def frames(
        self,
        data: bytes,
        start: int,
        parts: bytearray,
        drop: tuple[bytes, ...],
        names: tuple[bytes, ...],
        values: bytes,
    ) -> tuple[bytes, int, int] | None:
        """Return the frames from `start` on in the other spelling, and two offsets in the result: where the last frame
        starts, and where its header lines start. Each frame loses its headers `drop`, and gets headers of these `names`
        in front of its own. `values`: the values of the new headers, each with an LF behind it, frame by frame, or
        those of one frame if all get the same. Return None if the tables lack a byte or an escape of a frame.
        """
