"""The tables in words, and the manual."""

import argparse
import re
from pathlib import Path
from typing import Any

import pytest

from stomprelay.pipeline import cli
from stomprelay.pipeline.cli import main
from stomprelay.pipeline.commands.catalogue import catalogue
from stomprelay.pipeline.schema import TABLES, Column, Table

DOCS = Path(__file__).resolve().parents[3] / "docs"


MANUAL = DOCS / "pipeline.md"


def test_the_documentation_says_what_the_code_does() -> None:
    """docs/tables.md is the catalogue: `stomprelay-pipeline tables > docs/tables.md` makes it anew."""
    assert (DOCS / "tables.md").read_text(encoding="utf-8") == catalogue()


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    """`stomprelay-pipeline tables` needs neither Spark nor Java."""
    assert main(["tables"]) == 0
    assert capsys.readouterr().out == catalogue()


def test_dbt_reads_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Every table and column is there with its type and what it means; what is never null is tested."""
    yaml = pytest.importorskip("yaml")
    assert main(["tables", "--yaml"]) == 0
    (source,) = yaml.safe_load(capsys.readouterr().out)["sources"]
    assert [table["name"] for table in source["tables"]] == list(TABLES)
    for told, table in zip(source["tables"], TABLES.values(), strict=True):
        columns = {column["name"]: column for column in told["columns"]}
        assert list(columns) == [*table.names, *(each.name for each in table.partitions)]
        for column in (*table.columns, *table.partitions):
            assert columns[column.name]["data_type"] == column.kind
            assert column.about in columns[column.name]["description"]
            assert ("data_tests" in columns[column.name]) is not column.nullable


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_well_described(name: str) -> None:
    """Its name is its key, its columns are told apart, and each says in a few words what it is."""
    table = TABLES[name]
    assert table.name == name
    assert len(set(table.names)) == len(table.names)
    for column in table.columns:
        assert re.fullmatch("[a-z][a-z0-9_]*", column.name)
        assert column.about


@pytest.mark.parametrize("name", TABLES)
def test_a_duration_names_its_unit(name: str) -> None:
    """A column that ends in _us is of microseconds."""
    for column in TABLES[name].columns:
        if column.name.endswith("_us"):
            assert (column.kind, column.unit) == ("bigint", "µs")


def test_a_column_as_sql_has_it() -> None:
    """The name is quoted, for it may be a word of SQL; what cannot be null says so."""
    assert Column("seen_at", "timestamp", "when", nullable=False).ddl == "`seen_at` timestamp NOT NULL"
    assert Column("position", "bigint", "where").ddl == "`position` bigint"


def test_a_table_as_sql_has_it() -> None:
    """Its columns in their order."""
    table = Table("t", "a thing", (Column("a", "int", "x"), Column("b", "string", "y")))
    assert table.ddl == "`a` int, `b` string"
    assert table.names == ["a", "b"]


def options() -> list[tuple[str, str, str]]:
    """Each option, the commands that have it, and what they say of it."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in cli.COMMANDS:
        (commands,) = (
            action
            for action in cli._parser([name])._actions
            if isinstance(action, argparse._SubParsersAction)
        )
        parser: Any = commands.choices[name]
        for action in parser._actions:
            if not isinstance(action, argparse._HelpAction):
                flag = action.option_strings[-1] if action.option_strings else action.metavar
                found.setdefault((flag, action.help % vars(action)), []).append(name)
    return [(flag, ", ".join(names), says) for (flag, says), names in found.items()]


def test_every_option_is_in_the_manual() -> None:
    """The table between the marks is that of the code, no more and no less."""
    table = MANUAL.read_text(encoding="utf-8").partition("<!-- options:begin -->\n")[2]
    told = re.findall(
        r"^\| `(.+?)` \| (.+?) \| (.+?) \|$", table.partition("<!-- options:end -->")[0], re.MULTILINE
    )
    assert told == options()
