"""Portions, in both makes: what is put in comes out as the same octets, however it is cut."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.journal.block import Block, BlockKind, decode, encode, pack_sizes
from stomprelay.journal.capture import Capture, LegRecorder
from stomprelay.service.journal.portions import PORTIONS, EncodedBlocks, Portions
from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.frame import Limits
from stomprelay.wire.run import Passing, Rule
from tests.sanitizer import run_sanitized

HUGE = 1 << 40


def made(kind: type[Portions], most: int) -> Portions:
    """Portions without a limit, whose clock counts."""
    portions = kind(most, itertools.count(1).__next__, lambda: None, lambda frames, size: None)
    portions.limit = portions.mark = HUGE
    return portions


@pytest.mark.parametrize("kind", {Portions, PORTIONS})
@pytest.mark.parametrize("size", range(130))
def test_a_block_is_as_others_make_it(kind: type[Portions], size: int) -> None:
    """Octet by octet, with numbers as large and times as early as they get."""
    portions = made(kind, 1000)
    sizes, payload = pack_sizes(size, 0, 0xFFFFFFFF) * size, bytes(range(size))
    portions.put(b"[]", (1 << 64) - 1, sizes, payload)
    portions.put(b"", 0, b"", payload, int(BlockKind.EVENT))
    found = b"".join(bytes(each.data) for each in iter_taken(portions))
    assert found == encode(BlockKind.FRAMES, 1, (1 << 64) - 1, b"[]", sizes, payload) + encode(
        BlockKind.EVENT, 2, 0, b"", b"", payload
    )


def iter_taken(portions: Portions) -> Iterator[EncodedBlocks]:
    """Each portion, done with before the next."""
    while (batch := portions.take()) is not None:
        yield batch
        portions.done()


@pytest.mark.skipif(PORTIONS is Portions, reason="nothing is compiled here")
@given(st.integers(1, 300), st.lists(st.one_of(st.none(), st.integers(0, 400)), max_size=30))
def test_both_makes_are_alike(most: int, steps: list[int | None]) -> None:
    """The same portions, sizes and counts, whatever is put in and taken in whatever order."""
    both = made(Portions, most), made(PORTIONS, most)
    for step in [*steps, *[None] * len(steps)]:
        if step is not None:
            for each in both:
                each.put(b'["a"]', step, pack_sizes(step, 0, 0), b"x" * step)
            continue
        one, other = (each.take() for each in both)
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert (one.data, one.blocks, one.frames) == (other.data, other.blocks, other.frames)
        for each in both:
            each.done()
        assert both[0].size == both[1].size


@pytest.mark.parametrize("kind", {Portions, PORTIONS})
@pytest.mark.parametrize("bodies", [0, 3, 100])
@pytest.mark.skipif(PORTIONS is Portions, reason="there are no runs here")
def test_a_leg_is_recorded_as_its_recorder_has_it(kind: type[Portions], bodies: int) -> None:
    """Runs alone and several, frames, what comes in two pieces, and nothing."""
    rule = Rule(b"SEND")
    send = b"SEND\ndestination:/queue/a\n\nhello\0"
    portions, other = made(kind, 1 << 20), made(Portions, 1 << 20)
    recorders = []
    for _ in range(2):
        leg = Leg(Side.DOWNSTREAM, Limits())
        leg.enter(LegState.CONNECTED, V1_2)
        recorders.append(LegRecorder(leg, Capture(bodies)))
        recorders[-1].context = b'["c"]'
    ack = b"ACK\nid:1\n\n\0"
    cut = send * 200 + send[:20], send[20:] + (send + b"\n") * 600
    for chunk in (
        send,
        send * 3,
        send * 300,
        ack,
        send + ack + send,
        b"\n",
        *cut,
        (send + b"\n") * 2 + b"\n\n" + send,
    ):
        for recorder in recorders:
            recorder.leg.decoder.feed(chunk)
            list(recorder.leg.decoder.runs(Passing((rule,), lambda run: True)))
        portions.record(recorders[0])
        if recorders[1].frames:
            other.put(recorders[1].context, *recorders[1].take())
        assert recorders[0].number == recorders[1].number
        assert recorders[0].frames == []
    one, two = recorded(portions), recorded(other)
    assert one == two
    assert len(one) == 8


def recorded(portions: Portions) -> list[Block]:
    """What is in there, as it is read, wherever it stands."""
    found = list(decode(b"".join(bytes(each.data) for each in iter_taken(portions))))
    blocks = [each for each in found if isinstance(each, Block)]
    assert len(blocks) == len(found)
    return [each._replace(offset=0) for each in blocks]


sends = st.lists(
    st.builds(
        b"SEND\nx:%b\n\n%b\0%b".__mod__,
        st.tuples(
            st.text("ab1", max_size=40).map(str.encode),
            st.sampled_from([b"", b"xxx"]),
            st.sampled_from([b"", b"\n"]),
        ),
    ),
    max_size=40,
)


@pytest.mark.skipif(PORTIONS is Portions, reason="there are no runs here")
@given(st.lists(sends, max_size=3), st.booleans(), st.integers(0, 4))
def test_runs_of_frames(made_of: list[list[bytes]], acks: bool, bodies: int) -> None:
    """They are recorded as they came, in one run and in several."""
    chunk = (b"ACK\nid:1\n\n\0" if acks else b"").join(b"".join(each) for each in made_of)
    both = made(PORTIONS, 1 << 20), made(Portions, 1 << 20)
    for each in both:
        leg = Leg(Side.DOWNSTREAM, Limits())
        leg.enter(LegState.CONNECTED, V1_2)
        recorder = LegRecorder(leg, Capture(bodies))
        recorder.context = b'["c"]'
        leg.decoder.feed(chunk)
        list(leg.decoder.runs(Passing((Rule(b"SEND"), Rule(b"ACK")), lambda run: True)))
        each.record(recorder)
    assert recorded(both[0]) == recorded(both[1])


@pytest.mark.deep
def test_under_address_sanitizer(tmp_path: Path) -> None:
    """All of these again in another process, where what is compiled was built to tell of any write out of bounds."""
    run_sanitized(tmp_path, ["stomprelay/service/journal/_portions.pyx"], "tests/service/test_portions.py")
