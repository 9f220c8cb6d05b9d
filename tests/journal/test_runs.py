"""Runs are recorded as their frames would be, one by one: the same blocks, and no secret in any."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stomprelay.journal.block import FRAME_SIZES
from stomprelay.journal.capture import Capture, LegRecorder
from stomprelay.journal.settings import ALL, SECRETS, BodyRule
from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.wire import decoder as wire
from stomprelay.wire.dialect import DIALECTS, V1_2, Dialect
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.run import NOTHING_PASSES, Passing, Rule, Run
from tests import strategies
from tests.journal import made

pytestmark = pytest.mark.skipif(wire.SCANNER is None, reason="the scanner is not compiled here")

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\npasscode:geheim\n\n\0"
PASSING = Passing((Rule(b"SEND"), Rule(b"ACK", wants=(b"id",), needs=False)), lambda run: True)
Taken = list[tuple[int, list[int], bytes]]


def recorder(capture: Capture, dialect: Dialect = V1_2, *, traced: bool = False) -> LegRecorder:
    """What records it."""
    return LegRecorder(made.leg(dialect), capture, traced=traced)


def read(recorder: LegRecorder, chunk: bytes, passing: Passing = PASSING, most: int = 1 << 30) -> int:
    """A chunk comes, and is read as the relay does. Returns how many runs came."""
    decoder = recorder.leg.decoder
    decoder.feed(chunk)
    return sum(type(each) is Run for each in decoder.runs(passing, most))


def blocks(recorder: LegRecorder, chunks: Sequence[bytes], passing: Passing) -> Taken:
    """What goes into the blocks that come of these chunks, up to one that is wrong."""
    taken: Taken = []
    wrong = False
    for chunk in chunks:
        try:
            read(recorder, chunk, passing)
        except StompError:
            wrong = True
        if recorder.frames:
            number, sizes, payload = recorder.take()
            taken.append((number, list(sizes), payload))
        if wrong:
            break
    return taken


NAMES = (*SECRETS, "a:b", "a\\b", "X-Key", "é", "secret key", " blank", "y" * 70, "")

names: st.SearchStrategy[str] = st.one_of(
    st.sampled_from(NAMES), st.text(st.characters(codec="utf-8"), max_size=3)
)


@st.composite
def lines(draw: st.DrawFn, redacted: list[str]) -> bytes:
    """A header line of a name that is redacted, or of one like it, however it may be spelled."""
    name = draw(st.sampled_from([*redacted, *NAMES, "destination", "subscription", "priority"])).encode()
    spelled = draw(st.sampled_from(list(DIALECTS.values()))).encode(name)
    name = draw(st.sampled_from([name, name.upper(), name.title(), spelled]))
    around = st.sampled_from([b"", b"", b"", b" ", b"\t ", b"x", b"\\c", b"\r"])
    value = st.sampled_from([b"geheim", b" a:b", b"", b"\\c", b"x\r"])
    return b"".join([draw(around), name, draw(around), b":", draw(value)])


@st.composite
def frames(draw: st.DrawFn, redacted: list[str]) -> bytes:
    """A frame with such lines."""
    command = draw(st.sampled_from([b"SEND", b"SEND", b"ACK", b"BEGIN"]))
    head = [command, *draw(st.lists(lines(redacted), max_size=4))]
    body = draw(st.sampled_from([b"", b"hello", b"token:geheim\n" * 3])) if command == b"SEND" else b""
    end = draw(st.sampled_from([b"\n", b"\n", b"\r\n"]))
    return end.join(head) + end + end + body + draw(st.sampled_from([b"\0", b"\0\n", b"\0\n\n"]))


@settings(max_examples=6 * settings().max_examples)
@given(st.data())
def test_the_same_blocks(data: st.DataObject) -> None:
    """As of single frames, octet by octet: whatever is redacted, kept of bodies, and however it all is cut."""
    redacted = data.draw(st.one_of(st.just(list(SECRETS)), st.lists(names, max_size=4)))
    capture = Capture(data.draw(st.sampled_from([0, 3, ALL])), redact=redacted)
    dialect = data.draw(st.sampled_from(list(DIALECTS.values())))
    stream = b"".join(data.draw(st.lists(frames(redacted), max_size=8)))
    chunks = data.draw(strategies.chunkings(stream))
    one, other = recorder(capture, dialect), recorder(capture, dialect)
    assert blocks(one, chunks, PASSING) == blocks(other, chunks, NOTHING_PASSES)


@pytest.mark.parametrize("most", [0, 3, ALL])
@pytest.mark.parametrize("redacted", [(), SECRETS])
def test_neighbours_are_recorded_together(most: int, redacted: tuple[str, ...]) -> None:
    """And are taken with what stood around them, in order."""
    send = b"SEND\nsubscription:0\npriority:4\ntimestamp:9\ncontent-type:x\n\nhello\0\n"
    capture = Capture(most, redact=redacted)
    one, other = recorder(capture), recorder(capture)
    chunk = send * 3 + b"BEGIN\ntransaction:t\n\n\0" + send * 2
    assert read(one, chunk) == 2
    assert [type(each) for each in one.frames] == [Run, Frame, Run]
    assert read(other, chunk, NOTHING_PASSES) == 0
    (number, sizes, payload), same = one.take(), other.take()
    assert (number, list(sizes), payload) == (same[0], list(same[1]), same[2])
    assert len(sizes) == 6 * FRAME_SIZES
    assert one.number == other.number == 6
    assert one.frames == []


def test_a_passcode_that_comes_with_what_follows() -> None:
    """CONNECT is looked at, and a passcode is in no run."""
    opening = LegRecorder(Leg(Side.DOWNSTREAM, Limits()), Capture(ALL))
    opening.leg.decoder.feed(CONNECT)
    for _ in opening.leg.decoder.frames():
        opening.leg.enter(LegState.CONNECTING, V1_2)
        opening.leg.enter(LegState.CONNECTED)
    assert read(opening, b"SEND\na:1\n\n\0SEND\npasscode:open\n\n\0") == 1
    number, _, payload = opening.take()
    assert number == 0
    assert payload == CONNECT.replace(b"geheim", b"***")[:-1] + b"SEND\na:1\n\nSEND\npasscode:open\n\n"


@pytest.mark.parametrize(
    "capture",
    [
        Capture(rules=[BodyRule("/queue/*", 1)]),
        Capture(redact=["a:b"]),
        Capture(redact=["a\\b"]),
        Capture(redact=map(str, range(40))),
    ],
)
def test_what_needs_a_look_at_each(capture: Capture) -> None:
    """Bodies by destination, names that may be escaped, and more names than the scanner takes."""
    one = recorder(capture)
    assert read(one, b"SEND\ndestination:/queue/a\n\nhello\0" * 3) == 0
    assert len(one.frames) == 3
