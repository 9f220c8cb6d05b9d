"""The command line: `python -m sim`. Exit status 1 when something was found that must not be."""

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import count
from math import inf
from pathlib import Path

from sim.chart import Chart
from sim.plan import Plan, draw
from sim.run import played, run_all, shape
from sim.shrink import Shrinking, script
from sim.world import World, simulated


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line, read."""
    parser = argparse.ArgumentParser(
        prog="python -m sim", description="Play clients, relays, brokers and the network in virtual time."
    )
    parser.add_argument("--seed", type=int, help="of all worlds; another one each time, and it is printed")
    parser.add_argument("--world", type=int, help="play this world alone")
    parser.add_argument("--seconds", type=float, help="for how long (60, where --worlds says nothing)")
    parser.add_argument("--worlds", type=int, help="how many worlds")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes play worlds (1)")
    parser.add_argument(
        "--watch",
        nargs="?",
        const="-",
        metavar="FILE.svg",
        help="print the world as a chart of its time, or write it to a file as SVG",
    )
    parser.add_argument(
        "--shrink",
        action="store_true",
        help="make the world, or the first one in which something is found, as small as it can be, and print it as"
        " a test",
    )
    parsed = parser.parse_args(arguments)
    if parsed.watch and parsed.world is None and not parsed.shrink:
        parser.error("--watch needs --world or --shrink")
    if parsed.seed is None:
        parsed.seed = random.randrange(1_000_000)
    if parsed.seconds is None:
        parsed.seconds = 60.0 if parsed.worlds is None else inf
    if parsed.worlds is None:
        parsed.worlds = inf
    return parsed


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says. Return the exit status."""
    asked = options(arguments)
    print(f"seed {asked.seed}", flush=True)
    if asked.shrink:
        return _shrink(asked)
    if asked.world is not None:
        plan = draw(asked.seed, asked.world)
        _watch(plan, asked.watch)
        return _tell(plan)
    result = run_all(asked.seed, asked.jobs, seconds=asked.seconds, worlds=asked.worlds)
    print(result, flush=True)
    return int(result.failed)


def _watch(plan: Plan, place: str | None) -> None:
    """Print the chart of a world, or write it to a file; do nothing where no place is given."""
    if place is None:
        return
    with simulated():
        chart = Chart(World(plan, tell=True).play())
    if place == "-":
        print("\n".join(chart.lines()))
    else:
        Path(place).write_text(chart.svg(), encoding="utf-8")


def _tell(plan: Plan) -> int:
    """Print what is found in a world. Return the exit status."""
    with simulated():
        findings = played(plan)
    for finding in findings:
        print(f"FOUND {finding}")
    if not findings:
        print("nothing is found")
    return int(bool(findings))


def _numbers(asked: argparse.Namespace) -> Iterator[int]:
    """Yield the worlds that are asked for."""
    if asked.world is not None:
        yield asked.world
        return
    until = time.monotonic() + asked.seconds
    for number in count():
        if number >= asked.worlds or time.monotonic() > until:
            return
        yield number


def _shrink(asked: argparse.Namespace) -> int:
    """Print the smallest world in which the same is found as in the one that is asked for, or as in the first one with
    a finding. Return the exit status.
    """
    with simulated():
        for number in _numbers(asked):
            plan = draw(asked.seed, number)
            if findings := played(plan):
                break
        else:
            print("nothing is found")
            return 0
        key = shape(findings[0])
        small = Shrinking(plan, key).result()
        finding = next((each for each in played(small) if shape(each) == key), findings[0])
    _watch(small, asked.watch)
    print(
        f"{len(plan.steps)} steps are {len(small.steps)}. FOUND {finding}\n\n{script(small, finding, plan.seed)}"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
