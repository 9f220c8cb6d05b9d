"""A session's loss of a broker, as it goes on."""

from typing import Any


class Loss:
    """One row of `OUTAGE`, without `duplicates`. `dirty`: it changed since it was last told."""

    __slots__ = (
        "broker",
        "client",
        "dirty",
        "given_up",
        "lost_ns",
        "moved_to",
        "planned",
        "recovered_ns",
        "resent",
        "stale_acks",
        "upstream",
    )

    def __init__(
        self, client: str | None, upstream: str | None, broker: str, lost_ns: int, *, planned: bool
    ) -> None:
        self.client = client
        self.upstream = upstream
        self.broker = broker
        self.moved_to: str | None = None
        self.lost_ns = lost_ns
        self.recovered_ns: int | None = None
        self.planned = planned
        self.given_up = False
        self.resent = 0
        self.stale_acks = 0
        self.dirty = True

    @property
    def over(self) -> bool:
        """Whether another broker was found, or never will be."""
        return self.recovered_ns is not None or self.given_up

    @property
    def ended_ns(self) -> int:
        """When it was over; when it began, as long as it is not."""
        return self.lost_ns if self.recovered_ns is None else self.recovered_ns

    def recovered(self, broker: str | None, ns: int, resent: int) -> None:
        """Another broker was found."""
        self.moved_to, self.recovered_ns, self.resent, self.dirty = broker, ns, resent, True

    def gave_up(self) -> None:
        """There will be none."""
        self.given_up = self.dirty = True

    def stale(self) -> None:
        """An ACK or NACK came for what the lost broker had delivered."""
        self.stale_acks += 1
        self.dirty = True

    def row(self, relay: str, session: str) -> list[Any]:
        """The values of `OUTAGE`."""
        return [
            *(relay, session, self.client, self.upstream, self.broker, self.moved_to),
            *(self.lost_ns, self.recovered_ns, self.planned, self.given_up),
            *(self.resent, self.stale_acks, 0),
        ]

    def dump(self) -> list[Any]:
        """As JSON has it."""
        return self.row("", "")[2:-1]

    @classmethod
    def load(cls, values: list[Any]) -> "Loss":
        """Of what `dump` made."""
        client, upstream, broker, moved_to, lost_ns, recovered_ns, planned, given_up, resent, stale = values
        loss = cls(client, upstream, broker, lost_ns, planned=planned)
        loss.moved_to, loss.recovered_ns, loss.given_up = moved_to, recovered_ns, given_up
        loss.resent, loss.stale_acks, loss.dirty = resent, stale, False
        return loss
