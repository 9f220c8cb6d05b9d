"""Hypothesis: headers that a dialect can say, frames, garbage that looks like STOMP, and ways to cut a stream."""

from typing import Final

from hypothesis import strategies as st

from stomprelay.wire.dialect import PROTOCOL_HEADERS, Dialect, Headers
from stomprelay.wire.frame import compose
from stomprelay.wire.names import CONTENT_LENGTH, MESSAGE, RECEIPT, SEND, SUBSCRIBE

_SPICE: Final = (
    *(
        b"\\",
        b":",
        b"\n",
        b"\r",
        b" ",
        b"\\n",
        b"\\c",
        b"\\\\",
        b"\\r",
        b"\xc3\xa4",
        b"\xff",
        b"n",
        b"c",
        b"r",
    ),
)
"""What makes a name or a value worth a look."""

octets: st.SearchStrategy[bytes] = st.one_of(
    st.lists(st.sampled_from([*_SPICE, b"foo", b"/queue/a"]), max_size=6).map(b"".join),
    st.binary(max_size=12),
).map(lambda text: text.replace(b"\0", b""))
"""Header names and values of any kind, without NUL, which no head may hold."""

_NAMES: Final = st.one_of(octets, st.sampled_from(sorted(PROTOCOL_HEADERS - {CONTENT_LENGTH})))


def _survives(dialect: Dialect, name: bytes, value: bytes) -> bool:
    if not name or not dialect.nameable(name) or not dialect.speakable(value):
        return False
    if name.startswith(CONTENT_LENGTH):
        return False
    if dialect.padded:
        return not value.startswith(b" ") and not (name in PROTOCOL_HEADERS and value.endswith(b" "))
    return True


def headers(dialect: Dialect, most: int = 5) -> st.SearchStrategy[Headers]:
    """Lists of headers that a dialect can say without loss, `content-length` left out."""
    pair = st.tuples(_NAMES, octets).filter(lambda pair: _survives(dialect, *pair))
    return st.lists(pair, max_size=most)


bodies: st.SearchStrategy[bytes] = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([b"", b"\0", b"\n\n", b"\r\n\r\n", b"SEND\n\n\0", b"\0\n\0", b"a\0b"]),
)
"""Bodies, those that look like the end or the start of a frame among them."""


@st.composite
def frames(draw: st.DrawFn, dialect: Dialect) -> bytes:
    """A whole frame of a dialect: LF or CR LF lines, with a `content-length` where the body needs one."""
    command = draw(st.sampled_from([SEND, SUBSCRIBE, MESSAGE, RECEIPT]))
    lines = draw(headers(dialect))
    body = draw(bodies) if command in {SEND, MESSAGE} else b""
    if b"\0" in body or draw(st.booleans()):
        lines.insert(draw(st.integers(0, len(lines))), (CONTENT_LENGTH, b"%d" % len(body)))
    wire = compose(command, lines, dialect, body)
    if draw(st.booleans()):
        head, _, _ = wire.partition(b"\n\n")
        wire = head.replace(b"\n", b"\r\n") + b"\r\n\r\n" + wire[len(head) + 2 :]
    return wire


gaps: st.SearchStrategy[bytes] = st.sampled_from([b"", b"\n", b"\r\n", b"\n\n\n", b"\0", b"\r\n\0\n"])
"""What may stand between two frames."""


def streams(dialect: Dialect, most: int = 5) -> st.SearchStrategy[bytes]:
    """Some frames and what stands between them."""
    return st.lists(st.tuples(gaps, frames(dialect)), max_size=most).map(
        lambda pairs: b"".join([gap + frame for gap, frame in pairs])
    )


garbage: st.SearchStrategy[bytes] = st.one_of(
    st.binary(max_size=60),
    st.lists(
        st.sampled_from(
            [
                *(b"SEND", b"SUBSCRIBE", b"CONNECT", b"MESSAGE", b"RECEIPT", b"ACK", b"NONSENSE", b"send"),
                *(b"\n", b"\n", b"\n\n", b"\r\n", b"\r\n\r\n", b"\r", b"\0", b"\0", b"\0\n"),
                *(b"destination:/queue/a", b"content-length:", b"content-length:3", b"foo:bar", b":", b" "),
                *(b"3", b"-1", b"999999999999", b"\\n", b"\\", b"\\t", b"\xff", b"abc", b"x" * 40),
            ]
        ),
        max_size=25,
    ).map(b"".join),
)
"""Octets of any kind, and pieces of STOMP in any order."""


@st.composite
def chunkings(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """One way to cut the data, empty chunks included."""
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    return [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True)]
