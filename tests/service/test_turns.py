"""Who has more to do than may be done at once waits for others: all of them have one budget in each turn."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from stomprelay.service.connection.runtime import BUDGET, TurnQueue
from stomprelay.service.network import websocket
from stomprelay.service.network.deflate import compressed
from stomprelay.service.network.websocket import FRAMES, WebSocket
from tests.service.harness import FakeTransport
from tests.service.test_websocket import masked


class Work:
    """So many clients with work without end, each piece of which takes this many seconds."""

    def __init__(self, clients: int, takes: float) -> None:
        self.now = 0.0
        self.takes = takes
        self.called: list[Any] = []
        reactor: Any = SimpleNamespace(callLater=lambda _, call: self.called.append(call))
        self.turns = TurnQueue(reactor, lambda: self.now)
        self.done: list[int] = []
        for number in range(clients):
            self.wait(number)

    def wait(self, number: int) -> None:
        self.turns.wait(number, lambda: self.act(number))

    def act(self, number: int) -> None:
        self.now += self.takes
        self.done.append(number)
        self.wait(number)

    def turn(self) -> list[int]:
        """Who went on in the next turn of the reactor."""
        self.done.clear()
        [call], self.called = self.called, []
        call()
        return list(self.done)


def test_a_budget_for_all_together() -> None:
    """However many wait: in a turn those go on that it has room for, and the others first in the next one."""
    work = Work(100, 0.3 * BUDGET)
    assert [work.turn() for _ in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert sorted(number for _ in range(22) for number in work.turn()) == list(range(12, 100))


def test_one_piece_each() -> None:
    """With room for more nobody goes on twice in a turn: what else there is has its turn between."""
    assert Work(3, 0.0).turn() == [0, 1, 2]


def test_a_piece_that_fails() -> None:
    """The others go on in the next turn."""
    work = Work(0, 0.0)
    work.turns.wait("bad", lambda: 1 // 0)
    work.wait(1)
    with pytest.raises(ZeroDivisionError):
        work.turn()
    assert work.turn() == [1]


PARTS = [bytes((each,)) for each in compressed(b"\n" * 9, 15)]
TINY = {
    "compressed": masked(0xC1, compressed(b"\n", 15)),
    "compressed, of no bytes": masked(0xC1, b"\0"),
    "compressed, in fragments": masked(0x41, PARTS[0])
    + b"".join(masked(0, each) for each in PARTS[1:-1])
    + masked(0x80, PARTS[-1]),
    "compressed, with pings between": masked(0xC1, compressed(b"\n", 15)) + masked(0x89, b"x"),
    "not compressed": masked(0x81, b"\n"),
    "pings": masked(0x89, b"x"),
}


@pytest.fixture(params=[True, False], ids=["compiled", "Python"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether frames are taken in C that can be."""
    if not request.param:
        monkeypatch.setattr(websocket, "_COMPILED", None)
    elif websocket._COMPILED is None:
        pytest.skip("nothing is compiled")
    return bool(request.param)


def frames_read(websocket: WebSocket, counted: list[object], data: bytes = b"") -> Iterator[int]:
    """How many frames wsproto reads in each go."""
    websocket.received(data)
    yield len(counted)
    while websocket.waits:
        counted.clear()
        websocket.received()
        yield len(counted)


@pytest.mark.parametrize("kind", TINY)
def test_frames_count(kind: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not their bytes alone: a few of what wsproto reads, and others have their turn."""
    websocket = WebSocket(FakeTransport(), 1_000_000, lambda: 1000, window=0 if kind == "pings" else 15)
    counted: list[object] = []
    original = WebSocket._read

    def read(self: WebSocket, data: bytes, payloads: list[bytes]) -> Iterator[object]:
        for each in original(self, data, payloads):
            counted.append(each)
            yield each

    monkeypatch.setattr(WebSocket, "_read", read)
    goes = list(frames_read(websocket, counted, TINY[kind] * 1000))
    assert max(goes) <= FRAMES
    if not compiled or kind.startswith("compressed"):
        assert sum(goes) >= 1000
