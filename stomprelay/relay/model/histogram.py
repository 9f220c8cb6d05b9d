"""Durations in classes of seconds, so that the counts of several processes can be added. `TIMES` names what is
measured; RECEIPTs and ACKs are sampled.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, NamedTuple

BOUNDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""Up to how many seconds, inclusive, each class goes; there is one more for all that took longer."""


class Time(NamedTuple):
    """A kind of duration: `by` says whether it is counted for each listener, each upstream or not apart; then its
    meaning.
    """

    by: str
    meaning: str


CONNECT: Final = "connect"
RECEIPT: Final = "receipt"
ACK: Final = "ack"
SILENCE: Final = "silence"
LAG: Final = "lag"

TIMES: Final = {
    CONNECT: Time("listener", "from a client's connection to its CONNECTED"),
    RECEIPT: Time("upstream", "from a SEND to its RECEIPT, as the client sees it; of samples"),
    ACK: Time("listener", "from a MESSAGE to its ACK or NACK; of samples"),
    SILENCE: Time("upstream", "from the loss of a broker to going on with the next one"),
    LAG: Time("", "how late a process of the relay does what it does once a second"),
}
"""All that is measured, by name."""


class Histogram:
    """How often something took how long: `counts` by class of `BOUNDS`, and longer. `sum` is of all seconds."""

    __slots__ = ("counts", "sum")

    def __init__(self, counts: Iterable[int] | None = None, sum: float = 0.0) -> None:
        self.counts = [0] * (len(BOUNDS) + 1) if counts is None else [*counts]
        self.sum = sum

    def record(self, seconds: float) -> None:
        """Count one duration. A negative one, from a clock that went back, counts as zero."""
        seconds = max(seconds, 0.0)
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds

    @property
    def count(self) -> int:
        """How many were counted."""
        return sum(self.counts)


class Times(dict[tuple[str, str], Histogram]):
    """The histogram of each name of `TIMES` and each listener or upstream of which there was something to measure."""

    def record(self, name: str, label: str, seconds: float) -> None:
        """Count one more of a name, for the listener or upstream called `label`."""
        found = self.get((name, label))
        if found is None:
            found = self[name, label] = Histogram()
        found.record(seconds)
