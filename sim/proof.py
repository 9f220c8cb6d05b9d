"""The proof of the simulator: each defect of `sim/defects` is put back, and worlds have to find it.

    python -m sim.proof [NAME ...] [--minutes 10] [--jobs 2] [--seed 1] [--first 0]

A defect is put into a copy of `stomprelay` and `sim`. Worlds are played there until one has a finding of a rule that
has none in the same world without the defect. A table tells which rule found it in which world. The exit status is 1
if a defect is not found.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Timer
from time import monotonic
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
DEFECTS: Final = Path(__file__).parent / "defects"
_LEFT_OUT: Final = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "pipeline", "defects")
_ONE_AT_A_TIME: Final = Lock()


class Proof(NamedTuple):
    """What became of a defect: the `rule` that found it and the world's number, both empty if none did; and how many
    seconds that took.
    """

    defect: str
    rule: str
    world: int | None
    seconds: float


def names() -> list[str]:
    """Return the names of all defects."""
    return sorted(path.stem for path in DEFECTS.glob("*.patch"))


def findings(seed: int, number: int) -> list[str]:
    """Play a world in this process. Return the rules that it breaks, each once; or why it cannot be played."""
    from sim.judge import judge
    from sim.plan import draw
    from sim.world import World, simulated

    with simulated():
        try:
            return sorted({each.rule for each in judge(World(draw(seed, number)).play())})
        except Exception as error:
            return [f"the world ended in {type(error).__name__}"]


def _broken(folder: Path, defect: str) -> None:
    """Make a copy of the sources in this folder, with the defect."""
    for name in ("stomprelay", "sim"):
        shutil.copytree(ROOT / name, folder / name, ignore=_LEFT_OUT)
    patch = DEFECTS / f"{defect}.patch"
    subprocess.run(["git", "apply", patch], cwd=folder, check=True, env={**os.environ, "GIT_DIR": os.devnull})


def _worlds(folder: Path, seed: int, first: int, seconds: float) -> Iterator[tuple[int, list[str]]]:
    """Play worlds in a process of their own, with the sources in this folder. Yield those that break rules."""
    command = [sys.executable, "-m", "sim.proof", "--play", "--seed", str(seed), "--first", str(first)]
    environment = {**os.environ, "STOMPRELAY_PURE": "1", "PYTHONPATH": str(folder)}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as player:
        assert player.stdout is not None
        limit = Timer(seconds, player.kill)
        limit.start()
        try:
            for line in player.stdout:
                number, rules = json.loads(line)
                yield number, rules
        finally:
            limit.cancel()
            player.kill()


def prove(defect: str, seed: int, seconds: float, first: int = 0) -> Proof:
    """Put a defect back, and play worlds for at most so many seconds. Return what became of it."""
    begun = monotonic()
    with TemporaryDirectory() as folder:
        _broken(Path(folder), defect)
        for number, rules in _worlds(Path(folder), seed, first, seconds):
            with _ONE_AT_A_TIME:
                known = findings(seed, number)
            new = [rule for rule in rules if rule not in known]
            if new:
                return Proof(defect, new[0], number, monotonic() - begun)
    return Proof(defect, "", None, monotonic() - begun)


def _play(seed: int, number: int) -> None:
    """Play worlds from this number on without end, and print those that break rules."""
    while True:
        rules = findings(seed, number)
        if rules:
            print(json.dumps([number, rules]), flush=True)
        number += 1


def main() -> int:
    """Prove the defects that the command line names, or all. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sim.proof", description="Has worlds find known defects.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="defects; all without a name")
    parser.add_argument("--minutes", type=float, default=10.0, help="the time for each defect")
    parser.add_argument("--jobs", type=int, default=1, help="how many defects at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first world")
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    os.environ["STOMPRELAY_PURE"] = "1"  # read when `stomprelay` is imported
    if given.play:
        _play(given.seed, given.first)
    wanted = given.names or names()
    missing = 0
    with ThreadPoolExecutor(given.jobs) as pool:
        for proof in pool.map(lambda name: prove(name, given.seed, given.minutes * 60, given.first), wanted):
            missing += proof.world is None
            world = "-" if proof.world is None else f"{given.seed}/{proof.world}"
            print(
                f"{proof.defect:32} {proof.rule or 'NOT FOUND':32} {world:>10} {proof.seconds:7.1f} s",
                flush=True,
            )
    print(f"{len(wanted) - missing} of {len(wanted)} defects were found")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
