"""Blocks and segments that the tests write."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from stomprelay.journal import segment
from stomprelay.journal.block import Block, BlockKind, Damage, RecordedFrame, encode
from stomprelay.journal.schema import VERSION, Context, EventRecord, SegmentHeader
from stomprelay.journal.writer import Writer
from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.wire.dialect import V1_2, Dialect
from stomprelay.wire.frame import Limits

SECOND: Final = 10**9
NOW: Final = 1_795_249_380_123_456_789
"""2026-11-21T08:23:00.123456789Z."""
RUN: Final = "0123abcd"
NAME: Final = f"20261121T082300-eu-1-{RUN}-000001"
CLIENT: Final = Context("main", "eu-1.7", "10.0.0.1:5", "orders", "client", version="1.2")
BROKER: Final = Context("main", "eu-1.7", "10.0.0.1:5", "orders", "broker", "erp", "tcp://b:61613", "1.2")
SEND: Final = b"SEND\ndestination:/queue/a\n\n"
HEADER: Final = SegmentHeader(VERSION, "eu-1", RUN, 1, NOW, 60.0, "stomprelay 0")

Item = SegmentHeader | Block | Damage


def header(of: SegmentHeader = HEADER) -> bytes:
    """A segment's first block."""
    return encode(BlockKind.HEADER, of.created, 0, b"", (), of.encode())


def frames(
    *found: tuple[bytes, bytes] | RecordedFrame,
    context: Context | bytes = CLIENT,
    at: int = NOW,
    number: int = 0,
) -> bytes:
    """A block of frames: heads and bodies, of which all is kept, or `RecordedFrame` ones."""
    sizes: list[int] = []
    payload = b""
    for frame in found:
        recorded = frame if isinstance(frame, RecordedFrame) else RecordedFrame(*frame, len(frame[1]))
        sizes += [len(recorded.head), len(recorded.kept), recorded.size]
        payload += recorded.head + recorded.kept
    whole = context if isinstance(context, bytes) else context.encode()
    return encode(BlockKind.FRAMES, at, number, whole, sizes, payload)


def event(
    name: str = "connected", text: str = "", context: Context = CLIENT, at: int = NOW, **facts: Any
) -> bytes:
    """A block with an event."""
    happening = EventRecord(name, text, dict(facts))
    return encode(BlockKind.EVENT, at, 0, context.encode(), (), happening.encode())


def over(cut: int = 0, at: int = NOW, found: int = NOW) -> bytes:
    """The block by which whoever closes what a dead relay left open ends its run."""
    text = "the relay is gone; what it left open was closed"
    return event("journal ended", text, Context(), at, by="recovery", found=found, cut=cut)


def writer(folder: Path, run: str = RUN, *, size: int = 1 << 20, age: float = 60.0) -> Writer:
    """A writer of segments of the relay `eu-1`."""
    return Writer(folder, "eu-1", run, size=size, age=age, software="stomprelay 0")


def put(folder: Path, *blocks: bytes, name: str = f"{NAME}.journal", header: bytes = header()) -> Path:
    """A segment with a header and these blocks."""
    path = folder / name
    path.write_bytes(header + b"".join(blocks))
    return path


def items(path: Path) -> list[Item]:
    """All that is read of a segment."""
    return list(segment.read(path))


def blocks(path: Path) -> list[Block]:
    """The blocks of a segment in which nothing is damaged."""
    found = items(path)
    assert isinstance(found[0], SegmentHeader)
    assert not [item for item in found if isinstance(item, Damage)]
    return [item for item in found if isinstance(item, Block)]


def heads(found: Sequence[Item]) -> list[bytes]:
    """The heads of all frames in order."""
    return [frame.head for item in found if isinstance(item, Block) for frame in item.frames]


def files(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def fails(code: int) -> Callable[..., NoReturn]:
    """What stands in the place of a call that fails in this way."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError(code, os.strerror(code))

    return fail


def leg(dialect: Dialect = V1_2) -> Leg:
    """A client's, that has sent CONNECT."""
    made = Leg(Side.DOWNSTREAM, Limits())
    made.enter(LegState.CONNECTING, dialect)
    made.enter(LegState.CONNECTED)
    return made
