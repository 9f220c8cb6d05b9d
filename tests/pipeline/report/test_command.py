"""`stomprelay-pipeline report`."""

import argparse
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline import options as shared
from stomprelay.pipeline.report import gather
from stomprelay.pipeline.report.command import CROSSED, add_options, check, check_period, main, write
from stomprelay.pipeline.report.findings import Findings
from stomprelay.pipeline.report.gather import Range
from stomprelay.pipeline.report.text import DAY, HOUR, MINUTE, SECOND
from stomprelay.pipeline.spark import launch
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.store import Store, StoreError
from tests.pipeline.report.outline import Element, outline
from tests.pipeline.report.sample import BEGIN, sample
from tests.pipeline.report.tables import build


def parsed(*arguments: str, tables: str = "tables") -> argparse.Namespace:
    """What the command line comes to."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    shared.add_format(parser)
    shared.add_spark(parser)
    return parser.parse_args(["--tables", tables, *arguments])


def test_options() -> None:
    """Each has a sensible value where nobody says otherwise."""
    usual = {"tables": "tables", "output": Path("report.html"), "title": "What passed the relay", "top": 10}
    usual |= {"since": None, "until": None, "local": False, "compare": "none", "threshold": []}
    assert usual.items() <= vars(parsed()).items()
    said = "--output x.html --since 24h --until 1h --top 3 --title T --local"
    given = parsed(*said.split())
    assert (given.output, given.top, given.title, given.local) == (Path("x.html"), 3, "T", True)


@pytest.mark.parametrize(
    "said", ["--top 0", "--top x", "--top 101", "--utc --local", "--compare month", "--threshold none=1"]
)
def test_options_that_cannot_be(said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Are refused by name."""
    arguments = said.split()
    with pytest.raises(SystemExit):
        parsed(*arguments)
    assert arguments[-1].partition("=")[0] in capsys.readouterr().err


def test_a_time() -> None:
    """By the calendar, in UTC unless it says otherwise, or counted back from now."""
    times = {
        "2026-11-21T08:00": BEGIN,
        "2026-11-21 08:00:00.5Z": BEGIN + SECOND // 2,
        "2026-11-21": BEGIN - 8 * HOUR,
    }
    times |= {"2026-11-21T09:00+01:00": BEGIN, "30s": BEGIN - 30 * SECOND}
    times |= {"1.5h": BEGIN - 90 * MINUTE, "7d": BEGIN - 7 * DAY}
    assert {said: shared.stretch(parsed("--until", said), BEGIN)[1] for said in times} == times


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        *(
            ((f"--since={said}",), "is no time: say")
            for said in ("", "yesterday", "5", "5 h", "2026-13-01", "-5h")
        ),
        (("--since", "1h", "--until", "2h"), "--since is not before --until"),
        (("--since", "2099-01-01"), "--since is not before now"),
    ],
)
def test_a_stretch_of_time_that_cannot_be(arguments: tuple[str, ...], told: str) -> None:
    """Is told with an example."""
    with pytest.raises(ValueError, match=told):
        shared.stretch(parsed(*arguments), BEGIN)


def test_a_range_that_can_be_compared() -> None:
    """Is no longer than the time after which it is compared; what is, is told what to do."""
    for range_ in (Range(None, None), Range(None, BEGIN), Range(BEGIN - DAY, None)):
        check_period(range_, "day", BEGIN)
    check_period(Range(BEGIN - 9 * DAY, BEGIN - 2 * DAY), "week", BEGIN)
    check_period(Range(BEGIN - 9 * DAY, None), None, BEGIN)
    for since, period, helps in ((DAY + 1, "day", "24h or --compare week"), (8 * DAY, "week", "7d$")):
        told = f"--compare {period} needs a range of a {period} at most, .*--since {helps}"
        with pytest.raises(ValueError, match=told):
            check_period(Range(BEGIN - since, None), period, BEGIN)


def test_what_is_wrong_is_told_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a sentence that names it."""
    monkeypatch.setattr(launch, "session", lambda *_, **__: pytest.fail("Spark was started"))
    with pytest.raises(ValueError, match=f"there is no folder {tmp_path}/nowhere"):
        main(parsed(tables=f"{tmp_path}/nowhere"))
    with pytest.raises(ValueError, match="'soon' is no time"):
        main(parsed("--since", "soon"))


def test_places(tmp_path: Path) -> None:
    """A URI may be anywhere; the page's folder has to be there."""
    check("s3a://bucket/tables", tmp_path / "report.html")
    check(f"file:{tmp_path}", tmp_path / "report.html")
    with pytest.raises(ValueError, match="is a folder, not a file"):
        check(str(tmp_path), tmp_path)
    with pytest.raises(ValueError, match="cannot write to the folder"):
        check(str(tmp_path), tmp_path / "nowhere" / "report.html")


def test_the_file_is_there_at_once(tmp_path: Path) -> None:
    """In place of an earlier one, readable as others are, and nothing else is left."""
    output = tmp_path / "report.html"
    mask = os.umask(0o027)
    try:
        assert write(output, "old") == 3
        assert write(output, "new µ\ud800") == 12
    finally:
        os.umask(mask)
    assert output.read_bytes() == "new µ\\ud800".encode()
    assert stat.S_IMODE(output.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [output]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """Leaves nothing half-made."""
    taken = tmp_path / "taken"
    (taken / "x").mkdir(parents=True)
    with pytest.raises(OSError, match="taken"):
        write(taken, "new")
    assert list(tmp_path.iterdir()) == [taken]


@pytest.fixture
def ours(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The session of the tests, which the command is not to end."""
    monkeypatch.setattr(launch, "session", lambda *_, **__: spark)
    monkeypatch.setattr(launch, "stop", lambda _: None)
    return spark


def made(spark: SparkSession, folder: Path, *arguments: str) -> tuple[int, Element]:
    """The exit status, and the page that is made of tables with one row."""
    build(spark, folder / "tables", traffic=[{}])
    output = folder / "report.html"
    status = main(parsed("--output", str(output), *arguments, tables=f"{folder}/tables"))
    return status, outline(output.read_text(encoding="utf-8"))


@pytest.mark.spark
def test_the_page_is_made(
    ours: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From what is gathered to the file; what is said goes to standard error."""
    asked: list[Any] = []

    def gathered(store: Store, *rest: object) -> Findings:
        asked.append((store.root, *rest[:-2]))
        return sample()

    monkeypatch.setattr(gather, "gather", gathered)
    status, root = made(ours, tmp_path, "--title", "Monday", "--since", "2026-11-21T08:00")
    assert (status, root.one("h1").text) == (0, "Monday")
    assert asked == [(f"{tmp_path}/tables", Range(BEGIN, None), 10)]
    assert "/queue/payments" in root.one("main").text
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{tmp_path}/report.html" in said.err


@pytest.mark.spark
def test_a_threshold_that_is_crossed(
    ours: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is there, names it first, and the exit status says so; a line tells by how much."""
    monkeypatch.setattr(gather, "gather", lambda *_: sample())
    limits = ("--threshold", "receipt_p99=10ms", "--threshold", "receipt_p50=1h")
    status, root = made(ours, tmp_path, *limits)
    assert status == CROSSED == 3
    assert root.one("ul", "highlights").all("li")[0].text.startswith("receipt_p99 ")
    (_, line) = capsys.readouterr().err.splitlines()
    assert line == "receipt_p99: 13 ms, above the threshold of 10 ms"


@pytest.mark.spark
def test_a_day_before_that_is_not_there(ours: SparkSession, tmp_path: Path) -> None:
    """Without a begin it is the last day of what there is; the page says that there is nothing before it."""
    status, root = made(ours, tmp_path, "--compare", "day")
    assert status == 0
    assert "There is nothing to compare with" in root.one("ul", "highlights").text
    assert root.one("span", "length").text.startswith("1\u202fd")


@pytest.mark.spark
def test_tables_of_another_format(ours: SparkSession, tmp_path: Path) -> None:
    """Are told in a sentence, and no page is made."""
    (tmp_path / layout.NAME).write_text(layout.text("delta"))
    given = parsed("--output", f"{tmp_path}/report.html", "--format", "parquet", tables=str(tmp_path))
    with pytest.raises(StoreError, match="are of format delta, not parquet"):
        main(given)
    assert [each.name for each in tmp_path.iterdir()] == [layout.NAME]
