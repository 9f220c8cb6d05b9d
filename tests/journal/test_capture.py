"""How much of a frame is recorded, that no secret is, and how frames become the content of a block."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.journal.block import Block, BlockKind, RecordedFrame, decode, encode
from stomprelay.journal.capture import MASK, Capture, LegRecorder, traced
from stomprelay.journal.settings import ALL, NOTHING, BodyRule, JournalSettings, WhenFull
from stomprelay.session.leg import Leg, Side
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_0, V1_1, V1_2, Dialect
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import BROKER_COMMANDS, CLIENT_COMMANDS, CONNECTED, OPENING
from tests.journal import made


def test_none_is_kept_by_default() -> None:
    """And where one is: heads only, nothing removed, and the relay never waits for the disk."""
    settings = JournalSettings()
    assert settings.directory is None
    assert settings.bodies == NOTHING
    assert settings.when_full is WhenFull.DROP
    assert settings.retain_age is settings.retain_size is None


ANY = OPENING | CLIENT_COMMANDS | BROKER_COMMANDS | {CONNECTED}


def frame(data: bytes, dialect: Dialect = V1_2) -> Frame:
    """The frame that these bytes are."""
    decoder = Decoder(dialect, ANY, Limits())
    decoder.feed(data)
    (found,) = decoder.frames()
    return found


def head(data: bytes, *redact: str, opening: bool = False, dialect: Dialect = V1_2) -> bytes:
    """What is recorded of its head."""
    return Capture(redact=redact).head(frame(data, dialect), opening=opening)


SECRETS = [
    b"passcode:geheim",
    b"passcode: geheim",
    b"passcode:  geheim  ",
    b" passcode:geheim",
    b"passcode :geheim",
    b"\tpasscode\t:\tgeheim",
    b"Passcode:geheim",
    b"PASSCODE:geheim",
    b"passcode:geheim:geheim",
    b"passcode:\\geheim",
    b"passcode:gehe\rimgeheim",
]


@pytest.mark.parametrize("line", SECRETS)
@pytest.mark.parametrize("command", [b"CONNECT", b"STOMP"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_passcode_is_never_recorded(line: bytes, command: bytes, end: bytes) -> None:
    """However it is spelled, wherever it stands, and twice; what is around it stays as it came."""
    for lines in ([line, b"host:/"], [b"host:/", line], [line, b"host:/", line], [line]):
        said = end.join([command, *lines, b"", b"\0"])
        recorded = head(said, opening=True, dialect=V1_0)
        assert b"geheim" not in recorded
        assert recorded.count(MASK) == lines.count(line)
        assert recorded.endswith(end + end)
        assert recorded.startswith(command + end)
        assert recorded.count(b"\n") == said.count(b"\n")
        assert (b"host:/" + end in recorded) == (b"host:/" in lines)


def test_headers_that_are_to_be_left_out() -> None:
    """On any frame, of a client or of a broker, and beside the passcode in CONNECT."""
    for command in (b"SEND", b"MESSAGE", b"RECEIPT", b"ERROR", b"ACK"):
        said = command + b"\nX-Token: a\nid:1\nAuthorization:b\n\n"
        expected = command + b"\nX-Token:***\nid:1\nAuthorization:***\n\n"
        assert head(said + b"\0", "x-token", "authorization") == expected
    said = b"CONNECT\npasscode:a\nx-token:b\n\n\0"
    assert head(said, "x-token", opening=True) == b"CONNECT\npasscode:***\nx-token:***\n\n"


DEFAULTS = JournalSettings().redact


@pytest.mark.parametrize("name", [*DEFAULTS, *map(str.upper, DEFAULTS), "Api-Key", "X-Auth-Token"])
@pytest.mark.parametrize("command", [b"CONNECT", b"SEND", b"MESSAGE", b"ERROR", b"BEGIN"], ids=bytes.decode)
def test_headers_that_are_left_out_by_default(command: bytes, name: str) -> None:
    """What a password or a token is usually called, on any frame; nothing else of it."""
    said = b"%b\nid:1\n%b:geheim\nx:2\n\n\0" % (command, name.encode())
    assert head(said, *DEFAULTS) == b"%b\nid:1\n%b:***\nx:2\n\n" % (command, name.encode())


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"token", b"Token ", b" token", b"tok", b"tokens", b"id"]),
            st.text(alphabet="geh eim:\t", max_size=8),
        ),
        max_size=6,
    ),
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([V1_0, V1_1, V1_2]),
)
def test_nothing_but_secrets_is_left_out(
    headers: list[tuple[bytes, str]], end: bytes, dialect: Dialect
) -> None:
    """Every other line is recorded as it came."""
    lines = [name + b":" + value.encode() for name, value in headers]
    recorded = head(end.join([b"SEND", *lines, b"", b"\0"]), "token", dialect=dialect).split(end)
    for line, (name, _), found in zip(lines, headers, recorded[1:], strict=False):
        secret = name.strip().lower() == b"token"
        assert found == (name + b":" + MASK if secret else line)


def most(data: bytes, capture: Capture, dialect: Dialect = V1_2) -> int:
    """How much of this frame's body is kept."""
    return capture.most(frame(data, dialect), dialect)


def test_how_much_of_a_body_is_kept() -> None:
    """The first rule that matches counts; without one, what holds for all."""
    rules = [BodyRule("/queue/orders.?", 5), BodyRule("/queue/*", ALL), BodyRule("/topic/[ab]", NOTHING)]
    capture = Capture(7, rules)
    kept = {b"/queue/orders.1": 5, b"/queue/orders.12": ALL, b"/topic/a": NOTHING}
    for destination, expected in {**kept, b"/topic/c": 7, b"/TOPIC/a": 7, b"\xff": 7}.items():
        for command in (b"SEND", b"MESSAGE"):
            assert most(b"%b\ndestination:%b\n\nx\0" % (command, destination), capture) == expected
    assert most(b"ERROR\nmessage:x\n\nbody\0", capture) == 7


def test_destinations_as_their_version_spells_them() -> None:
    """Escaped, padded, or both badly."""
    capture = Capture(rules=[BodyRule("/queue/a:b", 5)])
    assert most(b"SEND\ndestination:/queue/a\\cb\n\n\0", capture) == 5
    assert most(b"SEND\r\ndestination:/queue/a\\cb\r\n\r\n\0", capture) == 5
    assert most(b"SEND\ndestination: /queue/a:b\n\n\0", capture, V1_0) == 5
    found = frame(b"SEND\ndestination:/queue/a\\tb\n\n\0", V1_0)
    assert capture.most(found, V1_2) == NOTHING


def test_many_destinations() -> None:
    """What is known of them does not grow without a bound."""
    capture = Capture(rules=[BodyRule("*7", 1)])
    for number in range(10_000):
        assert most(b"SEND\ndestination:%d\n\n\0" % number, capture) == (number % 10 == 7)
    assert len(capture._most) <= 4096


@pytest.mark.parametrize(
    ("settings", "uniform"),
    [({}, True), ({"bodies": 5}, True), ({"rules": [BodyRule("*", 1)]}, False), ({"redact": ["a"]}, False)],
)
def test_whether_frames_have_to_be_looked_into(settings: dict[str, Any], uniform: bool) -> None:
    """Only where a rule or a name asks for it."""
    assert Capture(**settings).uniform is uniform


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_trace_takes_the_place_of_the_clients_own(end: bytes) -> None:
    """Whatever it called it, and however often."""
    lines = [b"SEND", b"relay-trace:forged", b"a:b", b"Relay-Trace : forged", b"x-relay-trace:c", b"", b""]
    expected = [b"SEND", b"relay-trace:r-1", b"a:b", b"x-relay-trace:c", b"", b""]
    assert traced(end.join(lines), b"r-1") == end.join(expected)
    assert traced(b"SEND" + end + end, b"r-1") == b"SEND" + end + b"relay-trace:r-1" + end + end


CONNECT = b"CONNECT\naccept-version:1.2\nlogin:me\npasscode:geheim\n\n\0"
BODIES = [b"", b"x", b"hello world", b"\0nul\0", b"y" * 300]


def send(number: int, body: bytes) -> bytes:
    """A SEND, as bytes."""
    return b"SEND\ndestination:/queue/%d\ncontent-length:%d\n\n%b\0" % (number % 3, len(body), body)


def client(capture: Capture, *, traced: bool = False) -> LegRecorder:
    """The recorder of a client whose CONNECT was recorded already."""
    recorder = LegRecorder(made.leg(), capture, traced=traced)
    recorder.number = 1
    return recorder


def opening(capture: Capture) -> LegRecorder:
    """The recorder of a client that has sent nothing yet."""
    return LegRecorder(Leg(Side.DOWNSTREAM, Limits()), capture, traced=False)


def receive(recorder: LegRecorder, data: bytes) -> None:
    """Bytes come on its leg."""
    recorder.leg.decoder.feed(data)
    for _ in recorder.leg.decoder.frames():
        pass


def taken(recorder: LegRecorder) -> tuple[int, list[RecordedFrame]]:
    """The next block, as it is read again."""
    number, sizes, payload = recorder.take()
    (found,) = decode(encode(BlockKind.FRAMES, 1, number, b"[]", sizes, payload))
    assert isinstance(found, Block)
    assert recorder.frames == []
    return found.number, list(found.frames)


@pytest.mark.parametrize("many", [1, 2, 100])
@pytest.mark.parametrize("most", [0, 3, ALL])
def test_heads_and_what_is_kept_of_bodies(many: int, most: int) -> None:
    """Of each frame, with the size that the body had; the count goes on from block to block."""
    recorder = client(Capture(most))
    said = [(number, BODIES[number % len(BODIES)]) for number in range(many)]
    receive(recorder, b"".join(send(*each) for each in said))
    expected = [
        RecordedFrame(send(number, body).removesuffix(body + b"\0"), body[:most], len(body))
        for number, body in said
    ]
    assert taken(recorder) == (1, expected)
    receive(recorder, send(0, b"more"))
    assert taken(recorder)[0] == 1 + many


def test_a_passcode_is_in_no_block() -> None:
    """Neither whole nor byte by byte; and what follows CONNECT in its chunk is recorded, too."""
    recorder = opening(Capture(ALL))
    for byte in CONNECT:
        receive(recorder, bytes([byte]))
    number, (connect,) = taken(recorder)
    assert number == 0
    assert connect == (b"CONNECT\naccept-version:1.2\nlogin:me\npasscode:***\n\n", b"", 0)


def test_frames_that_the_relay_gave_a_trace() -> None:
    """It stands in the recorded head, as if the client had sent it; frames without one pass as they came."""
    recorder = client(Capture(), traced=True)
    receive(recorder, b"SEND\ndestination:/q\nrelay-trace:forged\n\nx\0" + b"BEGIN\ntransaction:1\n\n\0")
    (first, _) = recorder.frames
    assert isinstance(first, Frame)
    first.trace = b"relay-1-7"
    heads = [each.head for each in taken(recorder)[1]]
    assert heads == [b"SEND\nrelay-trace:relay-1-7\ndestination:/q\n\n", b"BEGIN\ntransaction:1\n\n"]


@given(
    st.lists(st.sampled_from(BODIES), min_size=1, max_size=8),
    st.lists(st.integers(1, 200)),
    st.sampled_from([0, 2, ALL]),
)
def test_however_the_bytes_are_cut(bodies: list[bytes], cuts: list[int], most: int) -> None:
    """The frames of all blocks are the frames that came, in their order, each once, and counted."""
    recorder = client(Capture(most))
    data = b"".join(send(number, body) for number, body in enumerate(bodies))
    found: list[RecordedFrame] = []
    for size in [*cuts, len(data)]:
        chunk, data = data[:size], data[size:]
        receive(recorder, chunk)
        if recorder.frames:
            number, frames = taken(recorder)
            assert number == 1 + len(found)
            found += frames
    assert [(each.kept, each.size) for each in found] == [(body[:most], len(body)) for body in bodies]
