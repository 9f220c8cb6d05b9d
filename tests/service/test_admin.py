"""Health, metrics and the status page."""

import re
from typing import Any

import pytest
from twisted.web.test.requesthelper import DummyChannel

from stomprelay.relay.tally import COUNTERS
from stomprelay.service.admin import site
from tests.service.house import CONNECT, SEND, House, listener


class Answer:
    """What the HTTP server answers to one request."""

    def __init__(self, house: House, path: str, method: str = "GET") -> None:
        channel = DummyChannel()
        channel.site = factory = site(house.service, house.reactor)
        request: Any = factory.requestFactory(channel)
        request.gotLength(0)
        request.requestReceived(method.encode(), path.encode(), b"HTTP/1.1")
        head, _, body = channel.transport.written.getvalue().partition(b"\r\n\r\n")
        self.status = int(head.split()[1])
        self.headers = {
            name.strip().lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head.decode().split("\r\n")[1:])
        }
        self.text = body.decode()


@pytest.fixture
def house() -> House:
    """Two listeners, one with a name that has to be quoted everywhere."""
    return House(listener(name="public"), listener(name='odd"\\<name>', endpoint="tcp:61614"))


def test_health(house: House) -> None:
    """ok while clients are accepted."""
    answer = Answer(house, "/healthz")
    assert (answer.status, answer.text) == (200, "ok\n")
    assert answer.headers["cache-control"] == "no-store"


def test_health_while_stopping(house: House) -> None:
    """A load balancer must send no more clients."""
    house.session()
    _ = house.service.stopService()
    answer = Answer(house, "/healthz")
    assert (answer.status, answer.text) == (503, "stopping\n")


LINE = re.compile(r"(?:# (?:HELP|TYPE) .+|stomprelay_\w+(?:\{\w+=\"(?:[^\"\\]|\\.)*\"\})? \d+)")


def test_metrics(house: House) -> None:
    """Every counter of every listener, in lines that Prometheus reads."""
    client, _broker = house.session()
    client.says(SEND)
    answer = Answer(house, "/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    for counter in COUNTERS:
        for name in ("public", r"odd\"\\<name>"):
            assert (
                sum(line.startswith(f'stomprelay_{counter}_total{{listener="{name}"}} ') for line in lines)
                == 1
            )
    assert 'stomprelay_sessions_connected_total{listener="public"} 1' in lines
    assert f'stomprelay_client_bytes_total{{listener="public"}} {len(CONNECT + SEND)}' in lines
    assert 'stomprelay_sessions{listener="public"} 1' in lines
    assert "stomprelay_connections 2" in lines


def test_the_status_page(house: House) -> None:
    """Listeners and sessions, with versions, the client's address and octets; all of it quoted for HTML."""
    client, _broker = house.session()
    client.says(SEND)
    house.client(1)
    answer = Answer(house, "/")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "<td>public</td><td>tcp:61613</td><td>tcp://192.0.2.1:61613</td>" in answer.text
    assert "<td>1.2 to 1.2</td>" in answer.text
    assert "<td>192.0.2.7:4711</td>" in answer.text
    assert f'<td class="number">{len(CONNECT + SEND)}</td>' in answer.text
    assert "<td>none yet</td>" in answer.text
    assert "Sessions: 2" in answer.text
    assert "<name>" not in answer.text
    assert "odd&quot;\\&lt;name&gt;" in answer.text


def test_secrets_are_not_shown(house: House) -> None:
    """Who knows the page knows no passcode and no login."""
    client = house.client()
    client.says(CONNECT.replace(b"\n\n", b"\nlogin:alice\npasscode:hush\n\n"))
    house.broker()
    for path in ("/", "/metrics"):
        text = Answer(house, path).text
        assert "hush" not in text
        assert "alice" not in text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/healthz/more", 404),
        ("GET", "/<script>", 404),
        ("POST", "/metrics", 405),
        ("HEAD", "/", 200),
    ],
)
def test_other_requests(house: House, method: str, path: str, status: int) -> None:
    """There is nothing else to see, and nothing to do."""
    answer = Answer(house, path, method)
    assert answer.status == status
    assert method != "HEAD" or (answer.text == "" and int(answer.headers["content-length"]) > 100)
    assert "script" not in answer.text
