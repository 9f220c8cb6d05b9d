"""The dashboard, and its data, which it asks for once a second: everything but the sessions, in JSON.

The page is four files and an icon in `page/`, sent unchanged; its scripts fill it. While the page is visible, the
browser asks for `GET /overview` each second, and for a page of `GET /sessions`. The browser keeps the history; the
relay keeps nothing for the page.

    GET /overview   {"version": ..., "time": ..., "listeners": [...], "brokers": [...], ...}

`time` is the time of the data, `started` the start of the relay, both in seconds since 1970; `orders` are the paths of
POSTs; `bounds` are those of the histograms in `times`. The rest are the rows of `snapshot`.
"""

import json
from collections.abc import Iterable
from importlib import resources
from typing import Final

from stomprelay import __version__
from stomprelay.relay.model.histogram import BOUNDS, TIMES
from stomprelay.service.admin.snapshot import Snapshot, TimeRow

FILES: Final = {
    b"/": ("dashboard.html", "text/html; charset=utf-8"),
    b"/dashboard.css": ("dashboard.css", "text/css; charset=utf-8"),
    b"/drawing.js": ("drawing.js", "text/javascript; charset=utf-8"),
    b"/dashboard.js": ("dashboard.js", "text/javascript; charset=utf-8"),
    b"/icon.svg": ("icon.svg", "image/svg+xml"),
}
"""The files of the page, with their types, by path."""


def file(name: str) -> str:
    """Return the text of a file of the page."""
    return resources.files("stomprelay.service.admin").joinpath("page", name).read_text(encoding="utf-8")


def overview(taken: Snapshot, orders: Iterable[str]) -> str:
    """Return the state of the relay as JSON text. `orders` are the paths of POSTs that the page may send."""
    found = {
        "version": __version__,
        "time": taken.time,
        "started": taken.started,
        "stopping": taken.stopping,
        "draining": taken.draining,
        "connections": taken.connections,
        "sessions": taken.clients,
        "listeners": [each._asdict() for each in taken.listeners],
        "brokers": [
            {**each._asdict(), "tally": each.tally._asdict(), "waiting": each.tally.waiting}
            for each in taken.brokers
        ],
        "memory": taken.memory._asdict(),
        "journal": taken.journal and taken.journal._asdict(),
        "workers": [each._asdict() for each in taken.workers],
        "times": [_time(each) for each in taken.times],
        "bounds": BOUNDS,
        "destinations": [{"destination": each.destination, **each.tally._asdict()} for each in taken.top],
        "outages": [each._asdict() for each in taken.outages],
        "orders": sorted(orders),
    }
    return json.dumps(found) + "\n"


def _time(row: TimeRow) -> dict[str, object]:
    time = TIMES[row.name]
    return {**row._asdict(), "by": time.by, "meaning": time.meaning}
