"""Segments made by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stomprelay.journal.block import BlockKind, encode
from stomprelay.journal.schema import VERSION, Context, EventRecord, SegmentHeader

START = 1_795_248_000 * 10**9
"""2026-11-21 08:00:00."""


def name(number: int = 1, relay: str = "r1", run: str = "0000000a", stamp: str = "20261121T080000") -> str:
    """A segment's file."""
    return f"{stamp}-{relay}-{run}-{number:06d}.journal"


def header(number: int = 1, relay: str = "r1", run: str = "0000000a", **changes: Any) -> bytes:
    """A segment's first block."""
    made = SegmentHeader(VERSION, relay, run, number, START, 60.0, "stomprelay test")._replace(**changes)
    return encode(BlockKind.HEADER, START, 0, b"", (), made.encode())


def context(**fields: str) -> Context:
    """One of a client, but for what is said."""
    usual = Context(
        listener="main",
        session="r1-1",
        peer="10.0.0.1:1000",
        client="alice",
        side="client",
        version="1.2",
    )
    return usual._replace(**fields)


def frames(
    heads: Sequence[bytes],
    at: int = START,
    *,
    number: int = 0,
    bodies: Sequence[tuple[bytes, int]] | None = None,
    of: Context | bytes | None = None,
) -> bytes:
    """A block; `bodies`: of each frame what is kept, and its size."""
    whole = of if isinstance(of, bytes) else (of or context()).encode()
    sizes: list[int] = []
    payload = b""
    for head, (kept, size) in zip(heads, bodies or [(b"", 0)] * len(heads), strict=True):
        sizes += (len(head), len(kept), size)
        payload += head + kept
    return encode(BlockKind.FRAMES, at, number, whole, sizes, payload)


def event(
    what: str,
    text: str = "",
    facts: Mapping[str, Any] | None = None,
    at: int = START,
    of: Context | None = None,
) -> bytes:
    """A block with an event."""
    payload = EventRecord(what, text, dict(facts or {})).encode()
    return encode(BlockKind.EVENT, at, 0, (of or context(side="")).encode(), (), payload)


def put(folder: Path, file: str, *pieces: bytes) -> Path:
    """Write a file of these pieces; answers its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    path.write_bytes(b"".join(pieces))
    return path
