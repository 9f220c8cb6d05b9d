"""What is counted by destination and by broker: every frame, once, and what may wait there."""

from itertools import pairwise

import pytest

from stomprelay.relay.counting import LOOKS, TURN, DestinationCounter, Tallies
from stomprelay.relay.model.counters import DestinationTally
from stomprelay.relay.model.group import BrokerTally
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.session import SENT_TO, Session
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import CLIENT_COMMANDS
from tests.playbook import SAY_HELLO, SAY_WELCOME, Cut, Playbook, in_all_cuts, joined, listener, upstream
from tests.relay.failing import found, movable
from tests.relay.several import fan_out


def send(destination: bytes, body: bytes = b"x") -> bytes:
    """A SEND."""
    return b"SEND\ndestination:%b\n\n%b\0" % (destination, body)


def message(destination: bytes) -> bytes:
    """A MESSAGE."""
    return b"MESSAGE\nsubscription:1\nmessage-id:1\ndestination:%b\n\nxyz\0" % destination


def counted(of: Upstream, cut: Cut = Cut.WHOLE) -> tuple[Playbook, DestinationCounter]:
    """A session that is counted, and who counts."""
    counter = DestinationCounter()
    play = Playbook(listener(of), cut=cut, counter=counter)
    play.client_says(SAY_HELLO[b"1.2"])
    for peer in tuple(play.brokers):
        play.broker_accepts(at=peer.uri)
        play.broker_says(SAY_WELCOME[b"1.2"], at=peer.uri)
    return play, counter


@pytest.mark.parametrize(
    "of",
    [upstream(), movable(), movable(confirm=True), fan_out()],
    ids=["plain", "failover", "confirm", "fan-out"],
)
def test_what_a_session_carries(of: Upstream) -> None:
    """Each SEND and each MESSAGE, once, with its bytes; nothing else has a destination of this kind."""
    play, counter = counted(of)
    play.client_says(b"SUBSCRIBE\nid:1\ndestination:/queue/b\n\n\0")
    one, other = send(b"/queue/a"), send(b"/queue/\\cb", b"longer")
    play.client_says(one)
    play.client_says(one + other + one)
    play.broker_says(message(b"/queue/b") * 2)
    assert counter.table.shown == {
        b"/queue/a": DestinationTally(3, 3 * len(one), 0, 0),
        b"/queue/:b": DestinationTally(1, len(other), 0, 0),
        b"/queue/b": DestinationTally(0, 0, 2, 2 * len(message(b"/queue/b"))),
    }
    session = play.relay.session
    assert session is not None
    assert session.sent_to == (b"/queue/a", b"/queue/:b")


def carried(counter: DestinationCounter, chunk: bytes, session: Session) -> None:
    """A client says this to one who counts."""
    decoder = Decoder(V1_2, CLIENT_COMMANDS, Limits())
    decoder.feed(chunk)
    for _ in counter.counting(decoder.frames(), session, V1_2):
        pass


def test_samples_stand_for_the_others() -> None:
    """Of many frames few are looked at; what is counted is near what there was, of each destination."""
    counter, session = DestinationCounter(), Session(b"s", V1_2, 10, {})
    chunk = (send(b"/queue/a") * 3 + send(b"/queue/b", b"x" * 1000)) * 1000
    for _ in range(25):
        carried(counter, chunk, session)
    found = counter.table.shown
    a, b = found[b"/queue/a"], found[b"/queue/b"]
    assert abs(a.sends + b.sends - 100_000) < 1000
    assert abs(a.sends - 75_000) < 7500
    assert b.send_bytes == b.sends * len(send(b"/queue/b", b"x" * 1000))


def test_how_many_are_looked_at() -> None:
    """About so many in a second, all of them when there are few, and each when as many have passed as was said."""
    counter, session = DestinationCounter(), Session(b"s", V1_2, 10, {})
    for _ in range(10):
        carried(counter, send(b"/queue/a") * 10_000, session)
    assert counter._looks < LOOKS
    assert counter._every >= 16
    for _ in range(20):
        counter.tick()
    before = counter.table.shown[b"/queue/a"].sends
    carried(counter, send(b"/queue/b") * 20, session)
    carried(counter, send(b"/queue/a") * 100, session)
    assert counter.table.shown[b"/queue/a"].sends == before + 100
    counter, session = DestinationCounter(), Session(b"s", V1_2, 10, {})
    carried(counter, send(b"/queue/a") * LOOKS, session)
    decoder = Decoder(V1_2, CLIENT_COMMANDS, Limits())
    decoder.feed(send(b"/queue/a"))
    (frame,) = decoder.frames()
    left = [counter.passed(frame, session, V1_2, 1) for _ in range(100)]
    assert all(after == before - 1 for before, after in pairwise(left) if before > 1)


def test_places_go_to_others_once_a_minute() -> None:
    """With the last of so many ticks."""
    tallies, session = Tallies(), Session(b"s", V1_2, 10, {})
    tallies.count_destinations()
    counter = tallies.counter
    assert counter is not None
    for number in range(101):
        carried(counter, send(b"/queue/%d" % number) * (9 if number == 100 else 1), session)
    for _ in range(TURN - 1):
        tallies.tick()
    assert b"/queue/100" not in counter.table.shown
    tallies.tick()
    assert b"/queue/100" in counter.table.shown


def test_where_a_client_sends_to() -> None:
    """The last ones are kept, each once; long names are cut."""
    session = Session(b"s", V1_2, 10, {})
    for number in (*range(10), 9, 5):
        session.sends_to(b"/queue/%d" % number)
    assert session.sent_to == tuple(b"/queue/%d" % number for number in range(10 - SENT_TO, 10))
    session.sends_to(b"x" * 1000)
    assert session.sent_to[-1] == b"x" * 200


def waiting(play: Playbook) -> list[int]:
    """About how many messages may wait at each broker, open connections included."""
    found = []
    for broker in play.relay.listener.upstream.brokers:
        here = [link.connection.tally for link in play.relay.links if link.broker is broker]
        found.append(BrokerTally(*map(sum, zip(broker.tally, *here[:1], strict=True))).waiting)
    return found


@in_all_cuts
@pytest.mark.parametrize("confirm", [False, True])
def test_what_may_wait_at_a_broker(cut: Cut, confirm: bool) -> None:
    """SENDs to queues less MESSAGEs; what was not acknowledged or confirmed counts where it goes next."""
    play, _ = counted(movable(confirm=confirm), cut)
    play.client_says(b"SUBSCRIBE\nid:1\ndestination:/queue/b\nack:client-individual\n\n\0")
    play.client_says(send(b"/topic/a") + send(b"/queue/a") * 5 + send(b"/topic/a") * 2)
    assert waiting(play) == [5, 0]
    play.client_says(send(b"/queue/a") + send(b"/topic/a") + send(b"/queue/a") + send(b"/topic/a"))
    assert waiting(play) == [7, 0]
    for number in range(3):
        play.broker_says(message(b"/queue/b").replace(b"id:1", b"id:1\nack:%d" % number))
    play.broker_says(message(b"/topic/b").replace(b"id:1", b"id:1\nack:9"))
    assert waiting(play) == [4, 0]
    play.client_says(b"ACK\nid:0\n\n\0ACK\nid:1\n\n\0ACK\nid:9\n\n\0")
    play.broker_goes()
    assert waiting(play) == ([0, 0] if confirm else [5, 0])
    found(play)
    assert waiting(play) == ([0, 7] if confirm else [5, 0])


def test_large_messages_wait_as_well() -> None:
    """Not all of their bytes are gone through; and no less than nothing waits, whoever sends past the relay."""
    play, _ = counted(movable())
    play.client_says(send(b"/queue/a"))
    large = b"x" * 5000
    play.client_says(send(b"/queue/a", large) * 3)
    assert waiting(play) == [4, 0]
    play.client_says(send(b"/topic/a", large) * 2)
    assert waiting(play) == [4, 0]
    play, _ = counted(movable())
    play.client_says(b"SUBSCRIBE\nid:1\ndestination:/queue/b\n\n\0")
    play.broker_says(message(b"/queue/b"))
    assert waiting(play) == [0, 0]


SEND = b"SEND\ndestination:/queue/a\n\nx\0"
MESSAGE = b"MESSAGE\nsubscription:1\nmessage-id:1\ndestination:/queue/a\n\nx\0"


def tallies(play: Playbook) -> list[BrokerTally]:
    """What was counted of each broker that the relay turned to, on all connections."""
    found = {broker: broker.tally for broker in play.opened}
    for link in play.relay.links:
        if link.broker is not None:
            both = zip(found[link.broker], link.connection.tally, strict=True)
            found[link.broker] = BrokerTally(*map(sum, both))
    return [*found.values()]


@pytest.mark.parametrize("cut", [Cut.WHOLE, Cut.PASSED])
def test_frames_of_a_broker(cut: Cut) -> None:
    """Both ways, whether they passed or were looked at; CONNECT and CONNECTED are none."""
    play = joined(b"1.2", b"1.2", cut=cut)
    play.client_says(b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
    for _ in range(3):
        play.client_says(SEND)
    play.broker_says(MESSAGE * 2)
    assert tallies(play) == [BrokerTally(sent_frames=4, received_frames=2)]
    assert bool(play.passed) is (cut is Cut.PASSED)
    play.client_goes()
    assert tallies(play) == [BrokerTally(sent_frames=4, received_frames=2)]
