"""Requests to pause or resume brokers, {"broker": "tcp://broker-a:61613", "within": 30}, and the JSON of brokers.
`broker` is an address as configured, a `host:port`, or `*` for all; `within` is seconds.
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from stomprelay.service.admin.snapshot import Snapshot

LONGEST: Final = 86400.0
"""The longest time, in seconds, that a request may give sessions to leave a broker."""
_SAID: Final = ("uri", "upstream", "group", "state", "sessions", "moving", "staying", "stays")


class BadRequest(Exception):
    """The body of a request is not valid; the text is the reason, and is sent in the response."""


class Unavailable(Exception):
    """The requested data is not available now; the text is the reason, and is sent in the response."""


class BrokerRequest(NamedTuple):
    """A request: `broker` as it names it, and `within` in seconds, None if it has none."""

    broker: str
    within: float | None = None


def parse(body: bytes, *, timed: bool) -> BrokerRequest:
    """Return the request in a JSON body. Raises `BadRequest`, also for a `within` if it is not `timed`."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest('the body must be JSON such as {"broker": "*"}') from None
    if not isinstance(values, dict):
        raise BadRequest('the body must be an object such as {"broker": "*"}')
    known = ("broker", "within") if timed else ("broker",)
    for key in values:
        if key not in known:
            raise BadRequest(f"there is no {json.dumps(key)} here; there is {' and '.join(known)}")
    broker = values.get("broker")
    if not isinstance(broker, str):
        raise BadRequest('"broker" must be the address of a broker, its host:port, or "*" for all')
    return BrokerRequest(broker, _within(values))


def _within(values: Mapping[str, object]) -> float | None:
    if "within" not in values:
        return None
    within = values["within"]
    if isinstance(within, bool) or not isinstance(within, int | float) or not 0 <= within <= LONGEST:
        raise BadRequest(f'"within" must be seconds, from 0 to {LONGEST:g}')
    return float(within)


def brokers(taken: Snapshot) -> str:
    """Return all brokers with their states, as JSON text."""
    rows = [
        {**{name: getattr(each, name) for name in _SAID}, "waiting": each.tally.waiting}
        for each in taken.brokers
    ]
    return json.dumps({"brokers": rows}) + "\n"
