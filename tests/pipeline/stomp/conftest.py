"""Brokers for the tests of the data source, those of the end-to-end tests."""

from collections.abc import Iterator

import pytest

from stomprelay.pipeline.stomp import client
from tests.e2e.brokers import Broker
from tests.e2e.conftest import activemq, authority, memory, queue, rabbitmq
from tests.e2e.raw import ScriptedBroker, close_all
from tests.pipeline.stomp.rig import Confirming

__all__ = ["activemq", "authority", "memory", "queue", "rabbitmq"]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Brokers that are scripts do not close: nobody needs to wait for that. What a failed test has left open goes."""
    monkeypatch.setattr(client, "CLOSE_WITHIN", 0.02)
    yield
    close_all()


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """Give a broker that the test plays."""
    with ScriptedBroker() as made:
        yield made


@pytest.fixture
def confirming() -> Iterator[Confirming]:
    """Give a broker that confirms."""
    made = Confirming()
    yield made
    made.close()


@pytest.fixture
def uri(memory: Broker) -> str:
    """Name the embedded broker."""
    return f"failover:(tcp://127.0.0.1:{memory.port})"
