"""SENDs that the journal can distinguish, and MESSAGEs that do not show it."""

from typing import Any, Final

import pytest

from stomprelay.relay.bridge.bridge import TRACE, Tracer
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import CLIENT_COMMANDS, SEND
from tests.playbook import (
    VERSIONS,
    Cut,
    Playbook,
    in_all_cuts,
    in_all_pairs,
    joined,
    listener,
)
from tests.relay.bridge.test_bridge import PATH
from tests.relay.failing import found, goes_by_itself, started
from tests.relay.several import SOON, begun, comes, copied, fan_out, send, tell

in_all_versions = pytest.mark.parametrize("version", VERSIONS, ids=bytes.decode)
MESSAGE = b"MESSAGE\n%bsubscription:1\nmessage-id:m\ndestination:/queue/a\n\n%b\0"
TRACES: Final[dict[str, Any]] = {"trace": True}
"""A listener's settings."""


def traced(number: int, wire: bytes) -> bytes:
    """What brokers get of a SEND without a trace."""
    return wire.replace(b"SEND\n", b"SEND\nrelay-trace:relay-session-%d\n" % number, 1)


def again(number: int, wire: bytes) -> bytes:
    """The same when it is sent once more."""
    return traced(number, wire).replace(b"SEND\n", b"SEND\nrelay-resent:true\n", 1)


def taped(play: Playbook) -> list[Frame]:
    """The client's frames from now on, as the journal gets them."""
    tape: list[Any] = []
    play.relay.client.decoder.record(tape)
    return tape


def traces(tape: list[Frame]) -> list[tuple[bytes, bytes | None]]:
    """Each frame's command and trace."""
    return [(each.command, getattr(each, "trace", None)) for each in tape]


# SENDs


@in_all_cuts
@in_all_pairs
def test_each_send_has_its_own(client: bytes, broker: bytes, cut: Cut) -> None:
    """In front, plain in every version; everything else is sent as it would be, and the client's frames are marked."""
    frame = b"SEND\ndestination:/queue/a\n%b\n\nhello\0"
    with joined(client, broker, cut=cut, **TRACES) as play:
        tape = taped(play)
        play.client_says((frame % PATH[client]) * 2)
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a"))
        play.client_says(frame % PATH[client])
        play.broker_gets(
            traced(1, frame % PATH[broker])
            + traced(2, frame % PATH[broker])
            + tell(b"SUBSCRIBE", id="1", destination="/queue/a")
            + traced(3, frame % PATH[broker])
        )
        assert traces(tape) == [
            (b"SEND", b"relay-session-1"),
            (b"SEND", b"relay-session-2"),
            (b"SUBSCRIBE", None),
            (b"SEND", b"relay-session-3"),
        ]
        assert all(frame.raw(TRACE) is None for frame in tape)


@in_all_cuts
@in_all_versions
def test_a_publishers_own_is_removed(version: bytes, cut: Cut) -> None:
    """However often it is set, wherever it stands, escapes and all; headers that look like it pass."""
    with joined(version, version, cut=cut, **TRACES) as play:
        like = b"relay-traces:1\nRelay-Trace:2\nx-relay-trace:3\nrelay-trac:e\n"
        play.client_says(
            b"SEND\nrelay-trace:forged\ndestination:/queue/a\nrelay-trace:\n"
            + like
            + b"relay-trace:a\\\\b\nrelay-trace:again\n\nrelay-trace:body\n\0"
        )
        play.broker_gets(
            b"SEND\nrelay-trace:relay-session-1\ndestination:/queue/a\n" + like + b"\nrelay-trace:body\n\0"
        )


# MESSAGEs


def test_without_the_setting() -> None:
    """Nothing is added, no frame is marked, and a client's own stays; MESSAGEs lose it, by whatever way they came."""
    with joined(b"1.2", b"1.2") as play:
        tape = taped(play)
        mine = b"SEND\nrelay-trace:mine\ndestination:/queue/a\n\n1\0"
        play.client_says(mine)
        play.broker_gets(mine)
        play.broker_says(MESSAGE % (b"relay-trace:mine\n", b"1"))
        play.client_gets(MESSAGE % (b"", b"1"))
        assert traces(tape) == [(b"SEND", None)]


@in_all_cuts
@in_all_pairs
def test_a_message_loses_it(client: bytes, broker: bytes, cut: Cut) -> None:
    """Wherever it stands and however often; the rest is sent as it would be."""
    with joined(client, broker, cut=cut, **TRACES) as play:
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a"))
        play.broker_reads()
        for said, told in (
            (b"relay-trace:s-1\n", b""),
            (b"relay-trace:s-1\n" + PATH[broker] + b"\nrelay-trace:s-2\n", PATH[client] + b"\n"),
            (PATH[broker] + b"\nrelay-trace:\n", PATH[client] + b"\n"),
            (b"relay-traces:1\nRelay-Trace:2\n", b"relay-traces:1\nRelay-Trace:2\n"),
            (b"", b""),
        ):
            play.broker_says(MESSAGE % (said, b"relay-trace:body\n"))
            play.client_gets(MESSAGE % (told, b"relay-trace:body\n"))


@in_all_pairs
@pytest.mark.parametrize("survives", [False, True])
def test_acks_find_their_messages(client: bytes, broker: bytes, survives: bool) -> None:
    """What both sides call a delivery does not depend on the trace."""
    told = []
    for settings in ({}, TRACES):
        if survives:
            play = started(client, broker, front=settings)
        else:
            play = joined(client, broker, **settings)
        with play:
            play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a", ack="client-individual"))
            play.broker_reads()
            ack = b"ack:k\n" if broker == b"1.2" else b""
            trace = b"relay-trace:s-1\n" if settings else b""
            play.broker_says(MESSAGE % (trace + ack, b"1"))
            heard = play.client_reads()
            names = {"subscription": "1", "message_id": "m"}
            if client == b"1.2":
                names = {"id": heard.split(b"\nack:")[1].split(b"\n")[0].decode()}
            play.client_says(tell(b"ACK", **names))
            told.append((heard, play.broker_reads()))
    assert told[0] == told[1]
    assert told[0][1].startswith(b"ACK\n")


# What is said again


@in_all_cuts
@pytest.mark.parametrize("product", ["generic", "activemq"])
def test_the_next_broker_gets_the_same(product: str, cut: Cut) -> None:
    """For what it is sent again, and what was sent meanwhile; numbers go on."""
    with started(confirm=True, product=product, cut=cut, front=TRACES) as play:
        tape = taped(play)
        play.client_says(send(b"1") + send(b"2", receipt="r"))
        told = play.broker_reads()
        assert told.count(b"\nrelay-trace:relay-session-") == 2
        play.broker_goes()
        play.client_says(send(b"3"))
        found(play, product=product)
        play.client_says(send(b"4"))
        lines = play.broker_reads().split(b"\n")
        named = [line.partition(b":")[2] for line in lines if line.startswith(b"relay-trace:")]
        assert named == [b"relay-session-%d" % number for number in (1, 2, 3, 4)]
        assert lines.count(b"relay-resent:true") == 2
        assert [trace for _, trace in traces(tape)] == named


@in_all_cuts
def test_transactions(cut: Cut) -> None:
    """An open one is sent again with the traces that it had, one that no broker knew of gets its own."""
    inside = send(b"1", transaction="t")
    with started(cut=cut, front=TRACES) as play:
        begin, commit = tell(b"BEGIN", transaction="t"), tell(b"COMMIT", transaction="t", receipt="c")
        play.client_says(begin + inside)
        play.broker_gets(begin + traced(1, inside))
        play.broker_goes()
        found(play)
        play.broker_gets(begin + traced(1, inside))
        play.client_says(inside)
        play.broker_gets(traced(2, inside))
        goes_by_itself(play)
        play.client_says(inside + commit)
        found(play)
        play.broker_gets(begin + traced(1, inside) + traced(2, inside) + traced(3, inside) + commit)


# Several brokers


def test_copies_have_the_same() -> None:
    """All copies of a SEND, also those of a group that was not there; MESSAGEs of all groups lose it."""
    with begun(listener(fan_out(2, confirm=True), **TRACES)) as play:
        tape = taped(play)
        play.broker_goes(at="b")
        play.client_says(send(b"1") + send(b"2"))
        told = play.broker_reads(at="a")
        play.time_passes(SOON)
        comes(play, "b")
        late = play.broker_reads(at="b")
        for number in (1, 2):
            frame = copied(number, traced(number, send(b"%d" % number))).removeprefix(b"SEND")
            assert frame in told
            assert frame in late
        assert traces(tape) == [(b"SEND", b"relay-session-1"), (b"SEND", b"relay-session-2")]
        play.client_says(tell(b"SUBSCRIBE", id="1", destination="/queue/a"))
        for at in "ab":
            play.broker_reads(at=at)
            play.broker_says(MESSAGE % (b"relay-copy:c-1\nrelay-trace:c-1\n", b"1"), at=at)
            play.client_gets(MESSAGE % (b"relay-copy:c-1\n", b"1"))


# By themselves


@in_all_versions
def test_a_traced_frame_reads_as_if_it_had_come_so(version: bytes) -> None:
    """Every offset is that of a frame which was decoded from the same bytes."""
    decoder = Decoder(DIALECTS[version], CLIENT_COMMANDS, Limits())
    decoder.feed(
        b"SEND\nrelay-trace:x\nfoo:a:b\n\nbody\0\nSEND\r\n\r\n\0" + tell(b"ACK", id="1") + send(b"x") * 2
    )
    frames = list(Tracer(b"s").frames(decoder.frames()))
    assert [frame.command for frame in frames] == [b"SEND", b"SEND", b"ACK", b"SEND", b"SEND"]
    sends = [frame for frame in frames if frame.command is SEND]
    for number, frame in enumerate(sends, 1):
        again = Decoder(DIALECTS[version], CLIENT_COMMANDS, Limits())
        again.feed(frame.wire)
        (same,) = again.frames()
        for name in ("start", "head", "body", "end", "after", "data"):
            assert getattr(frame, name) == getattr(same, name), name
        assert frame.header(TRACE, DIALECTS[version]) == b"s-%d" % number
        assert frame.memo is None
