"""The admin endpoint of a relay whose answers take their time, because other processes have to be asked."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure

from stomprelay.service.admin.condition import Condition
from stomprelay.service.admin.site import site
from stomprelay.service.admin.snapshot import Snapshot, WorkerRow, snapshot
from stomprelay.service.process import Reloads
from tests.service.harness import RelayHarness, failover, listener, movable
from tests.service.test_admin import JSON, Answer


class Slow:
    """A relay that is asked and told, and answers when the test has it answer."""

    def __init__(self) -> None:
        self.harness = RelayHarness(listener(upstream=movable(failover(1, 2))))
        self.state = self.harness.service.state
        self.reloads: Reloads | None = None
        self.asked: list[Deferred[Any]] = []
        self.told: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., Deferred[Any]]:
        def later(*values: Any, **named: Any) -> Deferred[Any]:
            self.told.append((name, *values))
            self.asked.append(Deferred())
            return self.asked[-1]

        return later

    def taken(self, *states: str) -> Snapshot:
        """What it is, with workers in these states."""
        rows = tuple(WorkerRow(number, None, state, 0, 0) for number, state in enumerate(states, 1))
        return snapshot(self.state, whole=True)._replace(workers=rows)


@pytest.fixture
def slow() -> Slow:
    """A relay that takes its time."""
    return Slow()


def ask(slow: Slow, path: str, method: str = "GET", body: bytes = b"", factory: Any = None) -> Answer:
    """A request, and what comes back."""
    shown: Any = slow
    return Answer(
        *(slow.harness, path, method, body),
        factory=factory or site(shown, MemoryReactorClock()),
        content_type=JSON,
    )


def test_an_order_and_its_result(slow: Slow) -> None:
    """All are told first, then asked how the brokers are."""
    both, (one, _) = (slow.state.brokers.find(name) for name in ("*", "*"))
    answer = ask(slow, "/brokers/pause", "POST", b'{"broker": "*", "within": 3}')
    assert slow.told == [("pause", both, 3.0)]
    slow.asked.pop().callback(None)
    assert (answer.status, slow.told.pop()) == (0, ("snapshot",))
    slow.asked.pop().callback(slow.taken())
    assert (answer.status, len(json.loads(answer.text)["brokers"])) == (200, 2)
    ask(slow, "/brokers/resume", "POST", b'{"broker": "192.0.2.1:61613"}')
    assert slow.told[1:] == [("resume", (one,))]


def test_an_answer_that_fails(slow: Slow, log: list[str]) -> None:
    """Is our fault: it is logged, and said to be so without saying more."""
    answer = ask(slow, "/overview")
    log.clear()
    slow.asked.pop().errback(ValueError("secret"))
    assert len(log) == 1
    assert answer.status == 500
    assert "secret" not in answer.text


def test_many_who_look(slow: Slow) -> None:
    """Other processes are asked once for all of them, nobody is left without an answer, then they are asked again."""
    clock = MemoryReactorClock()
    shown: Any = slow
    factory = site(shown, clock)
    for answer, status in ((slow.taken(), 200), (ValueError("x"), 500)):
        looking = [ask(slow, "/overview", factory=factory) for _ in range(3)]
        assert len(slow.asked) == 1
        slow.asked.pop().callback(answer if isinstance(answer, Snapshot) else Failure(answer))
        assert [each.status for each in looking] == [status] * 3
        clock.advance(1)


@pytest.mark.parametrize(
    ("serving", "status", "text"),
    [(2, 200, "ok\n"), (1, 200, "ok, but 1 of 2 workers serve\n"), (0, 503, "no worker serves\n")],
)
def test_health(slow: Slow, serving: int, status: int, text: str) -> None:
    """As long as one serves, clients are served."""
    answer = ask(slow, "/healthz")
    slow.asked.pop().callback(Condition(3, workers=2, serving=serving))
    assert (answer.status, answer.text) == (status, text)
