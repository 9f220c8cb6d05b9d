"""Options that several commands have, and the functions that turn the texts of options into values."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from stomprelay.journal.records import parse_time
from stomprelay.pipeline.bar import ProgressBar
from stomprelay.pipeline.settings import LONGEST_HEADER, MOST_HEADERS, Settings
from stomprelay.pipeline.spark import delta, launch
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.volume import local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smhdw]?)")

_SHIFTS: Final = {"": 0, "k": 10, "m": 20, "g": 30}
_SIZE: Final = re.compile(r"(\d+)([kmg]?)")


def duration(text: str) -> float:
    """Return the seconds in a text such as `90`, `90s`, `15m`, `12h`, `30d` or `4w`. Raises `ArgumentTypeError`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no duration: a number and s, m, h, d or w, such as 12h"
        )
    return float(found[1]) * _UNITS[found[2] or "s"]


def size(text: str) -> int:
    """Return the bytes in a text such as `4096`, `64k`, `128m` or `1g`. Raises `ArgumentTypeError`."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no size: a number of bytes, or one and k, m or g, such as 128m"
        )
    return int(found[1]) << _SHIFTS[found[2]]


def names(text: str) -> tuple[str, ...]:
    """Return the names in a text such as `one,other`, sorted and without repetitions."""
    return tuple(sorted({each.strip() for each in text.split(",")}))


def setting(text: str) -> tuple[str, str]:
    """Return name and value of a Spark setting given as `K=V`. Raises `ArgumentTypeError`."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise argparse.ArgumentTypeError(
            f"{text!r} is no setting of Spark's: K=V, as with spark-submit --conf"
        )
    return name.strip(), value.strip()


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that starts Spark."""
    spark = parser.add_argument_group("Spark")
    spark.add_argument(
        "--master",
        metavar="URL",
        help=f"where Spark runs: {launch.MASTER} is this machine (the default), spark://… a cluster",
    )
    spark.add_argument(
        "--conf",
        metavar="K=V",
        type=setting,
        action="append",
        default=[],
        help="a setting of Spark's, as with spark-submit; may be given more than once",
    )
    spark.add_argument(
        "--spark-log",
        choices=launch.LEVELS,
        default=launch.LEVELS[0],
        help="how much of Spark's own log is written to standard error (default: %(default)s)",
    )


def moment(text: str) -> datetime | int:
    """Return the time or the number of a batch that an option gives. Raises `ArgumentTypeError`."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a time, such as 2026-11-21T08:00, nor the number of a batch"
        ) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


def stretch(options: argparse.Namespace, now: int, *, named: bool = False) -> tuple[int | None, int | None]:
    """Return the begin and the end that `--since` and `--until` give, in microseconds since 1970; None for an option
    that was not given. An option gives a time, or a duration before `now`. Raises `ValueError` for any other text, and
    if the begin is not before the end. With `named`, the text of the error begins with the option's name.
    """
    begin, end = (
        _instant(getattr(options, name), now, f"--{name}: " if named else "") for name in ("since", "until")
    )
    if begin is not None and begin >= (now if end is None else end):
        raise ValueError("--since is not before " + ("now" if end is None else "--until"))
    return begin, end


def _instant(said: str | None, now: int, option: str) -> int | None:
    if said is None:
        return None
    if _DURATION.fullmatch(said) and not said[-1].isdigit():
        return now - round(duration(said) * 1_000_000)
    try:
        return parse_time(said) // 1000
    except (ValueError, OverflowError):
        raise ValueError(f"{option}{said!r} is no time: say 2026-11-21, 2026-11-21T08:00 or 24h") from None


def add_tables(parser: argparse.ArgumentParser) -> None:
    """Add the option for the folder of the tables."""
    parser.add_argument("--tables", metavar="DIR", required=True, help="the folder of the tables, or its URI")


def add_format(parser: argparse.ArgumentParser, name: str = "--format") -> None:
    """Add the option for the format of the tables."""
    parser.add_argument(
        name,
        dest="table_format",
        choices=layout.FORMATS,
        help=f"the format of the tables (default: that of the tables that are there, else {layout.FORMATS[0]})",
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add the options for the settings of a run; see `settings.Settings`."""
    parser.add_argument(
        "--journal", metavar="DIR", required=True, help="the folder of the segments, or its URI"
    )
    add_tables(parser)
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        default="",
        help="the folder that records what was read (default: _checkpoint beside the tables)",
    )
    parser.add_argument(
        "--bytes-per-batch",
        metavar="SIZE",
        type=size,
        default=Settings.bytes_per_batch,
        help="bytes of segments that are read at a time, at most; the memory depends on it "
        f"(default: {Settings.bytes_per_batch >> 20}m)",
    )
    for name, about in (
        ("patience", "how long to wait for a missing segment, or for the other half of a message"),
        ("linger", "how long after a message's last sign its row becomes final"),
        ("give-up", "when the row of a message that is not settled becomes final"),
        ("stuck-after", "how long a delivery may wait for its answer before its subscription is stuck"),
    ):
        default = getattr(Settings, name.replace("-", "_"))
        parser.add_argument(
            f"--{name}",
            metavar="TIME",
            type=duration,
            default=default,
            help=f"{about} (default: {default:g}s, of the journal's time)",
        )
    parser.add_argument(
        "--id-header",
        dest="id_headers",
        metavar="NAME",
        action="append",
        default=[],
        help="a header with the publisher's own message id, which brokers pass on, such as correlation-id; "
        "may be given more than once; the first one in a message counts",
    )
    parser.add_argument(
        "--keep-headers",
        metavar="NAME,...",
        type=names,
        help="headers of SENDs for the column headers of the table messages, set when the tables are made: at most "
        f"{MOST_HEADERS}, of {LONGEST_HEADER} letters each (default: those that the tables have, else none)",
    )
    parser.add_argument(
        "--retain",
        metavar="TIME",
        type=duration,
        help="how long the tables keep an hour, such as 90d (default: for ever)",
    )


def settings(options: argparse.Namespace) -> Settings:
    """Return the settings that the options give. Raises `ValueError` for impossible values."""
    known = {each.name for each in fields(Settings)}
    given = {name: value for name, value in vars(options).items() if name in known}
    return Settings(**given | {"format": table_format(options), "id_headers": tuple(options.id_headers)})


def table_format(options: argparse.Namespace) -> str:
    """Return the format that the option of `add_format` gives, otherwise the format of the existing tables."""
    return str(options.table_format or layout.found(options.tables))


def say(text: str) -> None:
    """Write a line to standard error and flush it."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def session(
    options: argparse.Namespace,
    name: str,
    *,
    brief: bool = False,
    quick: bool = False,
    say: Callable[[str], None] | None = None,
    conf: Mapping[str, str] | None = None,
) -> "SparkSession":
    """Return a Spark session with the options of `add_spark`; see `launch.session`. A setting of `--conf` replaces the
    setting of the same name in `conf`.
    """
    bar = ProgressBar(sys.stderr)
    told = None if say is None else bar.beside(say)
    folders = [getattr(options, each, None) for each in ("journal", "tables", "checkpoint")]
    is_near = all(local(folder) for folder in folders if folder)
    wanted = {**({} if is_near else launch.CHECKED), **(conf or {}), **dict(options.conf)}
    bar.begin("Spark starts")
    with bar.going():
        if "table_format" in options and table_format(options) == "delta":
            wanted = delta.settings(wanted, told)
        return launch.session(
            f"stomprelay-pipeline {name}",
            master=options.master,
            conf=wanted,
            brief=brief,
            quick=quick,
            log=options.spark_log,
            say=told,
        )
