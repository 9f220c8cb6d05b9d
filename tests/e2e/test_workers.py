"""A relay of several processes: one to its clients, to who watches it and to who stops it, whatever becomes of each."""

import contextlib
import json
import os
import re
import select
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import brokers
from tests.e2e.child import PATIENCE, wait_until
from tests.e2e.container import CONTAINED, contained, process_1
from tests.e2e.ports import free_port
from tests.e2e.raw import CONNECT, Closed, Connection, ScriptedBroker
from tests.e2e.relay import ROOT, RUN, TWISTD, Admin, Relay, check, launch, run, served, start, stomprelay
from tests.e2e.talker import Talker
from tests.prometheus import samples

pytestmark = pytest.mark.e2e

WORKERS = 2


@dataclass(frozen=True)
class Crew:
    """A relay of `WORKERS` processes, and its journal."""

    relay: Relay
    port: int
    admin: Admin
    journal: Path

    def workers(self) -> dict[int, tuple[int, str, int, int]]:
        """Return process, state, sessions and restarts of each worker, as the page for people has them."""
        return {
            each["number"]: (each["process"] or 0, each["state"], each["sessions"], each["restarts"])
            for each in self.admin.told("/overview")["workers"]
        }

    def shows_after(self, moment: float) -> bool:
        """Whether the page shows what was so after this moment: those who look at a time share an answer."""
        return bool(self.admin.told("/overview")["time"] > moment)

    def all_serve(self) -> bool:
        """Whether every worker serves."""
        return self.admin.ask("/healthz")[1] == "ok\n"

    def clients(self) -> list[Talker]:
        """Connect clients until each worker has two."""
        talkers: list[Talker] = []
        while not talkers or min(row[2] for row in self.workers().values()) < 2:
            assert len(talkers) < 90, "one worker takes all clients"
            talkers += [Talker.at(self.port) for _ in range(2 * WORKERS)]
            self.relay.wait_until(partial(self.shows_after, time.time()))
        return talkers


@contextlib.contextmanager
def crew(directory: Path, broker: int, more: str = "", upstream: str = "") -> Iterator[Crew]:
    """Run a relay of several workers; it must leave no process."""
    lines = f"""
uri = "failover:(tcp://127.0.0.1:{broker})"
{upstream}
[journal]
directory = "{directory}/journal"
bodies = "all"
"""
    with served(directory, lines, more=more, workers=WORKERS) as relay:
        running = Crew(relay, relay.port, relay.admin, directory / "journal")
        processes = {row[0] for row in running.workers().values()}
        yield running
        if not relay.ended:
            processes |= {row[0] for row in running.workers().values()}
    assert not [each for each in processes if there(each)]


def there(process: int) -> bool:
    """Whether there is such a process."""
    return process > 0 and Path(f"/proc/{process}").exists()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an embedded broker in a process of its own."""
    with brokers.memory(tmp_path_factory.mktemp("broker")) as running:
        yield running.port


@pytest.fixture
def running(tmp_path: Path, broker: int) -> Iterator[Crew]:
    """A relay of several workers before it."""
    with crew(tmp_path, broker) as made:
        yield made


def exchange(clients: list[Talker], queue: str) -> None:
    """Each client sends a message to the next one, and it comes."""
    for number, client in enumerate(clients):
        client.subscribe(f"{queue}.{number}", f"s{number}")
    for number, client in enumerate(clients):
        client.send(f"{queue}.{(number + 1) % len(clients)}", b"%d" % number)
    assert [client.bodies(1)[0] for client in clients] == [
        b"%d" % (number - 1 if number else len(clients) - 1) for number in range(len(clients))
    ]


def test_one_relay_to_all(running: Crew, queue: str) -> None:
    """Clients of all workers talk to each other; the pages have the sum, and list everybody."""
    clients = running.clients()
    exchange(clients, queue)
    counted = running.admin.metrics()
    assert counted["sessions"] == counted["sessions_opened_total"] == len(clients)
    assert counted["connections"] == 2 * len(clients)
    assert counted["worker_up"] == WORKERS
    assert counted["worker_restarts_total"] == counted["draining"] == 0
    assert counted["ready"] == 1
    assert counted["session_versions"] == len(clients)
    running.relay.wait_until(lambda: running.admin.metrics().get("lag_seconds_count", 0) > 0)
    opened = [each for each in samples(running.admin.get("/metrics")) if each.name == "process_open_fds"]
    assert {each.labels.get("worker") for each in opened} == {None, *map(str, range(1, WORKERS + 1))}
    assert all(each.value > 5 for each in opened)
    [broker] = running.admin.told("/brokers")["brokers"]
    assert (broker["state"], broker["sessions"]) == ("up", len(clients))
    assert running.admin.told("/overview")["sessions"] == len(clients)
    assert len(running.admin.told("/sessions")["sessions"]) == len(clients)
    for client in clients:
        client.close()


def test_a_worker_that_is_killed(running: Crew, queue: str) -> None:
    """Its clients are lost, the others are not disturbed; another one takes its place, and what it counted counts."""
    clients = running.clients()
    before = running.admin.metrics()
    process, _, sessions, _ = running.workers()[1]
    os.kill(process, signal.SIGKILL)
    running.relay.wait_until(lambda: running.workers()[1][3] == 1 and running.all_serve())
    assert "worker 1 ended after" in running.relay.log
    left = [client for client in clients if not lost(client)]
    assert len(left) == len(clients) - sessions
    exchange(left, queue)
    after = running.admin.metrics()
    assert after["sessions_opened_total"] == before["sessions_opened_total"]
    assert after["client_frames_total"] >= before["client_frames_total"]
    assert after["sessions"] == len(left)
    assert after["worker_restarts_total"] == 1
    anew = running.clients()
    assert running.workers()[1][0] != process
    exchange(anew, f"{queue}.anew")
    for client in [*left, *anew]:
        client.close()


def lost(client: Talker) -> bool:
    """Whether its connection is gone; one that is there answers."""
    try:
        client.ask("SEND", b"", destination="/queue/there")
    except (Closed, OSError):
        return True
    return False


def ended(client: Talker) -> bool:
    """Whether something came that was not asked for: the ERROR, as no message is under way."""
    return bool(select.select([client.socket], [], [], 0)[0])


def test_nobody_else_reaches_a_worker(running: Crew) -> None:
    """What the processes tell each other is in a folder of their own, which is gone at the end."""
    maps = Path(f"/proc/{running.workers()[1][0]}/maps").read_text(encoding="utf-8")
    [folder] = {Path(each).parent for each in re.findall(r"(/\S*/stomprelay-\S+/loads)\n", maps)}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not [each for each in folder.iterdir() if each.is_socket()]
    running.relay.send(signal.SIGTERM)
    running.relay.ends()
    assert not folder.exists()


def test_one_journal(tmp_path: Path, broker: int, queue: str) -> None:
    """Workers share its folder: what clients of each said is in it, and it is whole, even of one that was killed."""
    with crew(tmp_path, broker) as running:
        clients = running.clients()
        exchange(clients, queue)
        running.relay.wait_until(
            lambda: sum(b"SUBSCRIBE" in path.read_bytes() for path in running.journal.iterdir()) == WORKERS
        )
        os.kill(running.workers()[1][0], signal.SIGKILL)
        running.relay.wait_until(running.all_serve)
        running.relay.wait_for_log("of a relay that died is ended")
        for client in clients:
            client.close()
    listed = stomprelay("journal", "ls", str(running.journal))
    assert listed.returncode == 0, listed.stderr
    runs = set(re.findall(r"-([0-9a-f]{8})-\d{6}\b", listed.stdout))
    assert len(runs) == WORKERS + 1
    told = stomprelay("journal", "cat", str(running.journal))
    assert told.returncode == 0, told.stderr
    for number in range(len(clients)):
        assert f"destination:{queue}.{number}" in told.stdout
    assert stomprelay("journal", "verify", str(running.journal)).returncode == 0


def test_a_stop_in_good_order(tmp_path: Path, broker: int, queue: str) -> None:
    """Every client gets its ERROR, the port is closed, and no process is left."""
    with crew(tmp_path, broker) as running:
        clients = running.clients()
        running.relay.send(signal.SIGTERM)
        assert all(b"the relay is stopping" in client.error() for client in clients)
        running.relay.wait_until(lambda: refused(running.port))
        for client in clients:
            client.close()
        running.relay.ends()


def refused(port: int) -> bool:
    """Whether nobody listens there: clients linger, so that the relay is still there to be asked."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        pass  # it was closed while this one waited to be accepted
    return False


@pytest.mark.ci
def test_a_second_signal(tmp_path: Path) -> None:
    """Sessions that owe something have their time, in all workers; another SIGTERM to the parent ends it."""
    with (
        ScriptedBroker() as broker,
        crew(tmp_path, broker.port, "stop_timeout = 600", "confirm = true") as running,
    ):
        owing: list[Connection] = []
        while min(row[2] for row in running.workers().values()) < 1:
            client = Connection.to(running.port)
            client.write(CONNECT)
            accepted = broker.accept()
            accepted.connected()
            assert client.frame().startswith(b"CONNECTED\n")
            client.write(b"SEND\ndestination:/queue/a\n\nhello\0")
            assert accepted.frame().startswith(b"SEND\n")
            owing += [client, accepted]
        running.relay.send(signal.SIGTERM)
        for number in range(1, WORKERS + 1):
            running.relay.wait_for_log(rf"worker {number}.* with something left to deliver, within 600 s")
        assert running.admin.get("/brokers")
        assert running.admin.ask("/healthz")[0] == 503
        running.relay.send(signal.SIGTERM)
        running.relay.ends()
        assert len(re.findall(r"SENDs that may be lost: \d", running.relay.log)) >= WORKERS
        for each in owing:
            each.close()


@pytest.mark.ci
def test_a_parent_that_is_killed(tmp_path: Path, broker: int) -> None:
    """Its workers end in good order by themselves, and the port is free."""
    port = free_port()
    options = ["--listen", f"tcp:{port}:interface=127.0.0.1", "-u", f"tcp://127.0.0.1:{broker}"]
    child = start(tmp_path, ["stomprelay", *options, "--workers", str(WORKERS)])
    try:
        found = [
            int(child.wait_for_output(rf"worker {number} serves, process (\d+)").group(1))
            for number in range(1, WORKERS + 1)
        ]
        client = Talker.at(port)
        child.send(signal.SIGKILL)
        assert b"the relay is stopping" in client.error()
        client.close()
        wait_until(lambda: not any(map(there, found)))
        with socket.create_server(("127.0.0.1", port)):
            pass
    finally:
        child.stop()


@pytest.mark.ci
def test_systemd_hears_when_all_serve(tmp_path: Path, broker: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """READY comes once, when the last worker serves; the status says how many do; a stop is told at once."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with crew(tmp_path, broker) as running:
            told = manager.recv(4096).decode()
            assert told.startswith(
                f"READY=1\nSTATUS={WORKERS} of {WORKERS} workers serve (1: 0 sessions, 1 listener"
            )
            assert "serves" in running.relay.log
            running.relay.send(signal.SIGTERM)
            while not (told := manager.recv(4096).decode()).startswith("STOPPING=1"):
                assert told.startswith("STATUS="), told
            running.relay.ends()


@pytest.mark.ci
def test_a_daemon(tmp_path: Path, broker: int) -> None:
    """The process of the pidfile is the one to stop; one log has the lines of all, and begins anew when told."""
    port, pid, log = free_port(), tmp_path / "relay.pid", tmp_path / "relay.log"
    options = ["--listen", f"tcp:{port}:interface=127.0.0.1", "-u", f"tcp://127.0.0.1:{broker}"]
    files = ("--pidfile", str(pid), "--logfile", str(log))
    command = (str(TWISTD), *files, "stomprelay", *options, "--workers", str(WORKERS))
    begun = run(tmp_path, *command, PYTHONPATH=str(ROOT))
    assert begun.returncode == 0, begun.stdout + begun.stderr
    line = re.compile(r"\[worker \d, stomprelay#info\] relay-.*: disconnected")
    try:
        Talker.at(port).leave()
        wait_until(lambda: line.search(log.read_text()), log.read_text)
        os.kill(int(pid.read_text()), signal.SIGUSR1)
        wait_until(log.with_name("relay.log.1").exists, log.read_text)
        Talker.at(port).leave()
    finally:
        os.kill(int(pid.read_text()), signal.SIGTERM)
        wait_until(lambda: not pid.exists(), log.read_text)
    assert "Traceback" not in log.read_text()


@pytest.mark.ci
@contained
def test_process_1_of_a_container(tmp_path: Path, broker: int) -> None:
    """It waits for its workers: for one that died, which is no zombie afterwards, and for all at the end."""
    port = free_port()
    options = ["-l", f"tcp:{port}:interface=127.0.0.1", "-u", f"tcp://127.0.0.1:{broker}"]
    child = launch(tmp_path, [*CONTAINED, *RUN, *options, "--workers", str(WORKERS)])
    try:
        child.wait_for_output(rf"all {WORKERS} workers serve")
        parent = process_1(child)
        children = Path(f"/proc/{parent}/task/{parent}/children")
        [worker, *_] = map(int, children.read_text().split())
        os.kill(worker, signal.SIGKILL)
        again = child.wait_for_output(r"worker \d ended after .*restart 1")
        child.wait_for_output(r"worker \d serves", start=again.end())
        assert not there(worker)
        assert len(children.read_text().split()) == WORKERS
        Talker.at(port).leave()
        os.kill(parent, signal.SIGTERM)
        assert child.exited(within=PATIENCE), child.last_words
    finally:
        status = child.stop()
    assert status == 0
    check(child)


def test_a_move_that_goes_wrong_in_one(tmp_path: Path, broker: int) -> None:
    """No worker copies any more, and the log says once why."""
    with ScriptedBroker() as new:
        upstream = f"""[upstream.new]
uri = "failover:({new.uri})"
[move.orders]
prefix = "/queue/"
to = "new"
"""
        with crew(tmp_path, broker, f'moves_file = "{tmp_path}/moves.json"', upstream) as running:
            clients = running.clients()
            assert stomprelay("move", "next", "orders", "--admin", running.admin.url).returncode == 0
            for each in clients:
                each.send("/queue/a", b"x")
            copies = [new.accept() for _ in clients]
            for copied in copies:
                copied.frame()
                copied.write(b"CONNECTED\nversion:1.2\n\n\0")
                assert copied.frame().startswith(b"SEND\n")
            copies[0].write(b"ERROR\nmessage:no room\n\n\0")
            line = "move orders is stopped in shadow: it answered ERROR: no room"
            running.relay.wait_for_log(line)
            running.relay.wait_until(lambda: moved(running)["stopped"])
            moved(running)  # a worker that answers has heard of it
            for each in clients:
                each.send("/queue/a", b"y")
            assert moved(running)["copied"] == len(clients)
            assert running.relay.log.count(line) == 1
            said = json.loads((tmp_path / "moves.json").read_text())["orders"]
            assert said["stopped"] == moved(running)["stopped"] == "it answered ERROR: no room"


def moved(running: Crew) -> dict[str, Any]:
    """The move, as the relay shows it."""
    found: dict[str, Any] = running.admin.told("/moves")["moves"][0]
    return found
