"""The compiled scanner reads nothing behind the bytes that it is given."""

import ctypes
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stomprelay.wire import decoder
from stomprelay.wire.dialect import V1_0, V1_1, V1_2, demanding_utf8
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import SEND
from stomprelay.wire.run import Keep, Rule
from tests import strategies
from tests.sanitizer import run_sanitized
from tests.wire.decoding import ANY

TWIN: Final = "compiled"
PAGE: Final = mmap.PAGESIZE
_NO_ACCESS: Final = 0


class Brink:
    """A page of memory with nothing behind it: who reads on is killed."""

    def __init__(self) -> None:
        self._pages = mmap.mmap(-1, 2 * PAGE)
        self._view = memoryview(self._pages)
        self._protect(_NO_ACCESS)

    def _protect(self, access: int) -> None:
        start = ctypes.c_char.from_buffer(self._pages)
        behind = ctypes.c_void_p(ctypes.addressof(start) + PAGE)
        assert ctypes.CDLL(None, use_errno=True).mprotect(behind, PAGE, access) == 0, ctypes.get_errno()

    def put(self, data: bytes) -> memoryview:
        """These bytes at the end of the page."""
        view = self._view[PAGE - len(data) : PAGE]
        view[:] = data
        return view

    def close(self) -> None:
        """Give the memory back."""
        self._protect(mmap.PROT_READ | mmap.PROT_WRITE)
        self._view.release()
        self._pages.close()


@pytest.fixture(scope="module")
def brink() -> Iterator[Brink]:
    """One for all."""
    made = Brink()
    yield made
    made.close()


@settings(max_examples=4 * settings().max_examples)
@given(st.data())
def test_every_length_at_the_end_of_a_page(brink: Brink, data: st.DataObject) -> None:
    """From nothing to all of a stream: the same is found as in bytes that have more behind them."""
    dialect = data.draw(st.sampled_from([V1_0, V1_1, V1_2, demanding_utf8(V1_1)]))
    stream = data.draw(st.one_of(strategies.streams(dialect), strategies.garbage))[:PAGE].lstrip(b"\r\n\0")
    stream = stream[: data.draw(st.sampled_from([200, 64, 128, 63, 65]))]
    rules = (Rule(SEND, unless=(b"foo",), wants=(b"destination",)),)
    assert decoder.SCANNER is not None
    scanner = decoder.SCANNER(Limits(), dialect, ANY, rules, Keep(3, (b"token", b"foo")))
    for size in range(len(stream) + 1):
        assert scanner.offsets(brink.put(stream[:size]), 0) == scanner.offsets(stream[:size], 0)


@pytest.mark.deep
def test_the_wire_cases_under_address_sanitizer(tmp_path: Path) -> None:
    """In another process, with what is compiled built to tell of any read or write out of bounds."""
    compiled = ["stomprelay/wire/_scan.pyx", "stomprelay/wire/_respell.pyx", "stomprelay/session/_rows.pyx"]
    cases = (
        "tests/wire",
        "tests/session/test_rows.py",
        "tests/session/test_recent.py",
        "tests/relay/bridge/test_runs.py",
        "tests/journal/test_runs.py",
        "tests/journal/test_secrets.py",
    )
    run_sanitized(tmp_path, compiled, *cases, "-k", "not pure")
