"""`make demo` from end to end, in short."""

from pathlib import Path

import pytest

from demo.__main__ import main

pytestmark = [pytest.mark.deep, pytest.mark.e2e, pytest.mark.spark]


def test_the_demo_ends_with_a_report(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Clients work, a broker dies, tables are made; the last line says where the page lies that tells of it."""
    directory = tmp_path / "demo"
    assert main(["--seconds", "4", "--directory", str(directory)]) == 0
    said = capfd.readouterr().out.splitlines()
    assert said[-1] == str(directory / "report.html")
    page = (directory / "report.html").read_text(encoding="utf-8")
    for name in ("shop", "billing", "/queue/orders", "/topic/prices"):
        assert name in page
    assert "1 outage under 8 sessions; 8 went on at another broker" in page
