"""What is said of the pipeline's runs, and how its memory is found."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench import pipeline
from bench.aggregates import Answer
from bench.pipeline import Once, Peak, PipelineError, Step, report, steps


def test_sizes() -> None:
    """One and five million records, twenty where there is time; a look is enough with fewer."""
    assert steps(quick=False) == (1_000_000, 5_000_000)
    assert steps(quick=False, long=True) == (1_000_000, 5_000_000, 20_000_000)
    assert max(steps(quick=True)) < 1_000_000


def step(records: int, seconds: float, idle: float = 10.0) -> Step:
    """A run with round figures."""
    answer = Answer("traffic", records, 7, (4.0, 2.0), (0.5, 0.5), (3.0, 3.0), (1.0, 2.0))
    return Step(
        records,
        records * 100,
        1 << 20,
        Once(seconds, 2 * seconds, Peak(500.0, 70.0, 90.0)),
        Once(idle, 9.0, Peak(400.0, 70.0, 0.0)),
        (answer,),
    )


def test_growth_leaves_the_start_out() -> None:
    """A record's cost over that in the journal before: 1.00 is linear. Records a second have the start in them."""
    first, second = (
        line.split()
        for line in report([step(1000, 20), step(4000, 90)]).splitlines()
        if line.startswith(("1,000", "4,000"))
    )
    assert first[:6] == ["1,000", "0.095", "1.00", "20.0", "50.0", "-"]
    assert first[6:] == ["40,000", "-", "500", "70.0", "90.0", "10.0"]
    assert second[4:6] == ["44.4", "2.00"]
    assert second[7] == "1.38"


def test_goals_are_of_the_largest_journal() -> None:
    """Its rate, what a record costs more than in the smallest, the most memory of all, and each question."""
    found = pipeline.judged([step(1000, 20), step(4000, 90)])
    assert [one.figure for one in found if not one.met] == [
        "records/s",
        "CPU/record over 1,000",
        "over DuckDB",
    ]
    (alone,) = (one for one in pipeline.judged([step(1000, 20)]) if one.figure.startswith("CPU"))
    assert alone.found is None
    assert pipeline.judged([]) == []


def test_questions_are_compared_round_by_round() -> None:
    """The best seconds of each, and the median of the ratios; a dash where DuckDB is not there."""
    (row,) = (line.split() for line in report([step(1000, 20)]).splitlines() if line.startswith("traffic"))
    assert row == ["traffic", "1,000", "1,000", "7", "2.00", "0.500", "6.00", "2.25"]
    alone = Step(**{**vars(step(1, 1)), "answers": (Answer("flow", 1, 1, (1.0,), ()),)})
    (row,) = (line.split() for line in report([alone]).splitlines() if line.startswith("flow"))
    assert row[-3:] == ["-", "-", "-"]


def test_memory_of_a_tree_of_processes() -> None:
    """What the driver starts and is not Java is a worker; what has ended counts no more."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        java, driver, worker = pipeline._memory(pipeline._kinds(child.pid))
        assert driver > 0
        assert (java, worker) == (0, 0)
    assert pipeline._memory(pipeline._kinds(child.pid)) == (0, 0, 0)


def test_time_of_workers_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though who started them never waits for them."""
    done = tmp_path / "done"
    busy = f'import time\nwhile time.process_time() < 0.6: pass\nopen("{done}", "w"), time.sleep(2)'
    program = tmp_path / "python"
    program.write_text(
        f"#!/bin/sh\n{sys.executable} -c '{busy}' &\nuntil test -e {done}; do sleep 0.1; done\nsleep 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert 0.5 < pipeline._once(tmp_path / "journal", tmp_path / "tables").cpu < 1.2


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
    with pytest.raises(PipelineError, match="the tables do not answer:\nno Java here"):
        pipeline._answers(tmp_path / "tables")
