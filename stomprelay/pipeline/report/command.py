"""`stomprelay-pipeline report`: the tables as one HTML file."""

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final

from stomprelay.journal.disk import replace as replace_file
from stomprelay.pipeline import options as shared
from stomprelay.pipeline.bar import ProgressBar
from stomprelay.pipeline.report.gather import Range
from stomprelay.pipeline.report.indicators import PERIODS, Threshold, judged, threshold
from stomprelay.pipeline.report.page import TITLE, PageOptions, page
from stomprelay.pipeline.report.text import SECOND, Micros, octets
from stomprelay.pipeline.spark import launch
from stomprelay.pipeline.store.delta import opened

_MOST: Final = 100
_BEFORE: Final = "what was before"
CROSSED: Final = 3
"""The exit status if the page was made and a threshold is crossed."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `report` to its parser."""
    shared.add_tables(parser)
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="the page (default: %(default)s)",
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="the begin: 2026-11-21T08:00 (UTC, or with an offset), or how long ago: 90m, 24h, 7d (default: all)",
    )
    parser.add_argument("--until", metavar="TIME", help="the end, in the same form (default: all)")
    parser.add_argument(
        "--top",
        type=_number,
        default=10,
        metavar="N",
        help="rows in lists, 1 to 100; the others are summed up (default: %(default)s)",
    )
    parser.add_argument("--title", default=TITLE, help="the heading (default: %(default)s)")
    parser.add_argument(
        "--compare",
        choices=("none", *PERIODS),
        default="none",
        help="compare with the same time a day or a week before; without --since the report is then of the last "
        "day or week (default: %(default)s)",
    )
    parser.add_argument(
        "--threshold",
        metavar="NAME=VALUE",
        type=_threshold,
        action="append",
        default=[],
        help="the largest value allowed for a figure (messages, delivered: the smallest), such as receipt_p99=200ms, "
        f"delivered=99.5%% or errors=0; a crossed threshold is named first and makes the exit status {CROSSED}; may be "
        "given more than once; with any of them, dropped=0 holds, too, unless dropped is named",
    )
    zone = parser.add_mutually_exclusive_group()
    zone.add_argument(
        "--utc", dest="local", action="store_false", default=False, help="times in UTC (the default)"
    )
    zone.add_argument(
        "--local", dest="local", action="store_true", help="times in the time zone of the page's reader"
    )


def main(given: argparse.Namespace) -> int:
    """Make the page. Return the exit status, `CROSSED` if a threshold is crossed. Raises `ValueError` for impossible
    options, `OSError` if the page cannot be written, and the errors of `Store` and `launch`.
    """
    began, now = time.monotonic(), round(time.time() * SECOND)
    range_ = Range(*shared.stretch(given, now))
    period = None if given.compare == "none" else given.compare
    check_period(range_, period, now)
    check(given.tables, given.output)
    from stomprelay.pipeline.report.gather import STEPS, earlier, gather, stretch

    spark = shared.session(given, "report", brief=True, say=shared.say)
    with launch.ending(spark):
        store = opened(spark, given.tables, shared.table_format(given))
        store.check()
        bar = ProgressBar(sys.stderr, "steps")
        steps = [*STEPS, _BEFORE] if period else [*STEPS]
        bar.begin("report", len(steps))

        def step(name: str) -> None:
            bar.set(steps.index(name), name=f"report, {name}")

        with bar.going():
            asked = stretch(store, range_, period) if period else range_
            findings = gather(store, asked, given.top, now, step)
            if period:
                step(_BEFORE)
                findings = replace(findings, earlier=earlier(store, findings, period))
    thresholds = judged(given.threshold)
    options = PageOptions(made=now, title=given.title, local=given.local, thresholds=thresholds)
    size = write(given.output, page(findings, options))
    shared.say(f"{given.output}: {octets(size)}, in {time.monotonic() - began:.0f} s")
    beyond = [one for one in thresholds if one.crossed(findings)]
    for one in beyond:
        shared.say(f"{one.indicator.name}: {one.sentence(findings)}".replace("\u202f", " "))
    return CROSSED if beyond else 0


def check_period(range_: Range, period: str | None, now: Micros) -> None:
    """Raise `ValueError` if the range is longer than `period`, because it would overlap with the range before."""
    if period is not None and range_.since is not None:
        end = now if range_.until is None else range_.until
        if end - range_.since > PERIODS[period]:
            hint = " or --compare week" if period == "day" else ""
            raise ValueError(
                f"--compare {period} needs a range of a {period} at most, as it is compared with the {period} before: "
                f"say --since {'24h' if period == 'day' else '7d'}{hint}"
            )


def check(tables: str, output: Path) -> None:
    """Raise `ValueError` if there are no tables or the page cannot be written. Call this before slow work."""
    if "://" not in tables and not Path(tables.removeprefix("file:")).is_dir():
        raise ValueError(f"there is no folder {tables}: `stomprelay-pipeline once` makes the tables")
    if output.is_dir():
        raise ValueError(f"--output {output} is a folder, not a file")
    if not os.access(output.parent, os.W_OK | os.X_OK):
        raise ValueError(f"--output: cannot write to the folder {output.parent}")


def write(output: Path, text: str) -> int:
    """Write the page in one step: readers see the old or the new page. Return its size in bytes. Raises `OSError`."""
    data = text.encode("utf-8", "backslashreplace")
    replace_file(output, data)
    return len(data)


def _threshold(said: str) -> Threshold:
    try:
        return threshold(said)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _number(said: str) -> int:
    try:
        number = int(said)
    except ValueError:
        number = 0
    if not 1 <= number <= _MOST:
        raise argparse.ArgumentTypeError(f"{said!r} is not a number from 1 to {_MOST}")
    return number
