"""What passes, by destination: each frame where there are few, and samples that stand for all where there are many."""

import pytest

from stomprelay.relay.counting import LOOKS, TURN, DestinationCounter
from stomprelay.relay.model.destinations import DestinationTally
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.session import SENT_TO, Session
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.head import Limits
from stomprelay.wire.names import CLIENT_COMMANDS
from tests.playbook import SAY_HELLO, SAY_WELCOME, Cut, Playbook, listener, upstream
from tests.relay.failing import movable
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
    """About so many in a second, and all of them again when there are few for a while."""
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


def test_places_go_to_others_once_a_minute() -> None:
    """With the last of so many ticks."""
    counter, session = DestinationCounter(), Session(b"s", V1_2, 10, {})
    for number in range(101):
        carried(counter, send(b"/queue/%d" % number) * (9 if number == 100 else 1), session)
    for _ in range(TURN - 1):
        counter.tick()
    assert b"/queue/100" not in counter.table.shown
    counter.tick()
    assert b"/queue/100" in counter.table.shown


def test_where_a_client_sends_to() -> None:
    """The last ones are kept, each once; long names are cut."""
    session = Session(b"s", V1_2, 10, {})
    for number in (*range(10), 9, 5):
        session.sends_to(b"/queue/%d" % number)
    assert session.sent_to == tuple(b"/queue/%d" % number for number in range(10 - SENT_TO, 10))
    session.sends_to(b"x" * 1000)
    assert session.sent_to[-1] == b"x" * 200
