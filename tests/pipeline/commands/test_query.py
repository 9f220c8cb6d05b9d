"""SQL over the tables."""

import argparse
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline import options
from stomprelay.pipeline.commands import query
from stomprelay.pipeline.schema import FRAMES, MESSAGES, QUARANTINE, TABLES, VIEWS
from stomprelay.pipeline.spark import errors, launch
from stomprelay.pipeline.store.store import StoreError
from tests.pipeline.report.tables import build
from tests.pipeline.rows import FRAME, MESSAGE, delivery, write

pytestmark = pytest.mark.spark

DOCS = Path(__file__).resolve().parents[3] / "docs"
AT = datetime(2026, 11, 21, 8, 0, 0, 123456, UTC)


def written(form: str, names: list[str], *rows: tuple[Any, ...]) -> str:
    """Rows as a format has them."""
    out = io.StringIO()
    query._WRITERS[form](names, iter(rows), out)
    return out.getvalue()


def test_a_table_is_for_people() -> None:
    """Numbers to the right, nothing for null, no octet that could move the cursor."""
    assert written("table", ["name", "n"], ("a\x1b[1m\n", 5), (None, 12345), ("ä", None)).splitlines() == [
        r"name            n",
        r"----------  -----",
        r"a\x1b[1m\n      5",
        r"            12345",
        r"ä",
        r"(3 rows)",
    ]


def test_a_table_may_be_long_and_wide() -> None:
    """Widths are chosen by what comes first; no cell is cut."""
    rows = [(str(number) * (1 if number < 1100 else 30),) for number in range(1101)]
    lines = written("table", ["x"], *rows, ("y" * 100,)).splitlines()
    assert lines[-1] == "(1,102 rows)"
    assert lines[-2] == "y" * 100
    assert written("table", ["x"]) == "x\n-\n(0 rows)\n"


def test_csv_has_a_head() -> None:
    """What holds a comma or a quote is quoted; structures are JSON."""
    assert written("csv", ["a", "b"], ('x,"y', {"k": [1]}), (None, AT)) == (
        'a,b\n"x,""y","{""k"": [1]}"\n,2026-11-21T08:00:00.123456Z\n'
    )


def test_json_is_an_object_a_line() -> None:
    """With what JSON has for each type."""
    from pyspark.sql import Row

    row = (
        1, True, None, 1.5, "ä", b"\x00\xff", AT, date(2026, 1, 2), timedelta(seconds=1.5),
        Decimal("1.10"), Row(x=1, y=[AT]), {"k": b"a"},
    )  # fmt: skip
    names = [f"c{number}" for number in range(len(row))]
    assert list(json.loads(written("json", names, row)).values()) == [
        1, True, None, 1.5, "ä", "AP8=", "2026-11-21T08:00:00.123456Z", "2026-01-02", 1.5,
        "1.10", {"x": 1, "y": ["2026-11-21T08:00:00.123456Z"]}, {"k": "YQ=="},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved. Did you mean `y`? "
            "SQLSTATE: 42703; line 1 pos 7;\n'Project ['x]\n+- OneRowRelation\n",
            "A column `x` cannot be resolved. Did you mean `y`?",
        ),
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601 (line 1, pos 0)\n\n"
            "== SQL ==\nselec\n^^^\n",
            "Syntax error at or near 'selec'.",
        ),
        ("Division by zero.\nUse try_divide.\nJVM stacktrace:\nx", "Division by zero. Use try_divide."),
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            '  File "x.py", line 1, in f\n    g()\nOSError: [Errno 28] No space left on device\n',
            "No space left on device",
        ),
        (
            "Traceback (most recent call last):\n"
            "OSError: [Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device\n",
            "No space left on device",
        ),
        ("", "the query failed"),
    ],
)
def test_an_error_is_a_sentence(said: str, sentence: str) -> None:
    """Without what only Spark's developers need."""
    assert errors.sentence(said) == sentence


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Some, and the session of the tests in place of another."""
    torn = [{"segment": f"{at}.journal", "position": at, "length": at + 1} for at in (1, 3)]
    write(tmp_path, QUARANTINE, {"reason": "torn"}, torn)
    monkeypatch.setattr(options, "session", lambda *_, **__: spark)
    monkeypatch.setattr(launch, "stop", lambda _: None)
    yield tmp_path
    for name in (*TABLES, *VIEWS):
        spark.catalog.dropTempView(name)


def asked(tables: Path, sql: str, *given: str) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser()
    query.add_options(parser)
    options.add_spark(parser)
    return query.main(parser.parse_args([sql, "--tables", str(tables), *given]))


def test_all_tables_can_be_asked(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those with nothing in them, too; times are UTC, whatever the zone of this machine."""
    counts = " + ".join(f"(SELECT count(*) FROM {name})" for name in TABLES)
    sql = (
        f"SELECT {counts} AS n, timestamp'2026-11-21 08:00:00' AS at, "
        "timestamp_ntz'2026-11-21 08:00:00' AS `bare.at`"
    )
    assert asked(tables, sql, "--format", "csv") == 0
    assert capsys.readouterr().out == ("n,at,bare.at\n2,2026-11-21T08:00:00.000000Z,2026-11-21 08:00:00\n")


def test_messages_with_all_their_headers(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the SEND, or else of the MESSAGE."""
    heads = [
        {"number": number, "headers": {"n": str(number)}, "command": command}
        for number, command in enumerate(("SEND", "SEND", "MESSAGE"))
    ]
    event = {"kind": "event", "command": None, "event": "lost", "number": 0}
    write(tables, FRAMES, FRAME, [*heads, event], time="seen_at")
    write(tables, MESSAGES, MESSAGE, [{"number": 0}, {"number": 2}, {"number": 7}], time="seen_at")
    sql = "SELECT number, head['n'] AS n FROM messages_with_heads ORDER BY number"
    assert asked(tables, sql, "--format", "csv") == 0
    assert capsys.readouterr().out == "number,n\n0,0\n2,2\n7,\n"


def told() -> list[str]:
    """The queries of the pages: as blocks of SQL, in commands, and as conditions."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md")))
    found = re.findall(r"^```sql\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    found += ["".join(each) for each in re.findall(r"\"(SELECT [^\"]*)\"|'(SELECT [^'\n]*)'", text)]
    return found + [f"SELECT * FROM messages {each}" for each in re.findall(r"`(WHERE [^`]*)`", text)]


def of_columns() -> list[str]:
    """Queries that have the names of all columns as one writes them, without quotes."""
    deliveries = next(column.kind for column in MESSAGES.columns if column.name == "deliveries")
    inside = [f"deliveries[0].{name}" for name in re.findall(r"(\w+): ", deliveries)]
    columns = {
        name: [*table.names, *(each.name for each in table.partitions)] for name, table in TABLES.items()
    }
    return [
        f"SELECT {', '.join(names)} FROM {name}" for name, names in [*columns.items(), ("messages", inside)]
    ]


def test_duckdb_and_spark_take_every_query_of_the_pages(
    spark: SparkSession, tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both by the same words, and no column has a name that one of them reserves, Spark where it is strictest, too."""
    duckdb = pytest.importorskip("duckdb")
    queries = told()
    assert len(queries) >= 5
    rows: dict[str, list[dict[str, Any]]] = {name: [{}] for name in TABLES}
    store = build(spark, tables / "tables", **rows | {"messages": [{"deliveries": [delivery("bob", AT)]}]})
    monkeypatch.chdir(tables)
    strict = "spark.sql.ansi.enforceReservedKeywords"
    with duckdb.connect() as connection:
        for name in TABLES:
            connection.execute(f"CREATE VIEW {name} AS FROM 'tables/{name}/**/*.parquet'")
        for sql in (*queries, *of_columns()):
            connection.execute(sql).fetchall()
    query.views(spark, store)
    spark.conf.set(strict, True)
    try:
        for sql in (*queries, *of_columns()):
            spark.sql(re.sub(r"'tables/(\w+)/[^']*'", r"\1", sql)).collect()
    finally:
        spark.conf.unset(strict)


def test_the_query_may_come_by_standard_input(
    tables: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a long one does."""
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT sum(length) AS s\nFROM quarantine"))
    assert asked(tables, "-", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"s": 6}


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("SELECT nope FROM quarantine", "nope"),
        ("SELEC", "Syntax error"),
        ("SELECT raise_error('sorry') FROM quarantine", "^sorry$"),
        ("SELECT 1 FROM elsewhere", "elsewhere"),
    ],
)
def test_wrong_sql_is_told_in_a_line(tables: Path, sql: str, sentence: str) -> None:
    """When it is read, and when it is run."""
    with pytest.raises(ValueError, match=sentence) as told:
        asked(tables, sql)
    assert "\n" not in str(told.value)


def test_a_folder_without_tables_is_told(tables: Path) -> None:
    """Rather than answering from nothing."""
    with pytest.raises(StoreError, match="does not exist"):
        asked(tables / "none", "SELECT 1")
