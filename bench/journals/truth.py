"""What is in a journal that was made up, and what must come out of it."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Outage:
    """A broker that was lost, or left because that was asked for (`planned`), as the table `failovers` has it."""

    broker: str
    planned: bool
    sessions: int = 0
    resent: int = 0
    stale_acks: int = 0
    duplicates: int = 0


@dataclass
class Truth:
    """What a journal has; it holds for messages that are waited for (`give_up`) longer than the whole journal takes."""

    records: int = 0
    commands: Counter[str] = field(default_factory=Counter)
    """Frames by their command; events are `event`."""
    destinations: Counter[str] = field(default_factory=Counter)
    """SENDs to each."""
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Messages by destination and what became of them."""
    deliveries: Counter[str] = field(default_factory=Counter)
    """MESSAGEs of each destination."""
    redelivered: Counter[str] = field(default_factory=Counter)
    """Those that repeat one that the journal knows to be refused or returned."""
    receipts: int = 0
    """SENDs that were confirmed."""
    octets: int = 0
    """The bodies of all SENDs."""
    outages: list[Outage] = field(default_factory=list)
    died: dict[str, bool] = field(default_factory=dict)
    """The runs (`RELAY-RUN`), and whether each died."""
    end: int = 0
    """The time of the last record."""

    def took(self, command: str, count: int) -> None:
        """So many more frames, or events."""
        self.commands[command] += count
        self.records += count

    def became(self, destination: str, outcome: str, count: int) -> None:
        """So many more messages with this outcome."""
        if count:
            self.outcomes[destination, outcome] += count
