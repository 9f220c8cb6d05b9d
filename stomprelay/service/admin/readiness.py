"""Whether a relay is alive and ready: the answers to `/livez` and `/readyz`. It is ready if each listener's own
upstream has a broker that is up, if it neither stops nor drains, and if its journal can be written. Without a broker
that is known to be up, a request has `PeriodicChecks` probe them soon.
"""

import json
from collections.abc import Sequence
from typing import Final

from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.brokers.brokers import UP
from stomprelay.service.state import RelayState

DRAINING: Final = "draining: the relay stops"
DRAINED: Final = "draining: new clients are refused"
AWAY: Final = "no worker serves"


def obstacles(state: RelayState) -> list[str]:
    """Return the reasons why this process's relay is not ready for clients; none if it is ready."""
    if state.sessions.stopping:
        return [DRAINING]
    if state.sessions.draining:
        return [DRAINED]
    found = []
    for each in state.sessions.listeners.values():
        name, upstream = each.listener.name, each.listener.upstream
        if not _has_broker(state, upstream):
            found.append(f"listener {name}: no broker of upstream {upstream.name} is up")
    if state.runtime.memory.full:
        found.append("memory: as much is kept of clients as may be")
    if state.journal is not None and state.journal.trouble:
        found.append(f"the journal {state.journal.state}")
    return found


def _has_broker(state: RelayState, upstream: Upstream) -> bool:
    """Return whether a broker of an upstream is up. If none is, mark all of them for a probe."""
    now = state.runtime.seconds()
    own = [each for each in state.brokers if each.upstream is upstream]
    if any(each.state(now) == UP for each in own):
        return True
    for each in own:
        health = each.broker.health
        health.doubt(health.sight())
    return False


def alive() -> str:
    """Return a line of JSON that says that the relay is alive. A process that can answer is alive."""
    return json.dumps({"live": True}) + "\n"


def spell(found: Sequence[str]) -> str:
    """Return whether the relay is ready, with these obstacles, as a line of JSON."""
    answer = {"ready": False, "reasons": list(found)} if found else {"ready": True}
    return json.dumps(answer) + "\n"


def parse(text: bytes) -> list[str]:
    """Return the obstacles in such a line. Raises `ValueError` or `TypeError` for any other text."""
    answer = json.loads(text)
    if not isinstance(answer, dict) or not isinstance(answer.get("ready"), bool):
        raise ValueError("must say whether the relay is ready")
    return [str(each) for each in answer.get("reasons", ())]
