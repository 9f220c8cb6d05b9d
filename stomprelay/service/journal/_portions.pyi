from collections.abc import Callable

from stomprelay.service.journal import portions

def checksum(data: bytes) -> int:
    """Return its CRC-32, as `zlib` has it."""

class Portions(portions.Portions):
    """The compiled `portions.Portions`."""

    def __init__(
        self,
        most: int,
        clock: Callable[[], int],
        reached: Callable[[], None],
        refused: Callable[[int, int], None],
    ) -> None: ...
