"""The command line: `python -m chaos`. Exit status 1 when a promise was broken: something confirmed was lost, say."""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from chaos.account import Account
from chaos.faults import plan
from chaos.report import report
from chaos.run import KINDS, Run, arena
from chaos.sessions import crew
from tests.e2e.brokers import Absent


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line, read."""
    parser = argparse.ArgumentParser(
        prog="python -m chaos", description="Sessions through the relay while their brokers fail."
    )
    parser.add_argument(
        "--seed", type=int, help="what is done and when; another each time, and it is printed"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults are injected (60)")
    parser.add_argument("--sessions", type=int, default=24, help="clients, half of them consumers (24)")
    parser.add_argument(
        "--brokers",
        type=_kinds,
        default=("rabbitmq", "activemq"),
        help="two or more of rabbitmq, activemq, memory (rabbitmq,activemq); one alone is doubled",
    )
    parsed = parser.parse_args(arguments)
    if parsed.seed is None:
        parsed.seed = random.randrange(1_000_000)
    if parsed.sessions < 2:
        parser.error("--sessions must be at least 2: somebody sends, somebody reads")
    return parsed


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(text.split(","))
    for kind in kinds:
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"{kind!r} is none of {', '.join(KINDS)}")
    return kinds * 2 if len(kinds) == 1 else kinds


def main(arguments: Sequence[str]) -> int:
    """Run it. Answers the exit status."""
    asked = options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # children are ended on the way out
    account = Account()
    sessions = crew(asked.sessions, asked.seed, account)
    blows = plan(asked.seed, asked.seconds, [kind != "memory" for kind in asked.brokers])
    chance = random.Random(asked.seed)
    how = "&".join(f"{name}={str(chance.random() < 0.5).lower()}" for name in ("randomize", "priorityBackup"))
    title = f"seed {asked.seed}: {', '.join(asked.brokers)}; {how}"
    print(title, flush=True)
    broken = ""
    with tempfile.TemporaryDirectory(prefix="stomprelay-chaos-") as directory:
        try:
            with arena(asked.brokers, Path(directory), f"{how}&maxReconnectDelay=1000") as running:
                run = Run(running, sessions, account)
                asyncio.run(run.play(blows, asked.seconds))
                print(report(title, len(sessions), account, run.faults), flush=True)
        except Absent as absent:
            print(absent, file=sys.stderr)
            return 2
        except (
            AssertionError
        ) as error:  # a broker did not come up again, or the relay logged what it must not
            broken = str(error)
            print(broken, file=sys.stderr)
    return 1 if broken or account.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
