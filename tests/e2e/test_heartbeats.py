"""Heart-beats with real brokers."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.relay import served
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e


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
