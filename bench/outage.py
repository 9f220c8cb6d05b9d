"""How long clients wait when their broker is killed: from SIGKILL to the first message from another one."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.contenders import upstreams
from bench.load import Load, LoadError
from bench.machine import AbsentError, cpu_seconds, raise_descriptor_limit
from bench.memory import SPARE
from bench.report import figure, median, share, table
from stomprelay.relay.model.upstream import Upstream

NAME: Final = "outage"

PACE: Final = round(Upstream.reconnect_rate)
"""Sessions a second that come to a broker after an outage, by default (`reconnect_rate`)."""

_SETTING: Final = """\
uri = "failover:(tcp://127.0.0.1:{first},tcp://127.0.0.1:{second})?randomize=false"
confirm = true
reconnect_rate = {rate}
"""
_WARM: Final = 3
"""Messages that each session sends before the broker is killed."""

HEADER: Final = (
    "sessions",
    "reconnect_rate",
    "median ms",
    "p95 ms",
    "max ms",
    "over set-up",
    "CPU us/session",
)


@dataclass(frozen=True)
class Step:
    """How many sessions, how many of them a second may come back (0: any number), and how often it is done."""

    sessions: int
    rate: int
    runs: int


@dataclass(frozen=True)
class Outage:
    """One broker killed: the seconds after which each session had its message, and what the relay worked for it.

    `set_up`: the seconds in which the same sessions had come.
    """

    step: Step
    set_up: float
    times: tuple[float, ...]
    cpu: float


def steps(*, quick: bool) -> list[Step]:
    """1, 100 and 1,000 sessions, as far as the limit of open files goes: a relay has two for each, and for a moment
    three.
    """
    most = (raise_descriptor_limit() - SPARE) // 3
    many = min(1000, most)
    few, once = (1, 1) if quick else (3, 9)
    wanted = [Step(1, PACE, once), Step(min(100, most), PACE, few), Step(many, PACE, few), Step(many, 0, few)]
    return list(dict.fromkeys(wanted))


def measure(load: Load, directory: Path, wanted: Sequence[Step], note: Callable[[str], None]) -> list[Outage]:
    """Everything afresh each time. What cannot be run is noted. Raises `LoadError` when a session lost its message
    or its connection.
    """
    try:
        return [_killed(load, directory, step) for step in _turns(wanted)]
    except (AbsentError, RuntimeError) as error:
        note(f"outage: the relay is left out: {error}")
        return []


def _turns(wanted: Sequence[Step]) -> Iterator[Step]:
    """Each step as often as it wants, in turn."""
    for number in range(max(step.runs for step in wanted)):
        for step in wanted:
            if number < step.runs:
                yield step


def _killed(load: Load, directory: Path, step: Step) -> Outage:
    """Sessions on the first of two null brokers send; it is killed; they send again, and the second one answers."""
    with load.broker() as (doomed, firsts), load.broker() as (_, seconds):
        setting = _SETTING.format(first=firsts["1.2"], second=seconds["1.2"], rate=step.rate)
        with upstreams({NAME: setting}, directory) as (relay,):
            assert relay.pid is not None
            port = relay.ports["1.2", "1.2"]
            with load.client("echo", port, "-v", "1.2", "-b", "100") as client:
                client.tell(f"open {step.sessions}")
                set_up = load.answer(client)["seconds"]
                for _ in range(_WARM):
                    client.tell(f"send {time.monotonic_ns()}")
                    load.answer(client)
                before = cpu_seconds(relay.pid)
                killed = time.monotonic_ns()
                doomed.process.kill()
                client.tell(f"send {killed}")
                times = load.answer(client)["times"]
                cpu = cpu_seconds(relay.pid) - before
    if len(times) != step.sessions:
        raise LoadError(f"{step.sessions} sessions, of which {len(times)} had their message")
    return Outage(step, set_up, tuple(each / 1e6 for each in times), cpu)


def report(found: Sequence[Outage]) -> str:
    """A row for each step: the sessions of all its runs together."""
    rows = []
    for step in dict.fromkeys(one.step for one in found):
        runs = [one for one in found if one.step == step]
        times = [1000 * each for one in runs for each in one.times]
        over = median([max(one.times) / one.set_up for one in runs])
        cost = median([one.cpu / step.sessions * 1e6 for one in runs])
        shares = [share(times, part) for part in (0.5, 0.95, 1.0)]
        rows.append(
            [f"{step.sessions:,}", f"{step.rate or 'any'}", *map(figure, shares), figure(over), figure(cost)]
        )
    title = "outage: from SIGKILL of the broker to a session's first message from the other one (two null brokers)"
    return table(title, HEADER, rows)
