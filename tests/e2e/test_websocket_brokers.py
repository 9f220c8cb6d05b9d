"""Brokers over WebSocket as they are: RabbitMQ's web-stomp, and another relay, which may be found by TLS."""

import signal
from pathlib import Path

import pytest

from tests.e2e import brokers
from tests.e2e.certificates import Authority
from tests.e2e.ports import free_port
from tests.e2e.raw import Connection, body, headers
from tests.e2e.relay import relay
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e

BODY = bytes(range(256)) * 20_000
"""5 MB that are no UTF-8, with every byte in it."""


def config(port: int, uri: str, more: str = "") -> str:
    """A relay on this port to a broker."""
    return (
        f'[listener.public]\nendpoint = "tcp:{port}:interface=127.0.0.1"\n'
        f'[upstream.main]\nuri = "{uri}"\nlogin = "guest"\npasscode = "guest"\n{more}'
    )


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
    port = free_port()
    uri = f"failover:(ws://127.0.0.1:{rabbitmq.web_port}/ws)"
    with relay(tmp_path, config(port, uri, "health.probe = 0.1\n"), [port]):
        sent_and_received(port, "grüße".encode() * 1000, b"websocket")


@pytest.mark.broker
def test_rabbitmq_elsewhere(tmp_path: Path, rabbitmq: brokers.RabbitMQ) -> None:
    """Its answer for another path is told in the log, and the client has an ERROR."""
    port = free_port()
    uri = f"ws://127.0.0.1:{rabbitmq.web_port}/elsewhere"
    with relay(tmp_path, config(port, uri), [port]) as running:
        with Connection.to(port) as client:
            assert client.connect().startswith(b"ERROR\n")
        running.wait_for_log("did not connect: HTTP 404 Not Found")


@pytest.mark.ci
@pytest.mark.parametrize("tls", [False, True])
def test_a_relay_behind_a_relay(tmp_path: Path, authority: Authority, tls: bool) -> None:
    """Over WebSocket from one to the other, be it with TLS and its verified name."""
    front, back = free_port(), free_port()
    behind, before = tmp_path / "behind", tmp_path / "before"
    behind.mkdir()
    before.mkdir()
    own = authority.issue("behind")
    inner = f'[listener.web]\nendpoint = "tcp:{back}:interface=127.0.0.1"\nweb = true\n'
    outer = f"ws://127.0.0.1:{back}/ws"
    trust = ""
    if tls:
        inner += f'[listener.web.tls]\ncertificate = "{own.certificate}"\nkey = "{own.key}"\n'
        outer = f"wss://localhost:{back}/ws"
        trust = f'[upstream.main.tls]\nca = "{authority.file}"\n'
    with relay(behind, inner, [back]), relay(before, config(front, outer, trust), [front]):
        sent_and_received(front, BODY, b"a")


def test_another_address_at_a_reload(tmp_path: Path) -> None:
    """Sessions that run stay with the broker that they have; who comes then has the other one."""
    port, one, other = free_port(), free_port(), free_port()

    def text(web: int) -> str:
        doors = "".join(
            f'[listener.{name}]\nendpoint = "tcp:{at}:interface=127.0.0.1"\nweb = true\nupstream = "own"\n'
            for name, at in (("one", one), ("other", other))
        )
        public = config(port, f"ws://127.0.0.1:{web}/ws").replace("[upstream", 'upstream = "main"\n[upstream')
        return f'{public}{doors}[upstream.own]\nuri = "memory:"\n'

    with relay(tmp_path, text(one), [port, one, other]) as running, Talker.at(port) as stays:
        running.wait_for_log("on one: connected")
        stays.subscribe("/queue/stays", "1")
        (tmp_path / "stomprelay.toml").write_text(text(other))
        running.send(signal.SIGHUP)
        running.wait_for_log(r"the configuration is reloaded; changed: upstream\.main\.uri")
        with Talker.at(port) as later:
            running.wait_for_log("on other: connected")
            later.send("/queue/stays", b"hello")
            assert stays.bodies(1) == [b"hello"]
        assert len(running.log.split("on one: connected")) == 2
