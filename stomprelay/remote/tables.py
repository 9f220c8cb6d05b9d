"""What is shown of a relay's brokers and sessions, as tables of text, and what sessions are chosen and sorted by."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from stomprelay.journal.command import visible

FILTERS: Final = ("session", "listener", "login", "client", "broker", "destination", "any")
"""What sessions are chosen by."""
ORDERS: Final = (
    "session", "listener", "login", "client", "age", "idle", "destinations", "unconfirmed", "unacknowledged",
    "frames", "bytes", "client_frames", "broker_frames", "client_bytes", "broker_bytes",
)  # fmt: skip
"""What they are sorted by: texts from the first, numbers from the largest."""

BROKER: Final = ("broker", "upstream", "group", "state", "#sessions", "#moving")
"""The columns; # is a number's, which stands at the right."""
SESSION: Final = (
    "session", "login", "client", "version", "broker", "#age", "#idle", "#unconfirmed", "#unacknowledged",
    "#from client", "#from broker", "subscribed to",
)  # fmt: skip


def session_cells(row: Any) -> tuple[str, ...]:
    """Return the cells of a session's line. Raises `KeyError` or `TypeError` where it is none."""
    more = [f"{row['more_destinations']} more"] if row["more_destinations"] else []
    numbers = [row[name] for name in ("unconfirmed", "unacknowledged", "client_bytes", "broker_bytes")]
    if any(type(number) is not int for number in numbers):
        raise TypeError
    return (
        visible(row["session"]),
        visible(row["login"] or "-"),
        visible(row["client"]),
        visible(row["version"] or "-"),
        visible(", ".join(each or "searching" for each in row["brokers"])) or "-",
        _duration(row["age"]),
        "-" if row["idle"] is None else _duration(row["idle"]),
        *map(str, numbers),
        visible(", ".join([*row["destinations"], *more])) or "-",
    )


def _duration(seconds: float) -> str:
    """Return seconds in the two largest units that they have: 41s, 3m05s, 2d07h."""
    rest = int(seconds)
    for unit, name, smaller, its in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if rest >= unit:
            return f"{rest // unit}{name}{rest % unit // smaller:02}{its}"
    return f"{rest}s"


def table(names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table. A column whose name begins with # holds numbers, which stand at its right."""
    right = [name.startswith("#") for name in names]
    lines = [tuple(name.lstrip("#") for name in names), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = zip(line, widths, right, strict=True)
        yield "  ".join(
            f"{cell:>{width}}" if is_right else f"{cell:{width}}" for cell, width, is_right in cells
        ).rstrip()
