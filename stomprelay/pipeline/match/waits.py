"""Deliveries that wait too long for their answer, session by session: what the table `stuck` is made from."""

from collections.abc import Iterator
from typing import Any, Final

from stomprelay.pipeline.columns_of_tables import Column, Table
from stomprelay.pipeline.match.sighting import NS
from stomprelay.pipeline.match.unsettled import Delivery

WAIT: Final = Table(
    "waits",
    "deliveries of a subscription that were, or are, overdue up to the same time",
    (
        Column("relay", "string", "the relay that saw it, from the segment's header", nullable=False),
        Column("session", "string", "the session's name, unique among all relays", nullable=False),
        Column("client", "string", "the consumer"),
        Column("subscription", "string", "its id, or its destination where it has none"),
        Column("destination", "string", "what it is subscribed to"),
        Column("upstream", "string", "the broker's upstream, as the configuration calls it"),
        Column("broker", "string", "whose deliveries they are, its address"),
        Column("since_ns", "bigint", "the oldest of these MESSAGEs", "ns since 1970", nullable=False),
        Column(
            "until_ns",
            "bigint",
            "the answer or return, else the newest record that was read of the relay's run",
            "ns since 1970",
            nullable=False,
        ),
        Column("deliveries", "bigint", "how many", nullable=False),
        Column("outcome", "string", "`acked`, `nacked` or `returned`; null without an answer"),
        Column("going", "boolean", "they wait still, and their relay is heard of", nullable=False),
        Column("final", "boolean", "nothing of it can change any more", nullable=False),
    ),
)


class Waits:
    """Tell it what a session's deliveries wait for, all of one batch; those that take no longer than `bound` ns do not
    count. Deliveries of one subscription that wait up to the same time, as with a cumulative ACK, are one row.
    """

    __slots__ = ("_bound", "_found")

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._found: dict[tuple[Any, ...], list[int]] = {}

    def ended(self, delivery: Delivery, ns: int, outcome: str) -> None:
        """It was answered, or returned."""
        if ns - delivery.sighting[NS] > self._bound:
            self._add(delivery, ns, outcome, final=True)

    def goes_on(self, delivery: Delivery, now: int) -> None:
        """It has no answer at the end of the batch, or one in a transaction that is open."""
        ns, outcome = delivery.answered or (now, None)
        if ns - delivery.sighting[NS] > self._bound:
            self._add(delivery, ns, outcome, final=False)

    def _add(self, delivery: Delivery, ns: int, outcome: str | None, *, final: bool) -> None:
        ordered = delivery.subscription
        key = (ordered.shown, ordered.destination, delivery.upstream, delivery.broker, ns, outcome, final)
        since = delivery.sighting[NS]
        found = self._found.get(key)
        if found is None:
            self._found[key] = [since, 1]
        else:
            found[0] = min(found[0], since)
            found[1] += 1

    def rows(self, *, present: bool, over: bool) -> Iterator[list[Any]]:
        """Rows of `WAIT`, without the session's columns. `present`: its relay is heard of; `over`: nothing more is to
        come of the session.
        """
        for (*where, until, outcome, final), (since, deliveries) in self._found.items():
            going = present and not over and outcome is None
            yield [*where, since, until, deliveries, outcome, going, final or over]
