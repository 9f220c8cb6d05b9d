"""The tables in words: what `docs/tables.md` says, and `stomprelay-pipeline tables` prints."""

import argparse
import sys
from collections.abc import Iterator

from stomprelay.pipeline.schema import TABLES, Table

_BEFORE = """# Tables

What `stomprelay-pipeline` makes of a journal. [pipeline.md](pipeline.md) says how, and when a row is there.

Every table is a folder of Parquet files. All times are UTC, and the relay's: when it had dealt with the chunk of octets
in which the frame came. `hour` is a text such as `2026-11-21-08`, the hour of the table's own time.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Do nothing: the command has no options."""


def main(options: argparse.Namespace) -> int:
    """Print the catalogue. Returns the exit status."""
    sys.stdout.write(catalogue())
    return 0


def catalogue() -> str:
    """Return all tables with their columns, as Markdown."""
    return "\n".join([_BEFORE, *(line for table in TABLES.values() for line in _table(table))])


def _table(table: Table) -> Iterator[str]:
    folders = [*table.partitions, *(["batch"] if table.incremental else [])]
    yield f"## {table.name}\n"
    yield f"One row is {table.about}. Folders: {', '.join(f'`{name}`' for name in folders)}.\n"
    yield "| column | type | unit | null | what, and from where |"
    yield "|---|---|---|---|---|"
    for column in table.columns:
        null = "yes" if column.nullable else "no"
        about = column.about.replace("|", "\\|")
        yield f"| `{column.name}` | `{column.kind}` | {column.unit} | {null} | {about} |"
    yield ""
