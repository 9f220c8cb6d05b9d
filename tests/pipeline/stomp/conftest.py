"""Brokers for the tests of the data source, those of the end-to-end tests."""

from tests.e2e.conftest import activemq, activemq_2, authority, memory, queue, rabbitmq

__all__ = ["activemq", "activemq_2", "authority", "memory", "queue", "rabbitmq"]
