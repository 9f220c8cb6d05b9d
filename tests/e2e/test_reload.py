"""A configuration that is read anew while clients work: none of them notices, whatever it says."""

import contextlib
from pathlib import Path

import pytest

from tests.e2e import brokers
from tests.e2e.crowd import Crowd
from tests.e2e.ports import free_port
from tests.e2e.raw import Connection
from tests.e2e.relay import listening, relay

pytestmark = pytest.mark.e2e

CLIENTS = 200
TIMES = 20


def door(name: str, port: int, more: str = "") -> str:
    """A listener."""
    return listening(port, name, f'upstream = "main"\n{more}')


def upstream(*ports: int, more: str = "") -> str:
    """Brokers in this order."""
    places = ",".join(f"tcp://127.0.0.1:{port}" for port in ports)
    return f'[upstream.main]\nuri = "failover:({places})?randomize=false"\n{more}\n'


@pytest.mark.ci
@pytest.mark.parametrize("workers", [1, 2])
def test_again_and_again_under_load(tmp_path: Path, queue: str, workers: int) -> None:
    """Limits, levels, listeners and brokers change, and change back; no client is refused, cut off or kept waiting."""
    first, second, third = free_port(), free_port(), free_port()
    with brokers.memory(tmp_path) as there:

        def text(number: int) -> str:
            level = "debug" if number % 2 else "info"
            extra = door("extra", third) if number % 2 else ""
            size = f"limits.body = {100000 + number}"
            more = f"connect_timeout = {5 + number}"
            head = f'workers = {workers}\nlog_level = "{level}"\n'
            doors = door("one", first, size) + door("two", second) + extra
            return head + doors + upstream(there.port, more=more)

        with (
            relay(tmp_path, text(0), [first, second]) as running,
            Crowd([first, second], CLIENTS, queue, echo=True) as crowd,
        ):
            crowd.goes_on()
            for number in range(1, TIMES + 1):
                line = running.reload(text(number))
                assert "changed: log_level" in line
                assert f"listener.extra {'added' if number % 2 else 'removed'}" in line
                with contextlib.closing(Connection.to(first)) as late:
                    assert late.connect().startswith(b"CONNECTED\n")
            crowd.goes_on()
        assert not crowd.failed
        assert crowd.sent > CLIENTS
        print(
            f"{workers} process(es), {TIMES} reloads: {crowd.sent} SENDs of {CLIENTS} clients, each came back"
        )
        assert "ERROR" not in running.log
