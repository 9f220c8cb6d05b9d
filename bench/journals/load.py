"""One run of one relay: producers and consumers, and nothing that goes wrong."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from bench.journals.truth import Truth
from stomprelay.journal.block import BlockKind, encode
from stomprelay.journal.schema import Context, EventRecord, JournalSide
from stomprelay.journal.writer import Writer

SECOND: Final = 1_000_000_000
START: Final = 1_795_248_000 * SECOND
"""2026-11-21 08:00:00."""
_PIECE: Final = 1 << 20
_BODIES: Final = (64, 200, 700, 2000)
_ENDLESS: Final = 1e9


@dataclass(frozen=True)
class Load:
    """What to make up. `records` is reached, and passed by less than a round of `burst` messages.

    `sessions` producers, and as many consumers, share `destinations`, some of which get most of the messages. Each
    round one producer sends `burst` messages with receipts, which come to one consumer; it acknowledges them but for
    about `lost` of them. `rate`: messages a second of the journal's time. `trace`: the frames carry the relay's
    trace, otherwise they are matched by their order.
    """

    records: int
    sessions: int = 20
    destinations: int = 12
    burst: int = 8
    rate: float = 5000.0
    lost: float = 0.01
    trace: bool = False
    body: bool = False
    seed: int = 1
    relay: str = "r1"
    run: str = "00000001"
    segment: int = 16 << 20
    start: int = START


def write(folder: Path, load: Load) -> Truth:
    """Write the segments of one run of one relay, closed; answers what is in them."""
    truth = Truth()
    writer = Writer(
        folder, load.relay, load.run, size=load.segment, age=_ENDLESS, software="stomprelay bench"
    )
    waiting: list[bytes] = []
    held = 0
    now = load.start
    for now, block in blocks(load, truth):
        waiting.append(block)
        held += len(block)
        if held > min(_PIECE, load.segment):
            writer.write(b"".join(waiting), now)
            waiting.clear()
            held = 0
    if waiting:
        writer.write(b"".join(waiting), now)
    writer.close(now)
    truth.end = now
    return truth


def blocks(load: Load, truth: Truth) -> Iterator[tuple[int, bytes]]:
    """The blocks in the order of their times, each with its own; `truth` is filled on the way."""
    random = Random(load.seed)
    producers = [_Side(load, f"p{number:03d}", number) for number in range(load.sessions)]
    consumers = [_Side(load, f"c{number:03d}", number) for number in range(load.sessions)]
    queues = [f"/queue/{number:02d}".encode() for number in range(load.destinations)]
    weights = [1 / (number + 1) for number in range(load.destinations)]
    gap = int(SECOND * load.burst / load.rate)
    now = load.start
    for side in (*producers, *consumers):
        truth.took("event", 1)
        yield now, side.connected(now)
    serial = 0
    while truth.records < load.records:
        producer = producers[random.randrange(load.sessions)]
        consumer = consumers[random.randrange(load.sessions)]
        (queue,) = random.choices(queues, weights)
        size = _BODIES[serial % len(_BODIES)]
        numbers = range(serial, serial + load.burst)
        serial += load.burst
        answered = [each for each in numbers if random.random() >= load.lost]
        first, second, third = sorted(random.randrange(1, gap) for _ in range(3))
        trace = b"relay-trace:" + producer.session + b"-%d\n" if load.trace else b""
        send = b"SEND\ndestination:%b\ncontent-length:%d\nreceipt:m-%%d\n%b\n" % (queue, size, trace)
        message = (
            b"MESSAGE\nsubscription:0\ndestination:%b\nmessage-id:%b@@%%d\nack:%b-%%d\n"
            b"redelivered:false\ncontent-length:%d\ncontent-type:text/plain\n%b\n"
            % (queue, consumer.session, consumer.session, size, trace)
        )
        body = bytes(size) if load.body else b""
        traced = [(each, each) for each in numbers] if load.trace else numbers
        thrice = [(each, each, each) for each in numbers] if load.trace else [(e, e) for e in numbers]
        yield now, producer.said(now, [send % each for each in traced], size, body)
        yield now + first, producer.told(now + first, [b"RECEIPT\nreceipt-id:m-%d\n\n" % e for e in numbers])
        yield now + second, consumer.told(now + second, [message % each for each in thrice], size, body)
        acks = [b"ACK\nid:%b-%d\n\n" % (consumer.session, each) for each in answered]
        if acks:
            yield now + third, consumer.said(now + third, acks)
        for command in ("SEND", "RECEIPT", "MESSAGE"):
            truth.took(command, load.burst)
        truth.took("ACK", len(answered))
        destination = queue.decode()
        truth.destinations[destination] += load.burst
        truth.deliveries[destination] += load.burst
        truth.became(destination, "acked", len(answered))
        truth.became(destination, "delivered", load.burst - len(answered))
        truth.receipts += load.burst
        truth.octets += load.burst * size
        now += gap


class _Side:
    """One session: its client's leg and its broker's."""

    def __init__(self, load: Load, client: str, number: int) -> None:
        self.session = f"{load.relay}-{load.run}-{client}".encode()
        whole = Context(
            listener="main",
            session=self.session.decode(),
            peer=f"10.0.0.{number % 250}:{40000 + number}",
            client=client,
            upstream="main",
            broker=f"broker-{number % 3}:61613",
            version="1.2",
        )
        self._event = whole._replace(side="").encode()
        self._client = whole._replace(side=JournalSide.CLIENT.value, upstream="", broker="").encode()
        self._broker = whole._replace(side=JournalSide.BROKER.value).encode()
        self._said = self._told = 0
        self._broker_name = whole.broker

    def connected(self, now: int) -> bytes:
        facts = {"broker": self._broker_name, "upstream": "main", "version": "1.2"}
        told = EventRecord("connected", f"connected to {self._broker_name}", facts)
        return encode(BlockKind.EVENT, now, 0, self._event, (), told.encode())

    def said(self, now: int, heads: list[bytes], size: int = 0, body: bytes = b"") -> bytes:
        before, self._said = self._said, self._said + len(heads)
        return _frames(now, before, self._client, heads, size, body)

    def told(self, now: int, heads: list[bytes], size: int = 0, body: bytes = b"") -> bytes:
        before, self._told = self._told, self._told + len(heads)
        return _frames(now, before, self._broker, heads, size, body)


def _frames(now: int, before: int, context: bytes, heads: list[bytes], size: int, body: bytes) -> bytes:
    sizes: list[int] = []
    for head in heads:
        sizes += (len(head), len(body), size)
    payload = body.join(heads) + body
    return encode(BlockKind.FRAMES, now, before, context, sizes, payload)
