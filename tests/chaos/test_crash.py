"""The command line of the crash runs."""

import os
from pathlib import Path

import pytest

from chaos import crash
from chaos.crash import RUNS, main
from chaos.verdict import Verdict


def test_the_exit_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """1 when a promise was broken, or a run did not come to its end; the others are run all the same. A folder has all
    that a run leaves, also what Javas leave that are killed.
    """
    asked: list[tuple[str, int, int]] = []
    homes: list[Path] = []

    def kept(home: Path, rounds: int, seed: int) -> Verdict:
        asked.append(("journal", rounds, seed))
        homes.append(home)
        assert home.is_dir()
        assert os.environ["SPARK_SUBMIT_OPTS"] == f"-Djava.io.tmpdir={home}"
        return Verdict("journal: kept", (("kills", "2"),))

    def failing(home: Path, rounds: int, seed: int) -> Verdict:
        raise AssertionError("the pipeline failed")

    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(
        crash,
        "RUNS",
        {
            **RUNS,
            "journal": kept,
            "pipeline": failing,
            "replay": lambda *_: Verdict("replay: broken", (), ("1 messages were lost",)),
        },
    )
    said = ["--seed", "7", "--rounds", "2", "--only"]
    assert main([*said, "journal"]) == 0
    assert main([*said, "replay", "journal"]) == 1
    assert main([*said, "pipeline"]) == 1
    assert asked == [("journal", 2, 7)] * 2
    assert not any(home.exists() for home in homes)
    out = capsys.readouterr().out
    assert out.count("seed 7\n") == 3
    assert "journal: kept\n  kills  2\n" in out
    assert "replay: broken\n  BROKEN: 1 messages were lost\n" in out
    assert "pipeline\n  BROKEN: the pipeline failed\n" in out
