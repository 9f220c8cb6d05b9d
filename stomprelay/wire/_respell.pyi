from collections.abc import Sequence

class Speller:
    """Writes frames for another dialect: see `spelling.Spelling`, whose tables it is made of."""

    def __init__(
        self,
        octets: Sequence[bytes | None],
        escapes: Sequence[bytes | None] | None,
        padded: bool,
        stripped: Sequence[bytes],
    ) -> None: ...
    def values(self, text: bytes) -> bytes | None:
        """What becomes of values, each with an LF behind it; None where one has something that is not told."""

    def frames(
        self,
        data: bytes,
        start: int,
        parts: bytearray,
        drop: tuple[bytes, ...],
        names: tuple[bytes, ...],
        values: bytes,
    ) -> tuple[bytes, int, int] | None:
        """What becomes of the frames from `start` on, with where the last one starts and where its header lines do.
        In front of those of each frame stand headers of these `names`; `values` are theirs, frame by frame, each with
        an LF behind it. None where one of them has something that is not told.
        """
