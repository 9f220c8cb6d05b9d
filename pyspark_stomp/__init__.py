"""Makes `format("stomp")` known to Spark.

Spark looks for packages of such a name by itself, with the Python that it starts: `PYSPARK_PYTHON`, else the `python3`
of the path. Where that one has another set of packages, or the session was there before this package, or executors do
not have it, call `register`:

    import pyspark_stomp

    pyspark_stomp.register(spark)
"""

import os
import sys
from typing import TYPE_CHECKING

from stomprelay.pipeline.spark import executors, launch
from stomprelay.pipeline.stomp.datasource import StompDataSource as DefaultSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DefaultSource", "register"]


def register(spark: "SparkSession") -> None:
    """Make `format("stomp")` known to a session, however it came to be.

    On one machine Spark then runs it with this Python, unless `PYSPARK_PYTHON` names another. The executors of a
    cluster get our code, and need pyarrow alone. A session of Spark Connect, as Databricks gives, is told the name and
    nothing else: there the package must be installed beside Spark.
    """
    if not type(spark).__module__.startswith("pyspark.sql.connect."):
        context = spark.sparkContext
        if not launch.is_local(str(context.master)):
            executors.equip(spark)
        elif "PYSPARK_PYTHON" not in os.environ:
            before, context.pythonExec = context.pythonExec, sys.executable
            try:
                spark.dataSource.register(DefaultSource)
            finally:
                context.pythonExec = before
            return
    spark.dataSource.register(DefaultSource)
