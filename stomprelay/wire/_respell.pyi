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
    def frames(
        self,
        data: bytes,
        start: int,
        parts: bytearray,
        drop: tuple[bytes, ...],
        adds: bytes,
    ) -> tuple[bytes, int, int] | None:
        """What becomes of the frames from `start` on, with where the last one starts and where its header lines do.
        `adds` are header lines, each with its LF, as many for each frame as for the others. None where one of them has
        something that is not told.
        """
