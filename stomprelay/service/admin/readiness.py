"""Whether a relay lives, and whether it is to be sent clients: what `/livez` and `/readyz` are answered with.

A relay is ready where each listener's upstream has a broker that is up, where it does not stop and is not drained, and
where its journal, if it keeps one, can be written. Upstreams of routes do not count: most clients may do without them.

Whoever asks wants to know how the brokers are. So where none is known to be up they are doubted, and `PeriodicChecks`
probes them soon, unless they pause for having failed: else a relay to which no client is sent would never find out.
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
    """Return why the relay of this process is not to be sent clients, each in words; none where it is ready."""
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
    """Return whether a broker of an upstream is up. Where none is, all of them are looked after."""
    now = state.runtime.seconds()
    own = [each for each in state.brokers if each.upstream is upstream]
    if any(each.state(now) == UP for each in own):
        return True
    for each in own:
        health = each.broker.health
        health.doubt(health.sight())
    return False


def alive() -> str:
    """Return that the relay lives, as a line of JSON: whoever can say so does."""
    return json.dumps({"live": True}) + "\n"


def spell(found: Sequence[str]) -> str:
    """Return whether the relay is ready, with the obstacles that were found, as a line of JSON."""
    answer = {"ready": False, "reasons": list(found)} if found else {"ready": True}
    return json.dumps(answer) + "\n"


def parse(text: bytes) -> list[str]:
    """Return the obstacles in such a line. Raises `ValueError` or `TypeError` for what is none."""
    answer = json.loads(text)
    if not isinstance(answer, dict) or not isinstance(answer.get("ready"), bool):
        raise ValueError("must say whether the relay is ready")
    return [str(each) for each in answer.get("reasons", ())]
