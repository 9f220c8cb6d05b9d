"""One client's connection: CONNECT, beats, time, slowness, bad input, and how it ends."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stomprelay
from stomprelay.broker.broker import HALF_CLOSED
from stomprelay.session.effects import Event, How
from stomprelay.session.leg import Terms
from stomprelay.wire.dialect import V1_2
from tests.broker.scene import Peer, Scene, header, in_every_version
from tests.playbook import SAY_HELLO as HELLO
from tests.strategies import chunkings, garbage, streams

SERVER = b"server:stomprelay/" + stomprelay.__version__.encode()

# CONNECT


@in_every_version
def test_connect_is_answered(scene: Scene, version: bytes) -> None:
    """With the version, a session of its own, who answers, and no beats where none were asked for."""
    client, other = scene.opens(version), scene.opens(version)
    client.sends(HELLO[version])
    client.receives(
        b"CONNECTED\nversion:%b\nsession:b-session-1\n%b\nheart-beat:0,0\n\n\0" % (version, SERVER)
    )
    other.sends(HELLO[version].replace(b"CONNECT", b"STOMP"))
    assert header(other.reads(), b"session") == b"b-session-2"
    assert scene.noted(Event.CONNECTED) == f"b-session-2: STOMP {version.decode()}"


def test_anybody_may_log_in(scene: Scene) -> None:
    """The login is not looked at, nor the virtual host, and nothing of them is noted."""
    client = scene.opens()
    client.sends(b"CONNECT\naccept-version:1.2\nhost:nowhere\nlogin:alice\npasscode:secret\n\n\0")
    assert client.reads().startswith(b"CONNECTED\n")
    assert not any(word in note.text for note in scene.notes for word in ("secret", "alice"))


def test_without_a_common_version_there_is_no_connection(scene: Scene) -> None:
    """The versions that would do are named (STOMP 1.2, "Protocol Negotiation")."""
    client = scene.opens()
    client.sends(b"CONNECT\naccept-version:2.0\nhost:/\n\n\0")
    assert b"\nversion:1.0,1.1,1.2\n" in client.written
    client.receives_error(b"no common STOMP version")
    assert len(scene.broker.connections) == 0


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:1000\n\n\0", b"malformed heart-beat header"),
        (b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:-1,0\n\n\0", b"malformed heart-beat header"),
        (b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:a,b\n\n\0", b"malformed heart-beat header"),
        (b"SEND\ndestination:/queue/a\n\nx\0", b"SEND is not allowed here"),
        (b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0", b"SUBSCRIBE is not allowed here"),
        (b"NONSENSE\n\n\0", b"unknown command"),
        (b"x" * 100, b"unknown command"),
        (b"CONNECT\nno colon\n\n\0", b"malformed header line"),
        (b"CONNECT\n\nbody\0", b"CONNECT must not have a body"),
    ],
)
def test_it_begins_with_connect(said: bytes, message: bytes) -> None:
    """Anything else, or a CONNECT that makes no sense, ends in an ERROR."""
    client = Scene().opens()
    client.sends(said)
    client.receives_error(message)


def test_connect_has_its_measure() -> None:
    """What comes before it is complete is not kept without end."""
    client = Scene(before_connect=1000).opens()
    client.sends(b"CONNECT\n" + b"login:aaaaaaaaa\n" * 62)
    assert client.closed is None
    client.sends(b"login:aaaaaaaaa\n")
    client.receives_error(b"too much before CONNECT", detail=b"the limit is 1000 bytes")


def test_connect_comes_in_time() -> None:
    """A connection that says nothing, or never finishes, is ended; one that said it is not."""
    scene = Scene(connect_timeout=5.0)
    silent, slow, quick = scene.opens(), scene.opens(), scene.opens()
    slow.sends(b"CONNECT\n")
    quick.sends(HELLO[b"1.2"])
    quick.reads()
    scene.time_passes(4.9)
    assert silent.reads() == slow.reads() == b""
    scene.time_passes(0.1)
    silent.receives_error(b"no CONNECT in time", detail=b"the limit is 5 s")
    slow.receives_error(b"no CONNECT in time")
    scene.time_passes(1000)
    assert (quick.reads(), quick.closed) == (b"", None)
    assert len(scene.broker.connections) == 1


# Beats


@in_every_version
def test_beats_are_agreed(version: bytes) -> None:
    """With who asks for them, in every version; real brokers beat for 1.0 clients too."""
    client = Scene(heart_beat=Terms(3000, 4000)).opens(version)
    client.sends(HELLO[version].replace(b"\n\n\0", b"\nheart-beat:1000,2000\n\n\0"))
    assert header(client.reads(), b"heart-beat") == b"3000,4000"


def connected(scene: Scene, heart_beat: bytes) -> Peer:
    """A client that agreed on beats."""
    client = scene.opens()
    client.sends(b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:%b\n\n\0" % heart_beat)
    client.reads()
    return client


def test_silence_is_filled_with_beats(scene: Scene) -> None:
    """At half the interval that the client wants; whatever else is written counts as one."""
    client = connected(scene, b"0,2000")
    scene.time_passes(0.9)
    assert client.reads() == b""
    scene.time_passes(0.1)
    client.receives(b"\n")
    scene.time_passes(0.9)
    client.subscribes(b"/queue/a", more=b"receipt:r\n")
    client.reads()
    scene.time_passes(0.9)
    scene.client().sends_to(b"/queue/a", b"x")
    client.reads()
    scene.time_passes(0.9)
    assert client.reads() == b""
    scene.time_passes(0.1)
    client.receives(b"\n")


def test_a_silent_client_is_given_up(scene: Scene) -> None:
    """After twice the interval; beats and parts of frames keep it alive."""
    client, other = connected(scene, b"1000,0"), scene.client()
    client.subscribes(b"/queue/a", b"client")
    client.sends_to(b"/queue/a", b"1")
    for part in (b"\n", b"SEND\n", b"destination:", b"/queue/b\n\n", b"x", b"\0"):
        scene.time_passes(1.9)
        client.sends(part)
    scene.time_passes(1.9)
    assert client.closed is None
    scene.time_passes(0.1)
    client.receives_error(b"heart-beat missed")
    assert "silent" in scene.noted(Event.LOST)
    other.subscribes(b"/queue/a")
    assert other.bodies() == [b"1"]


# Slowness


def test_turns_wait_for_a_slow_client() -> None:
    """What the transport took meanwhile decides, and each subscription has its turn."""
    scene = Scene(burst=1)
    sender, client = scene.client(), scene.client()
    sender.sends_to(b"/queue/a", b"a1", b"a2", b"a3")
    sender.sends_to(b"/queue/b", b"b1", b"b2")
    client.subscribes(b"/queue/a", id=b"1")
    client.stops_reading()
    client.subscribes(b"/queue/b", id=b"2")
    scene.time_passes(0)
    assert client.bodies() == [b"a1"]
    for body in (b"a2", b"b1", b"a3", b"b2"):
        client.reads_again()
        client.stops_reading()
        assert client.bodies() == [body]
        scene.time_passes(0)
    assert client.reads() == b""


def test_a_client_that_reads_no_receipts_is_not_read_either() -> None:
    """Else its receipts would fill the memory; its silence means nothing meanwhile."""
    scene = Scene(unread=100)
    client = connected(scene, b"1000,0")
    client.stops_reading()
    read_from = []
    for _ in range(5):
        client.sends(b"SEND\ndestination:/queue/a\nreceipt:r\n\nx\0")
        read_from.append(client.read_from)
    assert read_from == [True] * 4 + [False]
    scene.time_passes(60)
    assert client.closed is None
    client.reads_again()
    assert client.messages() == [b"RECEIPT\nreceipt-id:r\n\n"] * 5
    scene.time_passes(1.9)
    assert client.closed is None
    scene.time_passes(0.1)
    client.receives_error(b"heart-beat missed")


# Bad input


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (b"NONSENSE\n\n\0", b"unknown command"),
        (b"SEND\ndestination:/queue/a\ncontent-length:999\n\n", b"body too large"),
        (b"SEND\ndestination:/queue/a\n\n" + b"x" * 101, b"body too large"),
        (b"SEND\n" + b"a:1\n" * 6, b"too many headers"),
        (b"SEND\n" + b"a" * 101, b"header line too long"),
    ],
)
def test_bad_input_costs_its_sender_only(said: bytes, message: bytes) -> None:
    """What was good before it counts; nothing else is disturbed, and nothing stays behind."""
    scene = Scene(headers=5, header_line=100, body=100)
    client, other = scene.client(), scene.client()
    other.subscribes(b"/queue/a")
    client.sends(b"SEND\ndestination:/queue/a\nreceipt:r\n\ngood\0" + said)
    client.receives_error(message)
    assert other.bodies() == [b"good"]
    assert (len(scene.broker.connections), scene.memory) == (1, 0)


@pytest.mark.parametrize(
    ("said", "answer", "word"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 400 ", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", b"", "TLS"),
    ],
)
def test_foreign_protocols_are_recognised(scene: Scene, said: bytes, answer: bytes, word: str) -> None:
    """And answered in their own tongue where that can be done; on the wrong port somebody will look."""
    client = scene.opens()
    client.sends(said)
    data = client.reads()
    assert data.startswith(answer) if answer else not data
    assert client.closed is How.LINGER
    assert word in scene.noted(Event.FOREIGN)
    assert len(scene.broker.connections) == 0


@given(data=st.data(), stream=streams(V1_2))
def test_any_cut_gives_the_same_conversation(data: st.DataObject, stream: bytes) -> None:
    """Whatever the frames, good and bad."""
    whole, parts = Scene().client(), Scene().client()
    whole.sends(stream)
    for chunk in data.draw(chunkings(stream)):
        parts.sends(chunk)
    assert whole.reads() == parts.reads()
    assert whole.closed is parts.closed


@given(st.lists(garbage, max_size=5), st.booleans())
def test_garbage_never_harms(chunks: list[bytes], greeted: bool) -> None:
    """Whatever comes, another client goes on, and nothing is left when the bad one went."""
    scene = Scene()
    other = scene.client()
    other.subscribes(b"/queue/other")
    client = scene.client() if greeted else scene.opens()
    for chunk in chunks:
        client.sends(chunk)
    if client.closed is None:
        client.is_lost()
    other.sends_to(b"/queue/other", b"fine")
    assert other.bodies() == [b"fine"]
    reader = scene.client(b"1.1")
    for number, name in enumerate(list(scene.kept)):
        reader.subscribes(name, id=b"u%d" % number)
    other.is_lost()
    reader.is_lost()
    assert (len(scene.broker.connections), len(scene.broker.destinations.kept), scene.memory) == (0, 0, 0)


# Turns


def test_a_client_that_sends_much_gives_way(scene: Scene, client: Peer, other: Peer) -> None:
    """Frames that came together are executed in turns, in their order, with what came meanwhile behind them."""
    scene.busy = True
    bodies = [b"%d" % number for number in range(1300)]
    client.sends_to(b"/queue/a", *bodies[:1299])
    first = scene.kept[b"/queue/a"]
    assert 0 < first < 1000
    client.sends_to(b"/queue/a", *bodies[1299:])
    assert scene.kept[b"/queue/a"] == first
    other.sends_to(b"/queue/b", b"meanwhile")
    assert scene.kept[b"/queue/b"] == 1
    scene.turn_comes()
    assert first < scene.kept[b"/queue/a"] < 1300
    scene.busy = False
    scene.turn_comes()
    assert scene.kept[b"/queue/a"] == 1300
    other.subscribes(b"/queue/a")
    assert other.bodies() == bodies


@pytest.mark.parametrize("rest", [b"", b"NONSENSE\n\n\0"], ids=["right", "wrong"])
def test_a_client_that_gave_way_and_vanished(scene: Scene, client: Peer, rest: bytes) -> None:
    """All that it had sent counts, up to what is wrong; it is asked for no more."""
    scene.busy = True
    client.sends(b"SEND\ndestination:/queue/a\n\nx\0" * 1300 + rest)
    client.is_lost()
    assert scene.kept[b"/queue/a"] == 1300
    assert client.connection.gave_way(scene.now) == []


# Ends


def test_a_client_that_vanishes_leaves_nothing_behind(scene: Scene) -> None:
    """Before CONNECT or after it; nothing is asked of the service for it any more."""
    opened, client = scene.opens(), scene.client()
    client.subscribes(b"/queue/a", b"client")
    client.sends(b"BEGIN\ntransaction:t\n\n\0")
    for peer in (opened, client):
        peer.is_lost()
        assert peer.wake == float("inf")
        assert re.search(r"left without DISCONNECT", scene.noted(Event.VANISHED))
        assert peer.connection.lost(scene.now) == []
        assert peer.connection.received(b"SEND\n\n\0", scene.now) == []
        assert peer.connection.woke(scene.now) == []
        assert peer.connection.paused() == []
        assert peer.connection.resumed(scene.now) == []
    assert (len(scene.broker.connections), len(scene.broker.destinations.kept), scene.memory) == (0, 0, 0)


# A client that closes its direction only


def test_a_client_that_half_closes_is_answered(scene: Scene, client: Peer) -> None:
    """All that it sent was executed; it waits for nothing, and its connection is closed."""
    client.sends(b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0")
    client.half_closes()
    client.receives(b"RECEIPT\nreceipt-id:1\n\n\0" + b"\n")
    assert client.closed is How.LINGER
    assert scene.noted(Event.VANISHED) == "b-session-1: client left without DISCONNECT"


def test_a_client_that_half_closes_while_frames_wait(scene: Scene, client: Peer) -> None:
    """They are executed in their turns; then the connection is closed."""
    scene.busy = True
    client.sends(b"SEND\ndestination:/queue/a\n\nx\0" * 1000)
    client.half_closes()
    client.receives(b"\n")
    scene.busy = False
    scene.turn_comes()
    assert client.closed is How.LINGER
    assert scene.kept == {b"/queue/a": 1000}


def test_a_subscriber_that_half_closes(scene: Scene) -> None:
    """It gets messages until the time is over, and is not dead for want of beats; what it never acknowledged stays."""
    client, other = scene.opens(), scene.client()
    client.sends(b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:1000,0\n\n\0")
    client.reads()
    client.subscribes(b"/queue/a", ack=b"client")
    client.half_closes()
    client.receives(b"\n")
    scene.time_passes(HALF_CLOSED - 0.1)
    other.sends_to(b"/queue/a", b"late")
    assert client.bodies() == [b"late"]
    scene.time_passes(0.1)
    assert client.closed is How.LINGER
    other.subscribes(b"/queue/a")
    assert other.bodies() == [b"late"]


def test_a_half_closed_client_that_is_gone(client: Peer, other: Peer) -> None:
    """It does not read the EOL: what it did not acknowledge goes to others at once."""
    client.subscribes(b"/queue/a", ack=b"client")
    other.sends_to(b"/queue/a", b"x")
    client.half_closes()
    client.is_lost()
    other.subscribes(b"/queue/a")
    assert other.bodies() == [b"x"]


@pytest.mark.parametrize("data", [b"", b"CONNECT\naccept"])
def test_half_closed_before_connect(scene: Scene, data: bytes) -> None:
    """There is nothing to wait for."""
    client = scene.opens()
    if data:
        client.sends(data)
    client.half_closes()
    assert client.connection.leg.closed
    assert scene.noted(Event.VANISHED)
