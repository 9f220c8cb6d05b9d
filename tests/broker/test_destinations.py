"""Queues and topics by name, in scripts: turns, room, memory, dead letters."""

from typing import Any

import pytest

from stomprelay.session.effects import Event
from tests.broker.scene import Peer, Scene

BEGIN = b"BEGIN\ntransaction:t\n\n\0"
COMMIT = b"COMMIT\ntransaction:t\n\n\0"


def refuses(peer: Peer, times: int) -> None:
    """The consumer refuses its only message so often."""
    for _ in range(times):
        (message,) = peer.messages()
        peer.acknowledges(b"NACK", message)


def test_a_topic_is_known_by_its_name(scene: Scene, client: Peer, other: Peer) -> None:
    """What nobody is there for is gone, and leaves no trace; two consumers get a copy each."""
    client.sends_to(b"/topic/a", b"1")
    assert scene.kept == {}
    client.subscribes(b"/topic/a")
    other.subscribes(b"/topic/a")
    client.sends_to(b"/topic/a", b"2")
    assert (client.bodies(), other.bodies()) == ([b"2"], [b"2"])


def test_destinations_go_when_nobody_would_miss_them(scene: Scene, client: Peer, other: Peer) -> None:
    """A queue with its last message and consumer, a topic with its last consumer; a refused message leaves none."""
    client.sends_to(b"/queue/a", b"1")
    for id, name in ((b"1", b"/queue/a"), (b"2", b"/topic/a"), (b"3", b"/queue/b")):
        client.subscribes(name, b"client", id=id)
    assert scene.kept == {b"/queue/a": 1, b"/topic/a": 0, b"/queue/b": 0}
    client.is_lost()
    assert scene.kept == {b"/queue/a": 1}
    other.subscribes(b"/queue/a")
    other.is_lost()
    assert (scene.kept, scene.memory) == ({}, 0)
    scene = Scene(memory=1)
    client = scene.client()
    client.sends_to(b"/queue/a", b"1")
    client.receives_error(b"the broker's memory is full")
    assert scene.kept == {}


def test_what_two_consumers_give_back_keeps_its_order(scene: Scene) -> None:
    """That in which it was sent, whoever gave back first."""
    first, second, third = scene.client(), scene.client(), scene.client()
    for each in (first, second):
        each.subscribes(b"/queue/a", b"client", more=b"prefetch-count:2\n")
    third.sends_to(b"/queue/a", b"1", b"2", b"3", b"4")
    second.is_lost()
    first.is_lost()
    third.subscribes(b"/queue/a")
    assert third.bodies() == [b"1", b"2", b"3", b"4"]


def test_a_consumer_that_ends_while_it_is_held_up(client: Peer, other: Peer) -> None:
    """It gets nothing when its client reads again; what waited for it goes to others."""
    client.subscribes(b"/queue/a")
    client.stops_reading()
    other.sends_to(b"/queue/a", b"1", b"2")
    client.sends(b"UNSUBSCRIBE\nid:1\n\n\0")
    client.reads_again()
    assert client.reads() == b""
    other.subscribes(b"/queue/a")
    assert other.bodies() == [b"1", b"2"]


def test_consumers_take_turns(scene: Scene) -> None:
    """Each message goes to one of them; one that is full or does not read is passed over until it is able again."""
    first, second, third = scene.client(), scene.client(), scene.client()
    for consumer in (first, second, third):
        consumer.subscribes(b"/queue/a", b"client-individual", more=b"prefetch-count:3\n")
    third.sends_to(b"/queue/a", *[b"%d" % at for at in range(7)])
    assert [each.bodies() for each in (first, second)] == [[b"0", b"3", b"6"], [b"1", b"4"]]
    second.stops_reading()
    third.sends_to(b"/queue/a", b"7", b"8", b"9")
    assert (first.reads(), third.bodies()) == (b"", [b"2", b"5", b"7"])
    second.reads_again()
    assert second.bodies() == [b"8"]


@pytest.mark.parametrize(
    ("bounds", "sizes", "message"),
    [
        ({"queue_messages": 2}, (0, 0, 0), b"the queue is full"),
        ({"queue_bytes": 1000}, (5000, 0), b"the queue is full"),
        ({"queue_bytes": 1100}, (10, 10, 10), b"the queue is full"),
        ({"memory": 2000}, (800, 10, 600), b"the broker's memory is full"),
    ],
)
def test_so_much_may_wait(bounds: dict[str, Any], sizes: tuple[int, ...], message: bytes) -> None:
    """All but the last of these may; a single message may wait however large it is, for else it could never pass."""
    scene = Scene(**bounds)
    client = scene.client()
    for size in sizes[:-1]:
        client.sends_to(b"/queue/a", b"x" * size)
    used = scene.memory
    assert client.closed is None
    client.sends_to(b"/queue/a", b"x" * sizes[-1])
    client.receives_error(message)
    assert (scene.kept, scene.memory) == ({b"/queue/a": len(sizes) - 1}, used)


@pytest.mark.parametrize("bounds", [{"queue_messages": 1}, {"queue_bytes": 1100}])
def test_what_comes_back_needs_no_room(bounds: dict[str, Any]) -> None:
    """A message that was accepted once is never refused; one taken makes room."""
    scene = Scene(**bounds)
    client, other = scene.client(), scene.client()
    client.subscribes(b"/queue/a", b"client", more=b"prefetch-count:2\n")
    other.sends_to(b"/queue/a", b"1", b"2", b"3")
    client.is_lost()
    assert scene.kept == {b"/queue/a": 3}
    other.sends_to(b"/queue/a", b"4")
    other.receives_error(b"the queue is full")


def test_without_memory_nobody_gets_it() -> None:
    """The publisher is told, and no subscriber has what another lacks; what need not be kept passes."""
    scene = Scene(memory=10_000)
    keeper, quick = scene.client(), scene.client()
    keeper.subscribes(b"/topic/a", b"client")
    quick.subscribes(b"/topic/a")
    scene.client().sends_to(b"/topic/a", b"x" * 9_000)
    assert keeper.messages()
    assert quick.messages()
    publisher = scene.client()
    publisher.sends_to(b"/topic/a", b"y" * 1_000)
    publisher.receives_error(b"the broker's memory is full")
    assert keeper.reads() == quick.reads() == b""
    keeper.is_lost()
    scene.client().sends_to(b"/queue/full", b"z" * 9_000)
    scene.client().sends_to(b"/topic/a", b"y" * 1_000)
    assert quick.bodies() == [b"y" * 1_000]


@pytest.mark.parametrize(
    ("bounds", "sends", "message"),
    [
        ({"queue_messages": 1}, [(b"/queue/b", 1), (b"/queue/a", 1), (b"/queue/a", 1)], b"the queue is full"),
        ({"queue_bytes": 1600}, [(b"/queue/a", 500), (b"/queue/a", 500)], b"the queue is full"),
        ({"memory": 1000}, [(b"/queue/a", 1000)], b"the broker's memory is full"),
        ({"transaction_frames": 1}, [(b"/queue/a", 1)], b"the transaction is too large"),
        ({"queue_messages": 1}, [(b"/topic/a", 1)] * 9, None),
    ],
)
def test_a_transaction_has_room_or_never_was(
    bounds: dict[str, Any], sends: list[tuple[bytes, int]], message: bytes | None
) -> None:
    """Nothing of it happened: not the ACK, not a message. A topic always has room."""
    scene = Scene(**bounds)
    client, other = scene.client(), scene.client()
    other.subscribes(b"/queue/b")
    other.subscribes(b"/topic/a", id=b"2")
    client.subscribes(b"/queue/c", b"client")
    other.sends_to(b"/queue/c", b"0")
    (mine,) = client.messages()
    client.sends(BEGIN)
    client.acknowledges(b"ACK", mine, b"transaction:t\n")
    for name, size in sends:
        client.sends(b"SEND\ndestination:%b\ntransaction:t\n\n%b\0" % (name, b"x" * size))
    if client.closed is None:
        client.sends(COMMIT)
    if message is None:
        assert (client.closed, len(other.bodies()), scene.kept[b"/queue/c"]) == (None, 9, 0)
        return
    client.receives_error(message)
    assert other.bodies() == []
    assert scene.kept == {b"/queue/b": 0, b"/topic/a": 0, b"/queue/c": 1}


@pytest.mark.parametrize("ack", [b"client", b"client-individual"])
@pytest.mark.parametrize("end", [b"COMMIT", b"ABORT"])
def test_an_ack_behind_unsubscribe(scene: Scene, client: Peer, other: Peer, end: bytes, ack: bytes) -> None:
    """Aborted, its message goes to others, as it would have without the transaction; committed, it stays settled."""
    client.subscribes(b"/queue/a", ack)
    client.sends_to(b"/queue/a", b"1")
    (message,) = client.messages()
    client.sends(BEGIN)
    client.acknowledges(b"ACK", message, b"transaction:t\n")
    client.sends(b"UNSUBSCRIBE\nid:1\n\n\0")
    other.subscribes(b"/queue/a")
    assert other.bodies() == []
    client.sends(b"%b\ntransaction:t\n\n\0" % end)
    assert other.bodies() == ([b"1"] if end == b"ABORT" else [])
    other.is_lost()
    assert (scene.kept, scene.memory) == ({}, 0)


# Dead letters


def test_beyond_the_dead_letters_there_is_nothing() -> None:
    """What is refused there is kept there."""
    scene = Scene(refusals=2)
    client = scene.client()
    client.sends_to(b"/queue/DLQ", b"1")
    client.subscribes(b"/queue/DLQ", b"client")
    refuses(client, 9)
    assert client.bodies() == [b"1"]
    assert scene.kept == {b"/queue/DLQ": 1}


def test_every_subscriber_of_a_topic_has_its_own_dead_letter() -> None:
    """One who refuses takes nothing from the other; both letters can be told apart."""
    scene = Scene(refusals=1)
    consumers = [scene.client(), scene.client()]
    for each in consumers:
        each.subscribes(b"/topic/a", b"client")
    consumers[0].sends_to(b"/topic/a", b"1")
    for each in consumers:
        refuses(each, 1)
    reader = scene.client()
    reader.subscribes(b"/queue/DLQ")
    assert [b"\nmessage-id:b-%d\n" % at in each for at, each in enumerate(reader.messages(), 2)] == [True] * 2


def test_full_dead_letters_let_the_oldest_go() -> None:
    """The oldest go, also those that cannot make room for one too large: it is said how many were lost."""
    scene = Scene(refusals=1, queue_messages=2)
    client = scene.client()
    client.subscribes(b"/queue/a", b"client")
    for body in (b"1", b"2", b"3"):
        client.sends_to(b"/queue/a", body)
        refuses(client, 1)
    assert scene.noted(Event.IGNORED) == "dead letters thrown away for want of room: 1"
    client.subscribes(b"/queue/DLQ", id=b"2")
    assert client.bodies() == [b"2", b"3"]
    scene = Scene(refusals=1, memory=2000)
    client, other = scene.client(), scene.client()
    client.sends_to(b"/queue/DLQ", b"old")
    for each in (client, other):
        each.subscribes(b"/topic/a", b"client")
    client.sends_to(b"/topic/a", b"x" * 700)
    refuses(client, 1)
    assert scene.noted(Event.IGNORED) == "dead letters thrown away for want of room: 2"
    other.is_lost()
    assert (scene.kept, scene.memory) == ({b"/topic/a": 0}, 0)
