"""The load counts exactly: each run ends with both sides agreed on what passed."""

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from bench.load import LARGE, SMALL, VERSIONS, Case, Load, LoadError, loaded
from bench.machine import which

pytestmark = pytest.mark.skipif(
    which("cc", "gcc", "clang") is None,
    reason="the load is written in C: needs a compiler (Debian package gcc)",
)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """The load compiled, its null broker running."""
    with loaded(tmp_path_factory.mktemp("load")) as running:
        yield running


def talk(port: int, *said: bytes, frames: int) -> list[bytes]:
    """Say all of this to a port, and answer the frames that come back, without what stands between them."""
    heard = b""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        peer.sendall(b"".join(said))
        while heard.count(b"\0") < frames:
            heard += peer.recv(65536)
    return [frame.lstrip(b"\n") for frame in heard.split(b"\0")[:frames]]


CONNECT = {
    "1.0": b"CONNECT\nlogin:a\n\n\0",
    "1.1": b"CONNECT\naccept-version:1.0,1.1\nhost:/\n\n\0",
    "1.2": b"CONNECT\naccept-version:1.1,1.2\nhost:/\n\n\0",
}
CONNECTED = {
    "1.0": b"CONNECTED\nsession:bench\n\n",
    "1.1": b"CONNECTED\nserver:null-broker/1\nsession:bench\nheart-beat:0,0\nversion:1.1\n\n",
    "1.2": b"CONNECTED\nserver:null-broker/1\nsession:bench\nheart-beat:0,0\nversion:1.2\n\n",
}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_broker_speaks_one_version_a_port(load: Load, version: str) -> None:
    """CONNECT is answered as the version is written, and SENDs are counted by number and octets."""
    name = b"" if version == "1.0" else b"id:0\n"
    send = b"SEND\ndestination:/queue/sink\nseq:%d\ncorrelation-id:c0ffee-%b\ncontent-length:3\n\na\0b\0\n"
    greeting, tally = talk(
        load.ports[version],
        CONNECT[version],
        send % (0, b"0"),
        send % (1, b"9e3779b"),
        b"SUBSCRIBE\n%bdestination:/queue/count\n\n\0" % name,
        frames=2,
    )
    assert greeting == CONNECTED[version]
    subscription = b"" if version == "1.0" else b"subscription:0\n"
    assert tally == (
        b"MESSAGE\n%bdestination:/queue/count\nmessage-id:tally\ncount:2\noctets:6\nacks:0\nsessions:1\n"
        b"bad:0\nreason:none\n\n" % subscription
    )


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"SEND\ndestination:/queue/sink\n\n\0", b"SEND without content-length"),
        (b"SEND\ndestination:/queue/other\ncontent-length:0\n\n\0", b"SEND to an unknown destination"),
        (b"SEND\ndestination:/queue/sink\nseq:1\ncontent-length:0\n\n\0", b"SEND out of sequence"),
        (
            b"SEND\ndestination:/queue/sink\nseq:0\ncorrelation-id:c0ffee-1\ncontent-length:0\n\n\0",
            b"SEND out of sequence",
        ),
        (
            b"SEND\ndestination:/queue/sink\nnote:12:30:00\ncontent-length:0\n\n\0",
            b"a value was not escaped as this version escapes",
        ),
        (b"ACK\nid:T_0@@session-bench@@1\n\n\0", b"ACK of something else than the oldest message"),
    ],
)
def test_the_broker_complains(load: Load, said: bytes, reason: bytes) -> None:
    """What is not as it was sent is told when the client asks for its tally."""
    tally = talk(
        load.ports["1.2"], CONNECT["1.2"], said, b"SUBSCRIBE\nid:9\ndestination:/queue/count\n\n\0", frames=2
    )[1]
    assert tally.endswith(b"\nbad:1\nreason:" + reason + b"\n\n")


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


def test_client_refuses_another_version(load: Load) -> None:
    """A broker that answers with a version that was not asked for is an error, not a figure."""
    with pytest.raises(LoadError, match=r"Supported protocol versions are 1\.2"):
        load.run(Case("sink", client="1.1"), load.ports["1.2"], 10)


def test_a_session_that_the_broker_never_had_is_found(load: Load) -> None:
    """Each of the sessions that come and go must have reached the broker."""

    def serve(listener: socket.socket) -> None:
        """The first connection is passed on; others are answered here."""
        first, _ = listener.accept()
        with first, socket.create_connection(("127.0.0.1", load.ports["1.2"])) as broker:

            def forward(source: socket.socket, sink: socket.socket) -> None:
                with suppress(OSError):
                    while data := source.recv(65536):
                        sink.sendall(data)

            for pair in ((first, broker), (broker, first)):
                threading.Thread(target=forward, args=pair, daemon=True).start()
            with suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer:
                        peer.recv(65536)
                        peer.sendall(CONNECTED["1.2"] + b"\0")
                        peer.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        with pytest.raises(LoadError, match="there were 5 sessions, the broker had 0"):
            load.run(Case("sessions"), listener.getsockname()[1], 5)


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
    load: Load,
    tamper: Callable[[int, bytes], bytes],
    complaint: str,
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
