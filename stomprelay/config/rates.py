"""How often clients may come and how much they may send: the rates in `[listener.NAME.limits]` and its tables."""

from collections.abc import Iterator
from typing import Final

from stomprelay.config.table import Table
from stomprelay.config.values import choice, count, per_second, seconds
from stomprelay.relay.model.rates import RateLimits, Rates, Scope, spell_number

KEYS: Final = ("connects", "frames", "bytes", "burst", "when_reached")
"""The keys of the rates of one scope."""
TABLES: Final = ("address", "user")
"""The tables with those of each address, and of each user."""

_REFUSES: Final = {"pause": False, "refuse": True}


def read(bounds: Table, place: str, *, identified: bool) -> RateLimits:
    """Return the rates in a listener's table `limits`. `place` is the listener's endpoint; `identified`: it is found
    out who its clients are. Raises `ConfigError`.
    """
    if "address" in bounds:
        _has_addresses(bounds, "address", place)
    if "user" in bounds:
        _has_users(bounds, "user", identified)
    return RateLimits(_rates(bounds), *(_scoped(bounds.table(name)) for name in TABLES))


def per_address(bounds: Table, place: str) -> int | None:
    """Return how many clients of one address there may be. Raises `ConfigError`."""
    most = bounds.get("clients_per_address", count)
    if most is not None:
        _has_addresses(bounds, "clients_per_address", place)
    return most


def per_user(bounds: Table, *, identified: bool) -> int | None:
    """Return how many clients of one user there may be. Raises `ConfigError`."""
    most = bounds.get("clients_per_user", count)
    if most is not None:
        _has_users(bounds, "clients_per_user", identified)
    return most


def _has_addresses(bounds: Table, key: str, place: str) -> None:
    if place.lower().startswith("haproxy:"):
        raise bounds.error(key, "has no effect on a haproxy: endpoint, where all come from the proxy")


def _has_users(bounds: Table, key: str, identified: bool) -> None:
    if not identified:
        raise bounds.error(key, "has no effect without auth, by which it is known who a client is")


def _scoped(table: Table) -> Rates:
    table.only(KEYS)
    return _rates(table)


def _rates(table: Table) -> Rates:
    rates = Rates(
        connects=table.get("connects", per_second),
        frames=table.get("frames", per_second),
        bytes=table.get("bytes", per_second),
        burst=table.get("burst", seconds, Rates.burst),
        refuse=table.get("when_reached", choice(_REFUSES), Rates.refuse),
    )
    if "burst" in table and rates.connects is None and rates.frames is None and rates.bytes is None:
        raise table.error("burst", "has no effect without a rate: connects, frames or bytes")
    if "when_reached" in table and rates.frames is None and rates.bytes is None:
        raise table.error(
            "when_reached", "has no effect without frames or bytes; connects are always refused"
        )
    return rates


def spell(limits: RateLimits) -> Iterator[str]:
    """Yield the rates of each scope that has some, in words."""
    words = {Scope.LISTENER: "all clients together", Scope.ADDRESS: "each address", Scope.USER: "each user"}
    for scope, whose in words.items():
        rates = limits.of(scope)
        each = [("connections", rates.connects), ("frames", rates.frames), ("bytes", rates.bytes)]
        some = [f"{spell_number(rate)} {what}" for what, rate in each if rate is not None]
        if some:
            more = "who sends more is refused" if rates.refuse else "who sends more is read from no faster"
            sends = rates.frames is not None or rates.bytes is not None
            yield f"{whose} {', '.join(some)} a second, {rates.burst:g} s at once" + (
                f"; {more}" if sends else ""
            )
