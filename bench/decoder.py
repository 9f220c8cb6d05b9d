"""Frames a second of the wire decoder and of the relay's core, beside stomp.py's parser.

Bodies have 1 KiB, heads 18 lines. All are fed the same stream of MESSAGEs in chunks of 64 KiB. The process's CPU time
counts.
"""

import gc
import importlib.util
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from unittest.mock import patch

from bench import goals
from bench.goals import Judged
from bench.machine import cores
from bench.report import Goal, median, ratios, spread
from stomprelay.relay import inputs
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.relay import Relay
from stomprelay.wire import decoder as wire
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import BROKER_COMMANDS, MESSAGE
from stomprelay.wire.run import Passing, Rule, Run

NAME: Final = "decoder"
CHUNK: Final = 64 * 1024
STREAM: Final = 2 * 1024 * 1024
"""Octets of a stream, about; it is fed again until the time is up."""

_HEAD: Final = (
    "MESSAGE\nsubscription:0\ndestination:/queue/bench\nmessage-id:{id}{number:08}\nredelivered:false\n"
    "content-type:text/plain\ncorrelation-id:c0ffee-0001\npriority:4\nseq:{number:08}\ncontent-length:{body}\n"
    "timestamp:17637{number:08}\nexpires:0\npersistent:true\nreply-to:/queue/bench.replies\ntype:order\n"
    "JMSXGroupID:customer-{number:08}\nx-trace:00-c0ffee-{number:08}-01\nx-origin:bench\nx-schema:orders/4\n\n"
)
_IDS: Final = {False: "T_0@@session-bench@@", True: "ID\\cbench-1\\c"}

Feed = Callable[[Sequence[bytes]], int]
"""Takes a stream in chunks, answers how many frames were in it."""


@dataclass(frozen=True)
class Row:
    """One parser doing one thing. `escaped`: the stream has ids to unescape."""

    name: str
    feed: Feed
    goal: Goal
    escaped: bool = False


def stream(*, escaped: bool) -> tuple[int, list[bytes]]:
    """How many frames, and their octets in chunks. Each head is unlike the others."""
    body = goals.KIB
    size = len(_HEAD.format(id=_IDS[escaped], number=0, body=body)) + body + 2
    count = max(20, STREAM // size)
    data = b"".join(
        _HEAD.format(id=_IDS[escaped], number=number, body=body).encode() + b"x" * body + b"\0\n"
        for number in range(count)
    )
    return count, [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]


def _scan(chunks: Sequence[bytes]) -> int:
    decoder = Decoder(V1_2, BROKER_COMMANDS, Limits())
    count = 0
    for chunk in chunks:
        decoder.feed(chunk)
        for _ in decoder.frames():
            count += 1
    return count


def _pure(chunks: Sequence[bytes]) -> int:
    with patch.object(wire, "SCANNER", None):
        return _scan(chunks)


_PASSING: Final = Passing(
    (Rule(MESSAGE, unless=(b"relay-trace",), wants=(b"message-id",)),), lambda run: True
)


def _runs(chunks: Sequence[bytes]) -> int:
    decoder = Decoder(V1_2, BROKER_COMMANDS, Limits())
    count = 0
    for chunk in chunks:
        decoder.feed(chunk)
        for found in decoder.runs(_PASSING):
            count += found.count if isinstance(found, Run) else 1
    return count


def _parse(chunks: Sequence[bytes]) -> int:
    decoder = Decoder(V1_2, BROKER_COMMANDS, Limits())
    count = 0
    for chunk in chunks:
        decoder.feed(chunk)
        for frame in decoder.frames():
            dict(reversed(frame.headers(V1_2)))
            _ = frame.payload
            count += 1
    return count


def _carry(chunks: Sequence[bytes]) -> int:
    """The relay's core, between a broker of 1.2 that streams and a subscribed client of 1.0."""
    upstream = Upstream("bench", alone(Broker("tcp://null", "")), versions=frozenset({b"1.2"}))
    relay = Relay(Listener("bench", "", upstream), b"bench", Counters())
    relay.handle(inputs.Opened(), 0.0)
    relay.received(relay.client, b"CONNECT\n\n\0", 0.0)
    broker = relay.links[0].state.leg
    assert broker is not None
    relay.handle(inputs.BrokerConnected(broker), 0.0)
    relay.received(broker, b"CONNECTED\nversion:1.2\n\n\0", 0.0)
    relay.received(relay.client, b"SUBSCRIBE\ndestination:/queue/bench\n\n\0", 0.0)
    for chunk in chunks:
        relay.received(broker, chunk, 0.0)
    return relay.counters["broker_frames"]


def _stomp_py() -> Feed | None:
    """Return the receive path of stomp.py; None where it is not installed."""
    if importlib.util.find_spec("stomp") is None:
        return None
    from stomp.exception import ConnectionClosedException
    from stomp.transport import BaseTransport

    class Transport(BaseTransport):  # type: ignore[misc]
        """It is fed from a list; to read one chunk is a private method of it."""

        def __init__(self, chunks: Sequence[bytes]) -> None:
            super().__init__()
            self.running = True
            self.receive = iter([*chunks, b""]).__next__
            self.count = 0
            self.read_frames = self._BaseTransport__read_frames

        def process_frame(self, f: object, _frame_str: bytes) -> None:
            self.count += 1

    def feed(chunks: Sequence[bytes]) -> int:
        transport = Transport(chunks)
        try:
            while True:
                transport.read_frames()
        except ConnectionClosedException:
            return transport.count

    return feed


def rows() -> list[Row]:
    """What can run here."""
    compiled = [Row("scan, compiled", _scan, goals.SCAN), Row("scan to runs, compiled", _runs, goals.SCAN)]
    return [
        *(compiled if wire.SCANNER is not None else []),
        Row("scan, pure Python", _pure, goals.SCAN_PURE),
        Row("parse to a header mapping", _parse, goals.PARSE),
        Row("parse, ids escaped", _parse, goals.PARSE, escaped=True),
        Row("carry 1.2 to 1.0", _carry, goals.TRANSLATE),
        Row("carry 1.2 to 1.0, ids escaped", _carry, goals.TRANSLATE, escaped=True),
    ]


def measure(rounds: int, seconds: float, note: Callable[[str], None]) -> list[Judged]:
    """Interleaved rounds on the core that is kept for what is measured; what cannot run here is noted."""
    if wire.SCANNER is None:
        note("decoder: the compiled scanner is left out: it is not built")
    peer = _stomp_py()
    if peer is None:
        note("decoder: stomp.py is not installed")
        return []
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cores()[1]})
    try:
        return _measured([Row("stomp.py", peer, goals.PARSE), *rows()], rounds, seconds)
    finally:
        os.sched_setaffinity(0, usable)


def _measured(entries: Sequence[Row], rounds: int, seconds: float) -> list[Judged]:
    streams = {escaped: stream(escaped=escaped) for escaped in (False, True)}
    rates: dict[str, list[float]] = {row.name: [] for row in entries}
    for number in range(rounds):
        turn = number % len(entries)
        for row in (*entries[turn:], *entries[:turn]):
            rates[row.name].append(_timed(row.feed, *streams[row.escaped], seconds))
    peer, *ours = entries
    base = rates[peer.name]
    found = [(row, spread(ratios(rates[row.name], base))) for row in ours]
    scale = median(base)
    return [Judged(f"decoder, {row.name}", "over stomp.py", scale, over, row.goal) for row, over in found]


def _timed(feed: Feed, count: int, chunks: Sequence[bytes], seconds: float) -> float:
    gc.collect()
    done = 0
    started = time.process_time()
    while True:
        found = feed(chunks)
        if found != count:
            raise RuntimeError(f"a parser found {found} frames in a stream of {count}")
        done += found
        spent = time.process_time() - started
        if spent >= seconds:
            return done / spent
