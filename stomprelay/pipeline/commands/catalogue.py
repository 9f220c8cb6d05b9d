"""The tables in words, for `docs/tables.md` and for `stomprelay-pipeline tables`."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Final

from stomprelay.pipeline.schema import COMPARED, TABLES, VIEW, WITH_HEADS, Table

_BEFORE: Final = """# Tables

The tables that `stomprelay-pipeline` makes from a journal. [pipeline.md](pipeline.md) says how, and when a row appears.

Every table is a folder of Parquet files, or a Delta table. All times are UTC, by the relay's clock: when it had handled
the received bytes that contain the frame.

Most tables have two more columns, which are in the names of their folders and not in their files, such as
`date=2026-11-21/hour=8`: `date` (a `date`) and `hour` (an `int`, 0 to 23) of the table's own time. A query for some
hours reads no other folders: `WHERE date = DATE '2026-11-21' AND hour >= 8`. Only the pipeline uses `batch`.
"""

_AFTER: Final = f"""## {VIEW}

A view in `stomprelay-pipeline query`: all of `messages`, and in `head` all headers of each SEND, or of the first
MESSAGE if no SEND was seen. Other engines can use this query, unchanged:

```sql
{WITH_HEADS}
```

No name of a table or a column has to be quoted in DuckDB, in PostgreSQL, or in Spark, even with
`spark.sql.ansi.enforceReservedKeywords`. So this query works in all of them:

```sql
SELECT destination, count(*) AS lost, min(seen_at) AS since
FROM messages WHERE final AND outcome IN ('undelivered', 'unconfirmed') GROUP BY destination ORDER BY lost DESC
```

## {COMPARED}

A view in `stomprelay-pipeline query`: a row for each SEND that `stomprelay move compare --keep` compared. `copies`: how
many came from the new broker, `marked` of them marked as repeated; `late`: its copy came behind a later one of its
session; `body`: `same`, `other`, `size` (of the same size, but the journal of the comparison does not have all of it)
or `missing`; `lag_us`: from the SEND to its copy. The other columns are those of `messages`.

DuckDB reads `messages` (and so `frames`) by `FROM 'tables/messages/date=*/hour=*/batch=*/*.parquet'`, Spark by
`spark.read.parquet("tables/messages")`, Delta tables by `spark.read.format("delta").load("tables/messages")`.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the option of `tables` to its parser."""
    parser.add_argument(
        "--yaml", action="store_true", help="print sources for dbt, as YAML, which other tools read, too"
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
    """Return a text in quotation marks, as YAML and JSON spell it."""
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
