"""Makes `format("stomp")` known to Spark, which looks for packages of such a name."""

from stomprelay.pipeline.stomp.datasource import StompDataSource as DefaultSource

__all__ = ["DefaultSource"]
