"""The queue between the reactor's thread and the one that writes."""

import itertools
import time
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.journal.block import Block, BlockKind, decode, pack_sizes
from stomprelay.service.journal.portions import ENOUGH, LEAST, JournalQueue

EVENT = int(BlockKind.EVENT)
SIZE = 36 + 2 + 4
"""Bytes of a block as `filled` puts it."""


def made(room: int = 10**6, **settings: Any) -> JournalQueue:
    """A queue whose clock counts."""
    return JournalQueue(room, itertools.count(1).__next__, **settings)


def put(queue: JournalQueue, *payloads: bytes) -> None:
    """Events with these payloads."""
    for payload in payloads:
        queue.put(b"[]", 0, b"", payload, EVENT)


def taken(queue: JournalQueue) -> list[Block]:
    """What is taken, read."""
    batch = queue.take()
    found = [] if batch is None else list(decode(bytes(batch.data)))
    queue.done()
    assert batch is None or len(found) == batch.blocks
    return [each for each in found if isinstance(each, Block)]


def test_where_nothing_is_to_be_lost() -> None:
    """Whoever listens is told to hold; what comes nevertheless is kept, as far as memory allows."""
    told: list[int] = []
    queue: JournalQueue = made(10 * SIZE, lossy=False, full=lambda: told.append(queue.size))
    for _ in range(9):
        put(queue, b"xxxx")
    assert told == []
    put(queue, b"xxxx")
    assert told == [10 * SIZE]
    put(queue, *[b"x" * (1 << 20)] * 80)
    assert sum(len(each) for each in iter(lambda: taken(queue), [])) == 10 + (LEAST >> 20)
    assert queue.dropped.blocks == 80 - (LEAST >> 20)


@pytest.mark.parametrize("size", [0, 4, ENOUGH])
def test_waiting(size: int) -> None:
    """Nobody is kept waiting for ever: not where nothing comes, not for little, not at all for much."""
    queue = made(1 << 30)
    thread = Thread(target=queue.wait, args=(0.01 if not size else 600, 0.01 if size < ENOUGH else 600))
    if size:
        put(queue, b"x" * size, b"x", b"x")
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_two_threads() -> None:
    """Every block comes through, once and in its order, and none is waited for in vain."""
    queue = made(1 << 30, portion=10_000)
    found: list[Block] = []

    def read() -> None:
        while len(found) < 20_000:
            queue.wait(60, 0)
            while several := taken(queue):
                found.extend(several)

    thread = Thread(target=read)
    thread.start()
    for number in range(20_000):
        queue.put(b"[]", number, pack_sizes(2, 0, 0), b"ab")
        if number % 1000 == 0:
            time.sleep(0.001)
    thread.join(60)
    assert [each.number for each in found] == list(range(20_000))
    assert queue.size == 0


@given(st.lists(st.one_of(st.integers(0, 200), st.none())))
def test_the_account_balances(steps: list[int | None]) -> None:
    """What went in came out, waits, or was dropped."""
    queue = made(500, portion=100)
    put_in = came_out = 0
    for step in steps:
        if step is None:
            came_out += len(taken(queue))
        else:
            put(queue, b"x" * step)
            put_in += 1
    while found := taken(queue):
        came_out += len(found)
    assert put_in == came_out + queue.dropped.blocks
    assert queue.size == 0
