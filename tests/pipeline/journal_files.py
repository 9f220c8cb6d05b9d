"""Segments made by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stomprelay.journal.block import RecordedFrame
from stomprelay.journal.schema import VERSION, Context, SegmentHeader
from tests.journal import made

START = 1_795_248_000 * 10**9
"""2026-11-21 08:00:00."""


def name(number: int = 1, relay: str = "r1", run: str = "0000000a", stamp: str = "20261121T080000") -> str:
    """A segment's file."""
    return f"{stamp}-{relay}-{run}-{number:06d}.journal"


def header(number: int = 1, relay: str = "r1", run: str = "0000000a", **changes: Any) -> bytes:
    """A segment's first block."""
    usual = SegmentHeader(VERSION, relay, run, number, START, 60.0, "stomprelay test")
    return made.header(usual._replace(**changes))


def context(**fields: str) -> Context:
    """One of a client, but for what is said."""
    usual = Context(
        listener="main", session="r1-1", peer="10.0.0.1:1000", client="alice", side="client", version="1.2"
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
    found = zip(heads, bodies or [(b"", 0)] * len(heads), strict=True)
    recorded = (RecordedFrame(head, *body) for head, body in found)
    return made.frames(*recorded, context=of or context(), at=at, number=number)


def event(what: str, text: str = "", facts: Mapping[str, Any] | None = None, at: int = START) -> bytes:
    """A block with an event."""
    return made.event(what, text, context(side=""), at, **(facts or {}))


def put(folder: Path, file: str, *pieces: bytes) -> Path:
    """Write a file of these pieces; answers its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    path.write_bytes(b"".join(pieces))
    return path
