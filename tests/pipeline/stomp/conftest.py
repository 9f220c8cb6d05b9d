"""Brokers for the tests of the data source, those of the end-to-end tests."""

import pytest

from stomprelay.pipeline.stomp import client
from tests.e2e.conftest import activemq, activemq_2, authority, memory, queue, rabbitmq

__all__ = ["activemq", "activemq_2", "authority", "memory", "queue", "rabbitmq"]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that are scripts do not close: nobody needs to wait for that."""
    monkeypatch.setattr(client, "CLOSE_WITHIN", 0.02)
