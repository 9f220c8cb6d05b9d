"""What bytes cost that come in many pieces: whatever a peer sends, each byte is looked at and copied a few times.

What is counted is the bytes that the decoder's searches, joins and examinations are given, at n bytes and at 8 n.
"""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from stomprelay.wire import decoder as module
from stomprelay.wire.decoder import Decoder, Pieces
from stomprelay.wire.dialect import V1_1, Dialect
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.run import Run
from tests.wire.decoding import ANY

if TYPE_CHECKING:
    from stomprelay.wire._scan import Scanner

BROAD: Final = Limits(headers=1_000_000, header_line=1_000_000, body=10_000_000)


class Meter:
    """How many bytes were given to what looks at bytes or copies them."""

    def __init__(self) -> None:
        self.bytes = 0

    def examining(self, method: Callable[..., Any], size: Callable[..., int]) -> Callable[..., Any]:
        """The same method, counting `size` of its arguments."""

        def counted(*args: Any, **options: Any) -> Any:
            self.bytes += size(*args)
            return method(*args, **options)

        return counted


class Counted:
    """A pattern that counts the bytes up to the end of what it finds."""

    def __init__(self, pattern: re.Pattern[bytes], meter: Meter) -> None:
        self._pattern = pattern
        self._meter = meter

    def __getattr__(self, name: str) -> Callable[..., re.Match[bytes] | None]:
        method = getattr(self._pattern, name)

        def counted(data: bytes, at: int = 0, *end: int) -> re.Match[bytes] | None:
            match: re.Match[bytes] | None = method(data, at, *end)
            self._meter.bytes += (match.end() if match else len(data)) - at
            return match

        return counted


class CountedScanner:
    """A scanner that counts the bytes it says it looked at."""

    def __init__(self, scanner: "Scanner", meter: Meter) -> None:
        self._scanner = scanner
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scanner, name)

    def some(self, data: bytes, at: int, most: int, few: int) -> list[Frame | Run] | Run:
        """As the scanner's."""
        before = self._scanner.seen
        try:
            return self._scanner.some(data, at, most, few)
        finally:
            self._meter.bytes += self._scanner.seen - before


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    """Counts for all decoders."""
    meter = Meter()
    for name in ("_BLANK_LINE", "_GAP", "_LFS", "_LINE_END", "_NUL", "_NO_LF"):
        monkeypatch.setattr(module, name, Counted(getattr(module, name), meter))
    monkeypatch.setattr(Pieces, "joined", meter.examining(Pieces.joined, lambda pieces: pieces.size))
    sizes: list[tuple[type, str, Callable[..., int]]] = [
        (Limits, "examine", lambda _self, _data, head, body, _dialect: body - head),
        (Limits, "has_long_line", lambda _self, lines, _before=0: len(lines)),
        (Decoder, "_count_lines", lambda _self, lines: len(lines)),
        (Decoder, "_keep", lambda _self, unfinished: len(unfinished)),
        (Decoder, "_with_receipt", lambda _self, _error, data, at: len(data) - at),
    ]
    for owner, name, size in sizes:
        monkeypatch.setattr(owner, name, meter.examining(getattr(owner, name), size))
    compiled = module.SCANNER
    if compiled is not None:
        monkeypatch.setattr(module, "SCANNER", lambda *facts: CountedScanner(compiled(*facts), meter))
    return meter


def cut(wire: bytes, size: int) -> Iterator[bytes]:
    """Chunks of so many bytes."""
    return (wire[at : at + size] for at in range(0, len(wire), size))


def _behind(n: int) -> bytes:
    """Frames each of which ends one byte into the next chunk of a hundred."""
    return (b"SEND\na:1\n\n".ljust(99, b"x") + b"\0") * (n // 100)


STREAMS: Final[dict[str, Callable[[int], bytes]]] = {
    "a head of short lines": lambda n: b"SEND\n" + b"a:1\n" * (n // 4) + b"\n\0",
    "a head of short lines with CRLF": lambda n: b"SEND\r\n" + b"a:1\r\n" * (n // 5) + b"\r\n\0",
    "a head of one line": lambda n: b"SEND\na:" + b"x" * n + b"\n\n\0",
    "a head of escapes": lambda n: b"SEND\n" + b"a:\\c\\c\\c\n" * (n // 9) + b"\n\0",
    "a head that never ends": lambda n: b"SEND\n" + b"a:1\n" * (n // 4),
    "a body without a length": lambda n: b"SEND\n\n" + b"x" * n + b"\0",
    "a body of LFs": lambda n: b"SEND\n\n" + b"\n" * n + b"\0",
    "a body with a length": lambda n: b"SEND\ncontent-length:%d\n\n" % n + b"\0" * n + b"\0",
    "LFs where no body may be": lambda n: b"BEGIN\n\n" + b"\n" * n + b"\0",
    "LFs that are announced": lambda n: b"BEGIN\ncontent-length:%d\n\n" % n + b"\n" * n + b"\0",
    "a long head, LFs where no body may be": lambda n: (
        b"BEGIN\n" + b"a:1\n" * (n // 8) + b"\n" + b"\n" * (n // 2) + b"\0"
    ),
    "EOLs": lambda n: b"\n\r\n\0" * (n // 4),
    "small frames": lambda n: b"ACK\nid:1\n\n\0\n" * (n // 12),
    "frames that end in the next chunk": _behind,
    "good frames and odd ones by turns": lambda n: b"SEND\na:1\n\nx\0BEGIN\n\n\n\0" * (n // 21),
    "good frames, an EOL between two": lambda n: b"SEND\na:1\n\nx\0\n\n" * (n // 14),
}


def _cost(meter: Meter, wire: bytes, size: int, dialect: Dialect = V1_1) -> int:
    decoder = Decoder(dialect, ANY, BROAD)
    before = meter.bytes
    for chunk in cut(wire, size):
        decoder.feed(chunk)
        for _ in decoder.frames():
            pass
    return meter.bytes - before


@pytest.mark.parametrize("size", [1, 2, 7, 99, 100, 101, 1000])
@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
def test_a_stream_in_pieces(stream: Callable[[int], bytes], size: int, meter: Meter) -> None:
    """Eight times the bytes cost eight times as much, and each byte a bounded amount."""
    costs = {}
    for n in (2000, 16000):
        wire = stream(n)
        costs[n] = _cost(meter, wire, size)
        assert costs[n] <= 14 * len(wire) + 1000
    assert costs[16000] <= 12 * costs[2000] + 1000


@pytest.mark.parametrize("half", [b"SEND\na:", b"SEND\n\n", b"SEND\ncontent-length:40000\n\n"], ids=repr)
def test_a_dribble_behind_a_large_piece(half: bytes, meter: Meter) -> None:
    """The large piece is not copied again and again for the sake of the small ones."""
    decoder = Decoder(V1_1, ANY, BROAD)
    decoder.feed(half + b"x" * 20000)
    assert list(decoder.frames()) == []
    before = meter.bytes
    for _ in range(19000):
        decoder.feed(b"x")
        assert list(decoder.frames()) == []
    assert meter.bytes - before <= 6 * 19000


def test_what_is_fed_while_there_are_frames_to_take(meter: Meter) -> None:
    """Whoever takes one frame for each chunk that comes does not have the rest copied each time."""
    wire = b"SEND\na:1\n\nhello\0\n"
    costs = []
    for count in (200, 1600):
        decoder = Decoder(V1_1, ANY, BROAD)
        before = meter.bytes
        decoder.feed(wire * count)
        for taken in range(count):
            frame = next(decoder.frames())
            assert frame.payload == b"hello"
            decoder.feed(wire[: len(wire) // 2] if taken % 2 == 0 else wire[len(wire) // 2 :])
        costs.append(meter.bytes - before)
        assert decoder.buffered
    assert costs[1] <= 8.5 * costs[0]
