"""How the relay is run, by `stomprelay run` and as a plugin of `twistd`: options, what is wrong with them, signals, the
log. `test_image` has it in a folder that cannot be written to, and as process 1 of a container.
"""

import json
import os
import signal
import time
from pathlib import Path
from typing import TextIO

import pytest

from tests.e2e.child import PATIENCE, Child
from tests.e2e.container import CONTAINED, contained, process_1
from tests.e2e.ports import free_port
from tests.e2e.raw import CONNECT, Connection, ScriptedBroker, body
from tests.e2e.relay import RUN, check, launch, relay, serving, start

pytestmark = pytest.mark.e2e

MESSAGE = b"MESSAGE\nsubscription:1\nmessage-id:m1\ndestination:/queue/a\ncontent-length:5\n\nhello\0"
SEND = b"SEND\ndestination:/queue/a\ncontent-length:5\n\nhello\0"


def exchange(client: Connection, broker: Connection) -> None:
    """Pass a frame in each direction."""
    client.write(SEND)
    assert body(broker.frame()) == b"hello"
    broker.write(MESSAGE)
    assert client.frame() == MESSAGE


def launch_run(directory: Path, *options: str) -> Child:
    """Start `stomprelay run` with these options."""
    return launch(directory, [*RUN, *options])


def launch_twistd(directory: Path, *options: str) -> Child:
    """Start `twistd stomprelay` with these options."""
    return start(directory, ["stomprelay", *options])


DOORS = {"run": launch_run, "twistd": launch_twistd}
"""How users start a relay."""


def place(port: int) -> str:
    """An endpoint of this machine alone."""
    return f"tcp:{port}:interface=127.0.0.1"


def greets(port: int) -> bool:
    """Whether a client is served."""
    with Connection.to(port) as client:
        client.write(CONNECT)
        return client.frame().startswith(b"CONNECTED\n")


@pytest.mark.parametrize("door", DOORS)
def test_options_instead_of_a_file(tmp_path: Path, door: str) -> None:
    """`--listen` (twice) and `--upstream` are enough."""
    one, two = free_port(), free_port()
    with ScriptedBroker() as broker:
        options = ["-l", place(one), "--listen", place(two), "-u", f"tcp://127.0.0.1:{broker.port}"]
        with serving(DOORS[door](tmp_path, *options), [one, two]):
            for port in (one, two):
                with Connection.to(port) as client:
                    client.write(CONNECT)
                    with broker.accept() as accepted:
                        accepted.connected()
                        assert client.frame().startswith(b"CONNECTED\n")
                        exchange(client, accepted)


@pytest.mark.parametrize(
    ("arguments", "reactor"),
    [
        ([*RUN], "stomprelay.service.connection.reactor.RelayReactor"),
        (["stomprelay"], "stomprelay.service.connection.reactor.RelayReactor"),
        (["--reactor=poll", "stomprelay"], "twisted.internet.pollreactor.PollReactor"),
        (["--reactor=epoll", "stomprelay"], "twisted.internet.epollreactor.EPollReactor"),
        (["stompbroker"], "twisted.internet.epollreactor.EPollReactor"),
        (["--reactor=stomprelay", "stompbroker"], "stomprelay.service.connection.reactor.RelayReactor"),
    ],
)
def test_the_reactor(tmp_path: Path, arguments: list[str], reactor: str) -> None:
    """The relay has its own, unless another one is asked for; whatever it is, clients are served."""
    port = free_port()
    begin = launch if arguments[0] == RUN[0] else start
    with serving(begin(tmp_path, [*arguments, "-l", place(port)]), [port]) as running:
        assert f"reactor class: {reactor}." in running.log
        assert greets(port)


# stomprelay run


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_by_the_signal_that_it_was_sent(tmp_path: Path, sig: signal.Signals) -> None:
    """In good order, and whoever waits for it sees which one that was, as with `twistd`."""
    port = free_port()
    # A test run may ignore SIGINT, as what is started in the background does, and with it its children.
    child = launch(tmp_path, ["env", "--default-signal=INT", *RUN, "-l", place(port)])
    try:
        child.wait_for_output(rf" starting on {port}$")
        client = Connection.to(port)
        client.write(CONNECT)
        assert client.frame().startswith(b"CONNECTED\n")
        child.send(sig)
        assert b"the relay is stopping" in client.frame()
        client.close()
        assert child.exited(within=PATIENCE), child.last_words
    finally:
        status = child.stop()
    assert status == -sig
    check(child)


def read_by(child: Child, path: Path) -> TextIO:
    """A pipe in place of a file, once the child has opened it: it waits for what we write."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return os.fdopen(os.open(path, os.O_WRONLY | os.O_NONBLOCK), "w")
        except OSError:  # nobody reads
            assert time.monotonic() < deadline, child.last_words
            assert not child.exited(within=0.01), child.last_words


@pytest.mark.parametrize("way", DOORS)
def test_signals_that_come_while_it_starts(tmp_path: Path, way: str) -> None:
    """They wait until it has started and has its configuration; of one without use it says so, and goes on."""
    port, path = free_port(), tmp_path / "stomprelay.toml"
    text = f'[listener.default]\nendpoint = "{place(port)}"\n'
    os.mkfifo(path)
    child = DOORS[way](tmp_path, "-c", str(path))
    with read_by(child, path) as file:
        for sig in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            child.send(sig)
        file.write(text)
    with serving(child, [port]) as running:
        with read_by(child, path) as file:
            file.write(text)
        running.wait_for_log("the configuration is reloaded; nothing changed")
        for name in ("SIGUSR2", "SIGUSR1") if way == "run" else ("SIGUSR2",):
            running.wait_for_log(rf"\[stomprelay#warn\] {name}: ")
        assert greets(port)


def test_a_log_of_json(tmp_path: Path) -> None:
    """Every line is an object, Twisted's too; a session's has its fields, and the last one comes with the end."""
    port = free_port()
    child = launch_run(tmp_path, "-l", place(port), "--log-format", "json", "--log-level", "debug")
    try:
        child.wait_for_output(rf" starting on {port}\b")
        assert greets(port)
        child.wait_for_output('"event": "vanished"')
    finally:
        status = child.stop()
    assert status == -signal.SIGTERM
    lines = [json.loads(line) for line in child.output.splitlines()]
    assert all({"time", "level", "message", "source"} <= line.keys() for line in lines)
    [connected] = [line for line in lines if line.get("event") == "connected" and "session" in line]
    fields = [connected[name] for name in ("level", "source", "listener")]
    assert fields == ["info", "stomprelay", "default"]
    assert connected["message"].startswith(f"{connected['session']} from {connected['peer']} on default: ")
    assert lines[-1]["message"] == "Main loop terminated."


# Process 1


@pytest.mark.parametrize("before", [(), pytest.param(CONTAINED, marks=contained)], ids=["alone", "process 1"])
def test_an_end_before_it_has_begun(tmp_path: Path, before: tuple[str, ...]) -> None:
    """SIGTERM while it still reads its configuration."""
    path = tmp_path / "stomprelay.toml"
    os.mkfifo(path)
    child = launch(tmp_path, [*before, *RUN, "-c", str(path)])
    try:
        with path.open("wb"):  # once it reads
            os.kill(process_1(child) if before else child.pid, signal.SIGTERM)
            assert child.exited(within=PATIENCE), child.last_words
    finally:
        status = child.stop()
    assert (status, child.output) == (0 if before else -signal.SIGTERM, "")


# A listener at an endpoint of somebody else's: a plugin of Twisted

_PLUGIN = """
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.interfaces import IStreamServerEndpointStringParser
from twisted.plugin import IPlugin
from zope.interface import implementer


@implementer(IPlugin, IStreamServerEndpointStringParser)
class Parser:
    prefix = "address"

    def parseStreamServer(self, reactor, uri, backlog="7"):
        scheme, _, rest = uri.partition("://")
        assert scheme == "stomp", uri
        host, _, port = rest.partition(":")
        return TCP4ServerEndpoint(reactor, int(port), int(backlog), host)


parser = Parser()
"""


def test_a_plugin_whose_argument_is_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The relay listens where the plugin says; the argument reaches it as it is, whatever it contains."""
    plugins = tmp_path / "twisted" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "address_endpoint.py").write_text(_PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    port = free_port()
    config = f"[listener.public]\nendpoint = 'address:stomp\\://127.0.0.1\\:{port}:backlog=9'\n"
    with relay(tmp_path, config, [port]), Connection.to(port) as client:
        assert client.connect().startswith(b"CONNECTED\n")
