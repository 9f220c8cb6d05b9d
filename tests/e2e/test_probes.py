"""A relay as its surroundings see it: probed without a token, given orders with one, by its own command."""

import json
import signal
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.config.reference import put_secrets
from tests.e2e.child import PATIENCE
from tests.e2e.ports import free_port
from tests.e2e.raw import CONNECT, Connection
from tests.e2e.relay import Admin, relay, served, stomprelay, twistd

pytestmark = pytest.mark.e2e

SEND = b"SEND\ndestination:/queue/a\nreceipt:1\n\n\0"
NO_BROKER = {"ready": False, "reasons": ["listener main: no broker of upstream main is up"]}
DRAINING = {"ready": False, "reasons": ["draining: the relay stops"]}


def ready(place: Admin) -> tuple[int, object]:
    """Whether clients may come, and why not."""
    status, text = place.ask("/readyz")
    return status, json.loads(text)


def test_from_the_start_to_the_end(tmp_path: Path) -> None:
    """Not ready before its broker is there, nor when it stops; an operator with the token may help it to its end."""
    port, behind = free_port(), free_port()
    admin, metrics = Admin(free_port()), Admin(free_port())
    put_secrets(tmp_path)
    config = f"""
admin = "tcp:{admin.port}"
admin_token_file = "admin.token"
metrics = "tcp:{metrics.port}"
[listener.main]
endpoint = "tcp:{port}:interface=127.0.0.1"
[upstream.main]
uri = "failover:(tcp://127.0.0.1:{behind})"
[upstream.main.health]
pause = 0.1
longest_pause = 0.2
"""
    file = str(tmp_path / "stomprelay.toml")
    with relay(tmp_path, config, [port, admin.port, metrics.port]) as running:
        for door in (admin, metrics):
            assert ready(door) == (503, NO_BROKER)
            assert door.ask("/livez") == (200, '{"live": true}\n')
        with twistd(tmp_path, ["stompbroker", "-l", f"tcp:{behind}:interface=127.0.0.1"], [behind]):
            running.wait_until(lambda: ready(metrics) == (200, {"ready": True}))
            assert ready(admin) == (200, {"ready": True})
            assert admin.ask("/metrics")[0] == admin.ask("/")[0] == 401
            assert "stomprelay_build_info" in metrics.get("/metrics")
            assert metrics.ask("/brokers")[0] == metrics.ask("/")[0] == 404
            assert stomprelay("brokers", "--admin", f"tcp:{admin.port}").stderr == (
                f"stomprelay: the relay at tcp:{admin.port} wants its token: name the file with --token-file\n"
            )
            with Connection.to(port) as client:
                client.write(CONNECT)
                client.frame()
                done = stomprelay("pause", "*", "-c", file)
                assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "*: paused, no sessions left")
                assert ready(metrics) == (503, NO_BROKER)
                client.write(SEND)
                counted = f'client_bytes_total{{listener="main"}} {len(CONNECT + SEND)}.0\n'
                running.wait_until(lambda: counted in metrics.get("/metrics"))
                running.send(signal.SIGTERM)
                running.wait_until(lambda: ready(metrics) == (503, DRAINING))
                assert metrics.ask("/livez")[0] == 200
                token = ("--admin", admin.url, "--token-file", str(tmp_path / "admin.token"))
                assert stomprelay("resume", "*", *token).returncode == 0
                assert client.frame() == b"RECEIPT\nreceipt-id:1\n\n\0"
        assert "whoever is on the way can read the token" in running.log
        assert "0123456789abcdef" not in running.log


@pytest.mark.ci
@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_many_scrapes(tmp_path: Path, count: int) -> None:
    """They leave nothing behind but what the first few did."""
    metrics = free_port()
    page = f'metrics = "tcp:{metrics}:interface=127.0.0.1"'
    with served(tmp_path, more=page, ports=[metrics]) as running:
        scrapes(metrics, 100)
        before = running.memory()
        scrapes(metrics, count)
        assert running.memory() < before + 4 * 2**20
        assert Admin(metrics).ask("/livez")[0] == 200


def scrapes(port: int, count: int) -> None:
    """Ask for the page so many times, now in one form, now in the other, a hundred times on a connection."""
    forms = ("text/plain", "application/openmetrics-text")
    for _ in range(count // 100):
        asking = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        for number in range(100):
            form = forms[number % 2]
            asking.request("GET", "/metrics", headers={"Accept": form})
            answer = asking.getresponse()
            assert (answer.status, str(answer.headers["content-type"]).partition(";")[0]) == (200, form)
            assert answer.read().count(b"# TYPE stomprelay_") > 50
        asking.close()
