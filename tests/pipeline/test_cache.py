"""The cache folder."""

from pathlib import Path

import pytest

from stomprelay.pipeline.spark import java


@pytest.mark.parametrize(
    ("environ", "where"),
    [
        ({"STOMPRELAY_CACHE": "{}/a", "XDG_CACHE_HOME": "{}/b"}, "a"),
        ({"XDG_CACHE_HOME": "{}/b"}, "b/stomprelay"),
    ],
)
def test_the_environment_says_where(tmp_path: Path, environ: dict[str, str], where: str) -> None:
    """It is made, for its user alone."""
    found = java.folder({name: value.format(tmp_path) for name, value in environ.items()})
    assert found == tmp_path / where
    assert found.stat().st_mode & 0o777 == 0o700


def test_by_default_it_is_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where most programs have theirs."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert java.folder({}) == tmp_path / ".cache" / "stomprelay"


def test_there_may_be_none(tmp_path: Path) -> None:
    """As where its parent is a file."""
    (tmp_path / "file").touch()
    assert java.folder({"STOMPRELAY_CACHE": str(tmp_path / "file" / "x")}) is None


def test_small_files_are_put_as_a_whole(tmp_path: Path) -> None:
    """In place of what was there; nothing else is left."""
    path = tmp_path / "a" / "b"
    assert java.put(path, "1")
    assert java.put(path, "2", 0o755)
    assert path.read_text(encoding="utf-8") == "2"
    assert path.stat().st_mode & 0o777 == 0o755
    assert [each.name for each in path.parent.iterdir()] == ["b"]
    assert not java.put(path / "c", "3")
