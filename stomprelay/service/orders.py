"""What operators order over HTTP, in JSON: which brokers, and how they are to leave.

    {"broker": "tcp://broker-a:61613", "within": 30}

`broker` is an address as it is configured, its `host:port`, or `*` for all; `within` is seconds.
"""

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from stomprelay.service.relayservice import RelayService

LONGEST: Final = 86400.0
"""Seconds that sessions may be given to leave a broker, at most."""


class BadOrder(Exception):
    """An order that cannot be understood; the text says why."""


class Order(NamedTuple):
    """Which broker, in the words of the order, and how many seconds its sessions have; None where nothing is said."""

    broker: str
    within: float | None = None


def read(body: bytes, *, timed: bool) -> Order:
    """The order in a body; only one that is `timed` may say how long it takes. Raises `BadOrder`."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise BadOrder('the body must be JSON such as {"broker": "*"}') from None
    if not isinstance(said, dict):
        raise BadOrder('the body must be an object such as {"broker": "*"}')
    known = ("broker", "within") if timed else ("broker",)
    for key in said:
        if key not in known:
            raise BadOrder(f"there is no {json.dumps(key)} here; there is {' and '.join(known)}")
    broker = said.get("broker")
    if not isinstance(broker, str):
        raise BadOrder('"broker" must be the address of a broker, its host:port, or "*" for all')
    return Order(broker, _seconds(said))


def _seconds(said: Mapping[str, object]) -> float | None:
    if "within" not in said:
        return None
    within = said["within"]
    if isinstance(within, bool) or not isinstance(within, int | float) or not 0 <= within <= LONGEST:
        raise BadOrder(f'"within" must be seconds, from 0 to {LONGEST:g}')
    return float(within)


def brokers(service: RelayService) -> str:
    """All brokers and how they are, in JSON."""
    now = service.stage.seconds()
    moving: dict[object, int] = {}
    for session in service.everyone():
        for link in session.relay.links:
            if link.moving and link.broker is not None:
                moving[link.broker] = moving.get(link.broker, 0) + 1
    rows = [
        {
            "uri": entry.broker.uri,
            "upstream": entry.upstream.name,
            "group": entry.group.name,
            "state": entry.state(now),
            "sessions": entry.broker.health.sessions,
            "moving": moving.get(entry.broker, 0),
        }
        for entry in service.roster
    ]
    return json.dumps({"brokers": rows}) + "\n"
