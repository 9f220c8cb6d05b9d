"""A client of a world that is made up: its sessions one after the other, their legs, and what it owes."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from bench.journals.relay import Relay
from bench.journals.truth import Truth
from stomprelay.journal.block import BlockKind, encode
from stomprelay.journal.schema import Context, JournalSide
from stomprelay.session.effects import Event

UPSTREAM: Final = "main"
VERSION: Final = "1.2"
PRODUCT: Final = "ActiveMQ/6.1.0"
AUTO: Final = "auto"
CUMULATIVE: Final = "client"
INDIVIDUAL: Final = "client-individual"
_REST: Final = (
    b"priority:4\npersistent:true\ncontent-type:application/json\ncorrelation-id:c-%d\ncontent-length:%d\n\n"
)
_BODY: Final = bytes(range(32, 127)) * 700


class Alike(NamedTuple):
    """Neighbours that are alike: `head` has a `%d` or `%b` for each value, `rows` the values of each frame, `bodies`
    the size of the body of each; empty for none.
    """

    head: bytes
    rows: Sequence[tuple[Any, ...]]
    bodies: Sequence[int] = ()


def chunk(time: int, number: int, context: bytes, parts: Sequence[Alike], kept: int = 0) -> bytes:
    """Return a block. `number`: frames of the leg before it; `kept`: bytes of each body that are recorded, at most."""
    sizes: list[int] = []
    pieces: list[bytes] = []
    for head, rows, bodies in parts:
        for row, size in zip(rows, bodies or [0] * len(rows), strict=True):
            whole, body = head % row, _BODY[: min(size, kept)]
            sizes += (len(whole), len(body), size)
            pieces += (whole, body)
    return encode(BlockKind.FRAMES, time, number, context, sizes, b"".join(pieces))


class Batch(NamedTuple):
    """Messages of one session in one chunk: their numbers, the sizes of bodies, and whether each asks for a receipt."""

    producer: bytes
    destination: str
    numbers: range
    sizes: Sequence[int]
    receipts: bool


class Owed(NamedTuple):
    """A delivery without an answer: `delivery` names it for ACK, the rest is its message."""

    destination: str
    producer: bytes
    number: int
    size: int
    delivery: int


class Leg:
    """One of a session's legs: frames that come on it are recorded."""

    def __init__(self, relay: Relay, context: bytes, truth: Truth, kept: int) -> None:
        self._relay = relay
        self._context = context
        self._truth = truth
        self._kept = kept
        self._count = 0

    def came(self, now: int, *parts: Alike) -> None:
        """Record the frames of one chunk."""
        relay = self._relay
        relay.put(now, chunk(now + relay.skew, self._count, self._context, parts, self._kept))
        for head, rows, _ in parts:
            count = len(rows)
            self._count += count
            self._truth.took(head[: head.index(b"\n")].decode(), count)

    def torn(self, now: int, *parts: Alike) -> bytes:
        """Return the block that is not recorded as a whole."""
        return chunk(now + self._relay.skew, self._count, self._context, parts, self._kept)


class Client:
    """One client: it comes with `connect` and is gone with `leave`, or when its relay dies. `client` and `upstream` are
    the legs of its present session, `owed` the deliveries that it has not answered. Consumers have a `mode` and
    `subscriptions`, the number of each destination's. `trace`: their relay's listener adds it; `kept`: octets of bodies
    in the journal.
    """

    def __init__(
        self,
        relay: Relay,
        name: str,
        number: int,
        brokers: Sequence[str],
        truth: Truth,
        *,
        trace: bool,
        kept: int,
    ) -> None:
        self.relay = relay
        self.name = name
        self.mode = AUTO
        self.subscriptions: dict[str, int] = {}
        self.owed: deque[Owed] = deque()
        self.broker = brokers[number % len(brokers)]
        self.session = b""
        self.client: Leg
        self.upstream: Leg
        self._number = number
        self._sessions = 0
        self._truth = truth
        self._trace = trace
        self._kept = kept
        self._context = Context()

    def connect(self, now: int) -> None:
        """A new session, with its subscriptions."""
        self._sessions += 1
        name = f"{self.relay.run}-{self.name}.{self._sessions}"
        self.session = name.encode()
        peer = f"10.0.{self._number // 250}.{self._number % 250 + 1}:{32768 + self._sessions % 28000}"
        self._context = Context("main", name, peer, self.name)
        context = self._context._replace(side=JournalSide.CLIENT.value, version=VERSION).encode()
        self.client = Leg(self.relay, context, self._truth, self._kept)
        head = b"CONNECT\naccept-version:1.2\nhost:/\nclient-id:%b\nheart-beat:10000,10000\n\n"
        self.client.came(now, Alike(head % self.name.encode(), [()]))
        self.finds(now, self.broker)
        facts = {"broker": self.broker, "upstream": UPSTREAM, "version": VERSION, "product": PRODUCT}
        self.happened(now, Event.CONNECTED, f"connected to {self.broker}", facts)
        if self.subscriptions:
            head = b"SUBSCRIBE\nid:%%d\ndestination:%%b\nack:%b\n\n" % self.mode.encode()
            rows = [(number, where.encode()) for where, number in self.subscriptions.items()]
            self.client.came(now, Alike(head, rows))

    def finds(self, now: int, broker: str) -> None:
        """This broker answered CONNECTED."""
        self.broker = broker
        whole = self._context._replace(
            side=JournalSide.BROKER.value, upstream=UPSTREAM, broker=broker, version=VERSION
        )
        self.upstream = Leg(self.relay, whole.encode(), self._truth, self._kept)
        head = b"CONNECTED\nversion:1.2\nserver:%b\nsession:%b\nheart-beat:10000,10000\n\n"
        self.upstream.came(now, Alike(head % (PRODUCT.encode(), self.session), [()]))

    def happened(self, now: int, event: Event, text: str, facts: Mapping[str, Any]) -> None:
        """An event of its session."""
        self.relay.happened(now, self._context.encode(), event.value, text, facts)

    def leave(self, now: int, after: int) -> None:
        """DISCONNECT, with its receipt `after` ns."""
        self.client.came(now, Alike(b"DISCONNECT\nreceipt:bye\n\n", [()]))
        self.upstream.came(now + after, Alike(b"RECEIPT\nreceipt-id:bye\n\n", [()]))
        self.happened(now + after, Event.DISCONNECTED, "the client sent DISCONNECT", {"end": "client"})

    def stopped(self, now: int) -> None:
        """Its relay stops in good order."""
        self.happened(now, Event.DISCONNECTED, "the relay stops", {"end": "relay"})

    def loses(self, now: int, *, planned: bool) -> None:
        """Its broker is gone, or is left because that was asked for."""
        facts: dict[str, Any] = {"broker": self.broker, "upstream": UPSTREAM}
        if planned:
            self.happened(now, Event.MOVED, f"leaving broker {self.broker}", facts)
            return
        reason = "closed the connection: Connection was closed cleanly."
        self.happened(now, Event.LOST, f"broker {self.broker} {reason}", {**facts, "reason": reason})

    def refused(self, now: int) -> None:
        """The broker that it lost does not answer."""
        reason = "cannot be reached: Connection was refused by other side"
        facts = {"broker": self.broker, "upstream": UPSTREAM, "reason": reason}
        self.happened(now, Event.REFUSED, f"broker {self.broker} {reason}", facts)

    def recovers(self, now: int, broker: str, resent: int) -> None:
        """It goes on with another broker, to which so many frames are said again."""
        lost = self.broker
        self.finds(now, broker)
        facts = {"broker": broker, "upstream": UPSTREAM, "version": VERSION, "product": PRODUCT}
        text = f"connected to {broker} in place of {lost}"
        self.happened(now, Event.RECOVERED, text, {**facts, "lost": lost, "resent": resent})

    # What consumers hear and say

    def hears(self, now: int, batch: Batch, first: int) -> None:
        """MESSAGEs; their deliveries count from `first`."""
        producer, destination, numbers, sizes, _ = batch
        traced = b"relay-trace:%b-%%d\n" % producer if self._trace else b""
        head = b"MESSAGE\n%bsubscription:%d\ndestination:%b\nmessage-id:ID:%b:%%d\nack:%b-%%d\nredelivered:false\n" % (
            traced, self.subscriptions[destination], destination.encode(), producer, self.session,
        )  # fmt: skip
        deliveries = range(first, first + len(numbers))
        columns = [numbers, deliveries, numbers, sizes]
        rows = list(zip(*([numbers] * self._trace), *columns, strict=True))
        self.upstream.came(now, Alike(head + _REST, rows, sizes))

    def hears_again(self, now: int, again: Sequence[Owed], first: int) -> None:
        """Messages once more, of any producers and destinations; their deliveries count from `first`."""
        traced = b"relay-trace:%b-%d\n" if self._trace else b""
        names = b"subscription:%%d\ndestination:%%b\nmessage-id:ID:%%b:%%d\nack:%b-%%d\n" % self.session
        head = b"MESSAGE\n%b%bredelivered:true\n%b" % (traced, names, _REST)
        rows: list[tuple[Any, ...]] = []
        for at, (destination, producer, number, size, _) in enumerate(again, start=first):
            row = (self.subscriptions[destination], destination.encode(), producer, number, at, number, size)
            rows.append((producer, number, *row) if self._trace else row)
        self.upstream.came(now, Alike(head, rows, [each.size for each in again]))

    def acks(self, now: int, deliveries: Sequence[int], *, refuse: int = -1, transaction: int = -1) -> None:
        """ACK of these, and NACK of one more, in a transaction where that is wanted."""
        inside = b"transaction:t-%d\n" % transaction if transaction >= 0 else b""
        parts = []
        if inside:
            parts.append(Alike(b"BEGIN\n%b\n" % inside, [()]))
        if deliveries:
            parts.append(Alike(b"ACK\nid:%b-%%d\n%b\n" % (self.session, inside), list(zip(deliveries))))
        if refuse >= 0:
            parts.append(Alike(b"NACK\nid:%b-%%d\n%b\n" % (self.session, inside), [(refuse,)]))
        if inside:
            parts.append(Alike(b"COMMIT\n%b\n" % inside, [()]))
        self.client.came(now, *parts)

    # What producers say and hear

    def sends(self, now: int, batch: Batch) -> None:
        """SENDs."""
        self.client.came(now, self.sending(batch))

    def sending(self, batch: Batch, inside: bytes = b"") -> Alike:
        """The same, not yet said; in a transaction where there is its header."""
        producer, destination, numbers, sizes, receipts = batch
        traced = b"relay-trace:%b-%%d\n" % producer if self._trace else b""
        receipt = b"receipt:m-%d\n" if receipts else b""
        head = b"SEND\n%bdestination:%b\npersistent:true\ncontent-type:application/json\n%b%b" % (
            traced, destination.encode(), inside, receipt,
        )  # fmt: skip
        columns = [numbers] * (1 + self._trace + receipts)
        rows = list(zip(*columns, sizes, strict=True))
        return Alike(head + b"correlation-id:c-%d\ncontent-length:%d\n\n", rows, sizes)

    def confirmed(self, now: int, numbers: range) -> None:
        """RECEIPTs for these."""
        self.upstream.came(now, Alike(b"RECEIPT\nreceipt-id:m-%d\n\n", list(zip(numbers))))
