"""How `twistd` takes its options, and how it says what is wrong with them."""

import socket
from pathlib import Path

import pytest

from tests.e2e.child import PATIENCE
from tests.e2e.ports import free_port
from tests.e2e.raw import Connection, ScriptedBroker
from tests.e2e.relay import start, twistd
from tests.e2e.rig import CONNECT, exchange

pytestmark = pytest.mark.e2e


def test_options_instead_of_a_file(tmp_path: Path) -> None:
    """`--listen` (twice) and `--upstream` are enough."""
    one, two = free_port(), free_port()
    with ScriptedBroker() as broker:
        options = ["-l", f"tcp:{one}:interface=127.0.0.1", "--listen", f"tcp:{two}:interface=127.0.0.1"]
        with twistd(tmp_path, ["stomprelay", *options, "-u", f"tcp://127.0.0.1:{broker.port}"], [one, two]):
            for port in (one, two):
                with Connection.to(port) as client:
                    client.write(CONNECT)
                    with broker.accept() as accepted:
                        accepted.connected()
                        assert client.frame().startswith(b"CONNECTED\n")
                        exchange(client, accepted)


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ("[listener.main]\nendpiont = 1\n", "listener.main.endpiont"),
        ('[upstream.main]\nuri = "nonsense"\n', "upstream.main.uri"),
        ("[listener.main\n", "line 1"),
    ],
)
def test_a_bad_file(tmp_path: Path, config: str, names: str) -> None:
    """`twistd` ends at once; what it says names the file and the place in it."""
    path = tmp_path / "stomprelay.toml"
    path.write_text(config)
    assert _refused(tmp_path, ["stomprelay", "-c", str(path)], "stomprelay.toml", names)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """`twistd` ends at once and names it."""
    assert _refused(tmp_path, ["stomprelay", "-c", str(tmp_path / "absent.toml")], "absent.toml")


@pytest.mark.parametrize(
    ("arguments", "reactor"),
    [
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
    with twistd(tmp_path, [*arguments, "-l", f"tcp:{port}:interface=127.0.0.1"], [port]) as running:
        assert f"reactor class: {reactor}." in running.log
        with Connection.to(port) as client:
            client.write(CONNECT)
            assert client.frame().startswith(b"CONNECTED\n")


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """`twistd` ends at once and names the endpoint."""
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        assert _refused(tmp_path, ["stomprelay", "-l", f"tcp:{port}:interface=127.0.0.1"], str(port))


def _refused(directory: Path, arguments: list[str], *words: str) -> bool:
    child = start(directory, arguments)
    try:
        assert child.exited(within=PATIENCE), child.last_words
    finally:
        status = child.stop()
    assert status != 0
    assert "Traceback" not in child.output, child.output
    return all(word in child.output for word in words)
