"""Frames a second of the wire decoder and of the relay's core, beside other Python STOMP parsers.

Heads have 18 lines. All are fed the same stream of MESSAGEs in chunks of 64 KiB; what counts is the process's CPU time.
"""

import gc
import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from unittest.mock import patch

from bench import goals
from bench.machine import cores
from bench.report import NONE, Goal, figure, median, ratios, table, verdict
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
    """One parser doing one thing; `peer` marks the foreign ones. `escaped`: the stream has ids to unescape."""

    name: str
    feed: Feed
    goal: Goal | None = None
    escaped: bool = False


@dataclass
class Rate:
    """A row's frames a second of CPU time in each round."""

    name: str
    body: int
    rates: list[float] = field(default_factory=list)


def stream(body: int, *, escaped: bool) -> tuple[int, list[bytes]]:
    """How many frames, and their octets in chunks. Each head is unlike the others."""
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


def carrying(client: str) -> Feed:
    """The relay's core, between a broker of 1.2 that streams and a subscribed client of another version."""
    version = b"" if client == "1.0" else b"accept-version:%b\nhost:/\n" % client.encode()
    name = b"" if client == "1.0" else b"id:0\n"

    def feed(chunks: Sequence[bytes]) -> int:
        upstream = Upstream("bench", alone(Broker("tcp://null", "")), versions=frozenset({b"1.2"}))
        relay = Relay(Listener("bench", "", upstream), b"bench", Counters())
        relay.handle(inputs.Opened(), 0.0)
        relay.received(relay.client, b"CONNECT\n%b\n\0" % version, 0.0)
        broker = relay.links[0].state.leg
        assert broker is not None
        relay.handle(inputs.BrokerConnected(broker), 0.0)
        relay.received(broker, b"CONNECTED\nversion:1.2\n\n\0", 0.0)
        relay.received(relay.client, b"SUBSCRIBE\n%bdestination:/queue/bench\n\n\0" % name, 0.0)
        for chunk in chunks:
            relay.received(broker, chunk, 0.0)
        return relay.counters["broker_frames"]

    return feed


def _stomp_py() -> Iterator[tuple[str, Feed]]:
    if importlib.util.find_spec("stomp") is None:
        return
    from stomp.exception import ConnectionClosedException
    from stomp.transport import BaseTransport

    class Transport(BaseTransport):  # type: ignore[misc]
        """Its receive path, fed from a list; framing alone is a private method of it."""

        def __init__(self, chunks: Sequence[bytes]) -> None:
            super().__init__()
            self.running = True
            self.receive = iter([*chunks, b""]).__next__
            self.count = 0
            self.framed = self._BaseTransport__read
            self.read_frames = self._BaseTransport__read_frames

        def process_frame(self, f: object, _frame_str: bytes) -> None:
            self.count += 1

    def whole(chunks: Sequence[bytes]) -> int:
        transport = Transport(chunks)
        try:
            while True:
                transport.read_frames()
        except ConnectionClosedException:
            return transport.count

    def framing(chunks: Sequence[bytes]) -> int:
        transport = Transport(chunks)
        count = 0
        try:
            while True:
                count += len(transport.framed())
        except ConnectionClosedException:
            return count

    yield "stomp.py", whole
    yield "stomp.py, framing only", framing


def _stompest() -> Iterator[tuple[str, Feed]]:
    if importlib.util.find_spec("stompest") is None:
        return
    from stompest.protocol import StompFrame, StompParser

    def whole(chunks: Sequence[bytes]) -> int:
        parser = StompParser("1.2")
        count = 0
        for chunk in chunks:
            parser.add(chunk)
            while parser.canRead():
                count += isinstance(parser.get(), StompFrame)  # an EOL between frames is a StompHeartBeat
        return count

    yield "stompest", whole


def _stompman() -> Iterator[tuple[str, Feed]]:
    if importlib.util.find_spec("stompman") is None:
        return
    from stompman import MessageFrame
    from stompman.serde import FrameParser

    def whole(chunks: Sequence[bytes]) -> int:
        parser = FrameParser()
        # An EOL between frames is a HeartbeatFrame.
        return sum(
            isinstance(frame, MessageFrame)
            for chunk in chunks
            for frame in parser.parse_frames_from_chunk(chunk)
        )

    yield "stompman", whole


def _stomper() -> Iterator[tuple[str, Feed]]:
    if importlib.util.find_spec("stomper") is None:
        return
    from stomper.stompbuffer import StompBuffer

    def whole(chunks: Sequence[bytes]) -> int:
        buffer = StompBuffer()
        count = 0
        for chunk in chunks:
            buffer.appendData(chunk.decode("latin-1"))  # it takes text
            while buffer.getOneMessage() is not None:
                count += 1
        return count

    yield "stomper", whole


FOREIGN: Final = {"stomp": _stomp_py, "stompest": _stompest, "stompman": _stompman, "stomper": _stomper}
"""Foreign parsers by their packages."""


def absent() -> list[str]:
    """What cannot be measured, for it is not installed or not built."""
    missing = [f"{name}: not installed" for name in FOREIGN if importlib.util.find_spec(name) is None]
    return [*missing, *(["compiled scanner: not built"] if wire.SCANNER is None else [])]


def rows() -> list[Row]:
    """Foreign parsers first, as far as they are installed, then ours."""
    foreign = [Row(name, feed) for find in FOREIGN.values() for name, feed in find()]
    compiled = [Row("scan, compiled", _scan, goals.SCAN), Row("scan to runs, compiled", _runs, goals.SCAN)]
    return [
        *foreign,
        *(compiled if wire.SCANNER is not None else []),
        Row("scan, pure Python", _pure, goals.SCAN_PURE),
        Row("parse to a header mapping", _parse, goals.PARSE),
        Row("parse, ids escaped", _parse, goals.PARSE, escaped=True),
        Row("carry 1.2 to 1.2", carrying("1.2")),
        Row("carry 1.2 to 1.0", carrying("1.0"), goals.TRANSLATE),
        Row("carry 1.2 to 1.0, ids escaped", carrying("1.0"), goals.TRANSLATE, escaped=True),
    ]


def measure(bodies: Sequence[int], rounds: int, seconds: float) -> list[Rate]:
    """Interleaved rounds on the core that is kept for what is measured."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cores()[1]})
    try:
        return [rate for body in bodies for rate in _measure(body, rounds, seconds)]
    finally:
        os.sched_setaffinity(0, usable)


def _measure(body: int, rounds: int, seconds: float) -> list[Rate]:
    streams = {escaped: stream(body, escaped=escaped) for escaped in (False, True)}
    entries = [(row, Rate(row.name, body)) for row in rows()]
    for number in range(rounds):
        turn = number % len(entries)
        for row, rate in entries[turn:] + entries[:turn]:
            rate.rates.append(_timed(row.feed, *streams[row.escaped], seconds))
    return [rate for _, rate in entries]


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


def report(rates: Sequence[Rate]) -> str:
    """A table for each size of body: frames a second, and ratios to stomp.py and to stompest."""
    known = {(rate.name, rate.body): rate for rate in rates}
    order = {row.name: row.goal for row in rows()}
    tables = []
    for body in dict.fromkeys(rate.body for rate in rates):
        lines = []
        for name, goal in order.items():
            rate = known[name, body]
            over = [_over(rate, known.get((peer, body))) for peer in ("stomp.py", "stompest")]
            said = verdict(goal, over[0]) if body == goals.KIB else ""
            lines.append(
                [name, figure(median(rate.rates)), *(figure(one) if one else NONE for one in over), said]
            )
        tables.append(
            table(
                f"decoder, {body} B bodies: frames a second of CPU time",
                ("parser", "frames/s", "/ stomp.py", "/ stompest", "goal"),
                lines,
            )
        )
    return "\n".join([*tables, *absent()])


def _over(rate: Rate, peer: Rate | None) -> float | None:
    return median(ratios(rate.rates, peer.rates)) if peer else None
