"""The load counts exactly: each run ends with both sides agreed on what passed."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from bench.load import ACTIVEMQ, BROKERS, LARGE, RABBITMQ, SMALL, VERSIONS, Case, Load, LoadError, loaded
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


def test_the_broker_refuses_another_version(load: Load) -> None:
    """Who does not accept the port's version gets an ERROR and the end."""
    (error,) = talk(load.ports["1.2"], CONNECT["1.1"], frames=1)
    assert error == b"ERROR\nversion:1.2\nmessage:Supported protocol versions are 1.2\n\n"


def test_the_broker_answers_each_receipt(load: Load) -> None:
    """A SEND that asks for a receipt is counted and has its RECEIPT, as under confirmed sending."""
    send = b"SEND\nreceipt:%b\ndestination:/queue/sink\ncontent-length:1\n\nx\0"
    heard = talk(load.ports[RABBITMQ], CONNECT["1.2"], send % b"c-9", send % b"c-10", frames=3)
    assert heard[1:] == [b"RECEIPT\nreceipt-id:c-9\n\n", b"RECEIPT\nreceipt-id:c-10\n\n"]


@pytest.mark.parametrize(
    ("version", "flags", "subscribe", "first"),
    [
        ("1.0", b"e", b"destination:%b\nack:client", b"message-id:ID:bench-1:0\nredelivered:false\ncontent"),
        (
            "1.1",
            b"-",
            b"id:7\ndestination:%b",
            b"message-id:T_0@@session-bench@@0\nredelivered:false\ncontent",
        ),
        (
            "1.2",
            b"e",
            b"id:7\ndestination:%b\nack:client-individual",
            b"message-id:ID\\cbench-1\\c0\nredelivered:false\nack:ID\\cbench-1\\c0\ncontent",
        ),
    ],
)
def test_the_broker_streams_what_is_asked_for(
    load: Load, version: str, flags: bytes, subscribe: bytes, first: bytes
) -> None:
    """So many MESSAGEs, as the version writes ids; heads differ in octets and length, the frames' size stays."""
    place = b"/queue/source/12/200/1/" + flags
    said = b"SUBSCRIBE\n" + subscribe % place + b"\n\n\0"
    frames = talk(load.ports[version], CONNECT[version], said, frames=13)[1:]
    named = b"" if version == "1.0" else b"subscription:7\n"
    assert frames[0].startswith(
        b"MESSAGE\n%bdestination:%b\n%b-type:text/plain\nseq:0\ncorrelation-id:c0ffee-0\n"
        % (named, place, first)
    )
    assert b"\nseq:11\ncorrelation-id:c0ffee-" in frames[11]
    heads = [frame.partition(b"\n\n")[0] for frame in frames]
    assert len(set(heads)) == 12
    assert len(set(map(len, heads))) > 3
    assert {len(frame) for frame in frames} == {len(frames[0])}
    for frame in frames:
        head, _, body = frame.partition(b"\n\n")
        assert head.endswith(b"\ncontent-length:%d" % len(body))
        assert len(body) >= 200
        assert body.strip(b"x") == b""


def test_the_broker_waits_for_acks(load: Load) -> None:
    """256 MESSAGEs may wait for their ACK; each ACK lets one more go."""
    with socket.create_connection(("127.0.0.1", load.ports["1.2"]), timeout=10) as peer:
        heard = b""

        def hear(count: int) -> None:
            nonlocal heard
            while heard.count(b"\0") < count:
                heard += peer.recv(65536)

        peer.sendall(CONNECT["1.2"])
        peer.sendall(b"SUBSCRIBE\nid:0\ndestination:/queue/source/300/100/65536/-\nack:client\n\n\0")
        hear(1 + 256)
        peer.sendall(b"ACK\nid:T_0@@session-bench@@0\n\n\0" + b"ACK\nid:T_0@@session-bench@@1\n\n\0")
        hear(1 + 258)
        peer.sendall(b"SUBSCRIBE\nid:1\ndestination:/queue/count\n\n\0")
        hear(1 + 259)
    tally = heard.split(b"\0")[259]
    assert b"\nacks:2\nsessions:" in tally
    assert b"\nbad:0\n" in tally
    assert b"\nseq:257\n" in heard.split(b"\0")[258]


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


def said_by_client(
    load: Load, mode: str, *options: str, script: list[tuple[bytes, bytes]], last: bytes
) -> bytes:
    """What the client says to a broker that gives each answer of a script when it has heard what stands before it.

    It ends when `last` was heard.
    """
    heard = b""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        client = stack.enter_context(load.client(mode, listener.getsockname()[1], *options))
        peer = stack.enter_context(listener.accept()[0])
        for number, (until, answer) in enumerate([*script, (last, b"")]):
            while until not in heard:
                heard += peer.recv(65536)
            peer.sendall(answer)
            if number == 0:
                assert client.hear() == "ready"
                client.tell("go")
    return heard


def test_no_two_sends_are_alike(load: Load) -> None:
    """The client's SENDs as they stand on the wire: numbers and codes of varying width in the middle of the heads."""
    options = ["-v", "1.1", "-n", "130", "-b", "100", "-e"]
    greeting = (b"\n\n\0", CONNECTED["1.1"] + b"\0")
    heard = said_by_client(load, "sink", *options, script=[greeting], last=b"/queue/count")
    assert heard.startswith(b"CONNECT\naccept-version:1.1\nhost:/\nlogin:bench\npasscode:bench\n\n\0")
    sends = heard.split(b"\0")[1:131]
    assert sends[0] == (
        b"SEND\ndestination:/queue/sink\ncontent-type:text/plain\nseq:0\ncorrelation-id:c0ffee-0\npriority:4\n"
        b"note:12\\c30\\c00\ncontent-length:114\n\n" + b"x" * 114
    )
    assert sends[129].startswith(
        b"SEND\ndestination:/queue/sink\ncontent-type:text/plain\nseq:129\ncorrelation-id:c0ffee-b9f4523\n"
    )
    assert len({send.partition(b"\n\n")[0] for send in sends}) == 130
    assert len({len(send.partition(b"\n\n")[0]) for send in sends}) > 8


def test_each_message_has_its_ack(load: Load) -> None:
    """In the rows with ACKs the client names each MESSAGE by what its broker calls it, one at a time."""
    message = (
        b"MESSAGE\nsubscription:0\ndestination:/q\nmessage-id:T_0@@session-bench@@%d\nack:%b\nseq:%d\n"
        b"correlation-id:c0ffee-%b\ncontent-length:100\n\n" + b"x" * 100 + b"\0\n"
    )
    script = [
        (b"\n\n\0", CONNECTED["1.2"] + b"\0"),
        (b"SUBSCRIBE", message % (0, b"a-17", 0, b"0") + message % (1, b"b", 1, b"9e3779b")),
    ]
    options = ["-n", "2", "-b", "100", "-a", "client-individual"]
    heard = said_by_client(load, "source", *options, script=script, last=b"/queue/count")
    assert heard.split(b"\0")[1] == (
        b"SUBSCRIBE\nid:0\ndestination:/queue/source/2/100/1/-\nack:client-individual\n\n"
    )
    assert heard.split(b"\0")[2:4] == [b"ACK\nid:a-17\n\n", b"ACK\nid:b\n\n"]


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


@pytest.mark.parametrize("mode", ["sink", "source", "loop"])
@pytest.mark.parametrize("body", [100, 65536, 300_000])
def test_bodies(load: Load, mode: str, body: int) -> None:
    """Bodies below and above what one read takes, some to a write and one."""
    for piece in (4 * body, SMALL):
        run = load.run(Case(mode, body, piece=piece), load.ports["1.2"], 50)
        assert run.messages >= 48


def test_idle_connections_are_opened_in_steps(load: Load) -> None:
    """Each step says how many it added."""
    with load.client("idle", load.ports["1.1"], "-v", "1.1") as client:
        client.tell("open 3")
        assert load.answer(client)["messages"] == 3
        client.tell("open 10")
        assert load.answer(client)["messages"] == 7


@pytest.mark.parametrize("version", VERSIONS)
def test_echoes_are_timed_one_by_one(load: Load, version: str) -> None:
    """Each connection sends one message at a time, and the time until its echo is told of each."""
    with load.client("echo", load.ports[version], "-v", version, "-b", "100") as client:
        client.tell("open 5")
        assert load.answer(client)["messages"] == 5
        for _ in range(3):
            began = time.monotonic_ns()
            client.tell(f"send {began}")
            told = load.answer(client)
            passed = (time.monotonic_ns() - began) / 1000
            assert told["messages"] == 5
            assert len(told["times"]) == 5
            assert all(0 < each <= passed for each in told["times"])


def test_a_session_that_ends_is_no_figure(load: Load) -> None:
    """A broker that is killed takes a client with it that has no relay; that is an error."""
    with load.broker() as (broker, ports), load.client("echo", ports["1.2"], "-v", "1.2") as client:
        client.tell("open 2")
        load.answer(client)
        broker.process.kill()
        client.tell(f"send {time.monotonic_ns()}")
        with pytest.raises(LoadError, match="closed"):
            load.answer(client)


@pytest.mark.parametrize(("name", "server"), [(ACTIVEMQ, b"ActiveMQ/5.17.2"), (RABBITMQ, b"RabbitMQ/3.10.8")])
def test_products(load: Load, name: str, server: bytes) -> None:
    """By its port the null broker says what it is, which tells what its receipts promise."""
    assert set(load.ports) == set(BROKERS)
    with socket.create_connection(("127.0.0.1", load.ports[name])) as broker:
        broker.sendall(b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
        answer = b""
        while not answer.endswith(b"\0"):
            answer += broker.recv(4096)
    assert answer.startswith(b"CONNECTED\n")
    assert b"\nserver:" + server + b"\n" in answer


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
