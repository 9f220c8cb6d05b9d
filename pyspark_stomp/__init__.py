"""Makes `format("stomp")` known to Spark, which looks for packages of such a name."""
