"""Portions, in both makes: what is put in comes out as the same octets, however it is cut."""

import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.journal.block import BlockKind, pack_sizes, sealed
from stomprelay.service.journal.portions import PORTIONS, Batch, Portions
from tests.sanitizer import run_sanitized

HUGE = 1 << 40


def made(kind: type[Portions], most: int) -> Portions:
    """Portions without a limit, whose clock counts."""
    portions = kind(most, itertools.count(1).__next__, lambda: None, lambda frames, size: None)
    portions.limit = portions.mark = HUGE
    return portions


@pytest.mark.skipif(PORTIONS is Portions, reason="nothing is compiled here")
@given(st.binary(max_size=300), st.integers(0, 4000))
def test_the_checksum_is_that_of_zlib(text: bytes, times: int) -> None:
    """For any octets, few or many."""
    from stomprelay.service.journal._portions import checksum

    assert checksum(text) == zlib.crc32(text)
    assert checksum(text * times) == zlib.crc32(text * times)


@pytest.mark.parametrize("kind", {Portions, PORTIONS})
@pytest.mark.parametrize("size", range(130))
def test_a_block_is_as_others_make_it(kind: type[Portions], size: int) -> None:
    """Octet by octet, with numbers as large and times as early as they get."""
    portions = made(kind, 1000)
    sizes, payload = pack_sizes(size, 0, 0xFFFFFFFF) * size, bytes(range(size))
    portions.put(b"[]", (1 << 64) - 1, sizes, payload)
    portions.put(b"", 0, b"", payload, int(BlockKind.EVENT))
    found = b"".join(bytes(each.data) for each in iter_taken(portions))
    assert found == sealed(BlockKind.FRAMES, 1, (1 << 64) - 1, b"[]", sizes, payload) + sealed(
        BlockKind.EVENT, 2, 0, b"", b"", payload
    )


def iter_taken(portions: Portions) -> Iterator[Batch]:
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


@pytest.mark.deep
def test_under_address_sanitizer(tmp_path: Path) -> None:
    """All of these again in another process, where what is compiled was built to tell of any write out of bounds."""
    run_sanitized(tmp_path, ["stomprelay/service/journal/_portions.pyx"], "tests/service/test_portions.py")
