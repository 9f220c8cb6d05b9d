"""Segments to rows, without Spark."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bench import journals
from stomprelay.journal.block import BlockKind, encode
from stomprelay.journal.schema import Context
from stomprelay.pipeline.read import segments
from tests.pipeline import journal_files as made

SEND = b"SEND\ndestination:/queue/a\nreceipt:r-%d\n\n"


def read(path: Path) -> list[dict[str, Any]]:
    """Its rows, without what is null in them."""
    rows = []
    for batch in segments.rows(str(path)):
        batch.validate(full=True)
        assert batch.schema.equals(segments.SCHEMA)
        at = batch.schema.get_field_index("seen_at")
        plain = batch.set_column(at, "seen_at", batch.column("seen_at").cast(pa.int64()))
        rows += [{k: v for k, v in row.items() if v is not None} for row in plain.to_pylist()]
    return rows


def sound(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Frames and events."""
    return [row for row in rows if "reason" not in row]


def damages(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What could not be read."""
    return [row for row in rows if "reason" in row]


def test_a_frame_is_a_row(tmp_path: Path) -> None:
    """All its columns, and nothing in those that it has not."""
    head = made.header()
    block = made.frames(
        [b"SEND\ndestination:/queue/a\nreceipt:r\n\n"], made.START + 1234, number=7, bodies=[(b"ab", 5)]
    )
    path = made.put(tmp_path, made.name(), head, block)
    assert read(path) == [
        {
            "seen_at": (made.START + 1234) // 1000,
            "ns": made.START + 1234,
            "relay": "r1",
            "listener": "main",
            "session": "r1-1",
            "peer": "10.0.0.1:1000",
            "client": "alice",
            "side": "client",
            "direction": "to_broker",
            "version": "1.2",
            "kind": "frame",
            "command": "SEND",
            "destination": "/queue/a",
            "receipt": "r",
            "headers": [("destination", "/queue/a"), ("receipt", "r")],
            "size": 37 + 5 + 1,
            "body_size": 5,
            "body": b"ab",
            "segment": made.name().removesuffix(".journal"),
            "position": len(head),
            "number": 7,
            "hour": "2026-11-21-08",
        }
    ]


def test_an_event_is_a_row(tmp_path: Path) -> None:
    """Facts are texts, whatever they were."""
    block = made.event("lost", "it went", {"broker": "a:61613", "resent": 3, "beats": True}, made.START)
    row = read(made.put(tmp_path, made.name(), made.header(), block))[0]
    assert row["kind"] == "event"
    assert (row["event"], row["text"]) == ("lost", "it went")
    assert dict(row["facts"]) == {"broker": "a:61613", "resent": "3", "beats": "true"}
    assert row["number"] == 0
    assert not {"command", "headers", "size", "body_size", "side", "direction"} & row.keys()


def test_the_frames_of_a_block_are_numbered(tmp_path: Path) -> None:
    """From where the leg was; each has its own head, sizes and body."""
    heads = [SEND % 1, SEND % 1, b"DISCONNECT\n\n", SEND % 2]
    bodies = [(b"", 10), (b"xy", 2), (b"", 0), (b"", 3)]
    rows = read(made.put(tmp_path, made.name(), made.header(), made.frames(heads, number=5, bodies=bodies)))
    assert [row["number"] for row in rows] == [5, 6, 7, 8]
    assert [row["command"] for row in rows] == ["SEND", "SEND", "DISCONNECT", "SEND"]
    assert [row.get("receipt") for row in rows] == ["r-1", "r-1", None, "r-2"]
    assert [row.get("body") for row in rows] == [None, b"xy", None, None]
    assert [row["body_size"] for row in rows] == [10, 2, 0, 3]
    sizes = [len(head) + size + 1 for head, (_, size) in zip(heads, bodies, strict=True)]
    assert [row["size"] for row in rows] == sizes
    assert [len(row["headers"]) for row in rows] == [2, 2, 0, 2]


def test_damage_in_the_middle_costs_what_is_damaged(tmp_path: Path) -> None:
    """It is named by offset and length, and all around it is read."""
    head, first, second, third = made.header(), *(made.frames([SEND % each]) for each in (1, 2, 3))
    bad = bytearray(second)
    bad[-3] ^= 1
    path = made.put(tmp_path, made.name(), head, first, bytes(bad), third)
    rows = read(path)
    assert [row["receipt"] for row in sound(rows)] == ["r-1", "r-3"]
    (damage,) = damages(rows)
    assert (damage["segment"], damage["length"]) == (str(path), len(second))
    assert damage["position"] == len(head) + len(first)
    assert "checksum" in damage["reason"]


@pytest.mark.parametrize("bad", [b"{}", b"[1, 2]", b"\xff", b"[[]]"])
def test_a_context_that_says_nothing_is_a_damage(tmp_path: Path, bad: bytes) -> None:
    """Its checksum is right, so somebody wrote it so; the others are read."""
    blocks = [made.frames([SEND % 1], of=bad), made.frames([SEND % 2])]
    path = made.put(tmp_path, made.name(), made.header(), *blocks)
    rows = read(path)
    assert [row["receipt"] for row in sound(rows)] == ["r-2"]
    (damage,) = damages(rows)
    assert (damage["position"], damage["length"]) == (len(made.header()), len(blocks[0]))
    assert "context" in damage["reason"]


@pytest.mark.parametrize("bad", [b"{}", b"[]", b"no", b'{"event": "a", "text": "b", "facts": 1}'])
def test_an_event_that_says_nothing_is_a_damage(tmp_path: Path, bad: bytes) -> None:
    """As is one that a later relay words otherwise."""
    block = encode(BlockKind.EVENT, made.START, 0, Context().encode(), (), bad)
    rows = read(made.put(tmp_path, made.name(), made.header(), block, made.frames([SEND % 2])))
    assert [row["receipt"] for row in sound(rows)] == ["r-2"]
    assert len(damages(rows)) == 1


@pytest.mark.parametrize(("rows", "octets"), [(1, 1 << 30), (7, 1 << 30), (1 << 30, 100)])
def test_batches_are_cut_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, octets: int
) -> None:
    """Small batches hold the same rows as large ones."""
    truth = journals.make(tmp_path, journals.World(300, relays=1, runs=1, deaths=0, bodies=200))
    files = sorted(tmp_path.iterdir())
    whole = [row for file in files for row in read(file)]
    assert len(whole) == truth.records
    monkeypatch.setattr(segments, "ROWS", rows)
    monkeypatch.setattr(segments, "OCTETS", octets)
    assert [row for file in files for row in read(file)] == whole
