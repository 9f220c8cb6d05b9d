"""The bar on a terminal."""

import io
import itertools
import re
import sys
import threading
from pathlib import Path

import pytest

from stomprelay.pipeline import bar as bars
from stomprelay.pipeline.bar import ProgressBar, octets, spelled
from tests.pipeline.follow.test_progress import Terminal

SETUP = Path(__file__).parents[2] / "setup.cfg"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar is shown from its begin on."""
    monkeypatch.setattr(bars, "AFTER", 0.0)


def going() -> tuple[ProgressBar, Terminal]:
    """One that began with 100 of 1,000, on a terminal."""
    out = Terminal()
    bar = ProgressBar(out, "messages")
    bar.begin("replay", 1000, 100)
    return bar, out


def test_how_far_how_fast_how_long() -> None:
    """Bytes have units of their own."""
    bar, out = going()
    bar.set(550)
    bar.draw()
    (line,) = out.screen
    assert line.startswith("replay:  55%|#")
    assert re.search(r"\| 550/1000 \[00:00<00:00, .* messages/s\]$", line)
    out = Terminal()
    sizes = ProgressBar(out, octets=True)
    sizes.begin("once", 10 << 20)
    sizes.set(1 << 20)
    sizes.draw()
    assert "| 1.00M/10.0M [" in out.screen[0]


def test_what_is_quick_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar comes after two seconds."""
    monkeypatch.setattr(bars, "AFTER", 60.0)
    bar, out = going()
    bar.draw()
    bar.end()
    assert out.getvalue() == ""


def test_a_pipe_gets_nothing() -> None:
    """Nor does a log; lines that stay are written there, too."""
    out = io.StringIO()
    bar = ProgressBar(out, "messages")
    bar.begin("replay", 1000, 100)
    bar.set(200, 2000, "again")
    bar.draw()
    with bar.going(lambda: pytest.fail("nobody looks")):
        bar.say("a line")
    assert out.getvalue() == "a line\n"


def test_a_line_that_stays_stands_above() -> None:
    """The bar is wiped, and comes again below."""
    bar, out = going()
    bar.draw()
    bar.say("batch 1 is done")
    bar.beside(lambda text: print(text, file=out))("batch 2 is done")
    bar.draw()
    assert out.screen[:2] == ["batch 1 is done", "batch 2 is done"]
    assert out.screen[2].startswith("replay:  10%|")
    bar.end()
    assert out.screen == ["batch 1 is done", "batch 2 is done", ""]


def test_without_a_total_it_says_how_long_it_goes_on() -> None:
    """More is not known, until a total comes."""
    out = Terminal()
    bar = ProgressBar(out, "tasks")
    bar.begin("Spark starts")
    bar.draw()
    assert out.screen == ["Spark starts: 00:00"]
    bar.set(1, 4, "query")
    bar.draw()
    assert out.screen[0].startswith("query:  25%|")


def test_another_thread_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """While this one works; a look that fails, as when Spark has ended, ends nothing."""
    monkeypatch.setattr(bars, "OFTEN", 0.001)
    bar, out = going()
    looks = itertools.count(1)
    last = threading.Event()

    def look() -> None:
        number = next(looks)
        if number == 2:
            raise ValueError("the session has ended")
        bar.set(100 * number)
        if number == 4:
            last.set()

    with bar.going(look):
        assert last.wait(30)
    assert "100/1000" in out.getvalue()
    assert "300/1000" in out.getvalue()
    assert out.screen == [""]


def test_what_draws_it_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is told when something begins on a terminal; elsewhere nothing needs it."""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    ProgressBar(io.StringIO()).begin("query")
    with pytest.raises(ImportError) as caught:
        ProgressBar(Terminal()).begin("query")
    assert caught.value.name == "tqdm"


def test_words() -> None:
    """Sizes and durations as people say them."""
    sizes = [octets(number) for number in (5, 2048, 3 << 20, 5 << 30)]
    assert sizes == ["5 B", "2.0 KiB", "3.0 MiB", "5.0 GiB"]
    assert [spelled(number) for number in (0.4, 119, 150, 8000)] == ["0 s", "119 s", "2 min", "2 h 13 min"]


def test_its_package_comes_with_the_pipeline() -> None:
    """And has an upper bound, as its way of writing is part of what users see."""
    assert "    tqdm >= 4.67, < 5\n" in SETUP.read_text(encoding="utf-8")
