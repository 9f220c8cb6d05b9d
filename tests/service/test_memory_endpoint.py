"""The endpoint of the embedded broker: pairs of sockets, their ends, and the descriptors that they cost."""

import os
import socket
from typing import Any
from unittest.mock import patch

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock

from stomprelay.service.embedded import MemoryEndpoint
from tests.service.harness import result
from tests.service.sockets import Accepting

FULL = OSError(24, "Too many open files")


def attempt(memory: Any, inside: Accepting) -> Deferred[Any]:
    """A connection to `inside`, of which all is done that this reactor can do at once."""
    coming = MemoryEndpoint(memory, inside).connect(Accepting())
    memory.advance(0)
    return coming


def test_no_sockets_left() -> None:
    """The attempt fails, as one over the network would."""
    with patch.object(socket, "socketpair", side_effect=FULL):
        coming = attempt(MemoryReactorClock(), Accepting())
    with pytest.raises(OSError, match="Too many open files"):
        result(coming)


@pytest.mark.parametrize("full", [False, True])
def test_our_own_ends_are_closed(full: bool) -> None:
    """Once the reactor has its own, so that a connection costs two descriptors, not four; or cannot take them."""
    offered: list[int] = []

    class Adopting(MemoryReactorClock):
        def adoptStreamConnection(self, fileDescriptor: int, addressFamily: int, factory: Any) -> None:  # noqa: N802, N803
            offered.append(fileDescriptor)
            assert addressFamily == socket.AF_UNIX
            if full:
                raise FULL
            factory.buildProtocol(None)

    inside = Accepting()
    coming = attempt(Adopting(), inside)
    if full:
        with pytest.raises(OSError, match="Too many open files"):
            result(coming)
    else:
        assert result(coming) not in inside.accepted.pending
        assert (len(offered), len(inside.accepted.pending)) == (2, 1)
    for descriptor in offered:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
