"""The brokers of one session, as they come and go."""

from collections.abc import Iterator
from typing import Any

from stomprelay.pipeline.match.loss import Loss


class Brokers:
    """`live` are those that the session has, by address; `losses` those that it lost, oldest first. `several`: it had
    more than one at a time.
    """

    __slots__ = ("live", "losses", "several")

    def __init__(self) -> None:
        self.live: dict[str, None] = {}
        self.losses: list[Loss] = []
        self.several = False

    def connected(self, broker: str) -> None:
        """CONNECTED came."""
        self.live[broker] = None
        self.several = self.several or len(self.live) > 1

    def left(self, broker: str, facts: dict[str, str], client: str | None, ns: int, *, planned: bool) -> Loss:
        """A broker went, or the session is leaving it."""
        loss = self.going(broker)
        if loss is None:
            loss = Loss(client, facts.get("upstream"), broker, ns, planned=planned)
            self.losses.append(loss)
        self.live.pop(broker, None)
        if "given_up" in facts:
            loss.gave_up()
        return loss

    def going(self, broker: str | None) -> Loss | None:
        """The loss of this broker, if it goes on."""
        return next((each for each in self.losses if each.broker == broker and not each.over), None)

    def recovered(self, lost: str, facts: dict[str, str], client: str | None, ns: int) -> Loss:
        """Another broker took the place of one that was lost or left."""
        loss = self.going(lost)
        if loss is None:
            loss = Loss(
                client, facts.get("upstream"), lost, ns, planned=True
            )  # it was left when its time was over
            self.losses.append(loss)
        loss.recovered(facts.get("broker"), ns, int(facts.get("resent", 0)))
        return loss

    def ended(self) -> None:
        """The session is over."""
        self.live.clear()
        for loss in self.losses:
            if not loss.over:
                loss.gave_up()

    @property
    def missing(self) -> Loss | None:
        """The loss that goes on, where there is no broker at all."""
        if self.live:
            return None
        return next((loss for loss in reversed(self.losses) if not loss.over), None)

    def told(self, relay: str, session: str) -> Iterator[list[Any]]:
        """Rows of `OUTAGE` that are new or changed since the last time."""
        for loss in self.losses:
            if loss.dirty:
                loss.dirty = False
                yield loss.row(relay, session)

    def forget(self, before: int, kept: set[int]) -> None:
        """Losses that were over by then, but for those with an `id` in `kept`."""
        self.losses = [
            loss for loss in self.losses if not loss.over or loss.ended_ns >= before or id(loss) in kept
        ]

    def dump(self) -> list[Any]:
        """As JSON has it."""
        return [[*self.live], self.several, [loss.dump() for loss in self.losses]]

    @classmethod
    def load(cls, values: list[Any]) -> "Brokers":
        """Of what `dump` made."""
        brokers = cls()
        live, brokers.several, losses = values
        brokers.live = dict.fromkeys(live)
        brokers.losses = [Loss.load(loss) for loss in losses]
        return brokers
