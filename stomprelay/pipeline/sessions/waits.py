"""Deliveries that wait too long for their ACK or NACK: the waits of each session, and how waits are joined."""

from collections.abc import Iterable
from typing import Any, NamedTuple


class Wait(NamedTuple):
    """A time in which a subscription left a broker's deliveries unanswered for too long, as seen in one batch."""

    relay: str
    session: str
    client: str | None
    """`client`, `destination`, `upstream` and `outcome` are those of the delivery that waited last."""
    subscription: str | None
    destination: str | None
    upstream: str | None
    broker: str | None
    since_ns: int
    """When the oldest of these deliveries came, in ns since 1970."""
    until_ns: int
    """The time of the last answer or return; without an answer, the newest time of the relay's run."""
    age_ns: int
    """The longest time that one of the deliveries waited."""
    deliveries: int
    outcome: str | None
    """`acked`, `nacked` or `returned`; None if there is no answer."""
    going: bool
    """Whether some deliveries still wait, and the relay's run still writes."""
    final: bool
    """Whether the wait cannot change any more."""


def merged(waits: Iterable[Wait]) -> list[Wait]:
    """Return the waits, sorted. Overlapping or touching waits of one subscription and broker are joined."""
    found: list[Wait] = []
    who: Any = None
    for one in sorted(waits, key=lambda wait: (group_of(wait), wait.since_ns)):
        if group_of(one) == who and one.since_ns <= found[-1].until_ns:
            found[-1] = _joined(found[-1], one)
        else:
            found.append(one)
            who = group_of(one)
    return found


def group_of(wait: Wait) -> tuple[tuple[bool, str], ...]:
    """Return a key to sort by: relay, session, subscription and broker. Only waits with the same key are joined."""
    return tuple(map(_ordered, (wait.relay, wait.session, wait.subscription, wait.broker)))


def _ordered(text: str | None) -> tuple[bool, str]:
    """Return a sort key that puts None before all texts."""
    return text is not None, text or ""


def _joined(one: Wait, other: Wait) -> Wait:
    return max(one, other, key=_last)._replace(
        since_ns=min(one.since_ns, other.since_ns),
        age_ns=max(one.age_ns, other.age_ns),
        deliveries=one.deliveries + other.deliveries,
        going=one.going or other.going,
        final=one.final and other.final,
    )


def _last(wait: Wait) -> tuple[Any, ...]:
    return (
        wait.until_ns,
        *map(_ordered, (wait.outcome, wait.client, wait.destination, wait.upstream)),
    )
