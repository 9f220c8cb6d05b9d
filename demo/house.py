"""What the demo runs: two embedded brokers, and a relay before them that journals. All of loopback, all children."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e import brokers, relay
from tests.e2e.ports import free_port

_CONFIG = """
[listener.shop]
endpoint = "tcp:{port}:interface=127.0.0.1"
trace = true                # SENDs and their MESSAGEs are told apart exactly
upstream = "main"

[upstream.main]
uri = "failover:({brokers})?randomize=false&initialReconnectDelay=400&maxReconnectDelay=1000"
confirm = true

[journal]
directory = "{journal}"
relay = "demo"
segment_age = 5.0
bodies = 256
"""


@dataclass(frozen=True)
class House:
    """It runs: clients connect to `port`, the first of the brokers serves them."""

    port: int
    brokers: tuple[brokers.Broker, ...]
    journal: Path


@contextmanager
def house(directory: Path) -> Iterator[House]:
    """Run it in this folder. At the end the relay is stopped first, so that the journal is complete."""
    journal = directory / "journal"
    journal.mkdir(parents=True, exist_ok=True)
    port = free_port()
    with ExitStack() as stack:
        running = []
        for number in (1, 2):
            home = directory / f"broker-{number}"
            home.mkdir(exist_ok=True)
            running.append(stack.enter_context(brokers.memory(home)))
        addresses = ",".join(f"tcp://127.0.0.1:{broker.port}" for broker in running)
        config = _CONFIG.format(port=port, brokers=addresses, journal=journal)
        stack.enter_context(relay.relay(directory, config, [port]))
        yield House(port, tuple(running), journal)
