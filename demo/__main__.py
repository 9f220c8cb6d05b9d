"""The course of the demo: `python -m demo`; with `move` that of a move. The last line says where the report lies."""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo import move
from demo.clients import Crew
from tests.e2e import brokers, relay
from tests.e2e.ports import free_port

SECONDS: Final = 20.0
"""With what Spark takes afterwards it is less than a minute."""


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


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line, read."""
    parser = argparse.ArgumentParser(
        prog="python -m demo", description="Clients, a relay, a failover; then tables and a report."
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"how long the clients work ({SECONDS:g})"
    )
    parser.add_argument(
        "--directory", type=Path, default=Path("build/demo"), help="where everything goes (build/demo)"
    )
    return parser.parse_args(arguments)


def play(running: House, seconds: float) -> dict[str, dict[str, int]]:
    """Clients work for so long; in the middle the broker that serves them is killed. Answers what they counted."""
    crew = Crew(running.port)
    _say(f"8 clients work for {seconds:g} s")
    time.sleep(seconds / 2)
    first = running.brokers[0]
    _say(f"the broker on port {first.port} is killed")
    first.kill()
    time.sleep(seconds / 2)
    crew.rest()
    crew.leave()
    return {name: dict(counts) for name, counts in crew.counts.items()}


def clear(directory: Path) -> None:
    """Make the folder, or remove what an earlier demo left in it, and nothing else."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("journal", "tables", "broker-1", "broker-2"):
        shutil.rmtree(directory / name, ignore_errors=True)
    for name in ("report.html", "stomprelay.toml"):
        (directory / name).unlink(missing_ok=True)


def pipeline(command: str, *arguments: str) -> None:
    """Run `stomprelay-pipeline`. Raises `CalledProcessError` when it fails."""
    subprocess.run([sys.executable, "-m", "stomprelay.pipeline.cli", command, *arguments], check=True)


def main(arguments: Sequence[str]) -> int:
    """Run it. Answers the exit status."""
    if arguments[:1] == ["move"]:
        return move.main(arguments[1:])
    asked = options(arguments)
    directory = asked.directory.resolve()
    clear(directory)
    _say("two brokers and a relay start")
    with house(directory) as running:
        counts = play(running, asked.seconds)
    for name, counted in counts.items():
        _say(f"{name:8} " + ", ".join(f"{what} {number}" for what, number in counted.items()))
    journal, tables, report = (directory / name for name in ("journal", "tables", "report.html"))
    _say("the pipeline reads the journal")
    pipeline("once", "--journal", str(journal), "--tables", str(tables), "--stuck-after", "5")
    pipeline("report", "--tables", str(tables), "--output", str(report))
    _say(f"ask the tables: stomprelay-pipeline query --tables {tables} 'SELECT * FROM failovers'")
    print(report)
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
