"""How long clients wait when their broker is killed: from SIGKILL to the first message from another one."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench import goals
from bench.contenders import PLAIN, relay
from bench.goals import Judged
from bench.load import Load, LoadError
from bench.machine import AbsentError, raise_descriptor_limit
from bench.memory import SPARE
from bench.report import spread

NAME: Final = "outage"

SESSIONS: Final = 1000
"""As far as the limit of open files goes: a relay has two for each, and for a moment three."""

_SETTING: Final = """\
uri = "failover:(tcp://127.0.0.1:{first},tcp://127.0.0.1:{second})?randomize=false"
confirm = true
"""
_WARM: Final = 3
"""Messages that each session sends before the broker is killed."""


def measure(
    load: Load, directory: Path, rounds: int, note: Callable[[str], None], wanted: int = SESSIONS
) -> list[Judged]:
    """Return the longest wait of a session in each round, with brokers and a relay of its own. What cannot be run is
    noted. Raises `LoadError` when a session lost its message or its connection.
    """
    sessions = min(wanted, (raise_descriptor_limit() - SPARE) // 3)
    try:
        waits = [_killed(load, directory, sessions) for _ in range(rounds)]
    except (AbsentError, RuntimeError) as error:
        note(f"outage: the relay is left out: {error}")
        waits = []
    what = f"{sessions:,} sessions, broker killed"
    return [Judged(what, "last s", None, spread(waits), goals.LAST_SERVED)]


def _killed(load: Load, directory: Path, sessions: int) -> float:
    """Sessions on the first of two null brokers send; it is killed; they send again, and the second one answers."""
    with load.broker() as (doomed, firsts), load.broker() as (_, seconds):
        setting = _SETTING.format(first=firsts["1.2"], second=seconds["1.2"])
        with (
            relay({PLAIN: setting}, directory) as surviving,
            load.client("echo", surviving.ports[PLAIN], "-v", "1.2", "-b", "100") as client,
        ):
            client.tell(f"open {sessions}")
            load.answer(client)
            for _ in range(_WARM):
                client.tell(f"send {time.monotonic_ns()}")
                load.answer(client)
            killed = time.monotonic_ns()
            doomed.send(signal.SIGKILL)
            client.tell(f"send {killed}")
            times = load.answer(client)["times"]
    if len(times) != sessions:
        raise LoadError(f"{sessions} sessions, of which {len(times)} had their message")
    return float(max(times)) / 1e6
