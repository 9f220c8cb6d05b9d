"""Journal, tables and checkpoint on a file system that is no disk of anybody's: an S3 server of this machine."""

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from chaos import source, tables
from stomprelay.pipeline.schema import TABLES
from tests.pipeline.cluster.standalone import once, standalone
from tests.pipeline.cluster.test_tables import PATIENCE, here, small

pytestmark = [pytest.mark.long, pytest.mark.spark]

__all__ = ["small"]

JARS = "org.apache.hadoop:hadoop-aws:3.5.0"
"""Of the Hadoop that is in PySpark's package."""
BUCKET = "stomprelay"
_ABSENT = re.compile(r"\[(?:unresolved dependency|download failed): .*")


@contextmanager
def s3() -> Iterator[tuple[str, Any]]:
    """Yield the address of a server with one bucket, and a client of it."""
    boto3 = pytest.importorskip("boto3", reason="needs the package moto, which is an S3 server")
    server = pytest.importorskip("moto.server", reason="needs the package moto, which is an S3 server")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    runs = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    runs.start()
    try:
        host, port = runs.get_host_and_port()
        known = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}
        client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", **known)
        client.create_bucket(Bucket=BUCKET)
        yield f"http://{host}:{port}", client
    finally:
        runs.stop()


def fetch(client: Any, prefix: str, into: Path) -> None:
    """Copy what is below a name to a folder."""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/"):
        for each in page.get("Contents", ()):
            if not each["Key"].endswith("/"):
                path = into / each["Key"].removeprefix(f"{prefix}/")
                path.parent.mkdir(parents=True, exist_ok=True)
                body = io.BytesIO()
                client.download_fileobj(BUCKET, each["Key"], body)
                path.write_bytes(body.getvalue())


def test_all_of_it_is_on_s3(spark: SparkSession, small: Path, tmp_path: Path) -> None:
    """The tables are those that one machine makes on its disk; a second run goes on where the first was."""
    (tmp_path / "cluster").mkdir()
    with s3() as (url, client), standalone(tmp_path / "cluster") as cluster:
        segments = sorted(small.iterdir())
        conf = {
            "spark.jars.packages": JARS,
            "spark.hadoop.fs.s3a.endpoint": url,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "key",
            "spark.hadoop.fs.s3a.secret.key": "secret",
        }
        for new in (segments[:2], segments[2:]):
            for each in new:
                client.put_object(Bucket=BUCKET, Key=f"journal/{each.name}", Body=each.read_bytes())
            child = once(cluster.url, f"s3a://{BUCKET}/journal", f"s3a://{BUCKET}/tables", **conf)
            try:
                assert child.exited(PATIENCE), f"it does not end:\n{child.last_words}"
                if absent := _ABSENT.search(child.output):
                    pytest.skip(f"hadoop-aws is not to be had here: {absent[0]}")
                assert child.stop() == 0, child.output
            finally:
                source.end(child)
        fetch(client, "tables", tmp_path / "fetched")
    near = here(spark, small, tmp_path / "near")
    assert tables.compared(near, tmp_path / "fetched", list(TABLES)) == []
    assert tables.rows(near, "messages") > 30
