"""`twistd stompbroker`: its options, and what they make."""

from typing import Any

import pytest
from twisted.internet.testing import MemoryReactorClock

from stomprelay import broker_tap
from stomprelay.service.embedded import BrokerService


def parsed(*arguments: str) -> broker_tap.Options:
    """The options, as `twistd` reads them."""
    options = broker_tap.Options()
    options.parseOptions(arguments)
    return options


def ports(*arguments: str) -> list[tuple[int, str]]:
    """Port and interface of each endpoint."""
    reactor: Any = MemoryReactorClock()
    service = broker_tap.makeService(parsed(*arguments), reactor)
    assert isinstance(service, BrokerService)
    service.privilegedStartService()
    return [(port, interface) for port, _, _, interface in reactor.tcpServers]


def test_listen() -> None:
    """As often as one likes; one that cannot be ends the process with the reason, and no traceback."""
    assert ports("-l", "tcp:1", "--listen", "tcp:2:interface=127.0.0.1") == [(1, ""), (2, "127.0.0.1")]
    with pytest.raises(SystemExit, match=r"^stompbroker: endpoint 'nonsense:1'"):
        broker_tap.makeService(parsed("-l", "nonsense:1"), MemoryReactorClock())


def test_the_reactor_is_the_global_one() -> None:
    """Unless another is passed in."""
    from twisted.internet import reactor

    service = broker_tap.makeService(parsed())
    assert isinstance(service, BrokerService)
    assert service.runtime.reactor is reactor
