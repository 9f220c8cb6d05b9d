"""A session's records, as a script: who says what, and what happens; the clock goes on by a millisecond each time."""

from collections.abc import Iterable
from typing import Any, Final
from zlib import crc32

from stomprelay.pipeline.match.matching import TransferMatching
from stomprelay.pipeline.match.order import JournalOrders
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.sessions import record
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.sessions.conversation import Conversation, SessionRow
from stomprelay.pipeline.sessions.outages import SessionOutage
from stomprelay.pipeline.settings import SECOND, TimeLimits
from stomprelay.pipeline.spark import arrow
from tests.pipeline.journals import BEGUN, phase

MS: Final = 1_000_000
FACTS: Final = {"upstream": "main"}


class Script:
    """One session, with its client on `broker`; both have said CONNECT and CONNECTED in these versions."""

    def __init__(
        self,
        client: str = "1.2",
        broker: str = "1.2",
        *,
        name: str = "s1",
        limits: TimeLimits | None = None,
        begun: bool = True,
        relay: str = "relay",
        at: int = BEGUN,
    ) -> None:
        self.limits = limits or TimeLimits()
        self.conversation = Conversation(relay, name, self.limits)
        self.version = client
        self.brokers: dict[str, str] = {}
        self.ns = at
        self.records: list[record.Record] = []
        self.offset = 0
        self._name = name
        self._relay = relay
        self._segment = f"20261118T110000-{relay}-{crc32(name.encode()):08x}-000001"
        self._numbers: dict[str | None, int] = {}
        self.told: list[s.Transfer] = []
        self.outages: list[SessionOutage] = []
        if begun:
            self.says("CONNECT")
            self.finds("a", broker)

    def _takes(self, **values: Any) -> None:
        self.ns += MS
        self.offset += 100
        place = {"segment": self._segment, "position": self.offset, "number": 0, "ns": self.ns}
        who = {"relay": self._relay, "session": self._name, "client": f"client of {self._name}"}
        known = {**place, **who, "turn": 1, "body_size": 5, **values}
        row = tuple(known.get(name) for name in record.NAMES)
        self.records.append(row)
        self.conversation.take(row)

    def says(self, command: str, **headers: Any) -> None:
        """The client's frame."""
        self._takes(command=command, version=self.version, number=self._next(None), **headers)

    def hears(self, command: str, *, at: str = "a", **headers: Any) -> None:
        """A frame of the broker `at`."""
        version = self.brokers[at]
        self._takes(
            command=command, version=version, broker=at, upstream="main", number=self._next(at), **headers
        )

    def _next(self, leg: str | None) -> int:
        self._numbers[leg] = number = self._numbers.get(leg, -1) + 1
        return number

    def finds(self, broker: str, version: str = "1.2") -> None:
        """A broker says CONNECTED."""
        self.brokers[broker] = version
        self._numbers.pop(broker, None)
        self.hears("CONNECTED", at=broker)

    def happens(self, event: str, text: str = "", **facts: Any) -> None:
        """An event."""
        told = "{" + ",".join(f'"{name}":"{value}"' for name, value in facts.items()) + "}"
        self._takes(event=event, text=text, facts=told, body_size=None)

    def loses(self, broker: str) -> None:
        """It goes."""
        self.happens("lost", broker=broker, upstream="main", reason="gone")

    def recovers(self, lost: str, broker: str, version: str = "1.2", resent: int = 0) -> None:
        """Another one is there."""
        self.finds(broker, version)
        self.happens("recovered", broker=broker, lost=lost, upstream="main", resent=resent)

    def subscribes(self, mode: str = "client-individual", id: str | None = "1", to: str = "/queue/a") -> None:
        """SUBSCRIBE."""
        self.says("SUBSCRIBE", subscription=id, destination=to, ack=mode)

    def sends(self, trace: str | None = None, **headers: Any) -> None:
        """SEND."""
        self.says("SEND", **{"destination": "/queue/a", "trace": trace, **headers})

    def gets(self, name: str, *, at: str = "a", subscription: str | None = "1", **headers: Any) -> None:
        """A MESSAGE with this message-id, `ack` and trace."""
        ack = name if self.brokers[at] == "1.2" else None
        known = {"destination": "/queue/a", "message_id": name, "ack": ack, "trace": name}
        self.hears("MESSAGE", at=at, subscription=subscription, **{**known, **headers})

    def passes(self, seconds: float) -> None:
        """Time does."""
        self.ns += round(seconds * SECOND)

    def breaks(self) -> None:
        """A batch ends here, and the next one goes on."""
        self.told += map(list, self.conversation.out)
        self.outages += self.conversation.outages()
        self.conversation = Conversation.load(self._name, self.conversation.dump(self.ns), self.limits)

    # What is seen

    @property
    def transfers(self) -> list[s.Transfer]:
        """All that was told so far."""
        return [*self.told, *map(list, self.conversation.out)]

    def rows(self) -> list[dict[str, Any]]:
        """Of `messages`, in the order of their times."""
        return rows(self.transfers, self.limits, self.ns)

    def row(self) -> dict[str, Any]:
        """The only one."""
        (row,) = self.rows()
        return row

    def outcomes(self) -> list[str]:
        """Those of all deliveries, in the order in which they came."""
        found = [each for row in self.rows() for each in row["deliveries"]]
        return [each[-1] for each in sorted(found)]


def rows(transfers: Iterable[s.Transfer], limits: TimeLimits, until: int) -> list[dict[str, Any]]:
    """Of `messages`, at this time, with times in ns."""
    by_key: dict[str, list[s.Transfer]] = {}
    for each in named(transfers, limits, until):
        by_key.setdefault(each[s.KEY], []).append(each)
    found = []
    for key, seen in by_key.items():
        matching = TransferMatching(key, limits)
        for each in seen:
            matching.saw([*each])
        matching.go(until)
        found += [*matching.finals, *matching.open()]
    return [dict(zip(MESSAGES.names, row, strict=True)) for row in sorted(found, key=lambda row: row[0])]


def named(transfers: Iterable[s.Transfer], limits: TimeLimits, until: int) -> list[s.Transfer]:
    """Transfers with the keys of their messages."""
    given = sorted(([*each] for each in transfers), key=phase)
    schema = arrow.schema(s.FIELDS)
    batches = (arrow.batch(given[at : at + 3], schema) for at in range(0, len(given), 3))
    told = arrow.rows(JournalOrders(limits, until)(batches))
    return [[*row] for row in told if row[s.KIND] < SessionRow.STATE]
