"""What masks secrets in a head: the compiled one writes what the one in Python writes, for any head and any names."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stomprelay.journal.capture import MASK, Secrets, secrets_of
from stomprelay.journal.settings import SECRETS
from stomprelay.wire.decoder import SCANNER
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import SEND

NAMES = [*map(str.encode, SECRETS), b"passcode", b"a", b"x-1", b"a b", "é".encode(), b"", b"y" * 70]
ODD = [b"a:b", b"a\\b", b"a\rb", b"a\nb", b"a\0b", b" a", b"a\t", b"\t"]

needs_it = pytest.mark.skipif(SCANNER is None, reason="there is no compiled scanner here")


def disguised(name: bytes) -> st.SearchStrategy[bytes]:
    """The name as somebody may spell it, or nearly so."""
    upper = name.upper()
    around = [name, upper, name.title(), b" " + name, name + b" \t", b"\t" + upper + b"\t", b"\v" + name]
    longer = [name + b"s", b"x" + name, name[1:], name[:-1], name + b"\r", b"\r" + name]
    escaped = [
        name[:1] + b"\\" + name[1:],
        b"\\" + name,
        name.replace(b"-", b"\r"),
        name.replace(b"-", b"\\c"),
    ]
    bits = [bytes(octet ^ 0x20 for octet in name), bytes(octet & 0xDF for octet in name)]
    return st.sampled_from([*around, *longer, *escaped, *bits])


PARTS = st.one_of(
    st.sampled_from(NAMES).flatmap(disguised),
    st.sampled_from([b":", b": ", b"\n", b"\r\n", b"\r", b"\\", b"\\c", b" ", b"\t", b"\0", MASK, b"value"]),
    st.binary(max_size=3),
)
HEADS = st.one_of(
    st.lists(PARTS, max_size=30).map(b"".join),
    st.lists(
        st.tuples(
            st.sampled_from(NAMES).flatmap(disguised), st.sampled_from([b"", b"v", b"a:b\r", b"\r\r"])
        ).map(b":".join),
        max_size=8,
    ).flatmap(lambda lines: st.sampled_from([b"\n", b"\r\n"]).map(lambda end: end.join([*lines, b"", b""]))),
)


@needs_it
@given(
    HEADS, st.sets(st.sampled_from(NAMES), min_size=1), st.sampled_from([b"", b"x", b"\0\n"]), st.booleans()
)
@example(b"passcode:geheim\npasscode:\r\nPASSCODE :\r\r\n\n", {b"passcode"}, b"", False)
@example(b":a\r\n: a\n", {b""}, b"", True)
def test_the_compiled_one_masks_the_same(head: bytes, names: set[bytes], before: bytes, crlf: bool) -> None:
    """Whatever the case, blanks, escapes, line ends and repetitions; and nothing around the head is looked at."""
    compiled, python = secrets_of(names), Secrets(names)
    assert compiled is not None
    assert type(compiled) is not Secrets
    command = b"SEND\r\n" if crlf else b"SEND\n"
    data = before + command + head + b"a:1\n"
    start, first, body = len(before), len(before + command), len(before + command + head)
    frame = Frame(SEND, data, start, first, body, body, len(data), False)
    assert compiled.masked(frame) == python.masked(frame)


@needs_it
def test_a_head_of_other_data() -> None:
    """Nothing is read beyond what there is."""
    compiled = secrets_of([b"a"])
    assert compiled is not None
    for start, head, body in ((-1, 0, 1), (2, 1, 3), (0, 3, 2), (0, 1, 6)):
        with pytest.raises(ValueError, match="other data"):
            compiled.masked(Frame(SEND, b"A\nb:c", start, head, body, 5, 5, False))
    with pytest.raises(TypeError):
        compiled.masked(b"SEND\n\n")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ODD)
def test_names_that_are_left_to_python(name: bytes) -> None:
    """One that a version escapes, or with a blank at its end."""
    assert type(secrets_of([b"token", name])) is Secrets
