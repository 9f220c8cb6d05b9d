"""`@stomp/stompjs` with real brokers behind the relay: over WebSocket it sees what it sees of the embedded one."""

from collections.abc import Callable

import pytest

from tests.e2e import stompjs
from tests.e2e.cells import sampled
from tests.e2e.stage import Place

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

CELLS = [
    (broker, name) for broker in ("rabbitmq", "activemq", "activemq_6", "artemis") for name in stompjs.SEEN
]


@pytest.mark.parametrize("cell", sampled(CELLS, lambda cell: cell, "-".join))
def test_a_talk(cell: tuple[str, str], through: Callable[[str, str | None], Place]) -> None:
    """Each of them with each broker."""
    broker, name = cell
    stompjs.modules()
    seen = stompjs.talk(name, f"ws://127.0.0.1:{through(broker, None).port}/ws")
    assert seen == stompjs.SEEN[name]
