"""Records as lines that people read."""

from pathlib import Path

import pytest

from stomprelay.journal.block import RecordedFrame
from stomprelay.journal.command import record_lines, visible
from stomprelay.journal.records import Record, records
from stomprelay.journal.schema import Context
from tests.journal.made import BROKER, CLIENT, NOW, event, frames, put

AT = "2026-11-21T08:23:00.123456Z"


def shown(tmp_path: Path, block: bytes, *, bodies: bool = False) -> list[str]:
    """The lines of a block's records."""
    found = list(records(put(tmp_path, block)))
    return [line for each in found if isinstance(each, Record) for line in record_lines(each, bodies=bodies)]


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (
            frames((b"SEND\ndestination:/queue/a\\cb\nx:\n\n", b"hello")),
            'eu-1.7 orders -> SEND destination:/queue/a:b x:"" (5 octets)',
        ),
        (
            frames((b'SUBSCRIBE\nid:0\ndestination:/queue/a\nselector:a = "b"\n\n', b"")),
            'eu-1.7 orders -> SUBSCRIBE id:0 destination:/queue/a selector:"a = \\"b\\""',
        ),
        (
            frames((b"MESSAGE\nmessage-id:1\n\n", b"1"), context=BROKER),
            "eu-1.7 orders <- tcp://b:61613 MESSAGE message-id:1 (1 octet)",
        ),
        (
            event("lost", "the broker is gone", broker="tcp://b:1", resent=3, reason="connection reset"),
            'eu-1.7 orders -- lost: the broker is gone broker=tcp://b:1 resent=3 reason="connection reset"',
        ),
        (event("journal begun", "it begins", context=Context()), "- - -- journal begun: it begins"),
        (
            frames((b"CONNECT\naccept-version:1.2\n\n", b""), context=CLIENT._replace(client="zürich 1")),
            "eu-1.7 zürich 1 -> CONNECT accept-version:1.2",
        ),
    ],
)
def test_lines(tmp_path: Path, block: bytes, line: str) -> None:
    """Time, session, client, whose frame it is, and what it says."""
    assert shown(tmp_path, block) == [f"{AT} {line}"]


def test_bodies(tmp_path: Path) -> None:
    """What was kept of them, and how much is missing."""
    block = frames(
        (b"SEND\n\n", b"one\n two\r\n\xff\0"),
        RecordedFrame(b"SEND\n\n", b"abc", 10),
        RecordedFrame(b"SEND\n\n", b"", 10),
        (b"ACK\n\n", b""),
    )
    assert [line.removeprefix(f"{AT} eu-1.7 orders -> ") for line in shown(tmp_path, block, bodies=True)] == [
        "SEND (12 octets)",
        "    | one",
        "    |  two\\r",
        "    | \\xff\\x00",
        "SEND (10 octets)",
        "    | abc",
        "    | ... 3 of 10 octets were kept",
        "SEND (10 octets)",
        "    | ... 0 of 10 octets were kept",
        "ACK",
    ]


def test_a_line_is_a_line(tmp_path: Path) -> None:
    """Whatever a client sent, it can neither begin another line nor move the cursor."""
    odd = "\n\r\x1b[2J\x85\u2028"
    context = CLIENT._replace(session=odd, client=odd)
    head = "SEND\n\\n\x1b:\\n\x1b\u2028\n\n".encode()
    for block in (frames((head, b""), context=context), event(odd, odd, context, NOW, **{odd: odd})):
        (line,) = shown(tmp_path, block)
        assert line.isprintable()


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", ""),
        ("zürich 東京", "zürich 東京"),
        ("a\nb", "a\\nb"),
        ("\x1b\x7f\x9b", "\\x1b\\x7f\\x9b"),
        ("\u200b", "\\u200b"),
    ],
)
def test_visible(text: str, seen: str) -> None:
    """Letters of all languages as they are, all else escaped."""
    assert visible(text) == seen
