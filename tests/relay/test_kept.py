"""What is kept of one client counts in one sum of bytes, at whose end it is sent an ERROR."""

import pytest

from stomprelay.session.session import Session
from tests.playbook import Playbook, joined, listener
from tests.relay.failing import started
from tests.relay.several import begun, fan_out

LONG = b"".join(b"h%03d:%b\n" % (n, b"x" * 9000) for n in range(110))
"""A megabyte of headers."""
TOO_MUCH = b"too much is kept for this client"


def session(play: Playbook) -> Session:
    """The client's."""
    assert play.relay.session is not None
    return play.relay.session


OPENS = {
    "plain": lambda **settings: joined(b"1.2", b"1.2", **settings),
    "bridged": lambda **settings: joined(b"1.2", b"1.0", **settings),
    "failover": lambda **settings: started(b"1.2", front=settings),
    "fan-out": lambda **settings: begun(listener(fan_out(2), **settings)),
}


def _said_until_refused(play: Playbook, frame: bytes) -> int:
    """The client says this with one number after the other, until it is too much. Returns the last number."""
    count = 0
    while play.client.closed is None and count < 300:
        count += 1
        play.client_says(frame % (count, count))
        for peer in play.brokers:
            peer.written = b""
        assert session(play).kept.size <= 20_000_000
    play.client_gets_error(TOO_MUCH, receipt=b"%d" % count)
    return count


SUBSCRIBE = b"SUBSCRIBE\nid:%%d\nreceipt:%%d\ndestination:/queue/a\n%b\n\0" % LONG
BEGIN = b"BEGIN\nreceipt:%%d\ntransaction:%%d\n%b\n\0" % LONG


@pytest.mark.parametrize(
    ("kind", "frame", "up", "most"),
    [
        ("plain", SUBSCRIBE, True, 20),
        ("bridged", SUBSCRIBE, True, 20),
        ("failover", SUBSCRIBE, True, 20),
        ("fan-out", SUBSCRIBE, True, 10),
        ("failover", BEGIN, True, 21),
        ("fan-out", BEGIN, True, 7),
        ("fan-out", BEGIN, False, 7),
    ],
    ids=lambda part: part.partition(b"\n")[0].decode() if isinstance(part, bytes) else str(part),
)
def test_long_heads(kind: str, frame: bytes, up: bool, most: int) -> None:
    """A client is refused before what is kept of it costs too much, with a broker and without one."""
    play = OPENS[kind](kept=20_000_000)
    for peer in [*play.brokers]:
        if not up:
            play.broker_goes(at=peer.uri)
    assert _said_until_refused(play, frame) == most


def test_many_small_things() -> None:
    """Each costs more than its text; and one that is larger than all that may be kept is refused."""
    for frame in (
        b"SUBSCRIBE\nid:%d\ndestination:\n\n\0",
        b"BEGIN\ntransaction:%d\n\n\0",
        b"SEND\ndestination:/queue/a\nreceipt:%d\n\n\0",
    ):
        play = joined(b"1.2", b"1.2", kept=100_000)
        play.client_says(b"".join(frame % n for n in range(1000)))
        play.time_passes(5)
        assert 80 < play.broker_reads().count(b"\0") < 700
        assert play.client_reads().startswith(b"ERROR\nmessage:" + TOO_MUCH)
    play = started(confirm=True, front={"kept": 100_000})
    play.client_said(b"SEND\ndestination:/queue/a\n\n%b\0" % (b"x" * 200_000))
    play.time_passes(5)
    play.client_gets_error(TOO_MUCH)


def test_messages_rather_stop_the_broker() -> None:
    """Deliveries that fill it are the broker's doing: it is not read from until some are settled."""
    with joined(b"1.2", b"1.1", kept=10_000) as play:
        play.client_said(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client-individual\n\n\0")
        for n in range(40):
            play.broker_says(b"MESSAGE\nsubscription:1\nmessage-id:%d\ndestination:/queue/a\n\nx\0" % n)
        got = play.client_reads()
        assert play.broker.paused
        assert 5 < got.count(b"\0") < 40
        play.both_stay()
        done = 0
        while done < 40:
            ack = got.partition(b"\nack:")[2].partition(b"\n")[0]
            got = got.partition(b"\0")[2]
            play.client_said(b"ACK\nid:%b\n\n\0" % ack)
            got += play.client_reads()
            done += 1
        assert got == b""
        assert not play.broker.paused


@pytest.mark.parametrize(
    ("limits", "frame", "message"),
    [
        ({"transactions": 2}, b"BEGIN\nreceipt:%d\ntransaction:%d\n\n\0", b"too many open transactions"),
        (
            {"subscriptions": 2},
            b"SUBSCRIBE\nreceipt:%d\nid:%d\ndestination:/queue/a\n\n\0",
            b"too many subscriptions",
        ),
    ],
    ids=["transactions", "subscriptions"],
)
@pytest.mark.parametrize(
    ("kind", "up"),
    [("plain", True), ("bridged", True), ("failover", True), ("fan-out", True), ("fan-out", False)],
)
def test_how_many_may_be_open(
    limits: dict[str, int], frame: bytes, message: bytes, up: bool, kind: str
) -> None:
    """The ERROR names the limit and the receipt, wherever the frame would have gone, or waited."""
    play = OPENS[kind](**limits)
    for peer in [*play.brokers]:
        if not up:
            play.broker_goes(at=peer.uri)
    for n in range(3):
        play.client_says(frame % (n, n))
    for peer in play.brokers:
        peer.written = b""
    play.client_gets_error(b"" + message + b"", receipt=b"2", detail=b"the limit is 2")
