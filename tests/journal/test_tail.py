"""Watching: what is kept of what was recorded, for who asks for it; how it is asked for, and how it is said."""

import json
import re
from typing import Any

import pytest

from stomprelay.journal.block import Damage, encode
from stomprelay.journal.capture import Capture, LegRecorder
from stomprelay.journal.records import Record, records_of
from stomprelay.journal.schema import VERSION, Context, EventRecord, JournalSide, SegmentHeader
from stomprelay.journal.segment import parse
from stomprelay.journal.settings import SECRETS
from stomprelay.journal.tail import LONGEST_BODY, ROOM, TailAnswer, TailRequest, TailWatch
from stomprelay.wire.decoder import SCANNER
from stomprelay.wire.run import Passing, Rule
from tests.journal import made

HEADER = encode(0, 1, 0, b"", b"", SegmentHeader(VERSION, "here", "0" * 8, 1, 1, 10.0, "tests").encode())
CONTEXT = Context("public", "relay-0-1", "192.0.2.7:4711", "me", JournalSide.CLIENT.value, version="1.2")
SEND = b"SEND\ndestination:/queue/a\n\nhello\0"
ACK = b"ACK\nid:1\n\n\0"
EVENTS = (b"[]", EventRecord("failover", "as the relay says", {}).encode())


class Watched:
    """A client's leg that is watched; 1000 nanoseconds pass with each block."""

    def __init__(self, bodies: int = 0, *destinations: str) -> None:
        self.leg = made.leg()
        capture = Capture(redact=SECRETS)
        self.recorder = LegRecorder(self.leg, capture)
        self.recorder.context = CONTEXT.encode()
        self.recorder.number = 1
        self.now = 0
        request = TailRequest("one", destinations=destinations, bodies=bodies)
        self.watch = TailWatch(request, HEADER, capture, self._clock)

    def _clock(self) -> int:
        self.now += 1000
        return self.now

    def comes(self, data: bytes, *rules: Rule) -> None:
        """It is read, in runs where a rule lets them pass."""
        self.leg.decoder.feed(data)
        for _ in self.leg.decoder.runs(Passing(rules, lambda run: True)):
            pass
        self.watch.leg(self.recorder)
        self.recorder.take()

    def shown(self) -> list[Any]:
        """The frames that can be taken, each with what is kept of its body, and the events."""
        return [told(each) for each in read(self.watch.take())]


def told(record: Record) -> Any:
    """A frame in short, or which event."""
    if record.event is not None:
        return record.event.event
    assert record.frame is not None
    return record.command, record.headers, record.frame[1:]


def read(answer: TailAnswer) -> list[Record]:
    """The records of an answer, of which none may be damaged."""
    found = list(records_of(parse(answer.segment)))
    assert not [each for each in found if isinstance(each, Damage)]
    return [each for each in found if isinstance(each, Record)]


def test_frames_are_kept_until_they_are_taken() -> None:
    """As a segment: who said what, and when; then nothing."""
    watched = Watched()
    watched.comes(SEND + ACK)
    first, second = read(watched.watch.take())
    assert (first.relay, first.context, first.time) == ("here", CONTEXT, 1000)
    assert (first.command, first.headers) == ("SEND", [("destination", "/queue/a")])
    assert first.frame == (b"SEND\ndestination:/queue/a\n\n", b"", 5)
    assert second.command == "ACK"
    assert "number" not in first.columns()
    assert watched.watch.take() == TailAnswer()


SECRET = b"SEND\ndestination:/queue/a\nToken: hush\npasscode:hush\n\nhello\0"


def test_no_secret_is_shown() -> None:
    """By the journal's rules; a passcode in no frame, whichever was the first of its leg."""
    watched = Watched()
    watched.comes(SEND + SECRET, Rule(b"SEND"))
    assert "hush" not in repr(watched.shown())
    watched.comes(SECRET)
    assert b"hush" not in watched.watch.take().segment


@pytest.mark.skipif(SCANNER is None, reason="runs are found by what is compiled")
@pytest.mark.parametrize("data", [SEND * 3, SEND + b"\n" + SEND + SEND, SEND + ACK + SEND + SECRET + SEND])
def test_what_passes_in_runs_is_shown_frame_by_frame(data: bytes) -> None:
    """As if it had come so."""
    watched, alone = Watched(4, "/queue/*"), Watched(4, "/queue/*")
    watched.comes(data, Rule(b"SEND"), Rule(b"ACK"))
    alone.comes(data)
    assert watched.watch.take() == alone.watch.take()


def test_frames_of_some_destinations() -> None:
    """Of those, in whatever spelling, and nothing that has none."""
    watched = Watched(0, "/queue/a*", "/topic/?")
    for destination in (b"/queue/a", b"/queue/a\\cb", b"/queue/b", b"/topic/x", b"/topic/xy", b""):
        watched.comes(SEND.replace(b"/queue/a", destination))
    watched.comes(ACK)
    watched.watch.event(*EVENTS)
    assert [headers for _, headers, _ in watched.shown()] == [
        [("destination", each)] for each in ("/queue/a", "/queue/a:b", "/topic/x")
    ]


def test_events_stand_among_the_frames() -> None:
    """Where nothing but frames was asked for they are left out, see above."""
    watched = Watched()
    watched.comes(SEND)
    watched.watch.event(*EVENTS)
    watched.comes(ACK)
    shown = [each if isinstance(each, str) else each[0] for each in watched.shown()]
    assert shown == ["SEND", "failover", "ACK"]


@pytest.mark.parametrize("destinations", [(), ("/queue/*",)])
def test_a_flood_is_bounded(destinations: tuple[str, ...]) -> None:
    """What does not fit is counted, in runs or alone; when all is taken, there is room again."""
    watched = Watched(LONGEST_BODY, *destinations)
    large = SEND.replace(b"hello", b"x" * 60_000)
    for _ in range(10):
        watched.comes(large * 4, Rule(b"SEND"))
    watched.comes(SEND * 3, Rule(b"SEND"))
    for _ in range(2):
        watched.watch.event(*EVENTS)
    answer = watched.watch.take()
    shown = len(read(answer))
    assert ROOM < len(answer.segment) < ROOM + len(large)
    assert answer.left_out == 40 - shown + 3 + (0 if destinations else 2)
    watched.comes(SEND)
    assert watched.watch.take().left_out == 0


# How it is asked for


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "must be a JSON object"),
        (b"[" * 4000, "must be a JSON object"),
        (b"[]", "must be a JSON object"),
        (b"{}", '"watch" must be a name of 1 to 64 characters'),
        (b'{"watch": 1}', '"watch" must be'),
        (b'{"watch": ""}', '"watch" must be'),
        (b'{"watch": "%b"}' % (65 * b"x"), '"watch" must be'),
        (b'{"watch": "x", "body": 1}', 'there is no "body" here; there is watch, sessions'),
        (b'{"watch": "x", "bodies": -1}', '"bodies" must be a number of bytes, from 0 to 65536'),
        (b'{"watch": "x", "bodies": true}', '"bodies" must be'),
        (b'{"watch": "x", "bodies": 65537}', '"bodies" must be'),
        (b'{"watch": "x", "sessions": "a"}', '"sessions" must be a list of texts'),
        (b'{"watch": "x", "listeners": [1]}', '"listeners" must be a list of texts'),
        (b'{"watch": "x", "destinations": null}', '"destinations" must be a list of texts'),
        (b'{"watch": "x", "over": 1}', '"over" must be true or false'),
    ],
)
def test_a_request_that_is_none(body: bytes, reason: str) -> None:
    """The reason says which key, and what it may be."""
    with pytest.raises(ValueError, match=re.escape(reason)):
        TailRequest.parse(body)


def test_which_sessions_are_watched() -> None:
    """All, those of a listener, those of a name, or those that are both."""
    assert TailRequest("one").watches("public", "s")
    assert TailRequest("one", ("s", "t"), ("public",)).watches("public", "s")
    assert not TailRequest("one", ("s",), ("public",)).watches("other", "s")
    assert not TailRequest("one", ("s",), ("public",)).watches("public", "t")


def test_an_answer_that_is_none() -> None:
    """It raises what says so."""
    odd: dict[str, list[Any]] = {
        "segment": ["?", None],
        "left_out": ["1"],
        "began": [1],
        "missing": [[1], None],
        "sessions": [[None]],
    }
    whole = json.loads(TailAnswer().spell())
    for values in ({}, *(whole | {key: value} for key, wrong in odd.items() for value in wrong)):
        with pytest.raises((ValueError, LookupError, TypeError)):
            TailAnswer.parse(values)
