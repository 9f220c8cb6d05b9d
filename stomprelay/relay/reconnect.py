"""How the brokers of a group are tried, in ActiveMQ's terms.

The names of the options in URIs are those of ActiveMQ's failover transport; times there are milliseconds, here
seconds. One attempt is a pass over the whole group.
"""

from dataclasses import dataclass
from enum import Enum
from math import inf


class Policy(Enum):
    """Which broker of a group serves the next session."""

    FAILOVER = "failover"
    """The first that can, in the order of the list, or in a random order where the URI says `randomize`."""
    ROUND_ROBIN = "round-robin"
    """Each in its turn, by weight."""
    RANDOM = "random"
    """Any, by weight."""
    LEAST_SESSIONS = "least-sessions"
    """The one with the fewest sessions for its weight."""


@dataclass(frozen=True)
class Reconnect:
    """The options of a `failover:` URI.

    `randomize`: each session has an order of its own. `initial_delay`: before the first pass after a loss, and where
    pauses between passes begin. `longest_delay`: the longest pause. `exponential`, `multiplier`: how pauses grow.
    `jitter`: the share by which a pause is longer or shorter at random. `attempts`: passes after a loss until the
    session is given up, 0 is none at all. `startup_attempts`: the same for a client that has just come, which has
    at least one; negative is as many as `attempts`. Negative `attempts` are without end. `priority_backup`: the first
    broker of the list comes first, and sessions return to it when it is there again. `timeout`: seconds without a
    broker after which the session is given up. `warn_after`: passes without success after which the log is told,
    again and again.
    """

    randomize: bool = True
    initial_delay: float = 0.01
    longest_delay: float = 30.0
    exponential: bool = True
    multiplier: float = 2.0
    jitter: float = 0.2
    attempts: int = -1
    startup_attempts: int = -1
    priority_backup: bool = False
    timeout: float = inf
    warn_after: int = 10

    def most(self, *, start: bool) -> int:
        """How many passes a search has, of a client that has just come (`start`) or of one that lost its broker;
        negative is without end.
        """
        if not start:
            return self.attempts
        most = self.startup_attempts if self.startup_attempts >= 0 else self.attempts
        return most or 1
