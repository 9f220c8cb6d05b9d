"""The tables in words: what `docs/tables.md` says, and `stomprelay-pipeline tables` prints."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Final

from stomprelay.pipeline.schema import TABLES, VIEW, WITH_HEADS, Table

_BEFORE: Final = """# Tables

What `stomprelay-pipeline` makes of a journal. [pipeline.md](pipeline.md) says how, and when a row is there.

Every table is a folder of Parquet files, or a Delta table. All times are UTC, and the relay's: when it had dealt with
the chunk of octets in which the frame came.

Most tables have two columns more, which their files do not hold but the names of their folders, such as
`date=2026-11-21/hour=8`: `date` (a `date`) and `hour` (an `int`, 0 to 23) of the table's own time. Who asks for some of
them reads no other folders: `WHERE date = DATE '2026-11-21' AND hour >= 8`. `batch` is for the pipeline alone.
"""

_AFTER: Final = f"""## {VIEW}

A view, which `stomprelay-pipeline query` has: all of `messages`, and in `head` all headers of its SEND, or of its first
MESSAGE where no SEND was seen. Other engines have it by this query, which each of them takes as it is:

```sql
{WITH_HEADS}
```

No name of a table or a column has to be quoted in DuckDB, in PostgreSQL, or in Spark, there with
`spark.sql.ansi.enforceReservedKeywords`, too. So this is a query for all of them:

```sql
SELECT destination, count(*) AS lost, min(seen_at) AS since
FROM messages WHERE final AND outcome IN ('undelivered', 'unconfirmed') GROUP BY destination ORDER BY lost DESC
```

DuckDB reads `messages`, and `frames` alike, by `FROM 'tables/messages/date=*/hour=*/batch=*/*.parquet'`, Spark by
`spark.read.parquet("tables/messages")`, Delta tables by `spark.read.format("delta").load("tables/messages")`.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the option of `tables` to its parser."""
    parser.add_argument(
        "--yaml", action="store_true", help="as sources of dbt, for it and for other tools that read those"
    )


def main(options: argparse.Namespace) -> int:
    """Print the catalogue. Return the exit status."""
    sys.stdout.write(sources() if options.yaml else catalogue())
    return 0


def catalogue() -> str:
    """Return all tables with their columns, as Markdown."""
    return "\n".join([_BEFORE, *(line for table in TABLES.values() for line in _table(table)), _AFTER])


def sources() -> str:
    """Return all tables with their columns, as YAML that dbt reads."""
    lines = ["version: 2", "", "sources:", "  - name: stomprelay", "    tables:"]
    for table in TABLES.values():
        lines += [
            f"      - name: {table.name}",
            f"        description: {_scalar(f'One row is {table.about}.')}",
            "        columns:",
        ]
        for column in (*table.columns, *table.partitions):
            about = f"{column.about} ({column.unit})" if column.unit else column.about
            lines += [
                f"          - name: {column.name}",
                f"            data_type: {_scalar(column.kind)}",
                f"            description: {_scalar(about)}",
                *(() if column.nullable else ("            data_tests: [not_null]",)),
            ]
    return "\n".join([*lines, ""])


def _scalar(text: str) -> str:
    """Return a text as YAML has it between quotation marks, which is as JSON has it."""
    return json.dumps(text, ensure_ascii=False)


def _table(table: Table) -> Iterator[str]:
    folders = [*(each.name for each in table.partitions), *(["batch"] if table.incremental else [])]
    yield f"## {table.name}\n"
    yield f"One row is {table.about}. Folders: {', '.join(f'`{name}`' for name in folders)}.\n"
    yield "| column | type | unit | null | what, and from where |"
    yield "|---|---|---|---|---|"
    for column in table.columns:
        null = "yes" if column.nullable else "no"
        about = column.about.replace("|", "\\|")
        yield f"| `{column.name}` | `{column.kind}` | {column.unit} | {null} | {about} |"
    yield ""
