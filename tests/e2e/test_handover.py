"""Upgrades that refuse nobody: one process takes the sockets of another, and `drain` sees clients off."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.child import PATIENCE, Child
from tests.e2e.ports import free_port
from tests.e2e.raw import Closed
from tests.e2e.relay import RUN, check, launch, start, twistd
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e

CLIENTS = 200
QUEUE = "/queue/upgrades"
ASK = """
import sys
from stomprelay.service.network.passing import Passage
import socket
own = socket.socket(socket.AF_UNIX)
own.connect(sys.argv[1])
passage = Passage(own)
passage.put({"do": "take"})
passage.flush()
while not (found := passage.receive()):
    pass
print(len(found[0].sockets), "sockets came", flush=True)
own.recv(1)
"""


class Scene:
    """A broker that stays, and the file of a relay that is upgraded before it."""

    def __init__(self, directory: Path, behind: int, workers: int) -> None:
        self.directory = directory
        self.behind = behind
        self.port, self.admin = free_port(), free_port()
        self.path = directory / "handover"
        self.config = directory / "stomprelay.toml"
        self.config.write_text(f"""
admin = "tcp:{self.admin}:interface=127.0.0.1"
handover = "{self.path}"
workers = {workers}
stop_timeout = 5.0
[listener.main]
endpoint = "tcp:{self.port}:interface=127.0.0.1"
upstream = "main"
[upstream.main]
uri = "tcp://127.0.0.1:{behind}"
""")
        self.children: list[Child] = []

    def run(self, *more: str) -> Child:
        """Start a relay."""
        child = launch(self.directory, [*RUN, "-c", str(self.config), *more])
        self.children.append(child)
        return child

    def upgrade(self, old: Child, new: Child | None = None) -> Child:
        """Have a new relay take over; return it when the old one has ended, as it should."""
        new = new or self.run("--take-over")
        new.wait_for_output("handover: the relay before has left; 3 sockets are ours")
        assert old.exited(within=PATIENCE), old.last_words
        assert old.stop() == 0, old.output
        return new

    def get(self, path: str) -> tuple[int, str]:
        """GET a page of the relay's administration."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def command(self, *arguments: str) -> Child:
        """Start a command that asks the relay."""
        command = [*RUN[:-1], *arguments, "--admin", f"http://127.0.0.1:{self.admin}"]
        return launch(self.directory, command)


@contextlib.contextmanager
def scene(directory: Path, workers: int = 1) -> Iterator[tuple[Scene, Child]]:
    """A scene with its first relay; all its relays end well."""
    behind = free_port()
    with twistd(directory, ["stompbroker", "-l", f"tcp:{behind}:interface=127.0.0.1"], [behind]):
        made = Scene(directory, behind, workers)
        try:
            first = made.run()
            first.wait_for_output(
                "all 2 workers serve" if workers > 1 else rf"main: .* to tcp://127.0.0.1:{behind}"
            )
            yield made, first
        except Exception:
            for each in made.children:
                print(each.output)  # what it saw when a test failed
            raise
        finally:
            for each in made.children:
                each.stop()
        for each in made.children:
            check(each)


class Sender:
    """A client that sends and sends, each time with a receipt, and comes again whenever its session ended."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.confirmed: list[bytes] = []
        self.sessions = self.ended = 0
        self.troubles: list[str] = []

    async def run(self, port: int, over: asyncio.Event) -> None:
        """Send until it is over and the last SEND has its receipt."""
        vain = 0
        while not over.is_set():
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError as error:
                self.troubles.append(f"{self.number}: refused: {error!r}")
                return
            try:
                writer.write(b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0")
                await self._frame(reader, b"CONNECTED")
                self.sessions += 1
                vain = 0
                await self._send(reader, writer, over)
            except (ConnectionError, asyncio.IncompleteReadError):
                self.ended += 1
                vain += 1
                if vain > 1:
                    self.troubles.append(f"{self.number}: no session, twice in a row")
            except AssertionError as error:
                self.troubles.append(f"{self.number}: {error}")
                return
            finally:
                writer.close()

    async def _send(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, over: asyncio.Event
    ) -> None:
        """Send ten messages, and leave; who comes again has a new session."""
        for _ in range(10):
            body = b"%d:%d" % (self.number, len(self.confirmed))
            writer.write(b"SEND\ndestination:%s\nreceipt:%s\n\n%s\0" % (QUEUE.encode(), body, body))
            await self._frame(reader, b"RECEIPT")
            self.confirmed.append(body)
            if over.is_set():
                return
            await asyncio.sleep(0.05)  # its pace

    async def _frame(self, reader: asyncio.StreamReader, wanted: bytes) -> None:
        """Read a frame. An ERROR that the relay is stopping is an end like any other."""
        frame = (await asyncio.wait_for(reader.readuntil(b"\0"), PATIENCE)).lstrip()
        if b"the relay is stopping" in frame:
            raise ConnectionAbortedError
        assert frame.startswith(wanted + b"\n"), frame


class Load:
    """Clients that send, in a thread of their own, for children belong to the thread that started them; and one that
    reads at the broker what came there, `found`.
    """

    def __init__(self, port: int, behind: int, clients: int) -> None:
        self.senders = [Sender(number) for number in range(clients)]
        self.found: set[bytes] = set()
        self._ports = port, behind
        self._over = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._run(),), daemon=True
        )
        self._thread.start()

    async def _run(self) -> None:
        port, behind = self._ports
        reader, writer = await asyncio.open_connection("127.0.0.1", behind)
        writer.write(b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0")
        await reader.readuntil(b"\0")
        writer.write(b"SUBSCRIBE\nid:0\ndestination:%s\n\n\0" % QUEUE.encode())
        reading = asyncio.create_task(self._read(reader))
        await asyncio.gather(*(each.run(port, self._over) for each in self.senders))
        for _ in range(int(PATIENCE / 0.05)):
            if self.confirmed <= self.found:
                break
            await asyncio.sleep(0.05)
        reading.cancel()
        writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while True:
            frame = await reader.readuntil(b"\0")
            self.found.add(frame[:-1].rpartition(b"\n\n")[2])

    @property
    def confirmed(self) -> set[bytes]:
        """All messages that have their receipt."""
        return {body for each in self.senders for body in each.confirmed}

    @property
    def troubles(self) -> list[str]:
        """What must not happen."""
        return [text for each in self.senders for text in each.troubles]

    def go_on(self) -> None:
        """Wait until each client has two receipts more."""
        before = [len(each.confirmed) for each in self.senders]
        for _ in range(int(PATIENCE / 0.05)):
            assert not self.troubles
            if all(len(each.confirmed) >= had + 2 for each, had in zip(self.senders, before, strict=True)):
                return
            self._thread.join(0.05)
        raise AssertionError("not reached")

    def end(self) -> None:
        """Have all clients leave, and wait until what has a receipt is at the broker."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(2 * PATIENCE)
        assert not self._thread.is_alive()
        self._loop.close()
        assert self.confirmed <= self.found


def upgraded(stage: Scene, old: Child, clients: int, times: int) -> None:
    """Upgrade a relay again and again under load: nobody is refused, and what has a receipt is at the broker."""
    load = Load(stage.port, stage.behind, clients)
    for _ in range(times):
        load.go_on()
        old = stage.upgrade(old)
    load.go_on()
    load.end()
    print(account(load.senders))
    assert load.troubles == []
    assert stage.get("/livez")[0] == 200


def account(senders: list[Sender]) -> dict[str, int]:
    """What became of all clients."""
    return {
        "refused": sum(len(each.troubles) for each in senders),
        "confirmed": sum(len(each.confirmed) for each in senders),
        "sessions": sum(each.sessions for each in senders),
        "ended": sum(each.ended for each in senders),
    }


@pytest.mark.ci
def test_three_upgrades_under_load(tmp_path: Path) -> None:
    """200 clients connect and send throughout: none is refused, and what has a receipt is at the broker."""
    with scene(tmp_path) as (stage, first):
        upgraded(stage, first, CLIENTS, 3)
    assert not stage.path.exists()


@pytest.mark.ci
def test_an_upgrade_of_workers(tmp_path: Path) -> None:
    """The parent hands over, its workers see their clients off, and those of the new one serve."""
    with scene(tmp_path, workers=2) as (stage, first):
        upgraded(stage, first, 40, 2)


def test_a_new_relay_that_fails(tmp_path: Path) -> None:
    """Killed with the sockets in its hands, or by a mistake of its own: nobody notices."""
    with scene(tmp_path) as (stage, first), Talker.at(stage.port) as client:
        asking = launch(tmp_path, [sys.executable, "-c", ASK, str(stage.path)])
        asking.wait_for_output("3 sockets came")
        second = stage.run("--take-over")
        second.wait_for_output("does not hand over: another process takes over")
        assert second.exited(within=PATIENCE)
        assert second.stop() == 1
        os.kill(asking.pid, signal.SIGKILL)
        asking.stop()
        first.wait_for_output("handover: the process that asked is gone; this one goes on")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            config = stage.config.read_text()
            more = f'[listener.more]\nendpoint = "tcp:{taken.getsockname()[1]}:interface=127.0.0.1"\n'
            stage.config.write_text(config + more)
            third = stage.run("--take-over")
            third.wait_for_output("more: cannot listen on")
            assert third.exited(within=PATIENCE)
        first.wait_for_output("(?s)this one goes on.*this one goes on")
        client.send(QUEUE, b"hello")
        with Talker.at(stage.port) as other:
            other.leave()
        stage.config.write_text(config)
        stage.upgrade(first)
        assert b"the relay is stopping" in client.error()


@pytest.mark.ci
def test_a_relay_that_nobody_is_before(tmp_path: Path) -> None:
    """It starts as ever; so it does where a killed one left its socket. Then `twistd` takes over from it."""
    with scene(tmp_path) as (stage, first):
        os.kill(first.pid, signal.SIGKILL)
        first.stop()
        stage.children.clear()
        assert stage.path.is_socket()
        second = stage.run("--take-over")
        second.wait_for_output("handover: nobody is at .*: this relay opens its sockets itself")
        second.wait_for_output(rf"main: .* to tcp://127.0.0.1:{stage.behind}")
        daemon = start(tmp_path, ["stomprelay", "-c", str(stage.config), "--take-over"])
        stage.children.append(daemon)
        stage.upgrade(second, daemon)


def test_drain(tmp_path: Path) -> None:
    """It counts the clients that are left, refuses others, and ends when none is there; with workers as without."""
    with scene(tmp_path, workers=2) as (stage, _):
        clients = [Talker.at(stage.port) for _ in range(5)]
        impatient = stage.command("drain", "--within", "0")
        assert impatient.exited(within=PATIENCE)
        assert impatient.stop() == 1
        assert "5 sessions are left; new clients are still refused" in impatient.output
        with pytest.raises((AssertionError, Closed)) as refusal:
            Talker.at(stage.port)
        assert "no new connections" in str(refusal.value)
        assert stage.get("/readyz") == (
            503, '{"ready": false, "reasons": ["draining: new clients are refused"]}\n',
        )  # fmt: skip
        patient = stage.command("drain", "--json")
        for left in range(5, 0, -1):
            patient.wait_for_output(json.dumps({"draining": True, "sessions": left}))
            clients[left - 1].send(QUEUE, b"still here")
            clients[left - 1].leave()
        assert patient.exited(within=PATIENCE)
        assert patient.stop() == 0
        cancel = stage.command("drain", "--cancel")
        cancel.wait_for_output("clients are let in again: no sessions")
        assert cancel.exited(within=PATIENCE)
        assert cancel.stop() == 0
        with Talker.at(stage.port) as client:
            client.leave()
