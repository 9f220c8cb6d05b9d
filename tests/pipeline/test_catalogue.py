"""The tables in words."""

from pathlib import Path

import pytest

from stomprelay.pipeline.cli import main
from stomprelay.pipeline.commands.catalogue import catalogue
from stomprelay.pipeline.schema import TABLES

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_documentation_says_what_the_code_does() -> None:
    """docs/tables.md is the catalogue: `stomprelay-pipeline tables > docs/tables.md` makes it anew."""
    assert (DOCS / "tables.md").read_text(encoding="utf-8") == catalogue()


def test_every_column_is_there_with_its_type() -> None:
    """Each column of each table has a line, with its type."""
    text = catalogue()
    for table in TABLES.values():
        part = text.partition(f"## {table.name}\n")[2].partition("\n## ")[0]
        for column in table.columns:
            assert f"| `{column.name}` | `{column.kind}` |" in part


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    """`stomprelay-pipeline tables` needs neither Spark nor Java."""
    assert main(["tables"]) == 0
    assert capsys.readouterr().out == catalogue()
