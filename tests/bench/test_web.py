"""STOMP over WebSocket: the load's client frame by frame, the rows through the relay, and what is said of them."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Event, Ping, Request, TextMessage

from bench.contenders import PLAIN, ROUTES, relay
from bench.load import RABBITMQ, Load, loaded
from bench.machine import which
from bench.web import ROWS, embedded

compiler = pytest.mark.skipif(
    which("cc", "gcc", "clang") is None, reason="needs a compiler (Debian package gcc)"
)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """The load compiled, its null broker running."""
    with loaded(tmp_path_factory.mktemp("load")) as running:
        yield running


class Server:
    """A WebSocket's server, which the load's client connects to."""

    def __init__(self, listener: socket.socket) -> None:
        self._socket, _ = listener.accept()
        self._socket.settimeout(10)
        self._protocol = WSConnection(ConnectionType.SERVER)
        self._events: list[Event] = []

    def hears(self) -> Event:
        """The next thing that the client says."""
        while not self._events:
            self._protocol.receive_data(self._socket.recv(65536))
            self._events = list(self._protocol.events())
        return self._events.pop(0)

    def says(self, event: Event) -> None:
        """Say this."""
        self._socket.sendall(self._protocol.send(event))

    def close(self) -> None:
        """End the connection."""
        self._socket.close()


@compiler
def test_each_frame_is_a_message(load: Load) -> None:
    """The client asks for the subprotocols, says each frame as one masked text, and reads past pings; a broker that is
    not the load's own is asked for a receipt at the end.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        options = ("-c", "1", "-n", "3", "-b", "200", "-W", "/ws", "-l", "guest")
        client = stack.enter_context(load.client("sink", listener.getsockname()[1], *options))
        server = Server(listener)
        stack.callback(server.close)
        asked = server.hears()
        assert isinstance(asked, Request)
        assert (asked.target, asked.subprotocols) == ("/ws", ["v12.stomp", "v11.stomp", "v10.stomp"])
        server.says(AcceptConnection(subprotocol="v12.stomp"))
        connect = server.hears()
        assert isinstance(connect, TextMessage)
        assert connect.data == "CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"
        server.says(Ping(b"there?"))
        server.says(TextMessage("CONNECTED\nversion:1.2\n\n\0"))
        assert client.hear() == "ready"
        client.tell("go")
        sends = [server.hears() for _ in range(4)]
        said = [one.data for one in sends if isinstance(one, TextMessage) and one.message_finished]
        assert all(one.startswith("SEND\ndestination:/topic/bench\n") and one.endswith("\0") for one in said)
        assert ["seq:" in one for one in said] == [True, True, True, False]
        assert "\nreceipt:counted\n" in said[3]
        server.says(TextMessage("RECEIPT\nreceipt-id:counted\n\n\0\n"))
        assert load.answer(client)["messages"] == 3


@pytest.mark.e2e
@compiler
def test_every_row_passes_the_relay(load: Load, tmp_path: Path) -> None:
    """Each row's load arrives over WebSocket as it was sent."""
    route = ROUTES[PLAIN].format(broker=f"127.0.0.1:{load.ports[RABBITMQ]}")
    with relay({PLAIN: route}, tmp_path, listener="web = true\n") as ours:
        for case in ROWS.values():
            entry = ours.entry(case)
            least = case.connections or 8
            assert load.run(entry.case, entry.port, 4 * least, entry.pids).messages >= 4 * least


@pytest.mark.e2e
@compiler
def test_every_row_passes_the_embedded_broker(load: Load, tmp_path: Path) -> None:
    """Each but those that the null broker alone can do, counted by the receipt behind the last."""
    with embedded(tmp_path) as ours:
        for case in ROWS.values():
            if case.mode != "source":
                entry = ours.entry(replace(case, login="guest"))
                least = case.connections or 8
                assert load.run(entry.case, entry.port, 4 * least, entry.pids).messages >= 4 * least
