"""Clients together: turns, slow subscribers, the end of the service."""

from tests.broker.scene import Scene


def test_messages_are_shared_out_in_one_write_each(scene: Scene) -> None:
    """A chunk of many SENDs is one write to each consumer."""
    sender, first, second = scene.client(), scene.client(b"1.0"), scene.client(b"1.1")
    for consumer in (first, second):
        consumer.subscribes(b"/queue/a")
    sends = first.writes, second.writes
    sender.sends_to(b"/queue/a", *[b"%d" % number for number in range(10)])
    assert first.bodies() == [b"0", b"2", b"4", b"6", b"8"]
    assert second.bodies() == [b"1", b"3", b"5", b"7", b"9"]
    assert (first.writes, second.writes) == (sends[0] + 1, sends[1] + 1)


def test_a_subscriber_that_is_too_slow_is_disconnected() -> None:
    """It is told why, alone or with others; the publisher and quick subscribers notice nothing."""
    scene = Scene(topic_messages=2)
    publisher, quick, slow = scene.client(), scene.client(), scene.client()
    for consumer in (slow, quick):
        consumer.subscribes(b"/topic/a")
    slow.stops_reading()
    publisher.sends_to(b"/topic/a", b"1", b"2")
    assert slow.closed is None
    publisher.sends_to(b"/topic/a", b"3", b"4")
    slow.receives_error(b"too slow for a topic", detail=b"2 messages")
    assert quick.bodies() == [b"1", b"2", b"3", b"4"]
    assert publisher.closed is None
    assert (len(scene.broker.connections), scene.memory) == (2, 0)
    scene = Scene(topic_messages=1)
    publisher = scene.client()
    together = [scene.client() for _ in range(3)]
    for consumer in together:
        consumer.subscribes(b"/topic/a")
        consumer.stops_reading()
    publisher.sends_to(b"/topic/a", b"1", b"2")
    for consumer in together:
        consumer.receives_error(b"too slow for a topic")
    assert (len(scene.broker.connections), len(scene.broker.destinations.kept), scene.memory) == (1, 0, 0)


def test_the_service_stops(scene: Scene) -> None:
    """Everybody is told, greeted or not, and nobody is given what another had."""
    client, other, opened = scene.client(), scene.client(b"1.0"), scene.opens()
    client.subscribes(b"/queue/a", b"client")
    client.sends_to(b"/queue/a", b"1")
    client.reads()
    other.subscribes(b"/queue/a")
    scene.stops()
    for peer in (client, other, opened):
        data = peer.written
        assert data.startswith(b"ERROR\n")
        peer.receives_error(b"the broker is stopping")
    assert len(scene.broker.connections) == 0
    scene.stops()
