"""The command line: `python -m sim`. Exit status 1 when something was found that must not be."""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from itertools import count, takewhile
from math import inf
from pathlib import Path

from sim.chart import Chart
from sim.plan import draw
from sim.run import played, run_all, shape
from sim.shrink import Shrinking, script
from sim.world import World, simulated


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line, read."""
    parser = argparse.ArgumentParser(
        prog="python -m sim", description="Play clients, relays, brokers and the network in virtual time."
    )
    add = parser.add_argument
    add("--seed", type=int, default=random.randrange(1_000_000), help="of all worlds; else drawn")
    add("--world", type=int, help="play this world alone")
    add("--seconds", type=float, help="for how long (60, where --worlds says nothing)")
    add("--worlds", type=int, default=inf, help="how many worlds")
    add("--jobs", type=int, default=1, help="how many processes play worlds (1)")
    add("--watch", nargs="?", const="-", metavar="FILE.svg", help="print a chart, or write it as SVG")
    add("--shrink", action="store_true", help="make the world, or the first with a finding, a small test")
    parsed = parser.parse_args(arguments)
    if parsed.watch and parsed.world is None and not parsed.shrink:
        parser.error("--watch needs --world or --shrink")
    if parsed.seconds is None:
        parsed.seconds = 60.0 if parsed.worlds == inf else inf
    return parsed


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says. Return the exit status."""
    asked = options(arguments)
    print(f"seed {asked.seed}", flush=True)
    if asked.shrink or asked.world is not None:
        with simulated():
            return _one(asked)
    result = run_all(asked.seed, asked.jobs, seconds=asked.seconds, worlds=asked.worlds)
    print(result, flush=True)
    return int(result.failed)


def _one(asked: argparse.Namespace) -> int:
    """Play the world that is asked for, or the first with a finding; shrink and watch it. Return the exit status."""
    until = time.monotonic() + asked.seconds
    numbers = takewhile(lambda number: number < asked.worlds and time.monotonic() < until, count())
    for number in numbers if asked.world is None else [asked.world]:
        plan = draw(asked.seed, number)
        if findings := played(plan):
            break
    told = [f"FOUND {finding}" for finding in findings] or ["nothing is found"]
    if findings and asked.shrink:
        small = Shrinking(plan, shape(findings[0])).result()
        finding = next((each for each in played(small) if shape(each) == shape(findings[0])), findings[0])
        told = [
            f"{len(plan.steps)} steps are {len(small.steps)}. FOUND {finding}\n",
            script(small, finding, plan.seed),
        ]
        plan = small
    if asked.watch:
        chart = Chart(World(plan, tell=True).play())
        if asked.watch == "-":
            print(*chart.lines(), sep="\n")
        else:
            Path(asked.watch).write_text(chart.svg(), encoding="utf-8")
    print(*told, sep="\n")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
