"""Does a little of all that the pipeline does. Run it with the options that make Java write the class archive."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stomprelay.pipeline.spark import launch


def main(options: list[str]) -> int:
    """Do the training run, then end Java, which writes the class archive. Return the exit status."""
    spark = launch.session("training run", master="local[2]", brief=True, further=tuple(options))
    try:
        with tempfile.TemporaryDirectory() as place:
            train(spark, Path(place))
    finally:
        launch.stop(spark)
    return 0


def train(spark: Any, place: Path) -> None:
    """Run a stream over files. The files are parsed in Python; tables are written, read, joined and summed up."""
    incoming = place / "in"
    incoming.mkdir()
    (incoming / "one.journal").write_bytes(b"1")

    def parsed(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        names = pa.map_(pa.string(), pa.string())
        schema = pa.schema([("path", pa.string()), ("n", pa.int64()), ("m", names)])
        for batch in batches:
            paths = batch.column("path").to_pylist()
            rows = [{"path": path, "n": 1, "m": [("a", "b")]} for path in paths]
            yield pa.RecordBatch.from_pylist(rows, schema)

    def one(rows: Any, number: int) -> None:
        table = str(place / "table")
        rows = rows.mapInArrow(parsed, "path string, n bigint, m map<string,string>")
        rows = rows.selectExpr("*", "date_format(timestamp_micros(n), 'yyyy-MM-dd-HH') AS hour").persist()
        rows.write.mode("overwrite").partitionBy("hour").parquet(table)
        read = spark.read.parquet(table)
        read.createOrReplaceTempView("frames")
        folded = spark.sql(
            "SELECT hour, count(*) AS c, sum(n) AS s, percentile(n, 0.5) AS p, max(struct(n, path)) AS x, "
            "collect_list(struct(n, path)) AS l, count(CASE WHEN n > 0 THEN 1 END) AS k FROM frames GROUP BY hour"
        )
        folded.join(read, "hour").unionByName(folded.join(read, "hour")).write.mode("overwrite").parquet(
            str(place / "joined")
        )
        spark.sql(
            "SELECT *, row_number() OVER (PARTITION BY hour ORDER BY n) AS r FROM frames WHERE m['a'] = 'b'"
        ).toArrow()
        rows.unpersist()

    for _ in range(2):
        stream = (
            spark.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length bigint, content binary")
            .option("pathGlobFilter", "*.journal")
            .load(str(incoming))
            .select("path", "length")
        )
        query = (
            stream.writeStream.foreachBatch(one)
            .option("checkpointLocation", str(place / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        (incoming / "two.journal").write_bytes(b"2")
    spark.createDataFrame([(1, "a")], "n bigint, s string").groupBy("s").count().collect()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
