"""`stomprelay passwd`: a line of a users file is made, changed or deleted, and nothing else."""

import io
import os
import stat
import sys
from pathlib import Path

import pytest

from stomprelay.auth.users import Users
from stomprelay.cli import main
from tests.auth.issuing import CHEAP

CAROL = f"carol:{CHEAP.hash('x')}:auditors,staff"
FILE = f"# people\n\n{CAROL}\n# others\ndave::\n"


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A file with two users, and comments."""
    file = tmp_path / "users"
    file.write_text(FILE)
    file.chmod(0o640)
    return file


def typed(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Who is asked for a passcode types these."""
    left = list(words)

    def asked(prompt: str) -> str:
        assert prompt in ("passcode: ", "once more: ")
        if not left:
            raise EOFError
        return left.pop(0)

    monkeypatch.setattr("getpass.getpass", asked)


def read(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Standard input has this."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is for its owner alone, and a relay reads it."""
    file = tmp_path / "users"
    typed(monkeypatch, "größer", "größer")
    assert main(["passwd", str(file), "alice", "--groups", "b, a"]) == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = Users.read(file.read_bytes(), 0o600)
    assert found.verify("alice", "größer".encode())
    assert found.groups("alice") == {"a", "b"}
    assert "größer" not in capsys.readouterr().out
    assert [each.name for each in tmp_path.iterdir()] == ["users"]


def test_a_file_that_everybody_may_read(users: Path) -> None:
    """Afterwards nobody else may."""
    users.chmod(0o644)
    assert main(["passwd", "--delete", str(users), "carol"]) == 0
    assert stat.S_IMODE(users.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("a", "b"), "they differ; nothing is changed"),
        (("a",), "no passcode was typed"),
        (("", ""), "a passcode is UTF-8, not empty"),
        (("a\tb", "a\tb"), "has no control characters"),
        (("a\udcff", "a\udcff"), "a passcode is UTF-8"),
    ],
)
def test_a_passcode_that_cannot_be(
    users: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    why: str,
) -> None:
    """Nothing is changed."""
    typed(monkeypatch, *words)
    assert main(["passwd", str(users), "carol"]) == 1
    assert why in capsys.readouterr().err
    assert users.read_text() == FILE


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--delete", "USERS", "alice"], "there is no such user"),
        (["--delete", "NONE", "alice"], "there is no such user"),
        (["--stdin", "USERS", "a:b"], "USER must be a name"),
        (["--stdin", "USERS", "#a"], "USER must be a name"),
        (["--stdin", "--groups", "a,,b", "USERS", "alice"], "--groups has a group without a name"),
        (["--stdin", "FOLDER", "alice"], "cannot be read"),
        (["--stdin", "FOLDER/none/users", "alice"], "cannot be written: No such file"),
        (["--stdin", "BROKEN", "alice"], "line 1 has 1 fields in place of 3"),
    ],
)
def test_what_cannot_be_done(
    users: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    why: str,
) -> None:
    """Exit status 1 and the reason; no file is made, and none is changed."""
    (users.parent / "broken").write_text("alice\n")
    places = {"USERS": users, "NONE": users.parent / "none", "BROKEN": users.parent / "broken"}
    read(monkeypatch, b"secret\n")
    given = [str(places.get(each, each)).replace("FOLDER", str(users.parent)) for each in arguments]
    assert main(["passwd", *given]) == 1
    assert why in capsys.readouterr().err
    assert users.read_text() == FILE
    assert sorted(each.name for each in users.parent.iterdir()) == ["broken", "users"]


def test_a_disk_that_is_full(users: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old file is there, and nothing beside it."""

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert main(["passwd", "--delete", str(users), "carol"]) == 1
    assert users.read_text() == FILE
    assert [each.name for each in users.parent.iterdir()] == ["users"]
