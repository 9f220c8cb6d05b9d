"""Heart-beats of the two sides of a session, each agreed and kept on its own."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.raw import GOODBYE, Connection, ScriptedBroker, headers
from tests.e2e.relay import served
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e

INTERVAL = 200
"""Milliseconds of every beat that these tests agree on."""


@dataclass(frozen=True)
class Beating:
    """A relay with short beats on both sides, in front of a broker that the test plays."""

    port: int
    broker: ScriptedBroker

    def session(self, client_beats: bytes, broker_beats: bytes) -> tuple[Connection, Connection]:
        """Open a session; both ends say these `heart-beat` values, empty for no header."""
        client = Connection.to(self.port)
        client.write(b"CONNECT\naccept-version:1.2\nhost:/\n%b\n\0" % _header(client_beats))
        broker = self.broker.accept()
        asked = broker.frame()
        assert headers(asked)[b"heart-beat"] == b"%d,%d" % (INTERVAL, INTERVAL)
        broker.write(b"CONNECTED\nversion:1.2\n%b\n\0" % _header(broker_beats))
        connected = client.frame()
        assert connected.startswith(b"CONNECTED\n")
        return client, broker


def _header(beats: bytes) -> bytes:
    return b"heart-beat:%b\n" % beats if beats else b""


@pytest.fixture(scope="module")
def beating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beating]:
    """Run the relay."""
    beats = f"heart_beat = [{INTERVAL}, {INTERVAL}]"
    directory = tmp_path_factory.mktemp("heartbeats")
    with ScriptedBroker() as broker, served(directory, f'uri = "{broker.uri}"\n{beats}', beats) as running:
        yield Beating(running.port, broker)


def test_a_silent_client_is_given_up(beating: Beating) -> None:
    """It gets an ERROR and the end; its broker connection ends too."""
    client, broker = beating.session(b"%d,0" % INTERVAL, b"")
    with client, broker:
        assert client.frame().startswith(b"ERROR\n")
        assert client.rest().strip() == b""
        assert broker.rest().strip(b"\n") == GOODBYE


@pytest.mark.ci
@pytest.mark.broker
@pytest.mark.parametrize("broker", ["rabbitmq", pytest.param("activemq", marks=pytest.mark.long)])
def test_idle_sessions_on_a_real_broker(broker: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Nobody says anything but beats for several intervals, and nobody is given up."""
    upstream = f'uri = "{request.getfixturevalue(broker).uri}"\nheart_beat = [500, 500]'
    with served(tmp_path, upstream) as running, ExitStack() as stack:
        idle = [stack.enter_context(Talker.at(running.port)) for _ in range(100)]
        with Talker.at(running.port, beats="0,1000") as clock:
            for _ in range(6):  # at least 500 ms each: RabbitMQ's own interval is no shorter than 1000 ms
                assert clock.socket.recv(1) == b"\n"
        assert running.admin.counted("beats_missed") == 0
        for client in idle:
            client.leave()
