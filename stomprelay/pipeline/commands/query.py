"""`stomprelay-pipeline query`: SQL over the tables."""

import argparse
import csv
import json
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TextIO

from stomprelay.pipeline import options
from stomprelay.pipeline.bar import many
from stomprelay.pipeline.schema import TABLES, VIEWS
from stomprelay.pipeline.spark import launch
from stomprelay.pipeline.spark.errors import as_value_error, sentence
from stomprelay.pipeline.store.delta import opened
from stomprelay.pipeline.store.store import Store, StoreError
from stomprelay.wire.errors import visible

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MEASURED: Final = 1000
"""The first rows decide how wide the printed columns are. This is their number."""
_WIDEST: Final = 60
_TEXTS: Final = "utf-8"

Row = Sequence[Any]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `query` to its parser."""
    parser.add_argument("sql", metavar="SQL", help="a query of Spark SQL; - reads it from standard input")
    options.add_tables(parser)
    options.add_format(parser, "--table-format")
    parser.add_argument(
        "--format",
        choices=tuple(_WRITERS),
        default="table",
        help="how the rows are written: a table for people, CSV with a head, JSON with an object a line (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--as-of",
        metavar="WHEN",
        type=options.moment,
        help="the tables as they were at a time (2026-11-21T08:00, UTC or with an offset), or after the batch "
        "with this number; Delta tables only",
    )
    parser.epilog = f"tables: {', '.join([*TABLES, *VIEWS])}; what is in them: stomprelay-pipeline tables"


def main(given: argparse.Namespace) -> int:
    """Run the query. Return the exit status. Raises `StoreError`, and `ValueError` for bad SQL."""
    sql = sys.stdin.read() if given.sql == "-" else given.sql
    shown = {"spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    spark = options.session(given, "query", brief=True, say=options.say, conf=shown)
    with launch.ending(spark):
        views(spark, opened(spark, given.tables, options.table_format(given), given.as_of))
        found = _asked(spark, sql)
        _WRITERS[given.format](found.columns, _rows(found), sys.stdout)
        sys.stdout.flush()
    return 0


def views(spark: "SparkSession", store: Store) -> None:
    """Make a view in Spark for each table, and those in `VIEWS`. Raises `StoreError` if there are no tables."""
    if not store.volume.exists(store.root):
        raise StoreError(f"there are no tables in {store.root}: the folder does not exist")
    store.check()
    for name in TABLES:
        store.read(name).createOrReplaceTempView(name)
    for name, sql in VIEWS.items():
        spark.sql(sql).createOrReplaceTempView(name)


def _asked(spark: "SparkSession", sql: str) -> "DataFrame":
    from pyspark.errors import PySparkException

    try:
        found = spark.sql(sql)
    except PySparkException as error:
        raise ValueError(sentence(str(error))) from None
    # In Python both kinds of timestamps look the same; those without a zone are as good as texts.
    bare = [name for name, kind in found.dtypes if kind == "timestamp_ntz"]
    return found.withColumns({name: found[f"`{name}`"].cast("string") for name in bare})


def _rows(found: "DataFrame") -> Iterator[Row]:
    with as_value_error():
        yield from map(tuple, found.toLocalIterator())


# ---------------------------------------------------------------- how rows are written


def _table(names: Sequence[str], rows: Iterable[Row], out: TextIO) -> None:
    rest = iter(rows)
    first = [[_cell(value) for value in row] for row in islice(rest, _MEASURED)]
    right = [bool(first) and all(_is_number(row[at]) for row in first) for at in range(len(names))]
    widths = [
        min(max(map(len, [name, *(row[at] for row in first)])), _WIDEST) for at, name in enumerate(names)
    ]

    def line(cells: Sequence[str]) -> str:
        return "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(cells, widths, right, strict=True)
        ).rstrip()

    out.write(f"{line(names)}\n")
    out.write("  ".join("-" * width for width in widths) + "\n")
    count = 0
    for row in chain(first, ([_cell(value) for value in row] for row in rest)):
        out.write(f"{line(row)}\n")
        count += 1
    out.write(f"({many(count, 'row')})\n")


def _csv(names: Sequence[str], rows: Iterable[Row], out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow(["" if value is None else _text(value) for value in row])


def _json(names: Sequence[str], rows: Iterable[Row], out: TextIO) -> None:
    for row in rows:
        plain = {name: _plain(value) for name, value in zip(names, row, strict=True)}
        out.write(json.dumps(plain) + "\n")


_WRITERS: Final = {"table": _table, "csv": _csv, "json": _json}


def _plain(value: Any) -> Any:
    """Return a value for JSON: times in ISO 8601 and UTC, bytes in Base64, durations in seconds."""
    if isinstance(value, datetime):
        return f"{_utc(value).isoformat(timespec='microseconds')}Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return str(value)
    if hasattr(value, "asDict"):
        return {name: _plain(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {str(_plain(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _utc(value: datetime) -> datetime:
    """Convert a time of PySpark, which is in the zone of this process, to UTC. The result has no zone."""
    return value.astimezone(UTC).replace(tzinfo=None)


def _text(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, str):
        return plain
    return json.dumps(plain, ensure_ascii=False)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bytes | bytearray):
        text = bytes(value).decode(_TEXTS, "backslashreplace")
    elif isinstance(value, datetime):
        text = _utc(value).isoformat(" ", "milliseconds")
    else:
        text = _text(value)
    return visible(text)


def _is_number(cell: str) -> bool:
    return not cell or cell.lstrip("-").replace(".", "", 1).isdigit()
