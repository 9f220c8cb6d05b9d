"""The command line: `python -m bench`. Exit status 1 when a load was damaged or lost; a goal not met is only said."""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench import connector, decoder, journal, latency, memory, outage, pipeline, survival, throughput
from bench.contenders import contenders
from bench.load import RABBITMQ, Load, LoadError, loaded
from bench.machine import AbsentError, describe, raise_descriptor_limit
from bench.rounds import Group, Outcome, measure

RELAYED = (*throughput.MODES, latency.MODE)
ALONE = (decoder.NAME, pipeline.NAME, connector.NAME)
NAMES = (*RELAYED, survival.NAME, journal.NAME, outage.NAME, memory.NAME, *ALONE)


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line, read."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Speed beside others, as ratios.")
    parser.add_argument("--rounds", type=int, help="interleaved rounds of each figure (7; 3 when quick)")
    parser.add_argument(
        "--quick", action="store_true", help="shorter runs and fewer rounds: a look, not a figure"
    )
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=NAMES, default=NAMES, help=", ".join(NAMES)
    )
    parser.add_argument("--bodies", type=_sizes, default=[100, 1024, 65536], help="octets: 100,1024,65536")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every run, for other programs")
    parsed = parser.parse_args(arguments)
    if parsed.rounds is None:
        parsed.rounds = 3 if parsed.quick else 7
    if parsed.rounds < 1:
        parser.error("--rounds must be at least 1")
    return parsed


def _sizes(text: str) -> list[int]:
    sizes = text.split(",")
    if not all(size.isdecimal() and int(size) for size in sizes):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of sizes as 100,1024,65536")
    return [int(size) for size in sizes]


class Bench:
    """One run of what was asked for: tables to standard output as they come, everything else in `found`."""

    def __init__(self, asked: argparse.Namespace, directory: Path) -> None:
        self.asked = asked
        self.directory = directory
        self.notes: list[str] = []
        self.failed = False
        self.found: dict[str, object] = {"machine": describe(), "rounds": asked.rounds, "notes": self.notes}

    def run(self) -> None:
        """All of it, in the order of NAMES."""
        wanted = [name for name in NAMES if name in self.asked.only]
        if not set(wanted) <= set(ALONE):
            try:
                with loaded(self.directory) as load:
                    self.load(load, wanted)
            except AbsentError as error:
                self.note(f"nothing is relayed: {error}")
            except LoadError as error:
                self.note(f"the load does not run: {error}")
                self.failed = True
        if decoder.NAME in wanted:
            rates = decoder.measure(self.asked.bodies, self.asked.rounds, 0.03 if self.asked.quick else 0.15)
            self.found[decoder.NAME] = [asdict(rate) for rate in rates]
            print(decoder.report(rates), flush=True)
        if pipeline.NAME in wanted:
            self.pipeline()
        if connector.NAME in wanted:
            self.connector()

    def load(self, load: Load, wanted: Sequence[str]) -> None:
        """All that needs connections."""
        relayed = [name for name in wanted if name in RELAYED]
        if relayed:
            self.relay(load, relayed)
        if survival.NAME in wanted:
            self.survival(load)
        if journal.NAME in wanted:
            self.journal(load)
        if outage.NAME in wanted:
            self.outage(load)
        if memory.NAME in wanted:
            self.memory(load)

    @property
    def seconds(self) -> float:
        """How long a run takes, about."""
        return 0.08 if self.asked.quick else 0.2

    def relay(self, load: Load, names: Sequence[str]) -> None:
        """Streams, loops and round trips."""
        with contenders(load.ports, self.directory, self.note) as running:
            for name in names:
                outcomes = []
                for group in self.groups(name):
                    outcome = measure(load, running, group, self.asked.rounds, self.seconds)
                    outcomes.append(outcome)
                    self.failed |= any(one.failure for one in outcome.series)
                    told = latency.report(outcome) if name == latency.MODE else throughput.report(outcome)
                    print(told, flush=True)
                self.found[name] = [_plain(outcome) for outcome in outcomes]

    def groups(self, name: str) -> list[Group]:
        """What is measured under one of the NAMES that are relayed."""
        bodies = self.asked.bodies
        return latency.groups(bodies) if name == latency.MODE else throughput.groups(name, bodies)

    def survival(self, load: Load) -> None:
        """The cost of failover and of confirmed sending."""
        try:
            with survival.running(load.ports, self.directory) as relay:
                found = [
                    (traffic, survival.outcome(load, relay, traffic, self.asked.rounds, self.seconds))
                    for traffic in survival.TRAFFIC
                ]
        except (AbsentError, RuntimeError) as error:
            self.note(f"survival: the relay is left out: {error}")
            return
        self.failed |= any(one.failure for _, outcome in found for one in outcome.series)
        self.found[survival.NAME] = [
            {"traffic": asdict(traffic), **_plain(outcome)} for traffic, outcome in found
        ]
        print(survival.report(found), flush=True)

    def journal(self, load: Load) -> None:
        """The cost of writing down what passes."""
        try:
            with journal.running(load.ports[RABBITMQ], self.directory) as relays:
                found = journal.outcomes(load, relays, self.asked.rounds, self.seconds)
        except (AbsentError, RuntimeError) as error:
            self.note(f"journal: the relay is left out: {error}")
            return
        self.failed |= any(one.failure for outcome in found for one in outcome.series)
        self.found[journal.NAME] = [_plain(outcome) for outcome in found]
        print(journal.report(found), flush=True)

    def outage(self, load: Load) -> None:
        """Brokers killed."""
        steps = outage.steps(quick=self.asked.quick)
        try:
            found = outage.measure(load, self.directory, steps, self.note)
        except LoadError as error:
            self.note(f"FAILED outage: {error}")
            self.failed = True
            return
        self.found[outage.NAME] = [asdict(one) for one in found]
        print(outage.report(found), flush=True)

    def pipeline(self) -> None:
        """From journals to tables."""
        if pipeline.missing():
            self.note(f"pipeline: left out, it needs the package {pipeline.missing()}")
            return
        try:
            found = pipeline.measure(self.directory, pipeline.steps(quick=self.asked.quick), self.note)
        except pipeline.PipelineError as error:
            self.note(f"FAILED pipeline: {error}")
            self.failed = True
            return
        self.found[pipeline.NAME] = [asdict(one) for one in found]
        print(pipeline.report(found), flush=True)

    def connector(self) -> None:
        """Spark's way to brokers and back."""
        if pipeline.missing():
            self.note(f"connector: left out, it needs the package {pipeline.missing()}")
            return
        rounds, messages = (1, 20_000) if self.asked.quick else (3, 100_000)
        rates = connector.measure(self.directory, rounds, messages)
        self.found[connector.NAME] = [asdict(rate) for rate in rates]
        print(connector.report(rates), flush=True)

    def memory(self, load: Load) -> None:
        """Idle connections."""
        rounds = 1 if self.asked.quick else 3
        steps = memory.steps(quick=self.asked.quick)
        idle = memory.measure(load, self.directory, rounds, steps, self.note)
        self.found[memory.NAME] = [asdict(one) for one in idle]
        print(memory.report(idle), flush=True)

    def note(self, text: str) -> None:
        """Something that a reader of the figures must know."""
        self.notes.append(text)
        print(text, flush=True)


def _plain(outcome: Outcome) -> dict[str, object]:
    return {"group": outcome.group.name, "series": [asdict(series) for series in outcome.series]}


def main(arguments: Sequence[str]) -> int:
    """Run the bench. Answers the exit status."""
    asked = options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # children are ended on the way out
    raise_descriptor_limit()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stomprelay-bench-") as directory:
        bench = Bench(asked, Path(directory))
        print(", ".join(f"{key} {value}" for key, value in describe().items()), f"; {asked.rounds} rounds\n")
        bench.run()
    print(f"{time.monotonic() - started:.0f} seconds")
    if asked.json:
        asked.json.write_text(json.dumps(bench.found, indent=1) + "\n")
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
