"""The state of a relay in a few words, for `/healthz` and `/drain`: only counters, for these may be asked often."""

import json
from collections.abc import Iterable
from typing import NamedTuple

from stomprelay.service.state import RelayState


class Condition(NamedTuple):
    """The state of a relay. `journal` is the trouble of its journal, "" for none; `stuck`: sessions wait because of it.
    `serving` of its `workers` serve; a relay of one process has none.
    """

    sessions: int
    stopping: bool = False
    draining: bool = False
    journal: str = ""
    stuck: bool = False
    workers: int = 0
    serving: int = 0


def condition(state: RelayState) -> Condition:
    """Return the state of this process's relay."""
    sessions, journal = state.sessions, state.journal
    ill = journal is not None and (journal.trouble or journal.stuck)
    return Condition(
        len(sessions),
        sessions.stopping,
        sessions.draining,
        journal.state if journal is not None and ill else "",
        journal is not None and journal.stuck,
    )


def summed(own: Condition, others: Iterable[Condition], workers: int, serving: int) -> Condition:
    """Return the state of a relay of several processes; `own` is that of the parent, without sessions and journal."""
    each = list(others)
    worst = max(each, key=lambda one: (one.stuck, bool(one.journal)), default=own)
    return own._replace(
        sessions=sum(one.sessions for one in each),
        journal=worst.journal,
        stuck=worst.stuck,
        workers=workers,
        serving=serving,
    )


def health(found: Condition) -> tuple[bool, str]:
    """Return whether clients are served, and a line that names what does not work."""
    if found.stopping:
        return False, "stopping\n"
    if found.workers and not found.serving:
        return False, "no worker serves\n"
    if found.stuck:
        return False, f"nobody is read from: the journal {found.journal}\n"
    trouble = []
    if found.serving < found.workers:
        trouble.append(f"{found.serving} of {found.workers} workers serve")
    if found.journal:
        trouble.append(f"the journal {found.journal}")
    if found.draining:
        trouble.append("new clients are refused")
    return True, f"ok, but {', and '.join(trouble)}\n" if trouble else "ok\n"


def drain(found: Condition) -> str:
    """Return whether new clients are refused, and how many sessions there are, as JSON text."""
    return json.dumps({"draining": found.draining, "sessions": found.sessions}) + "\n"


def spell(found: Condition) -> str:
    """Return the condition as JSON text, for `parse` of the same version of the relay."""
    return json.dumps(found)


def parse(text: bytes) -> Condition:
    """Return the condition in a JSON text. Raises `ValueError` or `TypeError` for any other text."""
    return Condition(*json.loads(text))
