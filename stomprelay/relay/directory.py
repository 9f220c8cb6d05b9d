"""Which upstreams a session uses, and where destinations lead."""

from collections.abc import Callable
from typing import Final

from stomprelay.relay.branch import Branch
from stomprelay.relay.lane import Lane
from stomprelay.relay.listener import Listener
from stomprelay.relay.trunk import Trunk
from stomprelay.relay.upstream import Upstream

_MOST_KNOWN: Final = 4096


class Directory:
    """The trunks of a session: `main`, the listener's own upstream, and those that were needed since.

    `branches` makes the branches of an upstream; those in `opened` have to seek their brokers. `places` tells where
    a branch belongs.
    """

    __slots__ = ("_branches", "_known", "_listener", "main", "opened", "places", "trunks")

    def __init__(self, listener: Listener, branches: Callable[[Upstream], list[Branch]]) -> None:
        self._listener = listener
        self._branches = branches
        self._known: dict[bytes, Trunk] = {}
        self.trunks: list[Trunk] = []
        self.places: dict[Branch, tuple[Trunk, Lane]] = {}
        self.opened: list[Branch] = []
        self.main = self._open(listener.upstream)

    @property
    def forks(self) -> bool:
        """Whether destinations lead to more than one upstream."""
        return bool(self._listener.routes)

    def trunk(self, destination: bytes) -> Trunk:
        """Where a destination leads; the way there is opened when it is first asked for."""
        if not self.forks:
            return self.main
        trunk = self._known.get(destination)
        if trunk is None:
            trunk = self._open(self._listener.routed(destination))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[destination] = trunk
        return trunk

    def _open(self, upstream: Upstream) -> Trunk:
        for trunk in self.trunks:
            if trunk.upstream is upstream:
                return trunk
        branches = self._branches(upstream)
        trunk = Trunk(upstream, branches)
        self.trunks.append(trunk)
        self.places.update((lane.branch, (trunk, lane)) for lane in trunk.lanes)
        self.opened += branches
        return trunk
