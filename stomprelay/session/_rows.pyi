class Rows:
    """Rows of `width` values, in order. A row's values `first` up to `stop` are its name; no name occurs twice.
    `size`: the bytes of all rows.
    """

    size: int

    def __init__(self, width: int, first: int, stop: int) -> None: ...
    def __len__(self) -> int: ...
    def add(self, text: bytes, covered: set[bytes]) -> bool:
        """Add the newest rows. Return False, and add no row, if a name is taken. `covered`: first values. When a new
        row with such a first value is removed, all earlier rows with the same first value are removed, too.
        """

    def values(self, names: bytes, first: int, stop: int) -> bytes | None:
        """Return the values `first` up to `stop` of the rows with these names; None if `remove` may not find a name."""

    def remove(self, names: bytes) -> tuple[bool, set[bytes]]:
        """Remove the rows with these names, and the earlier rows that they cover. Return whether each name was found,
        and the first values of the rows that cover earlier rows.
        """

    def take(self) -> bytes:
        """Remove all rows, and return them."""

def ids(rows: bytes, width: int) -> set[bytes]:
    """Return the set of the first values of these rows; each row has `width` values."""
