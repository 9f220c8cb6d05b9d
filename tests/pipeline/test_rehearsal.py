"""What the class archive is made by."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stomprelay.pipeline.spark.training import train

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_the_training_run(spark: "SparkSession", tmp_path: Path) -> None:
    """With the Spark at hand: a table is written, and what is folded from it."""
    train(spark, tmp_path)
    assert list(tmp_path.glob("table/hour=*/*.parquet"))
    assert list(tmp_path.glob("joined/*.parquet"))
    assert list(tmp_path.glob("checkpoint/commits/1"))
