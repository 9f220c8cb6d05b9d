"""The brokers of one session, from connection to loss, and the outages from which the table `failovers` is made."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple


class SessionOutage(NamedTuple):
    """A session's loss of a broker. A later batch may yield the same loss again: the last version of a `key` counts."""

    relay: str
    session: str
    client: str | None
    upstream: str | None
    broker: str
    """The address of the broker that was lost."""
    moved_to: str | None
    """The broker with which the session continued; None if no other broker was found so far."""
    lost_ns: int
    recovered_ns: int | None
    """When the broker `moved_to` was found; None if no broker was found so far."""
    planned: bool
    """Whether the session was moved on purpose (pause, rebalance)."""
    given_up: bool
    """Whether the session ended before another broker was found."""
    resent: int
    """Frames that were sent again to the next broker."""
    stale_acks: int
    """ACKs and NACKs for deliveries of the lost broker."""
    duplicates: int
    """Deliveries of the lost broker whose message was delivered again."""

    @property
    def key(self) -> tuple[str, str, int]:
        """Return the values that are the same in all versions of one outage."""
        return self.session, self.broker, self.lost_ns

    @property
    def over(self) -> bool:
        """Return whether the session found another broker or gave up."""
        return self.recovered_ns is not None or self.given_up

    @property
    def ended_ns(self) -> int:
        """Return, in ns, when another broker was found or, if no broker was found, when the broker was lost."""
        return self.lost_ns if self.recovered_ns is None else self.recovered_ns


DDL: Final = (
    "relay string NOT NULL, session string NOT NULL, client string, upstream string, broker string NOT NULL, "
    "moved_to string, lost_ns bigint NOT NULL, recovered_ns bigint, planned boolean NOT NULL, "
    "given_up boolean NOT NULL, resent bigint NOT NULL, stale_acks bigint NOT NULL, duplicates bigint NOT NULL"
)
"""The fields of a `SessionOutage`, as Spark has them."""
Repeat = tuple[str, str | None, int, int]
"""A repeated delivery: its session, its broker, its time (ns), and the time (ns) of the repetition."""


@dataclass(slots=True, eq=False)
class BrokerLoss:
    """The loss of a broker. `outage` has what is known so far, with an empty relay and session. `dirty`: it has
    changed since `SessionBrokers.told` yielded it.
    """

    outage: SessionOutage
    dirty: bool = True

    def change(self, **values: Any) -> None:
        """Set these fields of the outage."""
        self.outage, self.dirty = self.outage._replace(**values), True


def begun(
    client: str | None, upstream: str | None, broker: str, lost_ns: int, *, planned: bool
) -> BrokerLoss:
    """Return a new loss, at `lost_ns`."""
    known = (client, upstream, broker, None, lost_ns, None, planned)
    return BrokerLoss(SessionOutage("", "", *known, given_up=False, resent=0, stale_acks=0, duplicates=0))


@dataclass
class SessionBrokers:
    """A session's brokers. `live` has the addresses of the connected brokers. `losses` has the losses, oldest first.
    `several`: two brokers have been connected at the same time.
    """

    live: dict[str, None] = field(default_factory=dict)
    losses: list[BrokerLoss] = field(default_factory=list)
    several: bool = False

    def connected(self, broker: str) -> None:
        """Record a CONNECTED from this broker."""
        self.live[broker] = None
        self.several = self.several or len(self.live) > 1

    def left(
        self, broker: str, facts: dict[str, str], client: str | None, ns: int, *, planned: bool
    ) -> BrokerLoss:
        """Record that this broker was lost at `ns`, or that the session left it on purpose (`planned`). Return the
        broker's loss that is not over. If there is none, return a new loss.
        """
        loss = self.going(broker)
        if loss is None:
            loss = begun(client, facts.get("upstream"), broker, ns, planned=planned)
            self.losses.append(loss)
        self.live.pop(broker, None)
        if "given_up" in facts:
            loss.change(given_up=True)
        return loss

    def going(self, broker: str | None) -> BrokerLoss | None:
        """Return the loss of this broker that is not over, or None."""
        same = (each for each in self.losses if each.outage.broker == broker)
        return next((each for each in same if not each.outage.over), None)

    def recovered(self, lost: str, facts: dict[str, str], client: str | None, ns: int) -> BrokerLoss:
        """Record that another broker replaced `lost` at `ns`. Return the loss, which is now over."""
        loss = self.going(lost)
        if loss is None:
            # The session left this broker when the time of a planned move was over.
            loss = begun(client, facts.get("upstream"), lost, ns, planned=True)
            self.losses.append(loss)
        loss.change(moved_to=facts.get("broker"), recovered_ns=ns, resent=int(facts.get("resent", 0)))
        return loss

    def ended(self) -> None:
        """Record the end of the session. Losses that are not over count as given up."""
        self.live.clear()
        for loss in self.losses:
            if not loss.outage.over:
                loss.change(given_up=True)

    @property
    def missing(self) -> BrokerLoss | None:
        """Return the newest loss that is not over, if the session has no broker at all; else None."""
        if self.live:
            return None
        return next((loss for loss in reversed(self.losses) if not loss.outage.over), None)

    def told(self, relay: str, session: str) -> Iterator[SessionOutage]:
        """Yield the outages that are new or changed since the last call."""
        for loss in self.losses:
            if loss.dirty:
                loss.dirty = False
                yield loss.outage._replace(relay=relay, session=session)

    def forget(self, before: int, kept: set[int]) -> None:
        """Drop losses that ended before `before` (ns), except those whose `id()` is in `kept`."""
        self.losses = [
            loss
            for loss in self.losses
            if not loss.outage.over or loss.outage.ended_ns >= before or id(loss) in kept
        ]

    def dump(self) -> list[Any]:
        """Return the state for `load`, as a list that JSON can hold."""
        return [[*self.live], self.several, [loss.outage[2:-1] for loss in self.losses]]

    @classmethod
    def load(cls, values: list[Any]) -> "SessionBrokers":
        """Return the brokers whose state `dump` returned."""
        live, several, losses = values
        known = (SessionOutage._make(("", "", *loss, 0)) for loss in losses)
        return cls(dict.fromkeys(live), [BrokerLoss(outage, dirty=False) for outage in known], several)


class OpenOutages:
    """The outages whose `duplicates` can still change. Call `told`, then `repeated`, then `changed` and `kept`."""

    def __init__(self, kept: Iterable[SessionOutage]) -> None:
        self._known = {each.key: each for each in kept}
        self._changed: set[tuple[str, str, int]] = set()

    def told(self, outages: Iterable[SessionOutage]) -> None:
        """Add outages. An outage replaces its earlier version, but the earlier `duplicates` stay."""
        for each in outages:
            before = self._known.get(each.key)
            self._known[each.key] = each if before is None else each._replace(duplicates=before.duplicates)
            self._changed.add(each.key)

    def repeated(self, repeats: Iterable[Repeat]) -> None:
        """Count these repeated deliveries in `duplicates`. A repetition counts for the first loss that came after the
        delivery and before the repetition.
        """
        losses: dict[tuple[str, str | None], list[tuple[str, str, int]]] = {}
        for key in sorted(self._known):
            losses.setdefault(key[:2], []).append(key)
        for session, broker, ns, again_ns in repeats:
            for key in losses.get((session, broker), ()):
                outage = self._known[key]
                until = outage.recovered_ns if outage.planned and outage.recovered_ns is not None else key[2]
                if ns <= until and outage.lost_ns <= again_ns:
                    self._known[key] = outage._replace(duplicates=outage.duplicates + 1)
                    self._changed.add(key)
                    break

    @property
    def sessions(self) -> set[str]:
        """Return the names of the sessions that have outages here."""
        return {session for session, _, _ in self._known}

    @property
    def changed(self) -> list[SessionOutage]:
        """Return the outages that are new or changed, sorted by session, broker and time."""
        return [self._known[key] for key in sorted(self._changed)]

    def kept(self, since: int) -> list[SessionOutage]:
        """Return the outages for the next batch: those that are not over, or that ended at `since` (ns) or later."""
        return [
            each
            for _, each in sorted(self._known.items())
            if max(each.lost_ns, each.recovered_ns or 0) >= since or not each.over
        ]
