`pyspark_stomp.register(spark)` makes `format("stomp")` known to any session: of a plain Python, a notebook, Spark Connect, or a cluster whose executors do not have the package.
