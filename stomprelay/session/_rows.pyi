class Rows:
    """Rows of `width` values in order, unique by their values `first` up to `stop`. `size`: bytes of the texts."""

    size: int

    def __init__(self, width: int, first: int, stop: int) -> None: ...
    def __len__(self) -> int: ...
    def add(self, text: bytes, covered: set[bytes]) -> bool:
        """Add the newest rows; `covered` ones go with later ones. Return False, and add none, where a name is taken."""

    def values(self, names: bytes, first: int, stop: int) -> bytes | None:
        """Return the values `first` up to `stop` of the rows of these names; None where `remove` may not find each."""

    def remove(self, names: bytes) -> tuple[bool, set[bytes]]:
        """Remove the rows of these names and what they cover. Return whether each was found, and whose were."""

    def take(self) -> bytes:
        """Remove all rows, and return them."""

def ids(rows: bytes, width: int) -> set[bytes]:
    """Return the first values of rows of so many values."""
