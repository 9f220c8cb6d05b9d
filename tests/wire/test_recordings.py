"""Real brokers' octets, and what was sent to them: bytes that our own encoder never made.

Which recorded octets are not frames is data here, so that a reader sees all of it.
"""

import fnmatch
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

import pytest

from stomprelay.relay.model.group import Broker, alone
from stomprelay.relay.model.profile import GENERIC, detect
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.handshake import Accord
from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.wire.dialect import DIALECTS, V1_0, Dialect, Headers
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import CONNECTED, MESSAGE
from tests.transcripts import Recording, recordings
from tests.wire.decoding import octets

BROKER_LIMITS = Upstream("recorded", alone(Broker("tcp://broker:61613", "tcp:host=broker:port=61613"))).limits
EOLS = b"\n\r\0"

CASES = {
    name: list(group)
    for name, group in groupby(recordings(), lambda recording: recording.name.rpartition("/")[0])
}

QUARTER = [
    pytest.param(case, marks=() if number % 4 == 0 else pytest.mark.deep) for number, case in enumerate(CASES)
]
"""All cases, of which every run takes one in four and `make test-deep` the rest."""


def some(*patterns: str) -> list[Recording]:
    """The recordings with such names; each pattern names at least one."""
    found = [fnmatch.filter([recording.name for recording in recordings()], pattern) for pattern in patterns]
    assert all(found)
    return [recording for recording in recordings() if any(recording.name in names for names in found)]


class Said(NamedTuple):
    """One frame of a broker."""

    wire: bytes
    command: bytes
    headers: Headers
    payload: bytes


class Heard(NamedTuple):
    """All frames of a broker's leg, the dialect that they came in, and what ended them."""

    frames: list[Said]
    dialect: Dialect
    error: StompError | None
    buffered: int


def hear(chunks: Iterable[bytes]) -> Heard:
    """Read a broker as a relay does: CONNECTED settles dialect and profile for what follows."""
    leg = Leg(Side.UPSTREAM, BROKER_LIMITS)
    frames: list[Said] = []
    error = None
    try:
        for chunk in chunks:
            leg.decoder.feed(chunk)
            for frame in leg.decoder.frames():
                if frame.command is CONNECTED:
                    accord = Accord.read(frame)
                    profile = detect(accord.server, accord.session)
                    assert (profile is GENERIC) == (not accord.server)  # Artemis does not say it on 1.0
                    leg.enter(LegState.CONNECTED, profile.dialects[accord.dialect.version])
                frames.append(Said(frame.wire, frame.command, frame.headers(leg.dialect), frame.payload))
    except StompError as failure:
        error = failure
    return Heard(frames, leg.dialect, error, leg.decoder.buffered)


UNREADABLE = {
    # Published with a NUL in a header: where such a frame ends depends on who reads it.
    "*/malformed/J": "NUL in a frame's head"
}


def readable(case: str) -> list[Recording]:
    """The recordings of a case whose every octet belongs to a frame."""
    odd = [recording.name for recording in some(*UNREADABLE)]
    return [recording for recording in CASES[case] if recording.name not in odd]


def without_frames(stream: bytes, frames: Iterable[Said]) -> Iterator[bytes]:
    """What stands before each frame in the stream, and behind the last."""
    at = 0
    for frame in frames:
        start = stream.index(frame.wire, at)
        yield stream[at:start]
        at = start + len(frame.wire)
    yield stream[at:]


@pytest.mark.parametrize("case", QUARTER)
def test_all_that_a_broker_said_is_frames(case: str) -> None:
    """Every octet belongs to a frame or is an EOL between two: nothing is lost, nothing invented."""
    for recording in readable(case):
        heard = hear([recording.received])
        assert (heard.error, heard.buffered) == (None, 0), recording.name
        gaps = list(without_frames(recording.received, heard.frames))
        assert [gap.strip(EOLS) for gap in gaps] == [b""] * len(gaps), recording.name
        joined = b"".join([gap + frame.wire for gap, frame in zip(gaps, heard.frames, strict=False)])
        assert joined + gaps[-1] == recording.received


@pytest.mark.parametrize("case", QUARTER)
def test_a_broker_is_understood_in_any_cut(case: str) -> None:
    """Octet by octet it says the same as at once; only the LF behind a frame may come too late for its slice."""
    for recording in readable(case):
        whole = hear([recording.received])
        for size in (1, 11, 1460):
            pieces = (
                octets(recording.received)
                if size == 1
                else [recording.received[at : at + size] for at in range(0, len(recording.received), size)]
            )
            heard = hear(pieces)
            assert heard.frames == [
                frame._replace(wire=other.wire)
                for frame, other in zip(whole.frames, heard.frames, strict=True)
            ], recording.name
            assert heard[1:] == whole[1:]
            assert {frame.wire.rstrip(b"\n")[-1:] for frame in heard.frames} <= {b"\0"}


@pytest.mark.parametrize(("pattern", "message"), UNREADABLE.items())
def test_what_a_broker_may_not_say(pattern: str, message: str) -> None:
    """The frames before it are read, whole and octet by octet."""
    for recording in some(pattern):
        whole = hear([recording.received])
        assert str(whole.error) == message
        assert whole.frames[0].command == CONNECTED
        assert MESSAGE not in [frame.command for frame in whole.frames]
        split = hear(octets(recording.received))
        assert (split.frames[0].headers, str(split.error)) == (whole.frames[0].headers, message)


@pytest.mark.parametrize(
    ("pattern", "odd"),
    [
        # Published with an empty header name; RabbitMQ passes it on.
        ("rabbitmq-*/malformed/D", (b"", b"v")),
        # ActiveMQ unescapes `nl:a\\nb` of a newer publisher, and escapes nothing for a 1.0 consumer.
        ("activemq*/escapes/R1.0", (b"", b"b")),
        # As Artemis does; on 1.2 it wrote it so for the 1.0 consumer.
        ("artemis-1.[12]/escapes/R1.0", (b"", b"b")),
    ],
)
def test_what_a_broker_says_reaches_the_client(pattern: str, odd: tuple[bytes, bytes]) -> None:
    """A publisher that goes round the relay cannot cost a consumer its connection by an odd header."""
    for recording in some(pattern):
        heard = hear([recording.received])
        assert (heard.error, heard.buffered) == (None, 0), recording.name
        assert odd in [header for frame in heard.frames for header in frame.headers]


REFUSED_BY_NOTE = {
    "SEND before CONNECT": "SEND is not allowed here",
    "garbage": "unknown command",
    "lower-case command": "unknown command",
    "CONNECT with body": "CONNECT must not have a body",
    "unknown command": "unknown command",
    "command padded": "unknown command",
    "server command from client": "MESSAGE is not allowed here",
    "header without colon": "malformed header line",
    "empty header name": "empty header name",
    "NUL in header": "NUL in a frame's head",
    "SUBSCRIBE with body": "SUBSCRIBE must not have a body",
    "two content-lengths": "more than one content-length",
    "content-length too small": "content-length does not fit the body",
    "content-length negative": "content-length is not a number",
    "content-length not a number": "content-length is not a number",
}
REFUSED_BY_NAME = {
    "*/connect-bad/E/1": "CONNECT is not allowed here",
    # padded content-length: 1.0 may
    "*-1.[12]/malformed/I/2": "content-length is not a number",
    # foo:ba<CR>r
    "*-1.2/cr/C/2": "carriage return inside a header",
    # \t and a backslash at the end of a value
    "*-1.2/escapes/S1/5": "undefined escape sequence in a header",
    "activemq-1.2/escapes/S1/6": "undefined escape sequence in a header",
    "rabbitmq-1.2/escapes/S2/1": "undefined escape sequence in a header",
    "*-1.2/escapes/T[01]/1": "undefined escape sequence in a header",
    # RabbitMQ does not escape its own ids, and closes when they come back so
    "rabbitmq-1.2/escapes-in-names/A/3": "undefined escape sequence in a header",
}
UNFINISHED = {
    # announced longer than it is
    "*/malformed/F/2",
    # only the start was kept
    "*/oversize/C/2",
    "activemq-*/oversize/[AB]/1",
}


class Write(NamedTuple):
    """What a client wrote at once; `name` is the recording's and its number."""

    name: str
    data: bytes
    opening: bool
    dialect: Dialect
    refused: str | None
    unfinished: bool

    @property
    def spelled(self) -> bytes:
        """As its reader has it."""
        return self.data if self.opening else self.dialect.spell_out(self.data)

    def decode(self, chunks: Iterable[bytes]) -> tuple[list[bytes], int]:
        """The frames of it, by a client's leg in the state that it was written in, and what waits."""
        leg = Leg(Side.DOWNSTREAM, Limits())
        if not self.opening:
            leg.enter(LegState.CONNECTED, self.dialect)
        frames = []
        for chunk in chunks:
            leg.decoder.feed(chunk)
            for frame in leg.decoder.frames():
                frame.headers(leg.dialect)
                frames.append(frame.wire)
        return frames, leg.decoder.buffered


def writes(recording: Recording) -> Iterator[Write]:
    """Each write of a client, with what is expected of it."""
    dialect = V1_0
    accords = [frame for frame in hear([recording.received]).frames if frame.command is CONNECTED]
    if accords:
        dialect = DIALECTS[dict(reversed(accords[0].headers)).get(b"version", b"1.0")]
    for number, chunk in enumerate(recording.sent):
        name = f"{recording.name}/{number}"
        by_name = [text for pattern, text in REFUSED_BY_NAME.items() if fnmatch.fnmatchcase(name, pattern)]
        refused = by_name[0] if by_name else REFUSED_BY_NOTE.get(chunk.note)
        unfinished = any(fnmatch.fnmatchcase(name, pattern) for pattern in UNFINISHED)
        yield Write(name, chunk.data, number == 0, dialect, refused, unfinished)


@pytest.mark.parametrize("case", QUARTER)
def test_all_that_a_client_said_is_frames_or_refused(case: str) -> None:
    """By the strict dialect of its version, whole and octet by octet, with the reason that the tables give."""
    for recording in CASES[case]:
        for write in writes(recording):
            for chunks in ([write.data], octets(write.data)):
                if write.refused is not None:
                    with pytest.raises(StompError) as caught:
                        write.decode(chunks)
                    assert str(caught.value) == write.refused, write.name
                else:
                    frames, waiting = write.decode(chunks)
                    assert bool(waiting) is write.unfinished, write.name
                    if not waiting:
                        assert b"".join(frames).translate(None, EOLS) == write.spelled.translate(None, EOLS)
