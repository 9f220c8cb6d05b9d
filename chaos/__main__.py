"""The command line: `python -m chaos`. Exit status 1 when a promise was broken: something confirmed was lost, say."""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from math import inf
from pathlib import Path

from chaos.faults import blows
from chaos.poison import Poison
from chaos.run import KINDS, Run, arena, habits
from tests.e2e.brokers import Absent


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the command line, read."""
    parser = argparse.ArgumentParser(
        prog="python -m chaos", description="Sessions through the relay while their brokers fail."
    )
    add = parser.add_argument
    drawn = random.randrange(1_000_000)
    add("--seed", type=int, default=drawn, help="what is done and when; else drawn, and printed")
    add("--seconds", type=float, help="how long faults are injected (60)")
    add("--faults", type=int, help="inject so many, as fast as the brokers recover, in place of --seconds")
    add("--poison", type=int, help="harmful clients at a time (8 with --faults, else 0)")
    add("--history", type=Path, metavar="FILE", help="write down what happened, an event a line")
    add("--sessions", type=int, default=24, help="clients (24)")
    several = f"two or more of {', '.join(KINDS)} (rabbitmq,activemq); one alone is doubled"
    add("--brokers", type=_kinds, default=("rabbitmq", "activemq"), help=several)
    parsed = parser.parse_args(arguments)
    many = parsed.faults is not None
    if many and (parsed.seconds is not None or parsed.faults < 1):
        parser.error("--faults must be at least 1, and excludes --seconds")
    if parsed.sessions < 2:
        parser.error("--sessions must be at least 2")
    if parsed.poison is None:
        parsed.poison = 8 if many else 0
    if parsed.seconds is None:
        parsed.seconds = inf if many else 60.0
    return parsed


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(text.split(","))
    for kind in kinds:
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"{kind!r} is none of {', '.join(KINDS)}")
    return kinds * 2 if len(kinds) == 1 else kinds


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says. Return the exit status."""
    asked = options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # children are ended on the way out
    strikes = [
        blows(asked.seed, number, durable=kind != "memory", many=asked.faults is not None)
        for number, kind in enumerate(asked.brokers)
    ]
    poison = Poison(asked.seed, asked.poison)
    chance = random.Random(asked.seed)
    how = "&".join(f"{name}={str(chance.random() < 0.5).lower()}" for name in ("randomize", "priorityBackup"))
    title = f"seed {asked.seed}: {', '.join(asked.brokers)}; {how}"
    print(title, flush=True)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="stomprelay-chaos-") as directory,
            arena(asked.brokers, Path(directory), f"{how}&maxReconnectDelay=1000") as (running, secure),
        ):
            run = Run(running, secure, asked.brokers, habits(asked.seed, asked.sessions), asked.seed, poison)
            try:
                asyncio.run(run.play(strikes, asked.seconds, asked.faults or inf))
            finally:
                if asked.history is not None:
                    asked.history.write_text("".join(f"{event}\n" for event in run.history))
            verdict = run.verdict(title)
            print(verdict, flush=True)
    except Absent as absent:
        print(absent, file=sys.stderr)
        return 2
    except AssertionError as error:  # a broker did not come up again, or the relay logged what it must not
        print(error, file=sys.stderr)
        return 1
    return 1 if verdict.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
