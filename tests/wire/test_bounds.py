"""The compiled scanner reads nothing behind the bytes that it is given."""

import ctypes
import mmap
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stomprelay.wire import decoder
from stomprelay.wire.dialect import V1_0, V1_1, V1_2, demanding_utf8
from stomprelay.wire.head import Limits
from stomprelay.wire.names import SEND
from stomprelay.wire.run import Rule
from tests import strategies
from tests.wire.decoding import ANY

TWIN: Final = "compiled"
ROOT: Final = Path(__file__).parents[2]
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
    scanner = decoder.SCANNER(Limits(), dialect, ANY, rules)
    for size in range(len(stream) + 1):
        assert scanner.offsets(brink.put(stream[:size]), 0) == scanner.offsets(stream[:size], 0)


CASES: Final = ("tests/wire", "tests/relay/bridge/test_respelling.py")
ADDRESS_SANITIZER: Final = """
import importlib.util, sys, pytest
for name, built in zip(("_scan", "_respell"), sys.argv[1:3]):
    spec = importlib.util.spec_from_file_location("stomprelay.wire." + name, built)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
raise SystemExit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *sys.argv[3:]]))
"""


@pytest.mark.deep
def test_the_wire_cases_under_address_sanitizer(tmp_path: Path) -> None:
    """All of them, and those of frames spelled anew, again in another process, where what is compiled was built to tell
    of any read or write out of bounds.
    """
    compiler, cython = shutil.which("gcc"), shutil.which("cython", path=str(Path(sys.executable).parent))
    if compiler is None or cython is None:
        pytest.skip("needs gcc and Cython: apt-get install gcc; pip install cython")
    found = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_file():
        pytest.skip("needs libasan, which comes with gcc: apt-get install gcc")
    options = ["-shared", "-fPIC", "-g", "-O1", "-fsanitize=address", "-fno-omit-frame-pointer"]
    include = f"-I{sysconfig.get_path('include')}"
    all_built = []
    for name in ("_scan", "_respell"):
        source, built = tmp_path / f"{name}.c", tmp_path / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        subprocess.run(
            [cython, "-3", ROOT / f"stomprelay/wire/{name}.pyx", "-o", source], cwd=ROOT, check=True
        )
        subprocess.run([compiler, *options, include, source, "-o", built], check=True)
        all_built.append(built)
    environment = {
        **os.environ,
        "LD_PRELOAD": found,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
    }
    environment.pop("STOMPRELAY_PURE", None)
    ran = subprocess.run(
        [sys.executable, "-c", ADDRESS_SANITIZER, *all_built, *CASES, "-k", "not pure"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-8000:]
    assert " passed" in ran.stdout
