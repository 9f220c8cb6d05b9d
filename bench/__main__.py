"""The command line: `python -m bench`. Exit status 1 when a load was damaged or lost; a goal not met is only said."""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bench import batches, decoder, goals, memory, outage, pipeline, rows, web
from bench.goals import Judged
from bench.load import Load, LoadError, loaded
from bench.machine import AbsentError, describe, raise_descriptor_limit
from bench.rounds import Outcome

OFFLINE: Final = (decoder.NAME, pipeline.NAME, batches.NAME)
LOADED: Final = (*rows.NAMES, web.NAME, outage.NAME, memory.NAME)
GOALS: Final = (*LOADED, decoder.NAME)
NAMES: Final = (*LOADED, *OFFLINE)


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line, read."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Speed beside others, as ratios.")
    parser.add_argument("--rounds", type=int, help="interleaved rounds of each figure (7; 3 when quick)")
    parser.add_argument(
        "--quick", action="store_true", help="shorter runs and fewer rounds: a look, not a figure"
    )
    told = f"{', '.join(NAMES)}; or goals: all but those of the pipeline"
    choices = (*NAMES, "goals")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=choices, default=NAMES, help=told)
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="the figures that have goals, for other programs"
    )
    parsed = parser.parse_args(arguments)
    if "goals" in parsed.only:
        parsed.only = {*parsed.only, *GOALS}
    if parsed.rounds is None:
        parsed.rounds = 3 if parsed.quick else 7
    if parsed.rounds < 1:
        parser.error("--rounds must be at least 1")
    return parsed


class Bench:
    """One run of what was asked for: tables to standard output as they come; all that has a goal is in `judged`."""

    def __init__(self, asked: argparse.Namespace, directory: Path) -> None:
        self.asked = asked
        self.directory = directory
        self.failed = False
        self.judged: list[Judged] = []
        # How long a run takes, about.
        self._seconds = 0.08 if asked.quick else 0.25
        self._rounds = 1 if asked.quick else 3

    def run(self) -> None:
        """All of it, in the order of NAMES."""
        if set(self.asked.only) & set(LOADED):
            try:
                with loaded(self.directory) as load:
                    self._load(load)
            except AbsentError as error:
                self._note(f"nothing is relayed: {error}")
            except LoadError as error:
                self._fail(f"the load does not run: {error}")
        if decoder.NAME in self.asked.only:
            seconds = 0.03 if self.asked.quick else 0.15
            self._say(decoder.NAME, decoder.measure(self.asked.rounds, seconds, self._note))
        place, note = self.directory, self._note
        if pipeline.NAME in self.asked.only:
            records = pipeline.QUICK if self.asked.quick else pipeline.RECORDS
            self._spark(pipeline.NAME, lambda: pipeline.judged(pipeline.measure(place, records, note)))
        if batches.NAME in self.asked.only:
            sizes = batches.QUICK if self.asked.quick else batches.Sizes()
            self._spark(batches.NAME, lambda: batches.judged(batches.measure(place, sizes, note), sizes))
        print(goals.summary(self.judged), flush=True)

    def _load(self, load: Load) -> None:
        """All that needs connections."""
        if wanted := [row for row in rows.ROWS if row.name in self.asked.only]:
            self._rows(load, wanted)
        if web.NAME in self.asked.only:
            warm = 1.0 if self.asked.quick else web.WARM
            for beside in web.measure_all(
                load, self.directory, self.asked.rounds, self._seconds, self._note, warm
            ):
                self._check(beside.found)
                self.judged += beside.judged()
                print(beside.report(), flush=True)
        if outage.NAME in self.asked.only:
            try:
                self._say(outage.NAME, outage.measure(load, self.directory, self._rounds, self._note))
            except LoadError as error:
                self._fail(f"FAILED outage: {error}")
        if memory.NAME in self.asked.only:
            self._say(memory.NAME, memory.measure(load, self.directory, self._rounds, self._note))

    def _rows(self, load: Load, wanted: Sequence[rows.Row]) -> None:
        """What clients do, with the goals for it."""
        with rows.running(load.ports["1.2"], self.directory, self._note) as contenders:
            for row in wanted:
                found = list(rows.outcomes(load, contenders, row, self.asked.rounds, self._seconds))
                self._check(found)
                for outcome in found:
                    self.judged += rows.judged(row, outcome)
                print(rows.report(row, found), flush=True)

    def _spark(self, name: str, measure: Callable[[], Sequence[Judged]]) -> None:
        """What is found with Spark; nothing where a package is missing or a run failed, which is noted."""
        if pipeline.missing():
            self._note(f"{name}: left out, it needs the package {pipeline.missing()}")
            return
        try:
            self._say(name, measure())
        except pipeline.PipelineError as error:
            self._fail(f"FAILED {name}: {error}")

    def _check(self, found: Sequence[Outcome]) -> None:
        """A run that failed fails the bench."""
        self.failed |= any(one.failure for outcome in found for one in outcome.series)

    def _say(self, name: str, judged: Sequence[Judged]) -> None:
        self.judged += judged
        print(goals.verdicts(name, judged), flush=True)

    def _fail(self, text: str) -> None:
        self.failed = True
        self._note(text)

    def _note(self, text: str) -> None:
        """Something that a reader of the figures must know."""
        print(text, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run the bench. Answers the exit status."""
    asked = options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # children are ended on the way out
    raise_descriptor_limit()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stomprelay-bench-") as directory:
        bench = Bench(asked, Path(directory))
        print(", ".join(f"{key} {value}" for key, value in describe().items()), f"; {asked.rounds} rounds\n")
        bench.run()
    print(f"{time.monotonic() - began:.0f} seconds")
    if asked.json:
        found = {"machine": describe(), "goals": [{**asdict(one), "met": one.met} for one in bench.judged]}
        asked.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
