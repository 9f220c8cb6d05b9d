"""`twistd stomprelay` and `twistd stompbroker`: their options, and what they make."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.application.service import IService
from twisted.internet.testing import MemoryReactorClock
from twisted.python import usage

import stomprelay
from stomprelay import broker_tap, tap
from stomprelay.cli import release
from stomprelay.config import OPTIONS
from stomprelay.service.embedded import BrokerService
from stomprelay.service.network.endpoints import CannotStart
from stomprelay.service.relay import RelayService
from stomprelay.service.workers.service import WorkersService


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """No other test has its signals wait."""
    yield
    release()


def parsed(*arguments: str) -> tap.Options:
    """The options, as `twistd` reads them."""
    options = tap.Options()
    options.parseOptions(arguments)
    return options


def made(*arguments: str) -> RelayService:
    """What they make."""
    service = tap.makeService(parsed(*arguments), MemoryReactorClock())
    assert IService.providedBy(service)
    assert isinstance(service, RelayService)
    return service


def listeners(service: RelayService) -> dict[str, tuple[str, str]]:
    """Endpoint and broker by listener."""
    known = (each.listener for each in service.state.sessions.listeners.values())
    return {each.name: (each.endpoint, ",".join(map(str, each.upstream.brokers))) for each in known}


@pytest.mark.parametrize("short", [True, False])
def test_listen_and_upstream(short: bool) -> None:
    """In long and in short; `listen` as often as one likes."""
    listen, upstream = ("-l", "-u") if short else ("--listen", "--upstream")
    service = made(listen, "tcp:1", listen, "unix:/x", upstream, "ssl://localhost:61614")
    assert sorted(listeners(service).values()) == [
        (each, "ssl://localhost:61614") for each in ("tcp:1", "unix:/x")
    ]


@pytest.mark.parametrize("option", ["-c", "--config"])
def test_a_file(tmp_path: Path, option: str) -> None:
    """And options win over it."""
    path = tmp_path / "relay.toml"
    path.write_text('[listener.public]\nendpoint = "tcp:7"\n[upstream.main]\nuri = "tcp://a:1"\n')
    assert listeners(made(option, str(path))) == {"public": ("tcp:7", "tcp://a:1")}
    assert listeners(made(option, str(path), "-u", "tcp://b:2")) == {"public": ("tcp:7", "tcp://b:2")}


@pytest.mark.parametrize(
    "said", ["-c /absent.toml", "-u nonsense", "-u failover:()", "-l 61613", "--admin 8161", "--no"]
)
def test_a_mistake_on_the_command_line(said: str) -> None:
    """Likewise."""
    with pytest.raises(usage.UsageError):
        parsed(*said.split())


@pytest.mark.parametrize("options", [tap.Options, broker_tap.Options])
def test_the_version_is_ours(options: type[usage.Options], capsys: pytest.CaptureFixture[str]) -> None:
    """Not Twisted's, which `twistd --version` says."""
    with pytest.raises(SystemExit) as ended:
        options().parseOptions(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"stomprelay {stomprelay.__version__}\n"


def test_every_option_says_what_it_is_for() -> None:
    """In the same words as `stomprelay run --help`."""
    shown = " ".join(str(tap.Options()).split())
    for name, option in OPTIONS.items():
        assert f"--{name.replace('_', '-')}=" in shown
        assert option.meaning in shown


def test_the_reactor_is_the_global_one() -> None:
    """Unless another is passed in."""
    from twisted.internet import reactor

    service = tap.makeService(parsed())
    assert isinstance(service, RelayService)
    assert service.state.runtime.reactor is reactor


@pytest.mark.e2e
@pytest.mark.parametrize("daemon", [True, False])
def test_a_start_that_fails_ends_twistd(tmp_path: Path, daemon: bool) -> None:
    """With status 1, a line in the log, and no traceback; the shell that started a daemon gets its prompt back."""
    log = tmp_path / "twistd.log"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"tcp:{taken.getsockname()[1]}:interface=127.0.0.1"
        ended = subprocess.run(
            [
                Path(sys.executable).with_name("twistd"),
                *([] if daemon else ["--nodaemon"]),
                f"--pidfile={tmp_path / 'twistd.pid'}",
                f"--logfile={log}",
                *("stomprelay", "--listen", place),
            ],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 1
    assert ("CannotStart" in ended.stdout) is daemon
    told = ended.stdout + log.read_text()
    assert f"cannot listen on {place}: Address already in use" in told
    assert "Traceback" not in told
    # A daemon tells the shell before it tidies up.
    deadline = time.monotonic() + 60
    while (tmp_path / "twistd.pid").exists():
        assert time.monotonic() < deadline


def test_what_cannot_start(tmp_path: Path) -> None:
    """A certificate that is not there ends the parent of workers; where to take over from has to be said."""
    path = tmp_path / "relay.toml"
    path.write_text('workers = 2\n[listener.public.tls]\ncertificate = "no.pem"\nkey = "no.key"\n')
    with pytest.raises(SystemExit, match=r"^stomprelay: listener\.public\.tls\.certificate: .*no\.pem"):
        tap.makeService(parsed("-c", str(path), "-u", "tcp://a:1"), MemoryReactorClock())
    with pytest.raises(
        SystemExit, match=r"^stomprelay: command line: --take-over: needs handover in the config"
    ):
        tap.makeService(parsed("--take-over"), MemoryReactorClock())


@pytest.mark.parametrize("which", ["port", "journal"])
def test_workers_that_cannot_start(tmp_path: Path, which: str) -> None:
    """A port that is taken, or a folder that cannot be used, ends the parent; no worker begins."""
    from twisted.internet import reactor

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] if which == "port" else 0
        (tmp_path / "file").touch()
        folder = tmp_path / ("folder" if which == "port" else "file")
        service = tap.makeService(
            parsed(
                *("--listen", f"tcp:{port}:interface=127.0.0.1", "-u", "tcp://a:1"),
                *("--workers", "2", "--journal", str(folder)),
            ),
            reactor,
        )
        assert isinstance(service, WorkersService)
        with pytest.raises(CannotStart, match=r"cannot (listen on|be used)"):
            service.startService()
        assert service.crew.workers == []


def brokers_options(*arguments: str) -> broker_tap.Options:
    """The options, as `twistd` reads them."""
    options = broker_tap.Options()
    options.parseOptions(arguments)
    return options


def ports(*arguments: str) -> list[tuple[int, str]]:
    """Port and interface of each endpoint."""
    reactor: Any = MemoryReactorClock()
    service = broker_tap.makeService(brokers_options(*arguments), reactor)
    assert isinstance(service, BrokerService)
    service.privilegedStartService()
    return [(port, interface) for port, _, _, interface in reactor.tcpServers]


def test_where_a_broker_listens() -> None:
    """As often as one likes; one that cannot be ends the process with the reason, and no traceback."""
    assert ports("-l", "tcp:1", "--listen", "tcp:2:interface=127.0.0.1") == [(1, ""), (2, "127.0.0.1")]
    with pytest.raises(SystemExit, match=r"^stompbroker: endpoint 'nonsense:1'"):
        broker_tap.makeService(brokers_options("-l", "nonsense:1"), MemoryReactorClock())


def test_the_reactor_of_a_broker_is_the_global_one() -> None:
    """Unless another is passed in."""
    from twisted.internet import reactor

    service = broker_tap.makeService(brokers_options())
    assert isinstance(service, BrokerService)
    assert service.runtime.reactor is reactor
