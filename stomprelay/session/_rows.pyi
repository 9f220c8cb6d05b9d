class Rows:
    """Rows of `width` values in order, unique by their values `first` up to `stop`. `size`: bytes of the texts."""

    size: int

    def __init__(self, width: int, first: int, stop: int) -> None: ...
    def __len__(self) -> int: ...
    def add(self, text: bytes, covered: set[bytes]) -> bool:
        """Add the newest rows; `covered` ones go with later ones. Return False, and add none, where a name is taken."""

    def values(self, names: bytes, first: int, stop: int) -> bytes | None:
        """Return the values `first` up to `stop` of the rows with these names; None if `remove` may not find one."""

    def remove(self, names: bytes) -> tuple[bool, set[bytes]]:
        """Remove the rows with these names, and the rows that these cover. Return whether each name was found, and the
        subscriptions of covered rows.
        """

    def take(self) -> bytes:
        """Remove all rows, and return them."""

def ids(rows: bytes, width: int) -> set[bytes]:
    """Return the first value of each row, for rows of so many values."""
