"""The same questions to the same Parquet files, asked of Spark and of DuckDB, in a process of its own.

`python -m bench.aggregates TABLES ROUNDS` prints a JSON object a question: the seconds of each round, and what the
answers have in common. Answers that differ from each other, or from what the pipeline has in its tables, end it with
status 1.
"""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from stomprelay.pipeline.schema import FLOW, LATENCY, TABLES, TRAFFIC
from stomprelay.pipeline.spark import launch
from stomprelay.pipeline.store.store import Store, dated
from stomprelay.pipeline.tables.rollup import FLOW_SUMS, LATENCY_SUMS, MEASURES, TRAFFIC_SUMS, WIDTH

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import DataFrame, SparkSession

Cells = dict[tuple[Any, ...], tuple[Any, ...]]
"""An answer: its keys, with times in microseconds since 1970, and its figures."""

KEYS: Final = {
    TRAFFIC.name: ("minute", "destination", "client", "upstream", "direction"),
    LATENCY.name: ("minute", "destination"),
    FLOW.name: ("date", "hour", "producer", "destination", "consumer"),
}
SOURCES: Final = {TRAFFIC.name: "frames", LATENCY.name: "messages", FLOW.name: "messages"}

_ANSWERS: Final[dict[str, Callable[["DataFrame"], "DataFrame"]]] = {
    TRAFFIC.name: TRAFFIC_SUMS.summed,
    LATENCY.name: lambda messages: LATENCY_SUMS.rows(LATENCY_SUMS.summed(messages)),
    FLOW.name: lambda messages: dated(FLOW_SUMS.rows(FLOW_SUMS.summed(messages))),
}
_MEASURES: Final = ", ".join(
    f"""count({name}_us), quantile_disc({name}_us, 0.5), quantile_disc({name}_us, 0.95),
        quantile_disc({name}_us, 0.99), max({name}_us)"""
    for name in MEASURES
)
SQL: Final = {
    TRAFFIC.name: """
        SELECT epoch_us(date_trunc('minute', seen_at)), destination, client, upstream,
            coalesce(direction, 'to_client') AS direction,
            count(*) FILTER (kind = 'frame'),
            count(*) FILTER (direction = 'to_broker' AND command = 'SEND'
                OR direction = 'to_client' AND command = 'MESSAGE'),
            coalesce(sum(size) FILTER (kind = 'frame'), 0)::BIGINT,
            coalesce(sum(body_size) FILTER (kind = 'frame'), 0)::BIGINT,
            count(*) FILTER (side = 'broker' AND command = 'ERROR' OR event = 'error')
        FROM frames WHERE kind = 'frame' OR event = 'error' GROUP BY ALL""",
    LATENCY.name: f"""
        SELECT epoch_us(date_trunc('minute', seen_at)), destination, {_MEASURES}
        FROM messages WHERE coalesce(receipt_us, delivery_us, ack_us) IS NOT NULL GROUP BY ALL""",
    FLOW.name: """
        WITH got AS (
            SELECT seen_at::DATE AS date, hour(seen_at) AS hour, producer, destination, sent_at,
                coalesce(size, 0) AS size,
                list_transform(deliveries, lambda one: coalesce(one.client, one.session)) AS consumers,
                unnest(CASE WHEN len(deliveries) = 0 THEN [NULL] ELSE deliveries END) AS delivery,
                unnest(range(1, greatest(len(deliveries), 1) + 1)) AS position
            FROM messages),
        told AS (
            SELECT *, coalesce(delivery.client, delivery.session) AS consumer,
                delivery IS NULL OR list_position(consumers, consumer) = position AS first,
                CASE WHEN first THEN epoch_us(delivery.seen_at) - epoch_us(sent_at) END AS took
            FROM got)
        SELECT date, hour, producer, destination, consumer, count(*) FILTER (first), count(delivery), sum(size)::BIGINT,
            (sum(took) // count(took))::BIGINT, max(took)
        FROM told GROUP BY ALL""",
}


class DifferentError(Exception):
    """Two answers to the same question are not the same. The text says which, and where."""


@dataclass(frozen=True)
class Answer:
    """One question: the rows of the answer, and the seconds of each round."""

    name: str
    cells: int
    spark: Sequence[float]
    duckdb: Sequence[float]


def measure(spark: "SparkSession", tables: str, rounds: int) -> list[Answer]:
    """Ask both in turn. Raises `DifferentError`; without DuckDB it has no times."""
    store = Store(spark, tables)
    duck = _duckdb(tables)
    return [_answer(store, duck, name, rounds) for name in KEYS]


def _answer(store: Store, duck: "DuckDBPyConnection | None", name: str, rounds: int) -> Answer:
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        took, cells = _timed(lambda: _by_spark(name, _ANSWERS[name](store.read(SOURCES[name]).drop("batch"))))
        ours.append(took)
        if duck is not None:
            took, exact = _timed(lambda: _by_duckdb(duck, name))
            theirs.append(took)
            compare(f"{name} by Spark and by DuckDB", cells, exact, WIDTH)
    compare(f"{name} at once and by batches", cells, _by_spark(name, store.read(name)), 1)
    return Answer(name, len(cells), tuple(ours), tuple(theirs))


def _timed(asked: Callable[[], Cells]) -> tuple[float, Cells]:
    """Return the seconds for an answer, and the answer."""
    began = time.perf_counter()
    cells = asked()
    return time.perf_counter() - began, cells


def _by_spark(name: str, answer: "DataFrame") -> Cells:
    from pyspark.sql import functions

    keys = KEYS[name]
    figures = [column for column in TABLES[name].names if column not in keys]
    shown = answer.select(
        *(functions.unix_micros(key) if key == "minute" else functions.col(key) for key in keys), *figures
    )
    return _cells(name, (tuple(row) for row in shown.collect()))


def _duckdb(tables: str) -> "DuckDBPyConnection | None":
    try:
        import duckdb
    except ImportError:
        return None
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name in ("frames", "messages"):
        files = str(Path(tables) / name / "date=*" / "hour=*" / "batch=*" / "*.parquet").replace("'", "''")
        connection.execute(
            f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{files}', hive_partitioning = false)"
        )
    return connection


def _by_duckdb(connection: "DuckDBPyConnection", name: str) -> Cells:
    return _cells(name, connection.execute(SQL[name]).fetchall())


def _cells(name: str, rows: "Sequence[tuple[Any, ...]] | Any") -> Cells:
    count = len(KEYS[name])
    return {row[:count]: row[count:] for row in rows}


def compare(what: str, ours: Cells, exact: Cells, width: float) -> None:
    """Raise `DifferentError` where a figure is below the exact one, or above `width` times it."""
    if ours.keys() != exact.keys():
        odd = min(ours.keys() ^ exact.keys(), key=repr)
        raise DifferentError(f"{what}: {len(ours)} rows and {len(exact)}, such as {odd}")
    for key, figures in ours.items():
        for one, other in zip(figures, exact[key], strict=True):
            if one == other:
                continue
            most = None if other is None else other + abs(other) * (width - 1) * 1.000001
            if one is None or most is None or not other <= one <= most:
                raise DifferentError(f"{what}: {figures} and {exact[key]} for {key}")


def main(arguments: Sequence[str]) -> int:
    """For the bench. Answers the exit status."""
    tables, rounds = arguments
    spark = launch.session("bench")
    try:
        answers = measure(spark, tables, int(rounds))
    except DifferentError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        launch.stop(spark)
    for answer in answers:
        print(json.dumps(asdict(answer)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
