"""Waking a thread that waits in a selector."""

import select
import threading

from stomprelay.pipeline.stomp.relay_thread import Bell


def test_a_bell_wakes_a_selector_once() -> None:
    """However often it is rung before somebody answers."""
    bell = Bell()
    bell.ring()
    bell.ring()
    assert select.select([bell.wire], [], [], 0)[0]
    bell.answer()
    assert not select.select([bell.wire], [], [], 0)[0]
    bell.ring()
    assert select.select([bell.wire], [], [], 0)[0]
    bell.close()


def test_work_is_done_in_order_by_whoever_works() -> None:
    """Work that asks for more work gets it done, too."""
    bell, done = Bell(), list[str]()
    bell.soon(lambda: done.append("a"))
    bell.soon(lambda: bell.soon(lambda: done.append("c")))
    bell.soon(lambda: done.append("b"))
    assert bell.waiting
    assert not done
    bell.work()
    assert done == ["a", "b", "c"]
    bell.close()


def test_a_closed_bell_has_work_done_at_once() -> None:
    """The thread is no more; ringing is to no effect."""
    bell, done = Bell(), list[int]()
    bell.soon(lambda: done.append(1))
    bell.close()
    assert done == [1]
    bell.soon(lambda: done.append(threading.get_ident()))
    assert done == [1, threading.get_ident()]
    bell.ring()
