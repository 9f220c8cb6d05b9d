"""How far a job of writing has come."""

from pathlib import Path

import pytest

from stomprelay.pipeline.stomp.progress import JobProgress, ProgressError


def test_a_job_has_one_id_in_all_its_runs(tmp_path: Path) -> None:
    """The one that was asked for, or one that nobody else has."""
    first = JobProgress(tmp_path / "a").identity(None)
    assert first
    assert JobProgress(tmp_path / "a").identity(None) == first
    assert JobProgress(tmp_path / "b").identity(None) != first
    assert JobProgress(tmp_path / "c").identity("mine") == "mine"
    assert JobProgress(tmp_path / "c").identity(None) == "mine"


def test_a_folder_is_of_one_job(tmp_path: Path) -> None:
    """Another job must not take what the first one sent for its own."""
    JobProgress(tmp_path).identity("one")
    with pytest.raises(ProgressError, match="is of the job one, not of two"):
        JobProgress(tmp_path).identity("two")


def test_positions_are_kept_by_batch_and_partition(tmp_path: Path) -> None:
    """Where nothing is known it is the beginning."""
    progress = JobProgress(tmp_path)
    progress.advance("0", 1, 7)
    progress.advance("0", 1, 9)
    assert [progress.position("0", 1), progress.position("0", 0), progress.position("1", 1)] == [9, 0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["0-1"]


def test_what_cannot_be_read_or_written_is_told(tmp_path: Path) -> None:
    """The error names the file."""
    (tmp_path / "0-0").write_text("nonsense")
    with pytest.raises(ProgressError, match="0-0: invalid literal"):
        JobProgress(tmp_path).position("0", 0)
    (tmp_path / "file").touch()
    with pytest.raises(ProgressError, match="file/id: "):
        JobProgress(tmp_path / "file").identity(None)
    with pytest.raises(ProgressError, match="file/0-0: Not a directory"):
        JobProgress(tmp_path / "file").advance("0", 0, 1)
