"""What is measured side by side: a direct connection, HAProxy, Twisted's port forwarder, and the relay."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.machine import AbsentError, Child, cores, free_port, raise_descriptor_limit, which

DIRECT: Final = "direct"
HAPROXY: Final = "haproxy"
PORTFORWARD: Final = "portforward"
RELAY: Final = "relay"

PAIRS: Final = (("1.2", "1.2"), ("1.0", "1.2"), ("1.2", "1.0"), ("1.1", "1.2"))
"""Versions of client and broker that are measured; each has a port of its own in each contender."""

_HAPROXY: Final = """\
global
    nbthread 1
    maxconn {connections}
defaults
    mode tcp
    maxconn {connections}
    timeout connect 10s
    timeout client 1h
    timeout server 1h
"""


@dataclass(frozen=True)
class Contender:
    """A running one: its ports by pair of versions; `child` is None for the direct connection."""

    name: str
    ports: Mapping[tuple[str, str], int]
    child: Child | None

    @property
    def pid(self) -> int | None:
        """Whose CPU and memory is counted."""
        return self.child.pid if self.child else None


def _haproxy(ports: Mapping[tuple[str, str], int], brokers: Mapping[str, int], directory: Path) -> list[str]:
    program = which("haproxy")
    if program is None:
        raise AbsentError("haproxy is not installed (Debian package haproxy)")
    config = directory / "haproxy.cfg"
    # Two descriptors a connection, of which it sets itself the limit.
    text = _HAPROXY.format(connections=min(10000, raise_descriptor_limit() // 2 - 100))
    for number, (pair, port) in enumerate(ports.items()):
        text += f"listen pair{number}\n    bind 127.0.0.1:{port}\n    server broker 127.0.0.1:{brokers[pair[1]]}\n"
    config.write_text(text)
    return [program, "-db", "-f", str(config)]


def _portforward(
    ports: Mapping[tuple[str, str], int], brokers: Mapping[str, int], _directory: Path
) -> list[str]:
    pairs = [f"{port}:{brokers[pair[1]]}" for pair, port in ports.items()]
    return [sys.executable, "-m", "bench.forward", *pairs]


def _relay(ports: Mapping[tuple[str, str], int], brokers: Mapping[str, int], directory: Path) -> list[str]:
    text = ""
    for (client, broker), port in ports.items():
        name = f"from_{client}_to_{broker}".replace(".", "")
        text += f'[listener.{name}]\nendpoint = "tcp:{port}:interface=127.0.0.1"\nupstream = "{name}"\n'
        text += f'[upstream.{name}]\nuri = "tcp://127.0.0.1:{brokers[broker]}"\n'
        if client < broker:  # by itself the relay would ask the broker for the client's version
            text += f'versions = ["{broker}"]\n'
    return _configured(text, directory)


def _configured(text: str, directory: Path, name: str = "stomprelay") -> list[str]:
    twistd = Path(sys.executable).with_name("twistd")
    if not twistd.exists():
        raise AbsentError(f"no twistd beside {sys.executable}")
    config = directory / f"{name}.toml"
    config.write_text(text)
    return [str(twistd), "-n", "--pidfile=", "stomprelay", "-c", str(config)]


_COMMANDS: Final = {HAPROXY: _haproxy, PORTFORWARD: _portforward, RELAY: _relay}


@contextmanager
def contender(name: str, brokers: Mapping[str, int], directory: Path) -> Iterator[Contender]:
    """Run one in front of a null broker (its ports by version) on the core that is kept for it.

    Raises `AbsentError` when it is not installed, `RuntimeError` when it does not start to listen.
    """
    if name == DIRECT:
        yield Contender(name, {pair: brokers[pair[1]] for pair in PAIRS}, None)
        return
    ports = {pair: free_port() for pair in PAIRS}
    with _listening(name, _COMMANDS[name](ports, brokers, directory), ports.values(), directory) as child:
        yield Contender(name, ports, child)


@contextmanager
def _listening(name: str, command: Sequence[str], ports: Iterable[int], directory: Path) -> Iterator[Child]:
    child = Child(name, command, cores()[1], directory / f"{name}.log")
    try:
        for port in ports:
            child.wait_for_port(port)
        yield child
    finally:
        child.stop()


@contextmanager
def upstreams(settings: Mapping[str, str], directory: Path) -> Iterator[list[Contender]]:
    """One relay with these upstreams, the TOML of each by its name: a contender for each, all of the same process.

    All are for clients and brokers of 1.2. Raises as `contender` does.
    """
    ports = {name: free_port() for name in settings}
    text = "".join(
        f'[listener.{name}]\nendpoint = "tcp:{ports[name]}:interface=127.0.0.1"\nupstream = "{name}"\n'
        f"[upstream.{name}]\n{setting}\n"
        for name, setting in settings.items()
    )
    with _listening(RELAY, _configured(text, directory), ports.values(), directory) as child:
        yield [Contender(name, {("1.2", "1.2"): port}, child) for name, port in ports.items()]


@contextmanager
def relays(settings: Mapping[str, str], broker: int, directory: Path) -> Iterator[list[Contender]]:
    """A relay for each of these, in front of a null broker: the TOML that it has beside its upstream, by its name.

    All are for clients and brokers of 1.2. Raises as `contender` does.
    """
    with ExitStack() as stack:
        running = []
        for name, setting in settings.items():
            port = free_port()
            text = (
                f'[listener.main]\nendpoint = "tcp:{port}:interface=127.0.0.1"\n'
                f'[upstream.main]\nuri = "tcp://127.0.0.1:{broker}"\n{setting}\n'
            )
            command = _configured(text, directory, name)
            child = stack.enter_context(_listening(name, command, [port], directory))
            running.append(Contender(name, {("1.2", "1.2"): port}, child))
        yield running


@contextmanager
def contenders(
    brokers: Mapping[str, int],
    directory: Path,
    note: Callable[[str], None],
) -> Iterator[list[Contender]]:
    """All that can run here, at once; why another cannot is noted."""
    with ExitStack() as stack:
        running = []
        for name in (DIRECT, HAPROXY, PORTFORWARD, RELAY):
            try:
                running.append(stack.enter_context(contender(name, brokers, directory)))
            except (AbsentError, RuntimeError) as error:
                note(f"{name} is left out: {error}")
        yield running
