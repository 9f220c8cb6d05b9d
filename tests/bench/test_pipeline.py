"""What is said of the pipeline's runs, and how its memory is found."""

import sys
from pathlib import Path

import pytest

from bench import pipeline
from bench.pipeline import PipelineError


def test_rows_are_counted(tmp_path: Path) -> None:
    """A table that lacks rows fails the run."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for batch in range(2):
        folder = tmp_path / "frames" / "date=2026-11-21" / "hour=8" / f"batch={batch:09d}"
        folder.mkdir(parents=True)
        parquet.write_table(pyarrow.table({"n": [1, 2, 3]}), folder / "part-0.parquet")
    pipeline.verify(tmp_path, {"frames": 6})
    with pytest.raises(PipelineError, match="frames has 6 rows, not 7"):
        pipeline.verify(tmp_path, {"frames": 7})
    with pytest.raises(PipelineError, match="messages has 0 rows, not 1"):
        pipeline.verify(tmp_path, {"messages": 1})


def test_a_run_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of its log is in the error."""
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no Java here >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(PipelineError, match="once ended with 3:\nno Java here"):
        pipeline._once(tmp_path / "journal", tmp_path / "tables")
    with pytest.raises(PipelineError, match="questions ended with 3:\nno Java here"):
        pipeline._answers(tmp_path / "tables")
