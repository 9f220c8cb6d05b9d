"""Which upstreams a session uses, where destinations lead, and what it takes to send there."""

from collections.abc import Callable, Iterable
from typing import Final

from stomprelay.relay.effects import Outbox
from stomprelay.relay.fanout.member import Member
from stomprelay.relay.link.link import Link
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.wire.errors import Refused

TOPICS: Final = (b"/topic/", b"/temp-topic/", b"/exchange/", b"topic://", b"jms.topic.")
"""How destinations begin that are not queues, at one product or another."""

_MOST_KNOWN: Final = 4096
"""How many destinations are remembered with where they lead."""


class Target:
    """One upstream of a session, with a member for each group. `quorum` is how many members must confirm a frame."""

    __slots__ = ("_queues", "members", "quorum", "upstream")

    def __init__(self, upstream: Upstream, links: Iterable[Link], outbox: Outbox) -> None:
        self.upstream = upstream
        self.members = [Member(link, link.resender, outbox) for link in links if link.resender is not None]
        self.quorum = min(upstream.quorum, len(self.members))
        self._queues = upstream.fan_out_queues

    def __str__(self) -> str:
        return self.upstream.name

    @property
    def fans(self) -> bool:
        """Whether there is more than one group."""
        return len(self.members) > 1

    @property
    def live(self) -> list[Member]:
        """The members that are not given up."""
        return [member for member in self.members if not member.given_up]

    @property
    def ready(self) -> bool:
        """Whether a quorum has brokers."""
        return sum(member.link.up for member in self.members) >= self.quorum

    @property
    def reachable(self) -> bool:
        """Whether a quorum can still have brokers."""
        return len(self.live) >= self.quorum

    @property
    def full(self) -> bool:
        """Whether no more can be taken from the client: fewer members than the quorum have room."""
        return sum(not member.full for member in self.live) < self.quorum

    @property
    def crowded(self) -> bool:
        """Whether it is too early to go on after it was `full`."""
        return sum(not member.crowded for member in self.live) < self.quorum

    @property
    def safe(self) -> bool:
        """Whether a quorum has all that the client sent, and no other connected broker waits for part of it. A member
        that is `short` does not count.
        """
        unsafe = [member for member in self.live if not member.safe]
        if not unsafe:
            return True
        if any(member.up for member in unsafe):
            return False
        return sum(member.safe and not member.short for member in self.live) >= self.quorum

    def copies(self, destination: bytes) -> bool:
        """Whether a SEND goes to all groups, not to one alone."""
        return self.fans and (self._queues or destination.startswith(TOPICS))

    @property
    def primary(self) -> Member:
        """The member for what goes to one group alone: the first that has a broker and room."""
        live = self.live
        roomy = [member for member in live if not member.full]
        return next((member for member in roomy if member.up), (roomy or live)[0])

    def receivers(self) -> list[Member]:
        """Return the members for a SEND: all that have room, and more only where the quorum needs them."""
        live = self.live
        roomy = [member for member in live if not member.full]
        if len(roomy) == len(live):
            if any(member.short for member in live) and all(member.safe for member in live):
                for member in live:
                    member.short = False
            return live
        return (
            roomy
            if len(roomy) >= self.quorum
            else sorted(live, key=lambda member: member.size)[: self.quorum]
        )

    def failure(self, members: Iterable[Member], receipt: bytes | None = None) -> Refused:
        """Return the error that the client is sent when these members failed and the quorum cannot be reached."""
        failed = ", ".join(
            f"{member} ({member.reason})" if member.reason else str(member) for member in members
        )
        needed = f"upstream {self} needs {self.quorum} of {len(self.members)} groups"
        return Refused("the quorum cannot be reached", f"{needed}; failed: {failed}", receipt=receipt)


class Router:
    """The targets of a session: `main` of the listener's own upstream, and others by route. `links` makes the links of
    an upstream. `places` has the target and the member of each link.
    """

    __slots__ = ("_known", "_links", "_listener", "_opened", "_outbox", "main", "places", "targets")

    def __init__(self, listener: Listener, outbox: Outbox, links: Callable[[Upstream], list[Link]]) -> None:
        self._listener = listener
        self._outbox = outbox
        self._links = links
        self._known: dict[bytes, Target] = {}
        self._opened: list[Link] = []
        self.targets: list[Target] = []
        self.places: dict[Link, tuple[Target, Member]] = {}
        self.main = self._open(listener.upstream)

    @property
    def forks(self) -> bool:
        """Whether destinations lead to more than one upstream."""
        return bool(self._listener.routes)

    def target(self, destination: bytes) -> Target:
        """Return where a destination leads; the way there is opened when it is first asked for."""
        if not self.forks:
            return self.main
        target = self._known.get(destination)
        if target is None:
            target = self._open(self._listener.routed(destination))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[destination] = target
        return target

    def member(self, link: Link) -> Member:
        """Return the member that a link is of."""
        return self.places[link][1]

    def reopen(self, link: Link) -> None:
        """The broker of a link was left: it has to seek another one."""
        self._opened.append(link)

    def take_opened(self) -> list[Link]:
        """Return the links that have to seek brokers, since the last call."""
        opened, self._opened = self._opened, []
        return opened

    def _open(self, upstream: Upstream) -> Target:
        for target in self.targets:
            if target.upstream is upstream:
                return target
        links = self._links(upstream)
        target = Target(upstream, links, self._outbox)
        self.targets.append(target)
        self.places.update((member.link, (target, member)) for member in target.members)
        self._opened += links
        return target
