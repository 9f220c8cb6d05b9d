"""The brokers of one session as they come and go, and the rows of `OUTAGE` that the table `failovers` is made of."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from stomprelay.pipeline.schema import Column, Table

OUTAGE: Final = Table(
    "outages",
    "one session's loss of a broker; with the same (session, broker, lost_ns) it comes again in later batches, the"
    " last one counts",
    (
        Column("relay", "string", "the relay that saw it, from the segment's header", nullable=False),
        Column("session", "string", "the session's name, unique among all relays", nullable=False),
        Column("client", "string", "who the client is"),
        Column("upstream", "string", "the upstream, as the configuration calls it"),
        Column("broker", "string", "the broker that was lost, its address", nullable=False),
        Column("moved_to", "string", "where the session went on; null while it is without a broker"),
        Column("lost_ns", "bigint", "the loss", "ns since 1970", nullable=False),
        Column(
            "recovered_ns",
            "bigint",
            "when the next broker was found; null for not yet, or never",
            "ns since 1970",
        ),
        Column("planned", "boolean", "whether it was asked for (pause, rebalance)", nullable=False),
        Column("given_up", "boolean", "the session ended before another broker was found", nullable=False),
        Column("resent", "bigint", "frames said again to the next broker", nullable=False),
        Column("stale_acks", "bigint", "ACKs and NACKs for deliveries of the lost broker", nullable=False),
        Column(
            "duplicates",
            "bigint",
            "deliveries of the lost broker whose message was delivered again",
            nullable=False,
        ),
    ),
)


_AT: Final = {name: at for at, name in enumerate(OUTAGE.names)}
_SESSION, _BROKER, _LOST = _AT["session"], _AT["broker"], _AT["lost_ns"]
_RECOVERED, _PLANNED, _DUPLICATES = _AT["recovered_ns"], _AT["planned"], _AT["duplicates"]
_GIVEN_UP: Final = _AT["given_up"]
Row = list[Any]
"""The values of one row of `OUTAGE`, in the table's order."""
Repeat = tuple[str, str | None, int, int]
"""A repeated delivery: session, broker, its time (ns), the time of the next delivery (ns)."""


@dataclass(slots=True, eq=False)
class BrokerLoss:
    """One row of `OUTAGE`, without `duplicates`. `dirty`: it changed since the row was last written."""

    client: str | None
    upstream: str | None
    broker: str
    lost_ns: int
    planned: bool = field(kw_only=True)
    moved_to: str | None = None
    recovered_ns: int | None = None
    given_up: bool = False
    resent: int = 0
    stale_acks: int = 0
    dirty: bool = True

    @property
    def over(self) -> bool:
        """Return whether another broker was found or the session gave up."""
        return self.recovered_ns is not None or self.given_up

    @property
    def ended_ns(self) -> int:
        """Return when another broker was found; the time of the loss if none was, so far or ever. In ns."""
        return self.lost_ns if self.recovered_ns is None else self.recovered_ns

    def recovered(self, broker: str | None, ns: int, resent: int) -> None:
        """Record that the session went on with `broker` at `ns`, after sending `resent` frames again."""
        self.moved_to, self.recovered_ns, self.resent, self.dirty = broker, ns, resent, True

    def gave_up(self) -> None:
        """Record that the session ended before another broker was found."""
        self.given_up = self.dirty = True

    def stale(self) -> None:
        """Count an ACK or NACK for a delivery of the lost broker."""
        self.stale_acks += 1
        self.dirty = True

    def row(self, relay: str, session: str) -> list[Any]:
        """Return the values of a row of `OUTAGE`, with 0 `duplicates`."""
        return [
            *(relay, session, self.client, self.upstream, self.broker, self.moved_to),
            *(self.lost_ns, self.recovered_ns, self.planned, self.given_up),
            *(self.resent, self.stale_acks, 0),
        ]

    def dump(self) -> list[Any]:
        """Return its state as a list that JSON can hold; `load` reads it."""
        return self.row("", "")[2:-1]

    @classmethod
    def load(cls, values: list[Any]) -> "BrokerLoss":
        """Return the loss whose state `dump` returned; it is not `dirty`."""
        client, upstream, broker, moved_to, lost_ns, recovered_ns, planned, given_up, resent, stale = values
        loss = cls(client, upstream, broker, lost_ns, planned=planned)
        loss.moved_to, loss.recovered_ns, loss.given_up = moved_to, recovered_ns, given_up
        loss.resent, loss.stale_acks, loss.dirty = resent, stale, False
        return loss


@dataclass
class Brokers:
    """A session's brokers: `live` by address, `losses` oldest first. `several`: there were two at a time."""

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
        """Record that this broker was lost at `ns`, or is left as `planned`. Return the loss, old or new."""
        loss = self.going(broker)
        if loss is None:
            loss = BrokerLoss(client, facts.get("upstream"), broker, ns, planned=planned)
            self.losses.append(loss)
        self.live.pop(broker, None)
        if "given_up" in facts:
            loss.gave_up()
        return loss

    def going(self, broker: str | None) -> BrokerLoss | None:
        """Return the loss of this broker that is not over; None if there is none."""
        return next((each for each in self.losses if each.broker == broker and not each.over), None)

    def recovered(self, lost: str, facts: dict[str, str], client: str | None, ns: int) -> BrokerLoss:
        """Record that another broker replaced `lost` at `ns`. Return the loss, which is now over."""
        loss = self.going(lost)
        if loss is None:
            loss = BrokerLoss(
                client, facts.get("upstream"), lost, ns, planned=True
            )  # it was left when its time was over
            self.losses.append(loss)
        loss.recovered(facts.get("broker"), ns, int(facts.get("resent", 0)))
        return loss

    def ended(self) -> None:
        """Record the end of the session: losses that are not over are given up."""
        self.live.clear()
        for loss in self.losses:
            if not loss.over:
                loss.gave_up()

    @property
    def missing(self) -> BrokerLoss | None:
        """Return the newest loss that is not over, if the session has no broker at all; else None."""
        if self.live:
            return None
        return next((loss for loss in reversed(self.losses) if not loss.over), None)

    def told(self, relay: str, session: str) -> Iterator[list[Any]]:
        """Yield the rows of `OUTAGE` that are new or changed since the last call."""
        for loss in self.losses:
            if loss.dirty:
                loss.dirty = False
                yield loss.row(relay, session)

    def forget(self, before: int, kept: set[int]) -> None:
        """Drop losses that ended before `before` (ns), except those whose `id()` is in `kept`."""
        self.losses = [
            loss for loss in self.losses if not loss.over or loss.ended_ns >= before or id(loss) in kept
        ]

    def dump(self) -> list[Any]:
        """Return its state as a list that JSON can hold; `load` reads it."""
        return [[*self.live], self.several, [loss.dump() for loss in self.losses]]

    @classmethod
    def load(cls, values: list[Any]) -> "Brokers":
        """Return the brokers whose state `dump` returned."""
        brokers = cls()
        live, brokers.several, losses = values
        brokers.live = dict.fromkeys(live)
        brokers.losses = [BrokerLoss.load(loss) for loss in losses]
        return brokers


class Outages:
    """The outages whose `duplicates` can change, from `kept`. Call `told`, then `repeated`; read `changed`."""

    def __init__(self, kept: Iterable[Row]) -> None:
        self._rows = {(row[_SESSION], row[_BROKER], row[_LOST]): row for row in kept}
        self._changed: set[tuple[str, str, int]] = set()

    def told(self, rows: Iterable[Row]) -> None:
        """Add new rows of `OUTAGE`, or replace those of the same session, broker and time, but for `duplicates`."""
        for row in rows:
            key = (row[_SESSION], row[_BROKER], row[_LOST])
            before = self._rows.get(key)
            self._rows[key] = [*row]
            self._rows[key][_DUPLICATES] = 0 if before is None else before[_DUPLICATES]
            self._changed.add(key)

    def repeated(self, repeats: Iterable[Repeat]) -> None:
        """Count deliveries that were repeated after the loss of their broker, each for the first loss that fits."""
        losses: dict[tuple[str, str | None], list[Row]] = {}
        for (session, broker, _), row in sorted(self._rows.items()):
            losses.setdefault((session, broker), []).append(row)
        for session, broker, ns, again_ns in repeats:
            for row in losses.get((session, broker), ()):
                until = row[_RECOVERED] if row[_PLANNED] and row[_RECOVERED] is not None else row[_LOST]
                if ns <= until and row[_LOST] <= again_ns:
                    row[_DUPLICATES] += 1
                    self._changed.add((row[_SESSION], row[_BROKER], row[_LOST]))
                    break

    @property
    def sessions(self) -> set[str]:
        """Return the names of the sessions that have outages here."""
        return {session for session, _, _ in self._rows}

    @property
    def changed(self) -> list[Row]:
        """Return the rows that are new or changed, sorted by session, broker and time."""
        return [self._rows[key] for key in sorted(self._changed)]

    def kept(self, since: int) -> list[Row]:
        """Return the rows for the next batch: those that are not over, or ended at `since` (ns) or later."""
        return [
            row
            for _, row in sorted(self._rows.items())
            if max(row[_LOST], row[_RECOVERED] or 0) >= since
            or (row[_RECOVERED] is None and not row[_GIVEN_UP])
        ]
