"""`@stomp/stompjs` with real brokers behind the relay: over WebSocket it sees what it sees of the embedded one."""

from typing import Any

import pytest

from tests.browser import page
from tests.e2e import stompjs
from tests.e2e.cells import sampled
from tests.e2e.conftest import Through

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

CELLS = [
    (broker, name) for broker in ("rabbitmq", "activemq", "activemq_6", "artemis") for name in stompjs.SEEN
]


@pytest.mark.parametrize("cell", sampled(CELLS, lambda cell: cell))
def test_a_talk(cell: tuple[str, str], through: Through) -> None:
    """Each of them with each broker."""
    broker, name = cell
    stompjs.modules()
    seen = stompjs.talk(name, f"ws://127.0.0.1:{through(broker, None).port}/ws")
    assert seen == stompjs.SEEN[name]


TABS = [(broker, name) for broker in ("memory", *dict(CELLS)) for name in stompjs.SEEN]


@pytest.mark.parametrize("cell", sampled(TABS, lambda cell: cell))
def test_a_talk_in_a_tab(cell: tuple[str, str], through: Through, browser: Any) -> None:
    """The library as a page loads it sees the same, by the browser's own WebSocket."""
    broker, name = cell
    port = through(broker, None).port
    with page(browser) as tab:
        tab.goto(f"http://127.0.0.1:{port}")  # the relay's own few words, into which the library comes
        for script in (stompjs.bundle(), stompjs.SCRIPT.read_text(encoding="utf-8")):
            tab.add_script_tag(content=script)
        tab.evaluate(stompjs.TALK, [name, f"ws://127.0.0.1:{port}/ws"])
        assert tab.evaluate("() => end") == stompjs.SEEN[name]
        assert [each for each in tab.complaints if "404" not in each] == []  # it has no page there
