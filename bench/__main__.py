"""The command line: `python -m bench`. Exit status 1 when a load was damaged or lost; a goal not met is only said."""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bench import (
    batches,
    decoder,
    goals,
    journal,
    memory,
    outage,
    pipeline,
    rows,
    survival,
    web,
    websocket,
)
from bench.contenders import HAPROXY, JOURNAL, RELAY
from bench.goals import Judged
from bench.load import RABBITMQ, Load, LoadError, loaded
from bench.machine import AbsentError, describe, raise_descriptor_limit
from bench.report import median, ratios, spread
from bench.rounds import Outcome

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

OFFLINE = (decoder.NAME, pipeline.NAME, batches.NAME)
GOALS = (*rows.NAMES, web.NAME, outage.NAME, memory.NAME, decoder.NAME)
ALONE = (RELAY, JOURNAL, HAPROXY)
NAMES = (
    *rows.NAMES,
    web.NAME,
    survival.NAME,
    journal.NAME,
    outage.NAME,
    memory.NAME,
    websocket.NAME,
    *OFFLINE,
)


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line, read."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Speed beside others, as ratios.")
    parser.add_argument("--rounds", type=int, help="interleaved rounds of each figure (7; 3 when quick)")
    parser.add_argument(
        "--quick", action="store_true", help="shorter runs and fewer rounds: a look, not a figure"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        choices=(*NAMES, "goals"),
        default=NAMES,
        help=f"{', '.join(NAMES)}; or goals: all of the relay's that has one",
    )
    parser.add_argument(
        "--alone",
        type=float,
        metavar="SECONDS",
        help="the relay alone carries a row for so long: for a profiler",
    )
    parser.add_argument(
        "--contender", choices=ALONE, default=RELAY, help="who is alone (relay); journal: the relay with one"
    )
    parser.add_argument(
        "--bodies", type=_sizes, default=[100, 1024, 65536], help="the decoder's: 100,1024,65536"
    )
    parser.add_argument(
        "--long",
        action="store_true",
        help="a journal of 20 million records, too, to the pipeline; 200 batches after 5 million",
    )
    parser.add_argument(
        "--records", type=int, nargs="+", metavar="N", help="of pipeline: the sizes of its journals"
    )
    for name, what in (
        ("first", "records before"),
        ("backlog", "undelivered messages"),
        ("batches", "how many"),
    ):
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"of batches: {what}")
    parser.add_argument("--traced", action="store_true", help="of batches: messages carry the relay's trace")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every run, for other programs")
    parsed = parser.parse_args(arguments)
    if "goals" in parsed.only:
        parsed.only = {*parsed.only, *GOALS}
    if parsed.rounds is None:
        parsed.rounds = 3 if parsed.quick else 7
    if parsed.rounds < 1:
        parser.error("--rounds must be at least 1")
    if parsed.alone and not set(parsed.only) <= set(rows.NAMES):
        parser.error(f"--alone goes with --only and of {', '.join(rows.NAMES)}")
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
        self.judged: list[Judged] = []
        self.found: dict[str, object] = {"machine": describe(), "rounds": asked.rounds, "notes": self.notes}

    def run(self) -> None:
        """All of it, in the order of NAMES."""
        wanted = [name for name in NAMES if name in self.asked.only]
        if not set(wanted) <= set(OFFLINE):
            try:
                with loaded(self.directory) as load:
                    self.load(load, wanted)
            except AbsentError as error:
                self.note(f"nothing is relayed: {error}")
            except LoadError as error:
                self.note(f"the load does not run: {error}")
                self.failed = True
        if decoder.NAME in wanted:
            self.decoder()
        if pipeline.NAME in wanted:
            self.pipeline()
        if batches.NAME in wanted:
            self.batches()
        if self.judged:
            self.found["goals"] = [{**asdict(one), "met": one.met} for one in self.judged]
            print(goals.summary(self.judged), flush=True)

    def load(self, load: Load, wanted: Sequence[str]) -> None:
        """All that needs connections."""
        relayed = [row for row in rows.ROWS if row.name in wanted]
        if self.asked.alone:
            self.alone(load, relayed)
            return
        if relayed:
            self.carry(load, relayed)
        if web.NAME in wanted:
            self.web(load)
        if survival.NAME in wanted:
            self.survival(load)
        if journal.NAME in wanted:
            self.journal(load)
        if outage.NAME in wanted:
            self.outage(load)
        if memory.NAME in wanted:
            self.memory(load)
        if websocket.NAME in wanted:
            self.websocket(load)

    @property
    def seconds(self) -> float:
        """How long a run takes, about."""
        return 0.08 if self.asked.quick else 0.25

    def carry(self, load: Load, wanted: Sequence[rows.Row]) -> None:
        """What clients do, with the goals for it."""
        with rows.running(load.ports["1.2"], self.directory, self.note) as contenders:
            for row in wanted:
                found = list(rows.outcomes(load, contenders, row, self.asked.rounds, self.seconds))
                self.took(row.name, found)
                for outcome in found:
                    self.judged += rows.judged(row, outcome)
                print(rows.report(row, found), flush=True)

    def alone(self, load: Load, wanted: Sequence[rows.Row]) -> None:
        """One contender and its load, to be looked at."""
        asked = [self.asked.contender]
        with rows.running(load.ports["1.2"], self.directory, self.note, asked) as contenders:
            for one in contenders:
                for row in wanted:
                    rows.alone(load, one, row, self.asked.alone, lambda text: print(text, flush=True))

    def took(self, name: str, found: Sequence[Outcome]) -> None:
        """Keep the runs of some outcomes; one that failed fails the bench."""
        self.failed |= any(one.failure for outcome in found for one in outcome.series)
        self.found[name] = [asdict(outcome) for outcome in found]

    def web(self, load: Load) -> None:
        """STOMP over WebSocket."""
        warm = 1.0 if self.asked.quick else web.WARM
        for beside in web.measure_all(load, self.directory, self.asked.rounds, self.seconds, self.note, warm):
            self.took(f"{web.NAME}, {beside.name}", beside.found)
            self.judged += beside.judged()
            print(beside.report(), flush=True)

    def survival(self, load: Load) -> None:
        """The cost of failover and of confirmed sending."""
        try:
            with survival.running(load.ports, self.directory) as relay:
                found = [
                    survival.outcome(load, relay, traffic, self.asked.rounds, self.seconds)
                    for traffic in survival.TRAFFIC
                ]
        except (AbsentError, RuntimeError) as error:
            self.note(f"survival: the relay is left out: {error}")
            return
        self.took(survival.NAME, found)
        print(survival.report(found), flush=True)

    def journal(self, load: Load) -> None:
        """The cost of writing down what passes."""
        try:
            with journal.running(load.ports[RABBITMQ], self.directory) as relays:
                found = journal.outcomes(load, relays, self.asked.rounds, self.seconds)
        except (AbsentError, RuntimeError) as error:
            self.note(f"journal: the relay is left out: {error}")
            return
        self.took(journal.NAME, found)
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
        self.judged += outage.judged(found)
        print(outage.report(found), flush=True)

    def decoder(self) -> None:
        """Frames a second without sockets."""
        rates = decoder.measure(self.asked.bodies, self.asked.rounds, 0.03 if self.asked.quick else 0.15)
        self.found[decoder.NAME] = [asdict(rate) for rate in rates]
        scans = {row.name for row in decoder.rows() if row.goal is goals.SCAN}
        at_kib = {rate.name: rate.rates for rate in rates if rate.body == goals.KIB}
        peer = at_kib.get("stomp.py", [])
        for name in scans & at_kib.keys():
            over = spread(ratios(at_kib[name], peer)) if peer else None
            self.judged.append(Judged(f"decoder, {name}", "over stomp.py", median(peer), over, goals.SCAN))
        print(decoder.report(rates), flush=True)

    def measured(self, name: str, measure: Callable[[], Sequence[T]]) -> Sequence[T]:
        """What was found with Spark; nothing where a package is missing or a run failed, which is noted."""
        if pipeline.missing():
            self.note(f"{name}: left out, it needs the package {pipeline.missing()}")
            return ()
        try:
            found = measure()
        except pipeline.PipelineError as error:
            self.note(f"FAILED {name}: {error}")
            self.failed = True
            return ()
        self.found[name] = [asdict(one) for one in found]
        return found

    def pipeline(self) -> None:
        """From journals to tables."""
        steps = self.asked.records or pipeline.steps(quick=self.asked.quick, long=self.asked.long)
        found = self.measured(pipeline.NAME, lambda: pipeline.measure(self.directory, steps, self.note))
        if found:
            self.judged += pipeline.judged(found)
            print(pipeline.report(found), flush=True)

    def batches(self) -> None:
        """Small batches, one after another."""
        asked = self.asked
        sizes = batches.QUICK if asked.quick else batches.LONG if asked.long else batches.Sizes()
        given = {name: getattr(asked, name) for name in ("first", "backlog", "batches", "traced")}
        sizes = replace(sizes, **{name: value for name, value in given.items() if value is not None})
        found = self.measured(batches.NAME, lambda: batches.measure(self.directory, sizes, self.note))
        if found:
            self.judged += batches.judged(found, sizes)
            print(batches.report(found, sizes), flush=True)

    def memory(self, load: Load) -> None:
        """Idle connections."""
        rounds = 1 if self.asked.quick else 3
        steps = memory.steps(quick=self.asked.quick)
        idle = memory.measure(load, self.directory, rounds, steps, self.note)
        self.found[memory.NAME] = [asdict(one) for one in idle]
        self.judged += memory.judged(idle)
        print(memory.report(idle), flush=True)

    def websocket(self, load: Load) -> None:
        """WebSocket beside plain TCP."""
        rounds = 1 if self.asked.quick else 3
        try:
            with websocket.running(load.ports["1.2"], self.directory) as relay:
                found = websocket.outcomes(load, relay, self.asked.rounds, self.seconds)
        except (AbsentError, RuntimeError) as error:
            self.note(f"websocket: the relay is left out: {error}")
            return
        self.took(websocket.NAME, found)
        most = 1000 if self.asked.quick else websocket.HELD
        idle = websocket.idle(load, self.directory, rounds, self.note, most)
        self.found[f"{websocket.NAME}-idle"] = [asdict(one) for one in idle]
        print(websocket.report(found, idle), flush=True)

    def note(self, text: str) -> None:
        """Something that a reader of the figures must know."""
        self.notes.append(text)
        print(text, flush=True)


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
