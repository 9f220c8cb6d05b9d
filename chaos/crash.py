"""Everything that survives SIGKILL, killed: `python -m chaos.crash`, or `make crash`.

The journal, the pipeline, the source of Spark and the replay, each with the embedded broker. Exit status 1 when a
promise was broken.
"""

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from chaos import cluster, source
from chaos.verdict import Verdict
from tests.e2e import test_journal, test_replay

Run = Callable[[Path, int, int], Verdict]
"""A folder, how many kills, a seed."""


def journal(home: Path, rounds: int, seed: int) -> Verdict:
    """A relay that keeps a journal is killed under load, as in `make test`, each time with another journal."""
    chance = random.Random(seed)
    for number in range(rounds):
        directory = home / f"{number}"
        directory.mkdir()
        test_journal.killed(directory, chance)
    return Verdict(f"journal: {rounds} kills of a relay under load", ())


def replay(home: Path, rounds: int, seed: int) -> Verdict:
    """`stomprelay-pipeline replay` is killed, as in `make test`, and the same command goes on."""
    random.seed(seed)
    test_replay.test_killed_again_and_again(home, rounds)
    return Verdict(f"replay: {rounds} kills of Java and Python", ())


RUNS: Final[Mapping[str, Run]] = {
    "journal": journal,
    "pipeline": cluster.alone,
    "cluster": cluster.run,
    "source": source.run,
    "replay": replay,
}


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line, read."""
    parser = argparse.ArgumentParser(
        prog="python -m chaos.crash", description="What survives SIGKILL is killed, again and again."
    )
    parser.add_argument("--rounds", type=int, default=20, help="how often each of them is killed (20)")
    drawn = random.randrange(1_000_000)
    parser.add_argument("--seed", type=int, default=drawn, help="of the moments; else drawn, and printed")
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS), help="these, not all")
    parsed = parser.parse_args(arguments)
    if parsed.rounds < 1:
        parser.error("--rounds must be at least 1")
    return parsed


def verdict(name: str, rounds: int, seed: int) -> Verdict:
    """Run one of them, in a folder that is gone afterwards. What ends it before its time is a broken promise."""
    with source.folder() as home:
        try:
            return RUNS[name](home, rounds, seed)
        except AssertionError as error:
            return Verdict(name, (), (str(error) or "it failed",))


def main(arguments: Sequence[str]) -> int:
    """Run them, one by one. Answers the exit status."""
    asked = options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # children are ended on the way out
    print(f"seed {asked.seed}", flush=True)
    verdicts = []
    for name in asked.only:
        print(f"{name}: {asked.rounds} kills", flush=True)
        began = time.monotonic()
        verdicts.append(verdict(name, asked.rounds, asked.seed))
        print(f"  {time.monotonic() - began:6.1f} s", flush=True)
    for each in verdicts:
        print(f"\n{each}", flush=True)
    return 1 if any(each.broken for each in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
