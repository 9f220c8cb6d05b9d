"""A relay's brokers and sessions as tables of text, and the names for filters and orders of sessions."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from stomprelay.wire.errors import visible

FILTERS: Final = ("session", "listener", "login", "client", "broker", "destination", "any")
ORDERS: Final = (
    "session", "listener", "login", "client", "age", "idle", "destinations", "unconfirmed", "unacknowledged",
    "frames", "bytes", "client_frames", "broker_frames", "client_bytes", "broker_bytes", "to_client_bytes",
    "to_broker_bytes",
)  # fmt: skip
RATES: Final = {
    "frames_rate": ("client_frames_rate", "broker_frames_rate"),
    "bytes_rate": ("client_bytes_rate", "broker_bytes_rate"),
}
"""The orders by the traffic in a second, both ways together."""

BROKER: Final = ("broker", "upstream", "group", "state", "#sessions", "#moving", "#waiting")
"""The columns; those whose names begin with # hold numbers and are aligned to the right."""
SESSION: Final = (
    "session", "login", "client", "version", "broker", "#age", "#idle", "#unconfirmed", "#unacknowledged",
    "#from client", "#from broker", "limited by", "subscribed to", "sent to",
)  # fmt: skip
SESSION_RATES: Final = (*SESSION[:9], "#frames/s", "#from client/s", "#from broker/s", *SESSION[11:])


def with_rates(before: Iterable[Any], rows: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the sessions of the second answer with their rates since the first. Raises `KeyError` or `TypeError`."""
    known = {row["session"]: row for row in before}
    for row in rows:
        old = known.get(row["session"], {})
        seconds = row["age"] - old.get("age", 0)
        rates = {}
        for name in ("client_frames", "broker_frames", "client_bytes", "broker_bytes"):
            rates[f"{name}_rate"] = round((row[name] - old.get(name, 0)) / seconds, 1) if seconds > 0 else 0.0
        yield {**row, **rates}


def session_cells(row: Any) -> tuple[str, ...]:
    """Return the cells of a session's line, with rates if it has some. Raises `KeyError` or `TypeError`."""
    more = [f"{row['more_destinations']} more"] if row["more_destinations"] else []
    numbers = [row[name] for name in ("unconfirmed", "unacknowledged", "client_bytes", "broker_bytes")]
    if any(type(number) is not int for number in numbers):
        raise TypeError
    if "client_bytes_rate" in row:
        frames = sum(row[name] for name in RATES["frames_rate"])
        rates = [frames, *(row[name] for name in RATES["bytes_rate"])]
        numbers = [*numbers[:2], *(f"{rate:.0f}" for rate in rates)]
    return (
        visible(row["session"]),
        visible(row["login"] or "-"),
        visible(row["client"]),
        visible(row["version"] or "-"),
        visible(", ".join(each or "searching" for each in row["brokers"])) or "-",
        _duration(row["age"]),
        "-" if row["idle"] is None else _duration(row["idle"]),
        *map(str, numbers),
        visible(row["limited"] or "-"),
        visible(", ".join([*row["destinations"], *more])) or "-",
        visible(", ".join(row["sent_to"])) or "-",
    )


def _duration(seconds: float) -> str:
    """Return seconds in their two largest units: 41s, 3m05s, 2d07h."""
    rest = int(seconds)
    for unit, name, smaller, its in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if rest >= unit:
            return f"{rest // unit}{name}{rest % unit // smaller:02}{its}"
    return f"{rest}s"


def table(names: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table. A column whose name begins with # holds numbers, aligned to the right."""
    right = [name.startswith("#") for name in names]
    lines = [tuple(name.lstrip("#") for name in names), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = zip(line, widths, right, strict=True)
        yield "  ".join(
            f"{cell:>{width}}" if is_right else f"{cell:{width}}" for cell, width, is_right in cells
        ).rstrip()
