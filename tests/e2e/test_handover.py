"""Upgrades that refuse nobody: one process takes the sockets of another."""

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import brokers
from tests.e2e.child import PATIENCE, Child
from tests.e2e.crowd import Crowd, taken
from tests.e2e.ports import free_port
from tests.e2e.relay import RUN, Admin, check, launch, start
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
        self.port, self.admin = free_port(), Admin(free_port())
        self.path = directory / "handover"
        self.config = directory / "stomprelay.toml"
        self.config.write_text(f"""
admin = "tcp:{self.admin.port}:interface=127.0.0.1"
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
        new.wait_for_output("handover: the relay before has left; this relay has 3 sockets")
        assert old.exited(within=PATIENCE), old.last_words
        assert old.stop() == 0, old.output
        return new


@contextlib.contextmanager
def scene(directory: Path, workers: int = 1) -> Iterator[tuple[Scene, Child]]:
    """A scene with its first relay; all its relays end well."""
    with brokers.memory(directory) as broker:
        made = Scene(directory, broker.port, workers)
        try:
            first = made.run()
            first.wait_for_output(
                "all 2 workers serve" if workers > 1 else rf"main: .* to tcp://127.0.0.1:{broker.port}"
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


def upgraded(stage: Scene, old: Child, clients: int, times: int) -> None:
    """Upgrade a relay again and again under load: nobody is refused, and what has a receipt is at the broker."""
    with Crowd([stage.port], clients, QUEUE, again=True) as crowd:
        for _ in range(times):
            crowd.goes_on()
            old = stage.upgrade(old)
        crowd.goes_on()
    assert crowd.failed == []
    print(f"{crowd.sent} SENDs of {clients} clients confirmed")
    assert {body for each in crowd.confirmed for body in each} <= set(taken(stage.behind, QUEUE))
    assert stage.admin.ask("/livez")[0] == 200


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
        first.wait_for_output("handover: the other process is gone; this one continues")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            config = stage.config.read_text()
            more = f'[listener.more]\nendpoint = "tcp:{taken.getsockname()[1]}:interface=127.0.0.1"\n'
            stage.config.write_text(config + more)
            third = stage.run("--take-over")
            third.wait_for_output("more: cannot listen on")
            assert third.exited(within=PATIENCE)
        first.wait_for_output("(?s)this one continues.*this one continues")
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
        second.wait_for_output("handover: no relay answers at .*: this relay opens its sockets itself")
        second.wait_for_output(rf"main: .* to tcp://127.0.0.1:{stage.behind}")
        daemon = start(tmp_path, ["stomprelay", "-c", str(stage.config), "--take-over"])
        stage.children.append(daemon)
        stage.upgrade(second, daemon)
