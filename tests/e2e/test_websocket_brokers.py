"""Brokers over WebSocket as they are: RabbitMQ's web-stomp, and another relay, which may be found by TLS."""

from pathlib import Path

import pytest

from tests.e2e import brokers
from tests.e2e.certificates import Authority
from tests.e2e.ports import free_port
from tests.e2e.raw import Connection, body, headers
from tests.e2e.relay import listening, served
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e

BODY = bytes(range(256)) * 20_000
"""5 MB that are no UTF-8, with every byte in it."""


def upstream(uri: str, more: str = "") -> str:
    """A broker that the relay logs in to."""
    return f'uri = "{uri}"\nlogin = "guest"\npasscode = "guest"\n{more}'


def sent_and_received(port: int, content: bytes, queue: bytes) -> None:
    """A client sends, subscribes, gets its message, acknowledges it and goes, all of it confirmed."""
    with Connection.to(port) as client:
        assert client.connect().startswith(b"CONNECTED\n")
        client.write(
            b"SEND\ndestination:/queue/%b\ncontent-length:%d\nreceipt:1\n\n%b\0"
            % (queue, len(content), content)
            + b"SUBSCRIBE\nid:1\ndestination:/queue/%b\nack:client\n\n\0" % queue
        )
        assert client.frame().startswith(b"RECEIPT\n")
        message = client.frame()
        assert body(message) == content
        client.write(b"ACK\nid:%b\n\n\0DISCONNECT\nreceipt:2\n\n\0" % headers(message)[b"ack"])
        assert client.frame().startswith(b"RECEIPT\n")


@pytest.mark.broker
def test_rabbitmq(tmp_path: Path, rabbitmq: brokers.RabbitMQ) -> None:
    """Its web-stomp plug-in takes our text and binary; it sends text itself."""
    uri = f"failover:(ws://127.0.0.1:{rabbitmq.web_port}/ws)"
    with served(tmp_path, upstream(uri, "health.probe = 0.1")) as running:
        sent_and_received(running.port, "grüße".encode() * 1000, b"websocket")


@pytest.mark.broker
def test_rabbitmq_elsewhere(tmp_path: Path, rabbitmq: brokers.RabbitMQ) -> None:
    """Its answer for another path is told in the log, and the client has an ERROR."""
    with served(tmp_path, upstream(f"ws://127.0.0.1:{rabbitmq.web_port}/elsewhere")) as running:
        with Connection.to(running.port) as client:
            assert client.connect().startswith(b"ERROR\n")
        running.wait_for_log("did not connect: HTTP 404 Not Found")


@pytest.mark.ci
@pytest.mark.parametrize("tls", [False, True])
def test_a_relay_behind_a_relay(tmp_path: Path, authority: Authority, tls: bool) -> None:
    """Over WebSocket from one to the other, be it with TLS and its verified name."""
    behind, before = tmp_path / "behind", tmp_path / "before"
    behind.mkdir()
    before.mkdir()
    shown = f"[listener.main.tls]\n{authority.issue('behind').lines}"
    trust = f'[upstream.main.tls]\nca = "{authority.file}"'
    with served(behind, listener=f"web = true\n{shown if tls else ''}") as back:
        outer = f"{'wss' if tls else 'ws'}://localhost:{back.port}/ws"
        with served(before, upstream(outer, trust if tls else "")) as front:
            sent_and_received(front.port, BODY, b"a")


def test_another_address_at_a_reload(tmp_path: Path) -> None:
    """Sessions that run stay with the broker that they have; who comes then has the other one."""
    one, other = free_port(), free_port()
    web = 'web = true\nupstream = "own"'
    own = f'{listening(one, "one", web)}{listening(other, "other", web)}[upstream.own]\nuri = "memory:"'
    before = upstream(f"ws://127.0.0.1:{one}/ws")
    with served(tmp_path, before, own, ports=[one, other]) as running, Talker.at(running.port) as stays:
        running.wait_for_log("on one: connected")
        stays.subscribe("/queue/stays", "1")
        line = running.reload(running.file.read_text().replace(f"{one}/ws", f"{other}/ws"))
        assert "the configuration is reloaded; changed: upstream.main.uri" in line
        with Talker.at(running.port) as later:
            running.wait_for_log("on other: connected")
            later.send("/queue/stays", b"hello")
            assert stays.bodies(1) == [b"hello"]
        assert len(running.log.split("on one: connected")) == 2
