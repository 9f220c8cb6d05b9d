"""What is counted and measured. Counters have the names that the metrics and the loss table in `docs/` use. Durations
are counted in classes of seconds, so that the counts of several processes can be added.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import add
from typing import Final, NamedTuple

COUNTERS: Final = {
    "sessions_opened": "connections that clients opened",
    "clients_refused": "clients that were refused because there were too many connections",
    "logins_failed": "clients that were refused because their passcode, token or certificate is wrong",
    "logins_unchecked": "clients that were refused because the relay could not check them, or not in time",
    "sessions_connected": "clients that were answered CONNECTED",
    "client_bytes": "bytes received from clients",
    "broker_bytes": "bytes received from brokers",
    "client_frames": "frames received from connected clients",
    "broker_frames": "frames received from connected brokers",
    "errors_sent": "ERROR frames of the relay itself",
    "frames_denied": "frames of clients that the rules denied",
    "errors_passed": "ERROR frames of brokers passed to clients",
    "errors_withheld": "ERRORs by which a broker said that it stops, not passed to clients that get another broker",
    "brokers_refused": "brokers that could not be reached or did not answer CONNECT",
    "connects_rejected": "clients that got an ERROR because healthy brokers closed at their CONNECT",
    "connects_prevented": "connections to brokers that failed because this process lacked a file descriptor or memory",
    "brokers_lost": "broker connections lost while the client was connected",
    "clients_vanished": "clients that left without DISCONNECT",
    "clients_undelivered": "clients that had left, and whose time was over before all that they had sent was confirmed",
    "faults": "sessions that ended because the relay itself failed; the log has a traceback of each",
    "beats_missed": "connections that were ended because the peer was silent for too long",
    "foreign": "connections that spoke TLS or HTTP on a plain STOMP port",
    "brokers_moved": "sessions that moved to another broker because they were asked to",
    "failovers": "sessions that continued with a broker after they had lost one",
    "sessions_crowded": "sessions that were ended because the relay was short of memory",
    "sessions_given_up": "connected clients that got an ERROR because no broker was available any more",
    "frames_resent": "frames that were sent again because the lost broker had not confirmed them",
    "poison_refused": "frames that are not sent again because brokers closed the connection for them",
    "sends_overdue": "SENDs that are not sent again because a broker answered later frames, but not these in time",
    "acks_stale": "ACKs and NACKs that were dropped because the broker of their message was lost",
    "possibly_lost": (
        "SENDs that no broker may have had, and that were not sent again; in a fan-out, for each group that may lack "
        "one"
    ),
    "fanout_overflowed": "SENDs that a group of a fan-out missed because its queue was full",
    "fanout_errors": "ERRORs of a fan-out's groups that clients did not get, as other groups accepted the frame",
    "loss_value": "header values changed because the other version cannot express them",
    "loss_name": "headers left out because the other version cannot express their name",
    "loss_reserved": "headers of publishers removed because only a broker may set them",
    "messages_filtered": "MESSAGEs that clients were not sent because the relay applies their selectors",
    "selector_ignored": "SUBSCRIBEs with a selector toward a broker that ignores selectors",
}


class Counters(dict[str, int]):
    """Counts by name. All names of COUNTERS are there from the start. `epoch`: the time since 1970 at which the relay's
    clock was 0.
    """

    def __init__(self, epoch: float = 0.0) -> None:
        super().__init__(dict.fromkeys(COUNTERS, 0))
        self.epoch = epoch


PLACES: Final = 100
"""The highest number of destinations that are counted by name at a time."""
FORMER: Final = 1000
"""The highest number of destinations without a place whose old counts are kept, in case they get a place again."""
LONGEST: Final = 200
"""The bytes of a destination's name that are used. A longer name is cut."""


class DestinationTally(NamedTuple):
    """The counts of a destination: SENDs to it, MESSAGEs from it, and the bytes of both, including heads."""

    sends: int = 0
    send_bytes: int = 0
    messages: int = 0
    message_bytes: int = 0

    def plus(self, other: "DestinationTally") -> "DestinationTally":
        """Return the sum of these counts and `other`."""
        return DestinationTally._make(map(add, self, other))


NOTHING: Final = DestinationTally()
_CANDIDATES: Final = 64
"""The number of ballots in which destinations without a place are compared, by how busy they are."""
_CHANGES: Final = 10
"""The most places that change in a turn. They are few, because a metrics store keeps each shown name for ever."""


@dataclass(slots=True, eq=False, repr=False)
class _Place:
    """A destination that is counted by name. `tally`: its counts. `recent`: how many frames it had lately."""

    tally: DestinationTally
    recent: int


@dataclass(slots=True, eq=False, repr=False)
class DestinationCounts:
    """Counts of `PLACES` destinations by name, and of all `other` destinations together. Call `turn` once a minute.

    A destination takes the place of the least busy destination if it was twice as busy lately. A destination that lost
    its place keeps its counts in `former`, and continues them when it gets a place again. `former` has at most `FORMER`
    destinations. Busy destinations without a place are found by a vote: each frame adds a vote for its destination, or
    takes a vote from another destination.
    """

    other: DestinationTally = NOTHING
    _places: dict[bytes, _Place] = field(default_factory=dict)
    former: dict[bytes, DestinationTally] = field(default_factory=dict)
    _ballots: list[tuple[bytes, int]] = field(default_factory=lambda: [(b"", 0)] * _CANDIDATES)

    def count(self, name: bytes, more: DestinationTally) -> None:
        """Add these counts to those of the destination with this name."""
        name = name[:LONGEST]
        frames = more.sends + more.messages
        place = self._places.get(name)
        if place is None and len(self._places) < PLACES:
            place = self._places[name] = _Place(NOTHING, 0)
        if place is not None:
            place.tally = place.tally.plus(more)
            place.recent += frames
            return
        self.other = self.other.plus(more)
        at = hash(name) % _CANDIDATES
        leader, votes = self._ballots[at]
        if leader == name:
            self._ballots[at] = name, votes + frames
        elif votes >= frames:
            self._ballots[at] = leader, votes - frames
        else:
            self._ballots[at] = name, frames - votes

    def turn(self) -> None:
        """Give places to destinations that are now busier than others. Then halve all recent numbers of frames."""
        weakest = sorted(self._places, key=lambda name: self._places[name].recent)[:_CHANGES]
        strongest = sorted(self._ballots, key=lambda ballot: -ballot[1])[: len(weakest)]
        for old, (new, votes) in zip(weakest, strongest, strict=True):
            if votes <= 2 * self._places[old].recent:
                break
            self.former[old] = self._places.pop(old).tally
            self._places[new] = _Place(self.former.pop(new, NOTHING), votes)
            self._ballots[hash(new) % _CANDIDATES] = b"", 0
        while len(self.former) > FORMER:
            del self.former[next(iter(self.former))]
        for place in self._places.values():
            place.recent //= 2
        self._ballots = [(name, votes // 2) for name, votes in self._ballots]

    @property
    def shown(self) -> dict[bytes, DestinationTally]:
        """The counts of the destinations that have a place."""
        return {name: place.tally for name, place in self._places.items()}


BOUNDS: Final = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""The longest duration of each class, in seconds. One more class has all longer durations."""


class Time(NamedTuple):
    """A kind of duration. `by`: "listener" or "upstream" if it is counted for each, or "". `meaning`: in words."""

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
    SILENCE: Time("upstream", "from the loss of a broker until the session continues"),
    LAG: Time("", "how late a process of the relay is with its tasks of each second"),
}
"""All durations that are measured, by name."""


class Histogram:
    """Counts of one kind of duration: `counts` by class of `BOUNDS`, the last for longer ones. `sum`: all seconds."""

    __slots__ = ("counts", "sum")

    def __init__(self, counts: Iterable[int] | None = None, sum: float = 0.0) -> None:
        self.counts = [0] * (len(BOUNDS) + 1) if counts is None else [*counts]
        self.sum = sum

    def record(self, seconds: float) -> None:
        """Count one duration. A negative one counts as zero, because a clock went back."""
        seconds = max(seconds, 0.0)
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds

    @property
    def count(self) -> int:
        """The number of counted durations."""
        return sum(self.counts)


class Times(dict[tuple[str, str], Histogram]):
    """A histogram for each name of `TIMES` and each listener or upstream that has at least one duration."""

    def record(self, name: str, label: str, seconds: float) -> None:
        """Count one duration of this name, for the listener or upstream `label`."""
        found = self.get((name, label))
        if found is None:
            found = self[name, label] = Histogram()
        found.record(seconds)
