"""The endpoint of the embedded broker: pairs of sockets, their ends, and the descriptors that they cost."""

import os
import socket
from typing import Any

import pytest
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock

from stomprelay.service.embedded import MemoryEndpoint, join
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
    """Keeps the protocols that it built; builds none when `closed`."""

    def __init__(self, *, closed: bool = False) -> None:
        self.built: list[Peer] = []
        self.closed = closed

    def buildProtocol(self, addr: object) -> Any:
        if self.closed:
            return None
        self.built.append(Peer())
        return self.built[-1]


def test_our_own_ends_are_closed_once_the_reactor_has_its_own() -> None:
    """Each connection costs two descriptors, not four."""
    memory = MemoryReactorClock()
    inside, outside = Keeping(), Keeping()
    join(memory, inside, outside)
    (first, family, factory), (second, other_family, other_factory) = memory.adoptedStreamConnections
    assert family == other_family == socket.AF_UNIX
    assert [factory, other_factory] == [inside, outside]
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

    with pytest.raises(OSError, match="Too many open files"):
        join(Full(), Keeping(), Keeping())
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(offered[0])
