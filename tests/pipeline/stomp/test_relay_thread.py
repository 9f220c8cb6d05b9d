"""The relay's core in a thread, and what passes between it and its client."""

import threading

from stomprelay.config.uri import locate
from stomprelay.pipeline.stomp.relay_thread import ROOM, ClientQueues, RelayThread
from stomprelay.pipeline.stomp.sockets import endpoint
from stomprelay.relay.model.group import Policy
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.profile import ACTIVEMQ
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.leg import Terms
from tests.e2e.raw import Connection, ScriptedBroker
from tests.pipeline.stomp.rig import accept, failover, message, until

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"


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


def relay_thread(uri: str, heart_beat: Terms = Terms(0, 0)) -> RelayThread:
    """Make a relay_thread to this place, and let it begin."""
    place = locate(uri)
    groups = place.groups("test", Policy.FAILOVER)
    upstream = Upstream("test", groups, quorum=place.quorum, heart_beat=heart_beat, connect_timeout=5)
    listener = Listener("test", "", upstream, heart_beat=Terms(0, 0))
    made = RelayThread(listener, "test", {each: endpoint(each, upstream.tls) for each in upstream.brokers})
    made.start()
    made.feed(CONNECT)
    return made


def heard(made: RelayThread, wanted: bytes) -> None:
    """Take what the client is told until something is in it."""
    found: list[bytes] = []

    def there() -> bool:
        found.extend(made.take(0.1))
        return wanted in b"".join(found)

    until(there, 300)


def ended(made: RelayThread) -> None:
    """Abort it and see that its thread has ended."""
    made.abort()
    assert made.join(30)


def connected(broker: ScriptedBroker) -> tuple[RelayThread, Connection]:
    """Begin a session that survives its broker."""
    made = relay_thread(failover(broker))
    peer = accept(broker)
    heard(made, b"CONNECTED\n")
    return made, peer


def test_another_broker_is_told_all_again(broker: ScriptedBroker) -> None:
    """The core's failover, with nothing to be done by whoever uses it; meanwhile there is no broker."""
    made, peer = connected(broker)
    made.feed(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    assert peer.frame().startswith(b"SUBSCRIBE\n")
    peer.close()
    until(lambda: not made.has_brokers)
    again = accept(broker)
    assert again.frame().startswith(b"SUBSCRIBE\n")
    until(lambda: made.has_brokers)
    ended(made)


def test_beats_go_on_while_nobody_asks(broker: ScriptedBroker) -> None:
    """The thread keeps the session alive, however long its user is busy."""
    made = relay_thread(f"tcp://127.0.0.1:{broker.port}", Terms(20, 0))
    peer = accept(broker, b"CONNECTED\nversion:1.2\nheart-beat:0,20\n\n\0")
    heard(made, b"CONNECTED\n")
    assert [peer.socket.recv(1) for _ in range(3)] == [b"\n"] * 3
    ended(made)


def test_who_does_not_take_is_not_told_more(broker: ScriptedBroker) -> None:
    """The broker is not read from when too much waits, and again when it was taken: nothing is lost."""
    made, peer = connected(broker)
    made.feed(b"SUBSCRIBE\nid:0\ndestination:/queue/a\n\n\0")
    peer.frame()
    body = b"x" * 100_000
    count = 8 * ROOM // len(body)  # the system alone may take half of it
    peer.socket.setblocking(False)
    data = b"".join(message(number, body=body) for number in range(count))
    sent = 0
    stuck = 0
    while stuck < 100:  # a second without progress
        try:
            sent += peer.socket.send(data[sent : sent + 1_000_000])
            stuck = 0
        except BlockingIOError:
            stuck += 1
            made._thread.join(0.01)
    assert sent < len(data) - ROOM
    got = 0
    peer.socket.setblocking(True)
    for _ in range(10_000):
        got += sum(chunk.count(b"MESSAGE\n") for chunk in made.take(0.02))
        if sent < len(data):
            sent += peer.socket.send(data[sent : sent + 100_000])
        if got == count:
            break
    assert got == count
    ended(made)


def test_receipts_mean_what_the_broker_is(broker: ScriptedBroker) -> None:
    """ActiveMQ vouches with one for all before it; of others it is not known."""
    made = relay_thread(f"tcp://127.0.0.1:{broker.port}")
    accept(broker, b"CONNECTED\nversion:1.2\nserver:ActiveMQ/5.17.2\n\n\0")
    heard(made, b"CONNECTED\n")
    assert ACTIVEMQ.cumulative
    assert made.cumulative
    ended(made)
    other, _ = connected(broker)
    assert not other.cumulative
    ended(other)


def test_a_fan_out_goes_to_all(broker: ScriptedBroker) -> None:
    """Several brokers at a time, as the core does it."""
    with ScriptedBroker() as second:
        both = f"tcp://127.0.0.1:{broker.port},tcp://127.0.0.1:{second.port}"
        made = relay_thread(f"fanout:({both})?minAckCount=2")
        peers = [accept(broker), accept(second)]
        heard(made, b"CONNECTED\n")
        made.feed(b"SEND\ndestination:/queue/a\n\nhello\0")
        assert all(peer.frame().endswith(b"\n\nhello\0") for peer in peers)
        until(lambda: made.has_brokers)
        ended(made)


def test_aborted_while_it_connects_it_ends(broker: ScriptedBroker) -> None:
    """Nothing is waited for."""
    made = relay_thread(f"tcp://127.0.0.1:{broker.port}")
    ended(made)
    assert made.over
