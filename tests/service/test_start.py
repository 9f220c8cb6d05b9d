"""A start that fails: one line says which endpoint, where and why, and nothing runs on without it."""

import gc
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.protocol import Factory
from twisted.logger import LogLevel, capturedLogs, formatEvent

from stomprelay.config import Config
from stomprelay.config.address import broker
from stomprelay.relay.model.group import alone
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.network.endpoints import listening_service
from stomprelay.service.relay import RelayService
from tests.service.sockets import reactor

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture(autouse=True)
def _sockets_that_could_not_be_bound() -> Iterator[None]:
    """Twisted leaves them to the garbage collector; no other test shall hear of them."""
    yield
    gc.collect()


def start(name: str, description: str) -> str:
    """The line that is logged when the start ends."""
    with capturedLogs() as logs, pytest.raises(SystemExit) as caught:
        listening_service(reactor, name, description, Factory()).startService()
    (event,) = (event for event in logs if event["log_level"] is LogLevel.critical)
    assert caught.value.code == 1
    return formatEvent(event)


@pytest.mark.parametrize("interface", ["203.0.113.7", "256.1.1.1"])
def test_an_interface_that_is_not_ours(interface: str) -> None:
    """An address of another machine, or of none."""
    place = f"tcp:0:interface={interface}"
    text = start("public", place)
    assert text.startswith(f"public: cannot listen on {place}: ")
    assert "Errno" not in text


def test_a_local_socket_that_is_taken(tmp_path: Path) -> None:
    """Something else is at the path."""
    place = f"unix:{tmp_path / 'door'}"
    (tmp_path / "door").touch()
    assert start("local", place) == f"local: cannot listen on {place}: Address already in use"


def test_a_local_socket_in_no_directory(tmp_path: Path) -> None:
    """A directory that a package or `RuntimeDirectory=` should have made is not there."""
    place = f"unix:{tmp_path / 'absent' / 'door'}"
    assert start("local", place) == f"local: cannot listen on {place}: No such file or directory"


def test_a_relay_without_one_of_its_listeners() -> None:
    """Better no relay than one that some clients cannot reach."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"tcp:{taken.getsockname()[1]}:interface=127.0.0.1"
        upstream = Upstream("main", alone(broker("tcp://127.0.0.1:61613")))
        service = RelayService(Config((Listener("public", place, upstream),)), reactor)
        with capturedLogs() as logs, pytest.raises(SystemExit):
            service.privilegedStartService()
        assert any(formatEvent(event).startswith("public: cannot listen on") for event in logs)
