"""A broker for the tests of a replay, that of the data source."""

from tests.pipeline.stomp.conftest import _impatient, broker

__all__ = ["_impatient", "broker"]
