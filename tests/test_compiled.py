"""The compiled core: it is used when it is that of the sources, and only then; and what needs an interpreted one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import stomprelay
from stomprelay import compiled

ROOT = Path(__file__).resolve().parent.parent
CORE = ("tests/wire", "tests/session", "tests/relay")

needs_it = pytest.mark.skipif(not stomprelay.COMPILED, reason="the core is not compiled here")


def run(*command: str, pure: str = "core") -> str:
    """Return what a Python prints that is told to do without something compiled."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, "STOMPRELAY_PURE": pure},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


WHAT = "import stomprelay; from stomprelay.wire import decoder; print(stomprelay.COMPILED, decoder.SCANNER is not None)"


@needs_it
def test_all_of_the_core_is_compiled() -> None:
    """Each module comes from an extension, save those that have a reason."""
    for name in compiled.sources():
        module = sys.modules.get(name)
        assert module is None or str(module.__file__).startswith(str(compiled.FOLDER)), name


@pytest.mark.skipif(
    "CI" not in os.environ, reason="a core that was edited is interpreted until it is built again"
)
@pytest.mark.skipif("STOMPRELAY_PURE" in os.environ, reason="nothing compiled is wanted")
def test_what_was_built_is_used() -> None:
    """From a clean clone, with a compiler, all that can be compiled is."""
    assert run("-c", WHAT, pure="0").split() == ["True", "True"]


@needs_it
@pytest.mark.parametrize(("pure", "used"), [("0", "True"), ("core", "False"), ("1", "False")])
def test_what_is_not_wanted_is_not_used(pure: str, used: str) -> None:
    """`STOMPRELAY_PURE` takes away the core, or the scanner too."""
    core, scanner = run("-c", WHAT, pure=pure).split()
    assert core == used
    assert scanner == "False" or pure != "1"


def test_a_core_that_was_edited_is_interpreted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was built of other sources is not used, whatever is changed, added or taken away."""
    for room in compiled.ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "some.py").write_text("ONE = 1\n", encoding="utf-8")
    monkeypatch.setattr(compiled, "PACKAGE", tmp_path)
    before = compiled.digest()
    monkeypatch.setattr(compiled, "BUILT_OF", tmp_path / "built")
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.delenv("STOMPRELAY_PURE", raising=False)
    assert not compiled.use()
    (tmp_path / "built").write_text(before, encoding="ascii")
    assert compiled.use()
    (tmp_path / "wire" / "some.py").write_text("ONE = 2\n", encoding="utf-8")
    assert not compiled.use()
    (tmp_path / "wire" / "some.py").write_text("ONE = 1\n", encoding="utf-8")
    assert compiled.use()
    (tmp_path / "wire" / "more.py").touch()
    assert not compiled.use()


def test_each_exception_is_there() -> None:
    """What is said to stay interpreted exists."""
    assert [name for name in compiled.INTERPRETED if not (compiled.PACKAGE / name).exists()] == []


@needs_it
def test_what_needs_an_interpreted_core() -> None:
    """The tests that replace or trace parts of the core pass over one that is interpreted."""
    marked = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path != Path(__file__) and "mark.interpreted" in path.read_text(encoding="utf-8")
    ]
    assert " passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "interpreted", *marked)


@needs_it
@pytest.mark.long
def test_the_core_does_the_same_when_nothing_is_compiled() -> None:
    """All its tests pass over it, without the scanner too."""
    assert " passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", *CORE, pure="1")
