"""The proof of the simulator: each defect of `sim/defects` is put back, and worlds have to find it.

    python -m sim.proof [NAME ...] [--minutes 10] [--jobs 2] [--seed 1] [--renew]

A patch is put into a copy of `stomprelay` and `sim`. Worlds are played there until one breaks a rule that the same
world without the patch does not break. The table tells which rule, in which world, after how many seconds of processor
time. A name may be the path of another patch. With `--renew` nothing is played: patches are written again for the code
as it is now.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from difflib import unified_diff
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Final, NamedTuple

from sim.plan import draw
from sim.run import played
from sim.world import simulated

ROOT: Final = Path(__file__).parent.parent
DEFECTS: Final = Path(__file__).parent / "defects"
_LEFT_OUT: Final = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "pipeline", "defects")


class Proof(NamedTuple):
    """What became of a defect: the rule that found it, or why none did; the world's number; and the seconds of
    processor time until then.
    """

    defect: str
    rule: str
    world: int | None
    seconds: float


def patches(names: Sequence[str] = ()) -> list[Path]:
    """Return the patches of these names or paths; all of `sim/defects` without a name."""
    return [
        Path(name).absolute() if name.endswith(".patch") else DEFECTS / f"{name}.patch" for name in names
    ] or sorted(DEFECTS.glob("*.patch"))


def apply(patch: Path, folder: Path, *options: str) -> str:
    """Put a defect into the sources in this folder. Return why that is not possible, or an empty text."""
    done = subprocess.run(
        ["git", "apply", *options, patch],
        cwd=folder,
        env=os.environ | {"GIT_DIR": os.devnull},
        capture_output=True,
        check=False,
        text=True,
    )
    return done.stderr.strip() if done.returncode else ""


def renewed(patch: Path) -> str:
    """Return a patch with the lines that are around its changes now. Raises ValueError if these cannot be found, and
    SyntaxError if they are not those that were meant.
    """
    text = patch.read_text()
    names = dict.fromkeys(re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE))
    with TemporaryDirectory() as folder:
        for name in names:
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, Path(folder) / name)
        if wrong := apply(patch, Path(folder), "-C0"):
            raise ValueError(wrong)
        parts = [text[: text.index("--- a/")]]
        for name in names:
            old, new = [(each / name).read_text().splitlines(keepends=True) for each in (ROOT, Path(folder))]
            compile("".join(new), name, "exec")  # at another place it seldom makes a module
            parts += unified_diff(old, new, f"a/{name}", f"b/{name}", n=1)
    return "".join(parts)


def _worlds(folder: str, seed: int, minutes: float) -> Iterator[tuple[int, list[str], float]]:
    """Play worlds in a process of their own, with the sources in this folder. Yield those that break rules, and the
    seconds of processor time until then.
    """
    command = [sys.executable, "-m", "sim.proof", "--play", "--seed", str(seed), "--minutes", str(minutes)]
    environment = os.environ | {"STOMPRELAY_PURE": "1", "PYTHONPATH": folder}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as player:
        assert player.stdout is not None
        try:
            yield from map(json.loads, player.stdout)
        finally:
            player.kill()


def prove(patch: Path, seed: int, minutes: float) -> Proof:
    """Put a defect back, and play worlds for at most so many minutes. Return what became of it."""
    with TemporaryDirectory() as folder:
        for name in ("stomprelay", "sim"):
            shutil.copytree(ROOT / name, Path(folder) / name, ignore=_LEFT_OUT)
        if wrong := apply(patch, Path(folder)):
            return Proof(patch.stem, f"DOES NOT APPLY: {wrong.splitlines()[0]}", None, 0.0)
        for number, rules, seconds in _worlds(folder, seed, minutes):
            for rule in rules:
                if rule not in _rules(seed, number):
                    return Proof(patch.stem, rule, number, seconds)
    return Proof(patch.stem, "NOT FOUND", None, minutes * 60)


def _rules(seed: int, number: int) -> list[str]:
    """Play a world in this process. Return the rules that it breaks, each once."""
    with simulated():
        return list(dict.fromkeys([each.rule for each in played(draw(seed, number))]))


def _play(seed: int, minutes: float) -> None:
    """Play worlds for so many minutes of processor time, and print those that break rules."""
    for number in count():
        if rules := _rules(seed, number):
            print(json.dumps([number, rules, process_time()]), flush=True)
        if process_time() > minutes * 60:
            return


def main(arguments: Sequence[str]) -> int:
    """Prove the defects that the command line names, or all. Return 1 if one was not found, else 0."""
    parser = argparse.ArgumentParser(prog="python -m sim.proof", description="Has worlds find known defects.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="defects, or paths of patches; all without a name"
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="processor time for each defect (10)")
    parser.add_argument("--jobs", type=int, default=1, help="how many defects at a time (1)")
    parser.add_argument("--seed", type=int, default=1, help="of the worlds (1)")
    parser.add_argument(
        "--renew", action="store_true", help="write the patches again, for the code as it is now"
    )
    parser.add_argument("--play", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.play:
        _play(given.seed, given.minutes)
        return 0
    wanted, found = patches(given.names), 0
    if given.renew:
        for patch in wanted:
            try:
                patch.write_text(renewed(patch))
                found += 1
            except (ValueError, SyntaxError) as error:
                print(f"{patch.stem}: to be written anew by hand: {error}")
        print(f"{found} of {len(wanted)} patches fit the code")
        return int(found < len(wanted))
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as processes:
        each = processes.map if given.jobs > 1 else map
        for proof in each(partial(prove, seed=given.seed, minutes=given.minutes), wanted):
            found += proof.world is not None
            world = "-" if proof.world is None else f"{given.seed}/{proof.world}"
            print(f"{proof.defect:32} {proof.rule:36} {world:>10} {proof.seconds:7.1f} s", flush=True)
    print(f"{found} of {len(wanted)} defects were found")
    return int(found < len(wanted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
