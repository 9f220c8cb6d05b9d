"""Slows down addresses from which clients were refused: each further attempt is checked later than the one before."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

FREE: Final = 3
"""How many failures an address may have before its attempts are delayed."""
STEP: Final = 0.25
"""Each further failure of an address adds so many seconds to the time between two of its attempts."""
MOST: Final = 23
"""The largest number of failures that are counted for an address."""
FORGET: Final = 10.0
"""Seconds after which one failure is forgotten."""
PATIENCE: Final = 5.0
"""The longest delay of an attempt, in seconds. An attempt that would have to wait longer is not checked."""
PLACES: Final = 10_000
"""The largest number of known addresses. When it is reached, the address that failed longest ago is forgotten."""


@dataclass(slots=True, eq=False, repr=False)
class _Address:
    """An address. `failures`: how many it had at the time `at`. `free_at`: when its next attempt may be checked."""

    at: float
    free_at: float
    failures: float = 0.0


class FailedAttempts:
    """Counts the failures of addresses; `now` is in seconds of one monotonic clock."""

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, _Address] = OrderedDict()

    def __len__(self) -> int:
        return len(self._addresses)

    def wait(self, address: str, now: float) -> float | None:
        """Return the seconds until an attempt of this address may be checked; None if it must not be checked at all."""
        if not self.failures(address, now):
            self._addresses.pop(address, None)
            return 0.0
        found = self._addresses[address]
        pause = STEP * max(found.failures - FREE, 0.0)
        begin = max(now, found.free_at)
        if begin - now > PATIENCE:
            return None
        found.free_at = begin + pause
        return begin - now

    def failures(self, address: str, now: float) -> float:
        """Return how many failures of this address are not forgotten yet."""
        found = self._addresses.get(address)
        if found is None:
            return 0.0
        _forget(found, now)
        return found.failures

    def failed(self, address: str, now: float) -> None:
        """Count a failure: a client from this address was refused."""
        found = self._addresses.get(address)
        if found is None:
            if len(self._addresses) >= PLACES:
                self._addresses.popitem(last=False)
            found = self._addresses[address] = _Address(now, now)
        _forget(found, now)
        found.failures = min(found.failures + 1, MOST)
        found.free_at = max(found.free_at, now + STEP * max(found.failures - FREE, 0.0))
        self._addresses.move_to_end(address)


def _forget(found: _Address, now: float) -> None:
    found.failures = max(found.failures - (now - found.at) / FORGET, 0.0)
    found.at = now
