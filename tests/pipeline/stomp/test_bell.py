"""Waking a thread that waits in a selector."""

import select
import threading

from stomprelay.pipeline.stomp.relay_thread import Wakeup


def test_a_bell_wakes_a_selector_once() -> None:
    """However often it is rung before somebody answers."""
    wakeup = Wakeup()
    wakeup.wake()
    wakeup.wake()
    assert select.select([wakeup.receiving], [], [], 0)[0]
    wakeup.clear()
    assert not select.select([wakeup.receiving], [], [], 0)[0]
    wakeup.wake()
    assert select.select([wakeup.receiving], [], [], 0)[0]
    wakeup.close()


def test_work_is_done_in_order_by_whoever_works() -> None:
    """Work that asks for more work gets it done, too."""
    wakeup, done = Wakeup(), list[str]()
    wakeup.soon(lambda: done.append("a"))
    wakeup.soon(lambda: wakeup.soon(lambda: done.append("c")))
    wakeup.soon(lambda: done.append("b"))
    assert wakeup.waiting
    assert not done
    wakeup.run()
    assert done == ["a", "b", "c"]
    wakeup.close()


def test_a_closed_bell_has_work_done_at_once() -> None:
    """The thread is no more; ringing is to no effect."""
    wakeup, done = Wakeup(), list[int]()
    wakeup.soon(lambda: done.append(1))
    wakeup.close()
    assert done == [1]
    wakeup.soon(lambda: done.append(threading.get_ident()))
    assert done == [1, threading.get_ident()]
    wakeup.wake()
