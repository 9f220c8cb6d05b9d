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
    """Its name is its key, its columns are told apart, each says in a few words what it is, a duration its unit."""
    table = TABLES[name]
    assert table.name == name
    assert len(set(table.names)) == len(table.names)
    for column in table.columns:
        assert re.fullmatch("[a-z][a-z0-9_]*", column.name)
        assert column.about
        assert not column.name.endswith("_us") or (column.kind, column.unit) == ("bigint", "µs")


def test_a_table_as_sql_has_it() -> None:
    """Its columns in their order; names are quoted, for they may be words of SQL; what cannot be null says so."""
    columns = (Column("seen_at", "timestamp", "when", nullable=False), Column("position", "bigint", "where"))
    table = Table("t", "a thing", columns)
    assert table.ddl == "`seen_at` timestamp NOT NULL, `position` bigint"
    assert table.names == ["seen_at", "position"]


def options() -> list[tuple[str, str, str]]:
    """Each option, the commands that have it, and what they say of it."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in cli.COMMANDS:
        actions = cli._parser([name])._actions
        (commands,) = (each for each in actions if isinstance(each, argparse._SubParsersAction))
        parser: Any = commands.choices[name]
        for action in parser._actions:
            if not isinstance(action, argparse._HelpAction):
                flag = action.option_strings[-1] if action.option_strings else action.metavar
                found.setdefault((flag, action.help % vars(action)), []).append(name)
    return [(flag, ", ".join(names), says) for (flag, says), names in found.items()]


def test_every_option_is_in_the_manual() -> None:
    """The table between the marks is that of the code, no more and no less."""
    page = (DOCS / "pipeline.md").read_text(encoding="utf-8")
    table = page.partition("<!-- options:begin -->\n")[2].partition("<!-- options:end -->")[0]
    assert re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?) \|$", table, re.MULTILINE) == options()
