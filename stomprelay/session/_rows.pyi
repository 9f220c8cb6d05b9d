from stomprelay.session import rows

def ids(rows: bytes, width: int) -> set[bytes]:
    """The compiled `rows.ids`."""

class Rows(rows.Rows):
    """The compiled `rows.Rows`."""
