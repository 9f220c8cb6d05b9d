"""Which upstreams a session uses, where destinations lead, and what it takes to send there."""

from collections.abc import Callable, Iterable
from typing import Final

from stomprelay.relay.fanout.member import Lane
from stomprelay.relay.link.link import Branch
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.wire.errors import Refused

TOPICS: Final = (b"/topic/", b"/temp-topic/", b"/exchange/", b"topic://", b"jms.topic.")
"""How destinations begin that are not queues, at one product or another."""


class Trunk:
    """What goes to an upstream goes to its lanes; what it takes to do so is `quorum` of them."""

    __slots__ = ("_queues", "lanes", "quorum", "upstream")

    def __init__(self, upstream: Upstream, branches: Iterable[Branch]) -> None:
        self.upstream = upstream
        self.lanes = [Lane(branch) for branch in branches]
        self.quorum = min(upstream.quorum, len(self.lanes))
        self._queues = upstream.fan_out_queues

    def __str__(self) -> str:
        return self.upstream.name

    @property
    def fans(self) -> bool:
        """Whether there is more than one group."""
        return len(self.lanes) > 1

    @property
    def live(self) -> list[Lane]:
        """The lanes that are not given up."""
        return [lane for lane in self.lanes if not lane.out]

    @property
    def ready(self) -> bool:
        """Whether a quorum has brokers."""
        return sum(lane.branch.up for lane in self.lanes) >= self.quorum

    @property
    def reachable(self) -> bool:
        """Whether a quorum can still have brokers."""
        return len(self.live) >= self.quorum

    @property
    def full(self) -> bool:
        """Whether so much waits or is unconfirmed that no more can be taken from the client. A group that the quorum
        does not need is no reason.
        """
        return sum(not lane.full for lane in self.live) < self.quorum

    @property
    def crowded(self) -> bool:
        """Whether it is too early to go on after it was `full`."""
        return sum(not lane.crowded for lane in self.live) < self.quorum

    @property
    def safe(self) -> bool:
        """Whether a quorum has all that the client said, and no other broker that is there still waits for some of it.

        A group that missed SENDs cannot vouch for them.
        """
        unsafe = [lane for lane in self.live if not lane.safe]
        if not unsafe:
            return True
        if any(lane.up for lane in unsafe):
            return False
        return sum(lane.safe and not lane.short for lane in self.live) >= self.quorum

    def copied(self, destination: bytes) -> bool:
        """Whether a SEND goes to all groups, not to one alone."""
        return self.fans and (self._queues or destination.startswith(TOPICS))

    @property
    def primary(self) -> Lane:
        """The lane for what goes to one group alone: the first that has a broker and room."""
        live = self.live
        roomy = [lane for lane in live if not lane.full]
        return next((lane for lane in roomy if lane.up), (roomy or live)[0])

    def takers(self) -> list[Lane]:
        """The lanes for a SEND: all that have room, and more only where the quorum needs them."""
        live = self.live
        roomy = [lane for lane in live if not lane.full]
        if len(roomy) == len(live):
            if any(lane.short for lane in live) and all(lane.safe for lane in live):
                for lane in live:
                    lane.short = False
            return live
        return roomy if len(roomy) >= self.quorum else sorted(live, key=_load)[: self.quorum]

    def failure(self, lanes: Iterable[Lane], receipt: bytes | None = None) -> Refused:
        """What the client is told when these lanes failed and the quorum cannot be reached."""
        failed = ", ".join(f"{lane} ({lane.blame})" if lane.blame else str(lane) for lane in lanes)
        needed = f"upstream {self} needs {self.quorum} of {len(self.lanes)} groups"
        return Refused("the quorum cannot be reached", f"{needed}; failed: {failed}", receipt=receipt)


def _load(lane: Lane) -> int:
    return lane.octets


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
