"""What the service tests share: the log, and a relay before two brokers."""

from collections.abc import Iterator

import pytest
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from tests.service.harness import RelayHarness, failover, listener, movable


@implementer(ILogObserver)
class Lines(list[str]):
    """The lines of our log, each with its level."""

    def __call__(self, event: LogEvent) -> None:
        if event.get("log_namespace") == "stomprelay":
            self.append(f"{event['log_level'].name}: {formatEvent(event)}")


@pytest.fixture
def log() -> Iterator[Lines]:
    """What is logged during the test."""
    lines = Lines()
    globalLogPublisher.addObserver(lines)
    yield lines
    globalLogPublisher.removeObserver(lines)


@pytest.fixture
def pair() -> RelayHarness:
    """A listener in front of two brokers."""
    return RelayHarness(listener(upstream=movable(failover(1, 2))))
