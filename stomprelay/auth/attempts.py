"""Addresses from which clients come that are not let in are slowed down: each further attempt is looked at only some
time after the one before.
"""

from collections import OrderedDict
from typing import Final

FREE: Final = 3
"""Failures of an address that cost it nothing."""
STEP: Final = 0.25
"""Seconds between two attempts of an address, for each failure beyond those."""
MOST: Final = 23
"""Failures of an address that are counted."""
FORGET: Final = 10.0
"""Seconds after which one failure is forgotten."""
PATIENCE: Final = 5.0
"""Seconds that an attempt may wait; one that would have to wait longer is not looked at."""
PLACES: Final = 10_000
"""Addresses that are known; of more, the one that failed longest ago is forgotten."""


class _Address:
    """What is known of an address: its failures as of `at`, and when the next attempt may be looked at."""

    __slots__ = ("at", "failures", "free_at")

    def __init__(self, now: float) -> None:
        self.failures = 0.0
        self.at = now
        self.free_at = now


class Attempts:
    """The failures of addresses; `now` is in seconds of one clock that never goes back."""

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, _Address] = OrderedDict()

    def __len__(self) -> int:
        return len(self._addresses)

    def wait(self, address: str, now: float) -> float | None:
        """Return for how many seconds an attempt of this address has to wait before it is looked at; None: it is not to
        be looked at.
        """
        found = self._addresses.get(address)
        if found is None:
            return 0.0
        _forget(found, now)
        if found.failures <= 0:
            del self._addresses[address]
            return 0.0
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
        """A client of this address was not let in."""
        found = self._addresses.get(address)
        if found is None:
            if len(self._addresses) >= PLACES:
                self._addresses.popitem(last=False)
            found = self._addresses[address] = _Address(now)
        _forget(found, now)
        found.failures = min(found.failures + 1, MOST)
        found.free_at = max(found.free_at, now + STEP * max(found.failures - FREE, 0.0))
        self._addresses.move_to_end(address)


def _forget(found: _Address, now: float) -> None:
    found.failures = max(found.failures - (now - found.at) / FORGET, 0.0)
    found.at = now
