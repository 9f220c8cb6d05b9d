"""A client's first octets: its CONNECT, what is not STOMP, and what is too much."""

import pytest

from stomprelay.relay.model.listener import Listener
from stomprelay.relay.relay import greeted
from stomprelay.session.foreign import HTTP, TLS, Foreign
from stomprelay.session.handshake import Offer
from stomprelay.session.heartbeat import Terms
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side, State
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.errors import FrameError, LimitError, ProtocolError, StompError
from stomprelay.wire.limits import Limits
from tests.playbook import SAY_HELLO, VERSIONS, Cut, in_all_cuts, listener

in_all_versions = pytest.mark.parametrize("version", VERSIONS, ids=bytes.decode)


class Scene:
    """A client that has just come."""

    def __init__(self, front: Listener | None = None) -> None:
        self.front = front or listener()
        self.client = Leg(Side.DOWNSTREAM, self.front.limits)

    def says(self, data: bytes) -> Offer | Foreign | None:
        """The client says this in one chunk."""
        return greeted(self.client, data, self.front)

    def offers(self, data: bytes, cut: Cut = Cut.WHOLE) -> Offer:
        """The client says this, which is its CONNECT, and no chunk of it is enough but the last."""
        answers = [self.says(chunk) for chunk in cut.chunks(data)]
        assert answers[:-1] == [None] * (len(answers) - 1)
        assert isinstance(answers[-1], Offer)
        return answers[-1]


# CONNECT


@in_all_cuts
@in_all_versions
def test_connect(version: bytes, cut: Cut) -> None:
    """What the client offers; its leg is still to enter the next state."""
    scene = Scene()
    offer = scene.offers(SAY_HELLO[version], cut)
    assert offer.versions == frozenset({version})
    assert offer.terms is None
    assert scene.client.state is State.OPENING


@in_all_cuts
@pytest.mark.parametrize("command", [b"CONNECT", b"STOMP"], ids=bytes.decode)
def test_what_is_offered(command: bytes, cut: Cut) -> None:
    """Both commands mean the same (STOMP 1.1, "CONNECT or STOMP frame"); all headers are the broker's, as they came."""
    said = b"%b\naccept-version:1.0,1.2\nhost:h\nheart-beat:100,200\nlogin:u\npasscode:secret\nx:y\\nz\n\n\0"
    offer = Scene().offers(said % command, cut)
    assert offer.versions == frozenset({b"1.0", b"1.2"})
    assert offer.terms == Terms(100, 200)
    assert (b"login", b"u") in offer.headers
    assert offer.headers[-1] == (b"x", b"y\\nz")
    assert "secret" not in repr(offer)


@in_all_cuts
@pytest.mark.parametrize("before", [b"\n", b"\r\n\n", b"\0\n"], ids=["LF", "CR LF", "NUL"])
def test_beats_before_connect(before: bytes, cut: Cut) -> None:
    """They mean nothing yet and do no harm."""
    scene = Scene()
    assert scene.says(before) is None
    assert scene.offers(before + SAY_HELLO[b"1.2"], cut).versions == frozenset({b"1.2"})


def test_what_follows_connect() -> None:
    """It stays where it is until the client's version is known."""
    scene = Scene()
    send = b"SEND\ndestination:/queue/a\n\nx\0"
    assert isinstance(scene.says(SAY_HELLO[b"1.2"] + send), Offer)
    scene.client.enter(State.CONNECTING)
    scene.client.enter(State.CONNECTED, V1_2)
    assert [frame.wire for frame in scene.client.decoder.frames()] == [send]


def test_nothing_was_said_yet() -> None:
    """More has to come."""
    scene = Scene()
    assert scene.says(b"") is None
    assert scene.says(b"CONN") is None
    assert scene.says(b"ECT\naccept-version:1.2\nhost:h\n") is None
    assert isinstance(scene.says(b"\n\0"), Offer)


# What is not STOMP


@pytest.mark.parametrize(
    ("data", "foreign"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", TLS),
        (b"\x16", TLS),
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", HTTP),
        (b"POST /x HTTP/1.1\r\n", HTTP),
    ],
    ids=["TLS", "first octet of TLS", "GET", "POST"],
)
def test_another_protocol(data: bytes, foreign: Foreign) -> None:
    """It is told from the first chunk, whole or not; no frame is looked for in it."""
    scene = Scene()
    assert scene.says(data) is foreign
    assert scene.client.decoder.buffered == 0


def test_another_protocol_in_the_middle() -> None:
    """Behind the first octets of a frame nothing else is expected than the rest of it."""
    scene = Scene()
    assert scene.says(b"CONNECT\nhost:") is None
    assert scene.says(b"GET /\naccept-version:1.2\n") is None
    offer = scene.says(b"\n\0")
    assert isinstance(offer, Offer)
    assert offer.headers[0] == (b"host", b"GET /")


@in_all_cuts
@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"SEND\ndestination:/queue/a\n\nx\0", ProtocolError),
        (b"CONNECTED\nversion:1.2\n\n\0", ProtocolError),
        (b"HELO example.com\r\n", StompError),
        (b"CONNECT\nheart-beat:often\n\n\0", ProtocolError),
        (b"CONNECT\nno colon\n\n\0", FrameError),
        (b"CONNECT\n\nbody\0", FrameError),
    ],
    ids=["SEND", "CONNECTED", "SMTP", "beats", "header", "body"],
)
def test_what_is_not_connect(data: bytes, error: type[StompError], cut: Cut) -> None:
    """Nothing but CONNECT comes first, and it is a right frame."""
    scene = Scene()

    def says() -> None:
        for chunk in cut.chunks(data):
            assert scene.says(chunk) is None

    with pytest.raises(error):
        says()


# Too much


def test_too_much_before_connect() -> None:
    """What is unfinished may be as large as the listener says, and not an octet more."""
    scene = Scene(listener(before_connect=20))
    assert scene.says(b"CONNECT\n" + b"x" * 12) is None
    with pytest.raises(LimitError) as limit:
        scene.says(b"x")
    assert limit.value.message == "too much before CONNECT"
    assert limit.value.detail == "the limit is 20 bytes"


def test_a_connect_that_is_complete_is_not_too_much() -> None:
    """Nor is what follows it, nor any number of beats."""
    scene = Scene(listener(before_connect=4))
    assert scene.says(b"\n" * 100) is None
    assert isinstance(scene.says(SAY_HELLO[b"1.2"] + b"SEND\ndestination:/queue/a\n\n"), Offer)


def test_the_limits_of_any_frame() -> None:
    """They are those of the listener."""
    scene = Scene(listener(limits=Limits(headers=2, header_line=20)))
    with pytest.raises(LimitError):
        scene.says(b"CONNECT\na:1\nb:2\nc:3\n\n\0")
    scene = Scene(listener(limits=Limits(headers=2, header_line=20)))
    with pytest.raises(LimitError):
        scene.says(b"CONNECT\nlogin:" + b"x" * 20)
