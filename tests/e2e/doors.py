"""A relay's WebSockets, and who comes by them: a client in plain bytes, and a browser's page with `@stomp/stompjs`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e import stompjs
from tests.e2e.ports import free_port
from tests.e2e.raw import Connection, ScriptedBroker, headers
from tests.e2e.relay import Relay, relay

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
TALK = "([name, url]) => { window.told = []; window.end = talks[name](StompJs.Client, url, (w) => told.push(w)); }"
"""Begins a talk in a page: its words are in `told`, what it saw is in `end`."""


@contextmanager
def doors(
    directory: Path, uri: str = "memory:", web: str = "", more: str = ""
) -> Iterator[tuple[Relay, int]]:
    """A relay with WebSocket on a port, which comes with it."""
    port = free_port()
    config = (
        f'[listener.web]\nendpoint = "tcp:{port}:interface=127.0.0.1"\n[listener.web.web]\n{web}\n{more}\n'
        f'[upstream.main]\nuri = "{uri}"\n'
    )
    with relay(directory, config, [port]) as running:
        yield running, port


def said(frame: bytes) -> bytes:
    """A client's message with this frame, whose mask changes nothing."""
    return b"\x82%c\x00\x00\x00\x00%b" % (0x80 | len(frame), frame)


def shaken(port: int, path: bytes, more: bytes = b"") -> tuple[Connection, bytes]:
    """A connection that asked for a WebSocket at this path, and the answer that it got."""
    client = Connection.to(port)
    client.write(HANDSHAKE.replace(b" /ws ", b" %b " % path)[:-2] + more + b"\r\n")
    return client, client.until(b"\r\n\r\n")


def message(body: bytes) -> bytes:
    """What a broker delivers."""
    return b"MESSAGE\nsubscription:1\nmessage-id:%b\ndestination:/queue/a\n\n%b\0" % (body, body)


def played(one: ScriptedBroker, other: ScriptedBroker) -> None:
    """A session that has begun loses one broker and goes on with the other one."""
    with one.accept() as broker:
        broker.connected()
        assert broker.frame().startswith(b"SUBSCRIBE\n")
        broker.write(message(b"before"))
    with other.accept() as broker:
        broker.connected()
        assert broker.frame().startswith(b"SUBSCRIBE\n")
        broker.write(message(b"behind") + message(b"end"))
        disconnect = broker.frame()
        assert disconnect.startswith(b"DISCONNECT\n")
        if b"receipt" in headers(disconnect):
            broker.write(b"RECEIPT\nreceipt-id:%b\n\n\0" % headers(disconnect)[b"receipt"])


def library() -> str:
    """A web page that has the library and the talks."""
    talks = stompjs.SCRIPT.read_text(encoding="utf-8")
    return f"<!doctype html><title>t</title><script>{stompjs.bundle()}</script><script>{talks}</script>"
