"""The course of the demo."""

from pathlib import Path

from demo.__main__ import clear, options


def test_a_demo_lasts_a_minute() -> None:
    """Without options it works for 60 s, in a folder that git does not see."""
    asked = options([])
    assert (asked.seconds, asked.directory) == (60.0, Path("build/demo"))


def test_only_what_a_demo_left_is_removed(tmp_path: Path) -> None:
    """Whoever names a folder of their own keeps what is in it."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "a.journal").touch()
    (tmp_path / "report.html").touch()
    (tmp_path / "thesis.tex").touch()
    (tmp_path / "photos").mkdir()
    clear(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photos", "thesis.tex"]


def test_the_folder_is_made(tmp_path: Path) -> None:
    """With those above it."""
    clear(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
