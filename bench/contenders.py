"""What is measured side by side: HAProxy and the relay."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.load import Case
from bench.machine import AbsentError, cores, raise_descriptor_limit, started, wait_for_port, which
from bench.rounds import Entry
from tests.e2e.child import Child
from tests.e2e.ports import free_port

HAPROXY: Final = "haproxy"
RELAY: Final = "relay"
JOURNAL: Final = "journal"

PLAIN: Final = "plain"
FAILOVER: Final = "failover"
CONFIRM: Final = "confirm"
BRIDGE: Final = "bridge"
RULED: Final = "ruled"
MAPPED: Final = "mapped"

ROUTES: Final = {
    PLAIN: 'uri = "tcp://{broker}"',
    FAILOVER: 'uri = "failover:(tcp://{broker})"',
    CONFIRM: 'uri = "failover:(tcp://{broker})"\nconfirm = true',
    BRIDGE: 'uri = "tcp://{broker}"\nversions = ["1.2"]',
    RULED: """uri = "tcp://{broker}"
[listener.ruled.limits]
frames = 1000000
bytes = 900000000
[[rule]]
listener = "ruled"
action = "allow"
send = "/queue/*"
subscribe = "/queue/*"
""",
    MAPPED: 'uri = "tcp://{broker}"\nprofile = "artemis"\n[upstream.mapped.map]\nclients = "activemq"',
}
"""Ways to a null broker of 1.2, by the relay's settings; a bridge asks for 1.2 whatever the client speaks. Where there
are rules and rates they allow all that is sent."""

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
    """A program that runs, with its ports by route. The CPU and the memory of its process are counted."""

    name: str
    ports: Mapping[str, int]
    pid: int

    def entry(self, case: Case, route: str = PLAIN, name: str | None = None) -> Entry:
        """Its part in a round, under its own name if no other is given."""
        return Entry(name or self.name, self.ports[route], [self.pid], case)


@contextmanager
def haproxy(broker: int, directory: Path) -> Iterator[Contender]:
    """HAProxy in front of a null broker: one port, for every route. Raises as `relay` does."""
    program = which("haproxy")
    if program is None:
        raise AbsentError("haproxy is not installed (Debian package haproxy)")
    port = free_port()
    config = directory / "haproxy.cfg"
    # Two descriptors a connection, of which it sets itself the limit.
    text = _HAPROXY.format(connections=min(12000, raise_descriptor_limit() // 2 - 100))
    config.write_text(
        f"{text}listen bench\n    bind 127.0.0.1:{port}\n    server broker 127.0.0.1:{broker}\n"
    )
    with listening(HAPROXY, [program, "-db", "-f", str(config)], [port], directory) as child:
        yield Contender(HAPROXY, dict.fromkeys(ROUTES, port), child.pid)


@contextmanager
def relay(
    routes: Mapping[str, str], directory: Path, name: str = RELAY, settings: str = "", listener: str = ""
) -> Iterator[Contender]:
    """One relay with a listener for each route, which is the TOML of its upstream; `settings` is other TOML it has,
    `listener` what each listener has.

    It runs on the core that is kept for what is measured. Raises `AbsentError` when it is not installed,
    `RuntimeError` when it does not start to listen.
    """
    program = Path(sys.executable).with_name("stomprelay")
    if not program.exists():
        raise AbsentError(f"no stomprelay beside {sys.executable}")
    ports = {route: free_port() for route in routes}
    config = directory / f"{name}.toml"
    config.write_text(
        "".join(
            f'[listener.{route}]\nendpoint = "tcp:{ports[route]}:interface=127.0.0.1"\nupstream = "{route}"\n{listener}'
            f"[upstream.{route}]\n{upstream}\n"
            for route, upstream in routes.items()
        )
        + settings
    )
    command = [str(program), "run", "--config", str(config)]
    with listening(name, command, ports.values(), directory) as child:
        yield Contender(name, ports, child.pid)


def routes_to(broker: int) -> dict[str, str]:
    """All ROUTES to a null broker's port."""
    return {route: upstream.format(broker=f"127.0.0.1:{broker}") for route, upstream in ROUTES.items()}


def journal_of(folder: Path) -> str:
    """Return the settings of a journal of heads. It is kept short: fresh memory is not what is measured."""
    return (
        f'[journal]\ndirectory = "{folder}"\nbodies = "none"\n'
        f"segment_size = {16 << 20}\nretain_size = {64 << 20}\n"
    )


@contextmanager
def listening(name: str, command: Sequence[str], ports: Iterable[int], directory: Path) -> Iterator[Child]:
    """A child on the core of what is measured that listens on these ports. Raises `RuntimeError` when it does not."""
    child = started(name, command, directory, cores()[1])
    try:
        for port in ports:
            wait_for_port(child, port)
        yield child
    finally:
        child.stop()
