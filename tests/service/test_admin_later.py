"""The admin endpoint of a relay whose answers take their time, because other processes have to be asked."""

import json
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import capturedLogs
from twisted.python.failure import Failure
from twisted.web.test.requesthelper import DummyChannel

from stomprelay.journal.tail import TailAnswer, TailRequest
from stomprelay.service.admin.condition import Condition
from stomprelay.service.admin.sessions import SessionList, SessionQuery
from stomprelay.service.admin.site import site
from stomprelay.service.admin.snapshot import Snapshot, WorkerRow, snapshot
from stomprelay.service.brokers import ConfiguredBroker
from stomprelay.service.process import Reloads
from tests.service.harness import RelayHarness, failover, listener, movable


class Slow:
    """A relay that is asked and told, and answers when the test has it answer."""

    def __init__(self) -> None:
        self.harness = RelayHarness(listener(upstream=movable(failover(1, 2))))
        self.brokers = self.harness.service.state.brokers
        self.repeats = self.harness.service.state.runtime.repeats
        self.listeners = self.harness.service.state.sessions.listeners
        self.reloads: Reloads | None = None
        self.asked: list[Deferred[Any]] = []
        self.told: list[tuple[str, int, float | None]] = []

    def snapshot(self, *, whole: bool) -> Deferred[Snapshot]:
        return self._later()

    def condition(self) -> Deferred[Condition]:
        return self._later()

    def obstacles(self) -> Deferred[list[str]]:
        return self._later()

    def pause(self, found: tuple[ConfiguredBroker, ...], within: float | None) -> Deferred[None]:
        self.told.append(("pause", len(found), within))
        return self._later()

    def resume(self, found: tuple[ConfiguredBroker, ...]) -> Deferred[None]:
        self.told.append(("resume", len(found), None))
        return self._later()

    def sessions(self, query: SessionQuery) -> Deferred[SessionList]:
        return self._later()

    def drain(self, draining: bool) -> Deferred[None]:
        self.told.append(("drain", int(draining), None))
        return self._later()

    def kill(self, name: str) -> Deferred[bool]:
        self.told.append(("kill", int(name), None))
        return self._later()

    def tail(self, request: TailRequest) -> Deferred[TailAnswer]:
        return self._later()

    def _later(self) -> Deferred[Any]:
        self.asked.append(Deferred())
        return self.asked[-1]

    def taken(self, *states: str) -> Snapshot:
        """What it is, with workers in these states."""
        rows = tuple(WorkerRow(number, None, state, 0, 0) for number, state in enumerate(states, 1))
        return snapshot(self.harness.service.state, whole=True)._replace(workers=rows)

    def answers(self, *states: str) -> None:
        """The last one who asked has the answer."""
        self.asked.pop().callback(self.taken(*states))


@pytest.fixture
def slow() -> Slow:
    """A relay that takes its time."""
    return Slow()


class Asking:
    """A request, and what came back so far."""

    def __init__(
        self,
        shown: Any,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        factory: Any = None,
    ) -> None:
        self.channel = DummyChannel()
        self.channel.site = factory = factory or site(shown, MemoryReactorClock())
        self.request: Any = factory.requestFactory(self.channel)
        self.request.requestHeaders.addRawHeader("host", "localhost")
        self.request.requestHeaders.addRawHeader("content-type", "application/json")
        self.request.gotLength(len(body))
        self.request.handleContentChunk(body)
        self.request.requestReceived(method.encode(), path.encode(), b"HTTP/1.1")

    def __call__(self) -> tuple[int, str]:
        """Return status and body; 0 before anything came."""
        head, _, body = self.channel.transport.written.getvalue().partition(b"\r\n\r\n")
        return (int(head.split()[1]), body.decode()) if head else (0, "")


def test_an_order_and_its_result(slow: Slow) -> None:
    """All are told first, then asked how the brokers are."""
    asking = Asking(slow, "POST", "/brokers/pause", b'{"broker": "*", "within": 3}')
    assert slow.told == [("pause", 2, 3.0)]
    slow.asked.pop().callback(None)
    assert asking() == (0, "")
    slow.answers()
    status, text = asking()
    assert (status, len(json.loads(text)["brokers"])) == (200, 2)
    Asking(slow, "POST", "/brokers/resume", b'{"broker": "192.0.2.1:61613"}')
    assert slow.told[1:] == [("resume", 1, None)]


def test_an_answer_that_fails(slow: Slow) -> None:
    """Is our fault: it is logged, and said to be so without saying more."""
    asking = Asking(slow, "GET", "/overview")
    with capturedLogs() as logs:
        slow.asked.pop().errback(ValueError("secret"))
    assert len(logs) == 1
    status, text = asking()
    assert status == 500
    assert "secret" not in text


def test_many_who_look(slow: Slow) -> None:
    """Other processes are asked once for all of them, nobody is left without an answer, then they are asked again."""
    clock = MemoryReactorClock()
    factory = site(slow, clock)
    for answer, status in ((slow.taken(), 200), (ValueError("x"), 500)):
        looking = [Asking(slow, "GET", "/overview", factory=factory) for _ in range(3)]
        assert len(slow.asked) == 1
        with capturedLogs():
            slow.asked.pop().callback(answer if isinstance(answer, Snapshot) else Failure(answer))
        assert [each()[0] for each in looking] == [status] * 3
        clock.advance(1)


@pytest.mark.parametrize(
    ("serving", "status", "text"),
    [(2, 200, "ok\n"), (1, 200, "ok, but 1 of 2 workers serve\n"), (0, 503, "no worker serves\n")],
)
def test_health(slow: Slow, serving: int, status: int, text: str) -> None:
    """As long as one serves, clients are served."""
    asking = Asking(slow, "GET", "/healthz")
    slow.asked.pop().callback(Condition(3, workers=2, serving=serving))
    assert asking() == (status, text)
