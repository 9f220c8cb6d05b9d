"""The load counts exactly: each run ends with both sides agreed on what passed."""

import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from bench.load import LARGE, SMALL, VERSIONS, Case, Load, LoadError


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "mode", ["sink", "source", "ack", "individual", "loop", "latency", "sessions", "polite"]
)
def test_direct(load: Load, mode: str, version: str) -> None:
    """Every mode in every version, straight to the null broker: as many messages as were asked for."""
    for escaped in (False, True):
        for piece in (LARGE, SMALL):
            case = Case(mode, 100, version, escaped, piece)
            run = load.run(case, load.ports[version], 400)
            assert run.messages == 400
            assert run.cpu == 0.0


def test_a_session_that_ends_is_no_figure(load: Load) -> None:
    """A broker that is killed takes a client with it that has no relay; that is an error."""
    with load.broker() as (broker, ports), load.client("echo", ports["1.2"], "-v", "1.2") as client:
        client.tell("open 2")
        load.answer(client)
        broker.send(signal.SIGKILL)
        client.tell(f"send {time.monotonic_ns()}")
        with pytest.raises(LoadError, match="closed"):
            load.answer(client)


def frames_through(target: int, tamper: Callable[[int, bytes], bytes]) -> socket.socket:
    """Listen, and pass one connection's frames on through `tamper`, which is told their number; answers pass as is."""
    listener = socket.create_server(("127.0.0.1", 0))

    def forward(
        source: socket.socket, sink: socket.socket, change: Callable[[int, bytes], bytes] | None
    ) -> None:
        rest, number = b"", 0
        try:
            while data := source.recv(65536):
                *frames, rest = (rest + data).split(b"\0")
                for frame in frames:
                    whole = frame + b"\0"
                    sink.sendall(change(number, whole) if change else whole)
                    number += 1
            sink.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other direction ended first

    def serve() -> None:
        client, _ = listener.accept()
        with client, socket.create_connection(("127.0.0.1", target)) as broker:
            back = threading.Thread(target=forward, args=(broker, client, None))
            back.start()
            forward(client, broker, tamper)
            back.join()

    threading.Thread(target=serve, daemon=True).start()
    return listener


@pytest.mark.parametrize(
    ("tamper", "complaint"),
    [
        (lambda number, frame: b"" if number == 120 else frame, "the broker had 119"),
        (lambda number, frame: frame * 2 if number == 100 else frame, "out of sequence"),
        (lambda number, frame: b"" if number == 10 else frame, "out of sequence"),
        (lambda _, frame: frame.replace(rb"\c", b"/"), "not escaped"),
    ],
)
def test_what_is_lost_or_damaged_is_found(
    load: Load, tamper: Callable[[int, bytes], bytes], complaint: str
) -> None:
    """A frame lost, doubled, out of order or spelled wrong between client and broker is an error, not a figure."""
    with closing(frames_through(load.ports["1.2"], tamper)) as listener:
        port = listener.getsockname()[1]
        # One connection: latency's, whose SENDs have a receipt each, would stop at the first loss.
        with load.client("sink", port, "-c", "1", "-n", "120", "-b", "100", "-e") as client:
            assert client.hear() == "ready"
            client.tell("go")
            with pytest.raises(LoadError, match=complaint):
                load.answer(client)
