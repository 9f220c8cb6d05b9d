"""What is handed out as source has all that the repository has, so that whoever has it can test and change it."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GIT = {".gitattributes", ".gitignore"}
"""Files of the repository that mean nothing without it."""
COMPILED = {".pyx", ".pxd", ".h"}
"""What files end in of which extensions are made."""


def tracked() -> set[str]:
    """Every file of the repository; skips where this is none."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this is no repository: {done.stderr.splitlines()[0]}")
    names = done.stdout.splitlines()
    return {name for name in names if Path(name).name not in GIT and (ROOT / name).is_file()}


def set_up(*arguments: str) -> None:
    """Run `setup.py`, which compiles nothing."""
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", *arguments],
        cwd=ROOT,
        env={"STOMPRELAY_PURE": "1"},
        capture_output=True,
        check=True,
    )


def test_the_source_distribution_is_whole(tmp_path: Path) -> None:
    """Tests, documents, demo, news fragments, units and all; and nothing that was built here."""
    set_up("egg_info", "--egg-base", str(tmp_path))
    listed = (tmp_path / "stomprelay.egg-info" / "SOURCES.txt").read_text(encoding="utf-8").splitlines()
    packed = {os.path.normpath(name) for name in listed if ".egg-info/" not in name}
    assert sorted(tracked() - packed) == []
    assert [name for name in packed if Path(name).suffix in {".so", ".pyc"}] == []


def test_the_package_is_whole(tmp_path: Path) -> None:
    """All of the repository's packages, their data and the files that come along; no source of what is compiled."""
    set_up("build_py", "--build-lib", str(tmp_path))
    built = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    wanted = {
        name
        for name in tracked()
        if name.startswith(("stomprelay/", "pyspark_stomp/", "twisted/"))
        and not name.startswith("stomprelay/newsfragments/")
        and Path(name).suffix not in COMPILED
    } | {
        f"stomprelay/share/{path.relative_to(ROOT)}"
        for pattern in ("config/*.toml", "config/grafana/*", "config/prometheus/*", "systemd/*")
        for path in ROOT.glob(pattern)
    }
    assert sorted(wanted - built) == []
    assert [name for name in built if "newsfragments" in name or Path(name).suffix in COMPILED] == []


BUILT = sorted((ROOT / "stomprelay").rglob("_*.so"))


@pytest.mark.parametrize("path", BUILT, ids=[path.name.partition(".")[0] for path in BUILT])
def test_what_was_built_can_be_imported(path: Path) -> None:
    """A module that was built from other sources would be left out without a word, and the relay be slower."""
    folder = path.parent.relative_to(ROOT)
    import_module(".".join([*folder.parts, path.name.partition(".")[0]]))
