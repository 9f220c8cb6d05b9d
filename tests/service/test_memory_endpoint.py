"""The endpoint of the embedded broker: pairs of sockets, their ends, and the descriptors that they cost."""

import os
import socket
from typing import Any

import pytest
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock

from stomprelay.service.embedded import MemoryEndpoint
from tests.service.sockets import Accepting, Peer


def test_no_sockets_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt fails, as one over the network would."""

    def none() -> Any:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(socket, "socketpair", none)
    clock: Any = MemoryReactorClock()
    failures: list[Any] = []
    _ = MemoryEndpoint(clock, Accepting()).connect(Accepting()).addErrback(failures.append)
    clock.advance(0)
    assert failures[0].check(OSError)


class Keeping(Factory):
    """Keeps the protocols that it built."""

    def __init__(self) -> None:
        self.built: list[Peer] = []

    def buildProtocol(self, addr: object) -> Any:
        self.built.append(Peer())
        return self.built[-1]


def test_our_own_ends_are_closed_once_the_reactor_has_its_own() -> None:
    """Each connection costs two descriptors, not four."""
    memory: Any = MemoryReactorClock()
    inside, outside = Keeping(), Keeping()
    _ = MemoryEndpoint(memory, inside).connect(outside).addErrback(lambda _: None)
    memory.advance(0)
    (first, family, factory), (second, other_family, _other) = memory.adoptedStreamConnections
    assert family == other_family == socket.AF_UNIX
    assert factory is inside
    for descriptor in (first, second):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_our_own_ends_are_closed_when_the_reactor_cannot_take_them() -> None:
    """Nothing leaks on the way to the error."""
    offered: list[int] = []

    class Full(MemoryReactorClock):
        def adoptStreamConnection(self, fileDescriptor: int, addressFamily: int, factory: Any) -> None:  # noqa: N802, N803
            offered.append(fileDescriptor)
            raise OSError(24, "Too many open files")

    full: Any = Full()
    failures: list[Any] = []
    _ = MemoryEndpoint(full, Keeping()).connect(Keeping()).addErrback(failures.append)
    full.advance(0)
    assert "Too many open files" in failures[0].getErrorMessage()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(offered[0])
