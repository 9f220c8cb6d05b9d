"""A configuration that is read anew while clients work: none of them notices, whatever it says."""

import asyncio
import contextlib
import signal
import ssl
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import pytest

from tests.e2e.certificates import Authority, Credentials
from tests.e2e.child import PATIENCE
from tests.e2e.ports import free_port
from tests.e2e.raw import Connection, headers
from tests.e2e.relay import Relay, relay, twistd
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e

CLIENTS = 200
TIMES = 20

_CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"


class Crowd:
    """Clients in a thread, which SEND all the time, each when it has the RECEIPT of the one before; with `echo` each to
    a queue of its own, and when its MESSAGE has come back, too. `sent` counts what was confirmed, `failed` says what
    went wrong.
    """

    def __init__(self, ports: Sequence[int], queue: str, *, echo: bool) -> None:
        self.sent = 0
        self.failed: list[str] = []
        self._ports = ports
        self._queue = queue
        self._echo = echo
        self._working = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def goes_on(self, running: Relay) -> None:
        """Wait until all are there, and as many SENDs were confirmed as there are clients, from now on."""
        goal = self.sent + CLIENTS
        running.wait_until(lambda: (self._working == CLIENTS and self.sent >= goal) or bool(self.failed))
        assert not self.failed

    async def _all(self) -> None:
        await asyncio.gather(*(self._client(number) for number in range(CLIENTS)))

    async def _client(self, number: int) -> None:
        try:
            async with asyncio.timeout(10 * PATIENCE):
                await self._talk(number)
        except (OSError, EOFError, AssertionError, TimeoutError) as error:
            self.failed.append(f"client {number}: {error!r}")

    async def _talk(self, number: int) -> None:
        port = self._ports[number % len(self._ports)]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_CONNECT)
        assert (await frame(reader)).startswith(b"CONNECTED\n")
        place = f"{self._queue}.{number}".encode() if self._echo else self._queue.encode()
        if self._echo:
            writer.write(b"SUBSCRIBE\nid:0\ndestination:%b\nack:auto\n\n\0" % place)
        self._working += 1
        count = 0
        while not self._stop.is_set():
            writer.write(b"SEND\ndestination:%b\nreceipt:%d\n\n%d\0" % (place, count, count))
            expected = {b"RECEIPT", b"MESSAGE"} if self._echo else {b"RECEIPT"}
            while expected:
                expected.remove((await frame(reader)).partition(b"\n")[0])
            count += 1
            self.sent += 1
            await asyncio.sleep(0.02)
        writer.write(b"DISCONNECT\nreceipt:bye\n\n\0")
        assert headers(await frame(reader))[b"receipt-id"] == b"bye"
        writer.close()
        await writer.wait_closed()


async def frame(reader: asyncio.StreamReader) -> bytes:
    """Wait for a frame; EOLs before it do not count."""
    try:
        return (await reader.readuntil(b"\0")).lstrip(b"\n")
    except asyncio.IncompleteReadError as error:
        raise EOFError(error.partial) from None


@contextlib.contextmanager
def broker(directory: Path) -> Iterator[int]:
    """Run an embedded broker in a process of its own; the port is yielded."""
    port = free_port()
    directory.mkdir()
    with twistd(directory, ["stompbroker", "-l", f"tcp:{port}:interface=127.0.0.1"], [port]):
        yield port


def door(name: str, port: int, more: str = "") -> str:
    """A listener."""
    return f'[listener.{name}]\nendpoint = "tcp:{port}:interface=127.0.0.1"\nupstream = "main"\n{more}\n'


def upstream(*ports: int, more: str = "") -> str:
    """Brokers in this order."""
    places = ",".join(f"tcp://127.0.0.1:{port}" for port in ports)
    return f'[upstream.main]\nuri = "failover:({places})?randomize=false"\n{more}\n'


def hang_up(running: Relay, directory: Path, text: str) -> str:
    """Write another file, send SIGHUP, and return the line that the log has of that."""
    (directory / "stomprelay.toml").write_text(text)
    return again(running)


def again(running: Relay) -> str:
    """Send SIGHUP, and return the line that the log has of that."""
    start = len(running.log)
    running.send(signal.SIGHUP)
    return running.wait_for_log("the configuration is (not )?reloaded", start)


def held(port: int, queue: str) -> int:
    """Take all messages of a queue of a broker, and return how many there were: each has a number of its own."""
    with Talker.at(port) as client:
        client.subscribe(queue, "0")
        client.send(queue, b"last")
        count = 0
        while client.bodies(1) != [b"last"]:
            count += 1
        client.leave()
    return count


@pytest.mark.ci
@pytest.mark.parametrize("workers", [1, 2])
def test_again_and_again_under_load(tmp_path: Path, queue: str, workers: int) -> None:
    """Limits, levels, listeners and brokers change, and change back; no client is refused, cut off or kept waiting."""
    first, second, third = free_port(), free_port(), free_port()
    with broker(tmp_path / "broker") as there:

        def text(number: int) -> str:
            level = "debug" if number % 2 else "info"
            extra = door("extra", third) if number % 2 else ""
            size = f"limits.body = {100000 + number}"
            more = f"connect_timeout = {5 + number}"
            head = f'workers = {workers}\nlog_level = "{level}"\n'
            return head + door("one", first, size) + door("two", second) + extra + upstream(there, more=more)

        with (
            relay(tmp_path, text(0), [first, second]) as running,
            Crowd([first, second], queue, echo=True) as crowd,
        ):
            crowd.goes_on(running)
            for number in range(1, TIMES + 1):
                line = hang_up(running, tmp_path, text(number))
                assert "changed: log_level" in line
                assert f"listener.extra {'added' if number % 2 else 'removed'}" in line
                with contextlib.closing(Connection.to(first)) as late:
                    assert late.connect().startswith(b"CONNECTED\n")
            crowd.goes_on(running)
        assert not crowd.failed
        assert crowd.sent > CLIENTS
        print(
            f"{workers} process(es), {TIMES} reloads: {crowd.sent} SENDs of {CLIENTS} clients, each came back"
        )
        assert "ERROR" not in running.log


@pytest.mark.ci
@pytest.mark.parametrize("workers", [1, 2])
def test_a_broker_that_is_taken_out_under_load(tmp_path: Path, queue: str, workers: int) -> None:
    """Its sessions go to the one that is there; each SEND that was confirmed is at one of them, once."""
    port = free_port()
    with broker(tmp_path / "a") as one, broker(tmp_path / "b") as other:
        head = f"workers = {workers}\n" + door("main", port)
        with relay(tmp_path, head + upstream(one, other, more="confirm = true"), [port]) as running:
            with Crowd([port], queue, echo=False) as crowd:
                crowd.goes_on(running)
                line = hang_up(running, tmp_path, head + upstream(other, more="confirm = true"))
                assert line.endswith(f"upstream.main.uri: tcp://127.0.0.1:{one} removed")
                crowd.goes_on(running)
                line = hang_up(running, tmp_path, head + upstream(one, other, more="confirm = true"))
                assert line.endswith(f"upstream.main.uri: tcp://127.0.0.1:{one} added")
                crowd.goes_on(running)
            assert not crowd.failed
        counts = [held(each, queue) for each in (one, other)]
        print(f"{workers} process(es): {crowd.sent} SENDs confirmed, at the brokers {counts}")
        assert sum(counts) == crowd.sent
        assert all(counts)


@pytest.fixture
def serving(tmp_path: Path, authority: Authority) -> Iterator[tuple[Relay, int, Credentials]]:
    """A relay with TLS, and its certificate."""
    port = free_port()
    own = authority.issue("rotated")
    with relay(tmp_path, secured(port, own), [port]) as running:
        yield running, port, own


def secured(port: int, own: Credentials, key: str = "key") -> str:
    """A listener with TLS, before the embedded broker."""
    return f"""
[listener.main]
endpoint = "tcp:{port}:interface=127.0.0.1"
[listener.main.tls]
certificate = "{own.certificate}"
{key} = "{own.key}"
"""


def certificate(port: int, trust: ssl.SSLContext) -> bytes:
    """The certificate that a new client is shown."""
    with contextlib.closing(Connection.to(port, trust)) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        shown = client.socket.getpeercert(binary_form=True)
        assert shown is not None
        return shown


@pytest.mark.ci
def test_a_certificate_that_is_replaced(
    serving: tuple[Relay, int, Credentials], authority: Authority
) -> None:
    """New clients are shown the new one, without any word to the relay; a pair that does not match is not taken, and
    who is connected stays so.
    """
    running, port, own = serving
    trust = ssl.create_default_context(cafile=str(authority.file))
    with contextlib.closing(Connection.to(port, trust)) as old:
        assert old.connect().startswith(b"CONNECTED\n")
        before = certificate(port, trust)
        fresh = authority.issue("fresh")
        key = own.key.read_bytes()
        own.key.write_bytes(b"half of a")
        running.wait_for_log(r"listener\.main\.tls\.key: .*; what was loaded before stays in use")
        assert certificate(port, trust) == before
        own.key.write_bytes(key)
        running.wait_for_log(r"listener\.main\.tls: the files changed; new connections have them")
        assert certificate(port, trust) == before
        start = len(running.log)
        own.certificate.write_bytes(fresh.certificate.read_bytes())
        own.key.write_bytes(fresh.key.read_bytes())
        running.wait_for_log("new connections have them", start)
        assert certificate(port, trust) != before
        assert "stays in use" not in running.log[start:]
        old.write(b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0")
        assert old.frame().startswith(b"RECEIPT\n")


def test_a_file_that_is_wrong(
    serving: tuple[Relay, int, Credentials], tmp_path: Path, authority: Authority
) -> None:
    """Each time one line names file and key, and everything goes on; a right file is taken after that."""
    running, port, own = serving
    trust = ssl.create_default_context(cafile=str(authority.file))
    file, good = tmp_path / "stomprelay.toml", secured(port, own)
    token = tmp_path / "admin.token"
    token.write_text("0123456789abcdef")
    token.chmod(0o644)
    with contextlib.closing(Connection.to(port, trust)) as old:
        assert old.connect().startswith(b"CONNECTED\n")
        wrong = {
            good[:40]: "is not TOML",
            good.replace(
                "endpoint", "endpiont"
            ): 'listener.main.endpiont: unknown key; did you mean "endpoint"',
            secured(port, own, "#key"): r"listener\.main\.tls\.key: is missing",
            good.replace(
                str(own.key), "absent"
            ): r"listener\.main\.tls\.key: .*absent: No such file or directory",
            f'admin_token_file = "{token}"\n{good}': "admin_token_file: .*every user may read or write it",
            good
            + '[upstream.main]\nuri = "ssl://h:1"\ntls.ca = "none"\n': r"upstream\.main\.tls\.ca: .*none: No such",
        }
        start = len(running.log)
        for text, reason in wrong.items():
            line = hang_up(running, tmp_path, text)
            assert f"[stomprelay#error] the configuration is not reloaded: {file}: " in line
            running.wait_for_log(reason, start)
            old.write(b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0")
            assert old.frame().startswith(b"RECEIPT\n")
            certificate(port, trust)
        file.unlink()
        assert again(running).endswith(f"{file}: cannot be read: No such file or directory")
        assert len(running.log[start:].splitlines()) < 4 * len(wrong)
        assert hang_up(running, tmp_path, good + "require_client_certificate = false\n").endswith(
            "nothing changed"
        )
        assert hang_up(running, tmp_path, good.replace("main", "other")).count("listener.") == 2
        old.write(b"SEND\ndestination:/queue/a\nreceipt:2\n\nx\0")
        assert old.frame().startswith(b"RECEIPT\n")


def refused(port: int) -> bool:
    """Whether nobody listens on a port."""
    try:
        Connection.to(port).close()
    except ConnectionRefusedError:
        return True
    return False
