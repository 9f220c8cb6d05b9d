"""What an idle session takes of memory: the core's part of it, by the size of what it allocated and still has."""

import gc
import tracemalloc
from collections.abc import Iterator

import pytest

from stomprelay.relay import inputs
from stomprelay.relay.effects import Effect, Open
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.relay import Relay
from tests.playbook import listener, upstream
from tests.relay.failing import movable

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:me\npasscode:secret\nheart-beat:10000,10000\n\n\0"
CONNECTED = b"CONNECTED\nversion:1.2\nheart-beat:10000,10000\nserver:broker/1\n\n\0\n"
SESSIONS = 200


def legs(effects: list[Effect]) -> Iterator[Open]:
    """The connections that are asked for."""
    return (each for each in effects if isinstance(each, Open))


def idle(front: Listener, counters: Counters) -> Relay:
    """A session whose client and broker exchange heart-beats, and nothing else."""
    relay = Relay(front, b"session", counters, passes=True)
    relay.handle(inputs.Opened(), 0.0)
    (opened,) = legs(relay.received(relay.client, CONNECT, 1.0))
    relay.handle(inputs.BrokerConnected(opened.leg), 2.0)
    relay.received(opened.leg, CONNECTED, 3.0)
    for now in (8.0, 13.0):
        relay.handle(inputs.Woke(), now)
        relay.received(opened.leg, b"\n", now)
        relay.received(relay.client, b"\n", now)
    assert relay.links[0].up
    return relay


@pytest.mark.ci
@pytest.mark.parametrize(("over", "most"), [(upstream(), 2540), (movable(), 5380)], ids=["plain", "failover"])
def test_an_idle_session_is_small(over: Upstream, most: int) -> None:
    """In bytes: what is needed only until CONNECTED, or what most sessions never need, is not kept."""
    # One of eight is enough: a broker's dictionary of sessions grows in one round and not in another; the interpreter
    # keeps objects for use again. 2,516 and 5,260 bytes are measured; up to 14 more where a round paid for those.
    assert any(_size(over) < most for _ in range(8))


def _size(over: Upstream) -> float:
    """Return the bytes that a session allocates and keeps, in the average."""
    front, counters = listener(over), Counters()
    sessions = [idle(front, counters)]
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        sessions += [idle(front, counters) for _ in range(SESSIONS)]
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / SESSIONS
