"""What became of each message, and what the sessions were told."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

LONG: Final = 5.0
"""Seconds of waiting for a receipt that need an explanation."""


class Message(NamedTuple):
    """A message's body: whose it is, and its number there."""

    producer: str
    number: int

    @classmethod
    def of(cls, body: bytes) -> "Message":
        """Read a body."""
        name, _, number = body.decode().rpartition(":")
        return cls(name, int(number))

    @property
    def body(self) -> bytes:
        """What is sent."""
        return f"{self.producer}:{self.number}".encode()


@dataclass
class Account:
    """The books of a run. `careless` queues are read with `ack:auto`: their broker is never told what arrived."""

    careless: frozenset[str] = frozenset()
    sent: int = 0
    confirmed: dict[Message, str] = field(default_factory=dict)
    """By message, its queue."""
    received: Counter[Message] = field(default_factory=Counter)
    receipts_twice: int = 0
    committed: int = 0
    unknown: int = 0
    """Transactions of whose COMMIT the client was told that its outcome is unknown."""
    aborted: set[Message] = field(default_factory=set)
    """What was sent in transactions whose ABORT was confirmed."""
    disconnects: list[str] = field(default_factory=list)
    """Why, for each session that ended against its will."""
    stuck: list[str] = field(default_factory=list)
    """Sessions that did not end when they were asked to, though all brokers were well."""
    silence: float = 0.0
    """The longest time in seconds in which a session that wants heart-beats heard nothing at all."""
    wait: float = 0.0
    """The longest time in seconds that a producer waited for a receipt."""
    waits: list[tuple[float, float]] = field(default_factory=list)
    """From when to when producers waited for a receipt, where that was long."""
    withheld: list[tuple[float, float]] = field(default_factory=list)
    """The waits among them that no outage explains."""
    left: list[str] = field(default_factory=list)
    """What the relay still had when all clients were gone."""
    disorder: int = 0
    """Messages that came out of a queue of one broker before an earlier one of the same producer."""

    def confirm(self, message: Message, queue: str, waited: float) -> None:
        """A receipt came for a message, or for the COMMIT of its transaction."""
        self.receipts_twice += message in self.confirmed
        self.confirmed[message] = queue
        self.wait = max(self.wait, waited)
        if waited > LONG:
            now = time.monotonic()
            self.waits.append((now - waited, now))

    def missing(self) -> set[Message]:
        """What was confirmed and not received by anybody yet."""
        return self.confirmed.keys() - self.received.keys()

    @property
    def lost(self) -> list[Message]:
        """What was confirmed and not received, out of queues whose consumers acknowledge."""
        return sorted(each for each in self.missing() if self.confirmed[each] not in self.careless)

    @property
    def lost_on_the_way(self) -> int:
        """The same out of queues whose consumers do not: whatever a broken connection held is gone."""
        return len(self.missing()) - len(self.lost)

    @property
    def duplicates(self) -> int:
        """How many were received once more than needed."""
        return sum(self.received.values()) - len(self.received)

    @property
    def ghosts(self) -> int:
        """How many were received though they were aborted."""
        return len(self.aborted & self.received.keys())

    def drained(self, queues: list[list[Message]]) -> None:
        """Book what one queue still held, by broker.

        Order is looked at without what is elsewhere too: a broker that seemed dead may have taken it late.
        """
        for number, messages in enumerate(queues):
            elsewhere = set(self.received).union(*queues[:number], *queues[number + 1 :])
            self.disorder += _breaks([each for each in messages if each not in elsewhere])
        for messages in queues:
            self.received.update(messages)

    @property
    def failed(self) -> bool:
        """Whether a promise was broken."""
        broken = (self.lost, self.disconnects, self.stuck, self.receipts_twice, self.disorder, self.ghosts)
        return any(broken) or bool(self.withheld or self.left)


def _breaks(messages: list[Message]) -> int:
    seen: set[Message] = set()
    highest: dict[str, int] = {}
    breaks = 0
    for each in messages:
        if each not in seen:
            seen.add(each)
            breaks += each.number < highest.get(each.producer, -1)
            highest[each.producer] = each.number
    return breaks
