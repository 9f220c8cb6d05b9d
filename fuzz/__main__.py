"""The command line: `python -m fuzz`. Exit status 1 when something was found that must not be."""

import argparse
import random
import sys
from collections.abc import Sequence
from math import inf

from fuzz.run import run


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line, read."""
    parser = argparse.ArgumentParser(
        prog="python -m fuzz", description="Random conversations with a relay in process."
    )
    parser.add_argument("--seed", type=int, help="of all worlds; another each time, and it is printed")
    parser.add_argument("--world", type=int, help="this world alone; what is found in it is told in full")
    parser.add_argument("--bytes", type=float, default=inf, help="how many, over both legs: 1e9")
    parser.add_argument("--seconds", type=float, help="for how long at most (60, where --bytes says nothing)")
    parsed = parser.parse_args(arguments)
    if parsed.seed is None:
        parsed.seed = random.randrange(1_000_000)
    if parsed.seconds is None:
        parsed.seconds = 60.0 if parsed.bytes == inf else inf
    return parsed


def main(arguments: Sequence[str]) -> int:
    """Run it. Answers the exit status."""
    asked = options(arguments)
    if asked.world is not None:
        return _one(asked.seed, asked.world)
    print(f"seed {asked.seed}", flush=True)
    result = run(asked.seed, octets=asked.bytes, seconds=asked.seconds)
    print(f"{result}", flush=True)
    return int(result.failed)


def _one(seed: int, number: int) -> int:
    """Play one world and tell of it."""
    from fuzz.told import told

    lines, findings = told(seed, number)
    print("\n".join(lines))
    for finding in findings:
        print(f"FOUND: {finding.what} {finding.place}\n{finding.detail}")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
