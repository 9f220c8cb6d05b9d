"""Makes `format("stomp")` known to Spark.

Spark looks for packages named `pyspark_...`, with the Python that it starts: `PYSPARK_PYTHON`, otherwise the `python3`
of the path. Call `register` if this Python has other packages, if the session existed before this package was
installed, or if the executors do not have the package:

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
    """Make `format("stomp")` known to a session of any kind.

    On one machine Spark then runs the source with this Python, except if `PYSPARK_PYTHON` is set. The executors of a
    cluster get our code, and need only pyarrow. A session of Spark Connect, as in Databricks, only gets the name of the
    source. There the package must be installed beside Spark.
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
