"""A small HTTP server that stands in for the admin endpoint of a running relay."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import UnixStreamServer
from typing import Any

from stomprelay.remote.client import BrokerStatus

A = BrokerStatus("tcp://a:1", "main", "main", "up", 3, 0)
B = BrokerStatus("ssl://b", "main", "main", "down", 0, 0)


def told(*brokers: BrokerStatus) -> bytes:
    """What a relay answers."""
    return json.dumps({"brokers": [each._asdict() for each in brokers]}).encode()


def connected(number: int, **more: Any) -> dict[str, Any]:
    """A session, as a relay tells of it."""
    row = {
        "session": f"relay-0-{number}", "listener": "public", "login": "me", "client": "192.0.2.7:4711",
        "version": "1.2", "brokers": ["tcp://a:1"], "broker_versions": ["1.1"], "age": 3725.5, "idle": 59.9,
        "destinations": ["/queue/a", "/queue/b"], "more_destinations": 0, "unconfirmed": 1,
        "unacknowledged": 2, "client_frames": 3, "broker_frames": 4, "client_bytes": 500, "broker_bytes": 6000,
        "to_client_bytes": 6100, "to_broker_bytes": 510, "sent_to": ["/queue/a"],
        "limited": None,
    }  # fmt: skip
    return {**row, **more}


def listed(*rows: dict[str, Any], following: str | None = None, missing: tuple[str, ...] = ()) -> bytes:
    """What a relay answers to who asks for sessions."""
    found = {"sessions": rows, "total": 9, "matching": 9, "next": following, "missing": missing}
    return json.dumps(found).encode()


@dataclass
class Relay:
    """What was asked, and what is answered: to each path its answers one after the other, the last for ever."""

    asked: list[tuple[str, str, Any, str | None]] = field(default_factory=list)
    said: list[str | None] = field(default_factory=list)
    """The `Authorization` of each request."""
    answers: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    port: int = 0

    @property
    def place(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str, *answers: bytes | tuple[int, bytes]) -> None:
        self.answers[path] = [each if isinstance(each, tuple) else (200, each) for each in answers]


class Pages(BaseHTTPRequestHandler):
    """HTTP/1.0, one request on a connection."""

    relay: Relay

    def do_GET(self) -> None:
        length = int(self.headers.get("content-length", "0"))
        said = json.loads(self.rfile.read(length)) if length else None
        self.relay.asked.append((self.command, self.path, said, self.headers.get("content-type")))
        self.relay.said.append(self.headers.get("authorization"))
        answers = self.relay.answers.get(self.path, [(404, b"not found\n")])
        status, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815

    def address_string(self) -> str:
        return "a client"

    def log_message(self, *_: object) -> None:
        pass


class UnixServer(UnixStreamServer):
    """The same on a UNIX socket."""


def pages(relay: Relay) -> type[Pages]:
    """What serves this relay's answers."""
    return type("OwnPages", (Pages,), {"relay": relay})


@contextmanager
def serving(server: HTTPServer | UnixServer) -> Iterator[None]:
    """Serve from a thread until the test is over."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving_relay() -> Iterator[Relay]:
    """A relay with two brokers, on a free port."""
    relay = Relay()
    relay.answer("/brokers", told(A, B))
    server = HTTPServer(("127.0.0.1", 0), pages(relay))
    relay.port = server.server_address[1]
    with serving(server):
        yield relay
