"""What passes between the thread of a relay_thread and its user."""

import threading

from stomprelay.pipeline.stomp.relay_thread import ROOM, ClientQueues


def test_what_goes_in_comes_out_in_order() -> None:
    """Each way has its own order."""
    box = ClientQueues()
    box.feed(b"a")
    box.feed(b"")
    box.feed(b"b")
    assert (box.next_inward(), box.next_inward(), box.next_inward()) == (b"a", b"b", b"")
    assert not box.put_outward(b"c")
    box.put_outward(b"d")
    assert box.take(0) == ([b"c", b"d"], False)
    assert box.take(0) == ([], False)


def test_a_full_box_says_so() -> None:
    """Whoever tells learns that there is no room, and whoever takes that there was none."""
    box = ClientQueues()
    assert box.put_outward(b"x" * ROOM)
    assert box.take(0) == ([b"x" * ROOM], True)
    assert not box.put_outward(b"x")


def test_feeding_waits_for_room() -> None:
    """What cannot be held is not taken yet."""
    box = ClientQueues()
    box.feed(b"x" * ROOM)
    feeding = threading.Thread(target=box.feed, args=(b"y",))
    feeding.start()
    feeding.join(0.05)
    assert feeding.is_alive()
    assert box.next_inward()
    feeding.join(30)
    assert box.next_inward() == b"y"


def test_taking_waits_for_news() -> None:
    """Whoever waits wakes up when something is told."""
    box = ClientQueues()
    found: list[tuple[list[bytes], bool]] = []
    taking = threading.Thread(target=lambda: found.append(box.take(30)))
    taking.start()
    box.put_outward(b"a")
    taking.join(30)
    assert found == [([b"a"], False)]


def test_a_closed_box_takes_nothing_and_gives_what_it_has() -> None:
    """Nobody waits for it any more."""
    box = ClientQueues()
    box.put_outward(b"last")
    box.feed(b"x" * ROOM)
    box.close()
    box.feed(b"y")
    assert box.next_inward() == b""
    assert box.take(30) == ([b"last"], False)
    assert box.take(30) == ([], False)
