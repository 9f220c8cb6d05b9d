"""Where a client's open transaction is."""

from stomprelay.relay.lane import Lane
from stomprelay.relay.trunk import Trunk
from stomprelay.wire.dialect import Headers


class Placement:
    """A transaction is wholly on one trunk: the first frame in it decides on which. Until it is `used` so, that is the
    trunk that was told its BEGIN (`headers`, without the receipt) for want of a better one.

    `bearing` are lanes with a part of it that no other one has: without them it cannot be committed. `short` are lanes
    that a part of it missed.
    """

    __slots__ = ("bearing", "headers", "short", "trunk", "used")

    def __init__(self, trunk: Trunk, headers: Headers) -> None:
        self.trunk = trunk
        self.headers = headers
        self.used = False
        self.bearing: set[Lane] = set()
        self.short: set[Lane] = set()

    def spoiled(self, name: bytes) -> list[Lane]:
        """The lanes on which it cannot be committed; their `blame` says why."""
        spoiled = []
        for lane in self.trunk.lanes:
            transaction = lane.session.transactions.get(name)
            doomed = None if transaction is None else transaction.doomed
            if not lane.out:
                if doomed is None and lane in self.short:
                    doomed = "it was full"
                if doomed is None:
                    continue
                lane.blame = doomed
            spoiled.append(lane)
        return spoiled
