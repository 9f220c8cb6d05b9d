"""Frames to columns, in both makes: whatever a head holds, they say the same of it, and what `heads` says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.read import heads
from stomprelay.pipeline.read.columns import FRAME_COLUMNS, FrameColumns
from stomprelay.pipeline.spark import arrow
from tests.sanitizer import run_sanitized

VERSIONS = ("", "1.0", "1.1", "1.2", "1.3")
COMMANDS = sorted({*heads.NAMED, b"SEND", b"BEGIN", b"CONNECT", b"STOMP", b"CONNECTED", b"DISCONNECT", b""})
NAMES = sorted(
    {name for named in heads.NAMED.values() for name in named if name} | {b"x", b"", b"a\\cb", b"\\n"}
)
PIECES = [
    *(b"/queue/a", b"ID\\chost", b"\\\\", b"\\n", b"\\r", b"\\q", b"\\", b":", b" "),
    *(b"\r", b"\xff", "é".encode(), b"\0", b""),
]

Frame = tuple[bytes, bytes, int]


def made(
    kind: type[FrameColumns], blocks: Sequence[tuple[str, Sequence[Frame] | None]]
) -> dict[str, pa.Array]:
    """The columns of blocks, each with its version and frames (head, what is kept of the body, the body's size); an
    event where there are none.
    """
    columns = kind()
    for version, frames in blocks:
        if frames is None:
            columns.blank()
        else:
            sizes = [size for head, kept, body in frames for size in (len(head), len(kept), body)]
            columns.add(b"".join(head + kept for head, kept, _ in frames), sizes, heads.dialect(version))
    arrays = columns.arrays()
    for array in arrays.values():
        array.validate(full=True)
    return arrays


def told(head: bytes, version: str) -> dict[str, Any]:
    """What `heads` has of a head, as texts."""
    command, headers = heads.read(head, heads.dialect(version))
    fields = heads.fields(command, headers)
    texts = {each: arrow.text([each])[0].as_py() for each in (command, *headers, *headers.values(), None)}
    return {
        "command": texts[command],
        **{column: texts[value] for column, value in zip(heads.COLUMNS, fields, strict=True)},
        "headers": [(texts[name], texts[value]) for name, value in headers.items()],
    }


values = st.lists(st.sampled_from(PIECES), max_size=4).map(b"".join)
lines = st.one_of(
    st.tuples(st.sampled_from(NAMES), values).map(b":".join),
    st.tuples(st.binary(max_size=5), st.binary(max_size=5)).map(b":".join),
    values,
)
usual = st.builds(
    lambda command, lines, end: end.join([command, *lines, b"", b""]),
    st.sampled_from(COMMANDS),
    st.lists(lines, max_size=6),
    st.sampled_from([b"\n", b"\n", b"\r\n"]),
)
frames = st.tuples(
    st.one_of(usual, st.binary(max_size=40)), st.binary(max_size=5), st.integers(0, 1 << 32 - 1)
)
blocks = st.lists(
    st.tuples(st.sampled_from(VERSIONS), st.one_of(st.none(), st.lists(frames, max_size=9))), max_size=6
).filter(lambda blocks: any(frames is None or frames for _, frames in blocks))


@pytest.mark.skipif(FRAME_COLUMNS is FrameColumns, reason="nothing is compiled here")
@given(blocks)
def test_both_makes_are_alike(blocks: list[tuple[str, list[Frame] | None]]) -> None:
    """Column by column, whatever heads and bodies hold and however they come in blocks."""
    one, other = made(FrameColumns, blocks), made(FRAME_COLUMNS, blocks)
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert array.type == other[name].type
        assert array.to_pylist() == other[name].to_pylist(), name


@pytest.mark.parametrize("kind", {FrameColumns, FRAME_COLUMNS})
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "head",
    [
        b"SEND\ndestination:/queue/a\nreceipt:r\ntransaction:t\nx:y\n\n",
        b"MESSAGE\nsubscription:0\nmessage-id:ID\\chost\\c1\nack:a\\\\b\\nc\\q\\\n\n",
        b"MESSAGE\nmessage-id:1\nx:2\nmessage-id:3\nx:4\n\n",
        b"MESSAGE\n\\n:x\nmessage\\c-id:1\n\n",
        b"SUBSCRIBE\nid: 0 \nack: client\ndestination: /queue/a\nx: y \n\n",
        b"SUBSCRIBE\r\nid:0\r\nack:client\r\n\r\n",
        b"ACK\nid:a\r\n\n",
        b"CONNECT\nlogin:a\\nb\npasscode: \nhost: x\n\n",
        b"CONNECTED\r\nversion:1.2\r\n\r\n",
        b"RECEIPT\nreceipt-id:\n\n",
        b"ERROR\nmessage\nreceipt-id:r\n:\n\n",
        b"DISCONNECT\n\n",
        b"NACK\nid:\xff\nsubscription:\xc3\nmessage-id:\xa9\n\n",
        b"SEND\n" + b"".join(b"h%d:%d\n" % (number, number) for number in range(33)) + b"\n",
        b"SEND\nx:" + bytes(range(14, 256)) * 300 + b"\n\n",
        b"a\\b:c\nd:e\n\n",
        b"SEND\nx:y\n\nz:w\n\n",
        b"SEND\n",
        b"\n\n",
        b"\n",
        b"",
    ],
)
def test_a_head_is_read_as_heads_reads_it(kind: type[FrameColumns], version: str, head: bytes) -> None:
    """Escapes, padding, line ends, repeated and nameless headers, what is no UTF-8, and what is no head."""
    arrays = made(kind, [(version, [(head, b"", 0)])])
    assert {name: array.to_pylist()[0] for name, array in arrays.items()} == {
        **told(head, version), "size": len(head) + 1, "body_size": 0, "body": None,
    }  # fmt: skip


@pytest.mark.parametrize("kind", {FrameColumns, FRAME_COLUMNS})
def test_many_headers_cost_what_they_weigh(kind: type[FrameColumns]) -> None:
    """A hundred thousand of them, one of them twice."""
    head = b"SEND\n" + b"".join(b"%d:\n" % (number % 99_999) for number in range(100_000)) + b"\n"
    arrays = made(kind, [("1.2", [(head, b"", 0)])])
    assert len(arrays["headers"][0]) == 99_999


@pytest.mark.parametrize("kind", {FrameColumns, FRAME_COLUMNS})
def test_values_side_by_side_make_no_letter(kind: type[FrameColumns]) -> None:
    """What is no UTF-8 in each of them is spelled out, though they would be together; the others stand."""
    heads = [b"SEND\ndestination:\xc3\n\n", b"SEND\ndestination:\xa9\n\n", "SEND\ndestination:é\n\n".encode()]
    arrays = made(kind, [("1.2", [(head, b"", 0) for head in heads])])
    assert arrays["destination"].to_pylist() == ["\\xc3", "\\xa9", "é"]


@pytest.mark.parametrize("kind", {FrameColumns, FRAME_COLUMNS})
def test_bodies_and_sizes(kind: type[FrameColumns]) -> None:
    """A body of which nothing was kept is null; an event has neither."""
    head = b"SEND\n\n"
    arrays = made(
        kind, [("1.2", [(head, b"ab", 5), (head, b"", 7)]), ("1.2", None), ("1.2", [(head, b"\0\xff", 2)])]
    )
    assert arrays["body"].to_pylist() == [b"ab", None, None, b"\0\xff"]
    assert arrays["body_size"].to_pylist() == [5, 7, None, 2]
    assert arrays["size"].to_pylist() == [12, 14, None, 9]
    assert arrays["headers"].to_pylist() == [[], [], None, []]


@pytest.mark.skipif(FRAME_COLUMNS is FrameColumns, reason="nothing is compiled here")
@pytest.mark.parametrize("sizes", [(7, 0, 0), (5, 2, 0), (-1, 0, 0), (6, -1, 0), (6, 0, 0, 1, 0, 0)])
def test_sizes_of_another_payload_are_refused(sizes: tuple[int, ...]) -> None:
    """Nothing beyond the payload is read."""
    with pytest.raises(ValueError, match="sizes of another payload"):
        FRAME_COLUMNS().add(b"SEND\n\n", sizes, heads.dialect("1.2"))


@pytest.mark.deep
def test_no_octet_beyond_a_head_is_read(tmp_path: Path) -> None:
    """Under AddressSanitizer."""
    run_sanitized(tmp_path, ["stomprelay/pipeline/read/_columns.pyx"], "tests/pipeline/read/test_columns.py")
