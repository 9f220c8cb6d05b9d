"""The course of the demo."""

from pathlib import Path

import pytest

from demo.__main__ import main, options
from tests.pipeline.report.outline import outline


def test_a_demo_lasts_less_than_a_minute() -> None:
    """Without options clients work for 20 s, in a folder that git does not see."""
    asked = options([])
    assert (asked.seconds, asked.directory) == (20.0, Path("build/demo"))


@pytest.mark.deep
@pytest.mark.e2e
@pytest.mark.spark
def test_the_report_has_what_was_staged_and_nothing_else(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One broker lost, one consumer stuck, every message delivered; how the demo ends is no error and no outage."""
    assert main(["--directory", str(tmp_path), "--seconds", "14"]) == 0
    said = capfd.readouterr()
    assert said.out.splitlines()[-1] == str(tmp_path / "report.html")
    assert "\r" not in said.err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for name in ("shop", "billing", "/queue/orders", "/topic/prices"):
        assert name in page
    assert "1 outage under 8 sessions; 8 went on at another broker" in page
    root = outline(page)
    numbers = {each.one("dt").text: each.one("dd", "value").text for each in root.one("dl").children}
    assert {
        name: numbers[name] for name in ("Lost or unconfirmed", "Failovers", "Stuck consumers", "Errors")
    } == {"Lost or unconfirmed": "0", "Failovers": "1", "Stuck consumers": "1", "Errors": "0"}
    assert numbers["Delivered"].startswith("100")
    first, *others = [each.text for each in root.one("ul", "highlights").all("li")]
    assert first.startswith("A broker was lost: ")
    # The ticker may have found the other broker before those did who show its prices.
    assert all(" where nobody got " in each or " may wait at " in each for each in others)


@pytest.mark.deep
@pytest.mark.e2e
def test_a_move_loses_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """All that was sent came once, over one connection of each client; the page shows it, and what the brokers had."""
    assert main(["move", "--embedded", "--directory", str(tmp_path), "--seconds", "2"]) == 0
    said = capfd.readouterr().out.splitlines()
    assert said[-2:] == ["7 clients connected 7 times", str(tmp_path / "move.html")]
    root = outline((tmp_path / "move.html").read_text(encoding="utf-8"))
    numbers = {each.one("dt").text: each.one("dd", "value").text for each in root.one("dl").children}
    assert numbers["Sent"] == numbers["Delivered"] != "0"
    assert (numbers["Twice"], numbers["Lost"], numbers["Connections"]) == ("0", "0", "7")
    phases = [each.text for row in root.all("div", "who") for each in row.all("b")]
    assert phases == ["off", "shadow", "both", "new", "done", "drain"]
    assert len(root.all("path", "c1")) == len(root.all("path", "c2")) == 2, (
        "both brokers had SENDs and MESSAGEs"
    )
    assert len(root.all("path", "c0")) == 1, "copies"
