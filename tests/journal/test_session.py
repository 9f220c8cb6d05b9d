"""What is recorded of a session: who its client is, and what becomes of its legs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.journal.block import BlockKind
from stomprelay.journal.capture import Capture, LegRecorder, SessionRecorder
from stomprelay.session.effects import Event, Note, Wake
from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_0, V1_2
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import LOGIN, OPENING
from tests.journal import made

CLIENT_ID = b"client-id"
TEXTS = st.sampled_from([b"", b"me", b" me", b"me\t", b"client-id", b"login:me", b"\xff", b"a\\cb"])
NAMES = st.sampled_from([CLIENT_ID, LOGIN, b"Login", b" login", b"logins", b"x-client-id", b"host"])


class Told:
    """A client, and the journal: what it is told to record is kept."""

    peer = "192.0.2.7:4711"
    host = "192.0.2.7"
    version = ""

    def __init__(self) -> None:
        self.full = self.held = False
        self.capture = Capture()
        self.blocks: list[tuple[bytes, int]] = []

    def hold(self) -> None:
        """It is read from no more."""
        self.held = True

    def record(self, context: bytes, number: int, sizes: bytes, payload: bytes, kind: int) -> None:
        """A block."""
        self.blocks.append((context, kind))

    def record_leg(self, recorder: LegRecorder) -> None:
        """What a leg's recorder has."""
        recorder.take()
        self.blocks.append((recorder.context, BlockKind.FRAMES))


def begun(told: Told) -> tuple[SessionRecorder, Leg]:
    """A session whose client is there, and its leg."""
    leg = Leg(Side.DOWNSTREAM, Limits())
    session = SessionRecorder(told, leg, "public", "n-1", traced=False)
    return session, leg


def receive(leg: Leg, data: bytes) -> list[object]:
    """Bytes come on a leg."""
    leg.decoder.feed(data)
    return list(leg.decoder.frames())


@given(st.lists(st.tuples(NAMES, TEXTS), max_size=5), st.sampled_from([b"\n", b"\r\n"]))
def test_who_a_client_is(headers: list[tuple[bytes, bytes]], end: bytes) -> None:
    """The first client-id, else the first login, else the host: as the frame itself tells, plain or not."""
    connect = end.join([b"CONNECT", *(name + b":" + value for name, value in headers), b"", b"\0"])
    told = Told()
    session, leg = begun(told)
    receive(leg, connect)
    session.record(told)
    decoder = Decoder(V1_0, OPENING, Limits())
    decoder.feed(connect)
    (frame,) = decoder.frames()
    assert isinstance(frame, Frame)
    found = dict(reversed(frame.headers(V1_0)))
    name = (found.get(CLIENT_ID) or found.get(LOGIN) or b"").strip().decode("utf-8", "replace")
    if frame.plain:
        assert [found.get(CLIENT_ID), found.get(LOGIN)] == [frame.raw(CLIENT_ID), frame.raw(LOGIN)]
    expected = f'["public","n-1","192.0.2.7:4711","{name or "192.0.2.7"}","client","","",""]'
    assert told.blocks[0][0].decode() == expected.replace("\\", "\\\\")


def test_events_before_and_behind_connect() -> None:
    """They tell who the client is as soon as that is known, and stand behind the frames that led to them."""
    told = Told()
    session, leg = begun(told)
    session.event(told, "one", "", {})
    receive(leg, b"CONNECT\nlogin:me\n\n\0")
    session.record(told, [Wake(1.0), Note(Event.CONNECTED, "two"), Note(Event.LOST, "three")])
    of = '["public","n-1","192.0.2.7:4711","%s",%s,"","",""]'
    assert [(context.decode(), kind) for context, kind in told.blocks] == [
        (of % ("", '""'), BlockKind.EVENT),
        (of % ("me", '"client"'), BlockKind.FRAMES),
        (of % ("me", '""'), BlockKind.EVENT),
        (of % ("me", '""'), BlockKind.EVENT),
    ]


def test_a_leg_that_is_closed() -> None:
    """What came on it last is recorded; then it is forgotten, and the others are not."""
    told = Told()
    session, leg = begun(told)
    broker = Leg(Side.UPSTREAM, Limits())
    session.opening(broker, "main", "tcp://192.0.2.1:61613")
    receive(leg, b"CONNECT\nlogin:me\n\n\0")
    receive(broker, b"CONNECTED\n\n\0")
    assert session.recorder(broker).leg is broker
    broker.enter(LegState.CLOSED)
    session.record(told)
    assert b'"broker","main","tcp://192.0.2.1:61613","1.0"' in told.blocks[1][0]
    with pytest.raises(LookupError):
        session.recorder(broker)
    assert [each.leg for each in session.recorders] == [leg]
    session.record(told)
    assert len(told.blocks) == 2


def test_amid_a_session() -> None:
    """What came before is not recorded, and known: who the client is, and which legs had their first frame."""
    told = Told()
    leg, broker, late = made.leg(), Leg(Side.UPSTREAM, Limits()), Leg(Side.UPSTREAM, Limits())
    broker.enter(LegState.CONNECTED, V1_2)
    told.version = "1.2"
    session = SessionRecorder(told, leg, "public", "n-1", traced=False)
    session.opening(broker, "main", "tcp://192.0.2.1:61613")
    session.opening(late, "more", "tcp://192.0.2.2:61613")
    session.join(told, b" me ", 7)
    assert [each.number for each in session.recorders] == [8, 1, 0]
    assert [bool(each.context) for each in session.recorders] == [True, True, False]
    receive(leg, b"SEND\ndestination:/queue/a\n\n\0")
    receive(late, b"CONNECTED\nversion:1.1\n\n\0")
    session.record(told, [Note(Event.RECOVERED, "")])
    start = '["public","n-1","192.0.2.7:4711","me"'
    assert [context.decode() for context, _ in told.blocks] == [
        f'{start},"client","","","1.2"]',
        f'{start},"broker","more","tcp://192.0.2.2:61613","1.0"]',
        f'{start},"","","",""]',
    ]
    session.end()
    receive(leg, b"SEND\ndestination:/queue/a\n\n\0")
    session.record(told)
    assert len(told.blocks) == 3
