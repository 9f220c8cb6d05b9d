"""One client and its broker from the first byte to the last: time, silence, losses, and peers that send nonsense."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest

from stomprelay.relay import inputs
from stomprelay.relay.link.link import DISCONNECTING
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Close, Event, How
from stomprelay.session.leg import Leg, Side, Terms
from stomprelay.wire.frame import Limits
from tests.playbook import (
    CUTS,
    SAY_HELLO,
    SAY_WELCOME,
    VERSIONS,
    Cut,
    Playbook,
    in_all_cuts,
    in_all_pairs,
    joined,
    listener,
    upstream,
)

in_all_versions = pytest.mark.parametrize("version", VERSIONS, ids=bytes.decode)

# Heart-beats


def beating(
    client: bytes = b"", ours: Terms = Terms(0, 0), broker: bytes = b"", theirs: Terms = Terms(0, 0)
) -> Playbook:
    """A pair of 1.2: the client's heart-beat header and ours for it, the broker's and ours for that."""
    return joined(
        *(b"1.2", b"1.2"),
        over=lambda each: replace(each, heart_beat=theirs, keep_alive=0.0),
        hello=b"heart-beat:" + client + b"\n" if client else b"",
        welcome=b"heart-beat:" + broker + b"\n" if broker else b"",
        heart_beat=ours,
    )


# what a peer can do and wants, what we can do and want; how often we beat and when it is dead (ms)
NEGOTIATIONS = [
    (b"0,0", Terms(1000, 1000), None, None),
    (b"1000,1000", Terms(1000, 1000), 0.5, 2.0),
    (b"4000,2000", Terms(1000, 1000), 1.0, 8.0),
    (b"1000,1000", Terms(0, 0), None, None),
    (b"1000,1000", Terms(0, 1000), None, 2.0),
    (b"1000,1000", Terms(1000, 1000, idle=0.25, tolerance=3.0), 0.25, 3.0),
]


@pytest.mark.parametrize(("said", "ours", "pause", "dead"), NEGOTIATIONS)
def test_beats_toward_a_client(said: bytes, ours: Terms, pause: float | None, dead: float | None) -> None:
    """We beat when idle for a share of what was agreed, and give the client up after a multiple of it."""
    with beating(client=said, ours=ours) as play:
        life = dead or 20.0
        for _ in range(int(life / (pause or life)) - 1):
            play.time_passes((pause or life) - 0.01)
            play.client_gets(b"")
            play.time_passes(0.01)
            play.client_gets(b"" if pause is None else b"\n")
            play.broker_gets(b"")
        play.both_stay()
        if dead is not None:
            play.time_passes((pause or dead) + 0.001)
            assert b"ERROR\nmessage:heart-beat missed" in play.client_reads()
            play.both_are_closed()
            assert play.counters["beats_missed"] == 1


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name.lower())
def test_any_byte_counts_as_life(cut: Cut) -> None:
    """A frame that trickles in, and beats, keep a peer alive."""
    message = b"MESSAGE\nsubscription:0\nmessage-id:1\ncontent-length:8\n\n12345678\0"
    with beating(client=b"1000,0", ours=Terms(0, 1000), broker=b"1000,0", theirs=Terms(0, 1000)) as play:
        play.cut = cut
        for at in range(0, len(message), 4):
            play.time_passes(1.9)
            play.client_says(b"\n")
            play.broker_says(message[at : at + 4]) if cut is not Cut.TRAILED else play.broker_says(b"\n")
            play.both_stay()
        play.client_reads()


def test_silence_that_means_nothing() -> None:
    """That of a client that we do not read from, which counts anew after, or whose bytes are not decrypted yet."""
    with beating(client=b"1000,0", ours=Terms(0, 1000)) as play:
        play.broker_is_slow()
        play.time_passes(60)
        play.both_stay()
        play.broker_is_quick_again()
        play.time_passes(1.9)
        play.both_stay()
        play.time_passes(0.2)
        play.client_gets_error(b"heart-beat missed")
    with beating(client=b"1000,0", ours=Terms(0, 1000)) as play:
        for _ in range(3):
            play.time_passes(1.9)
            play._perform(play.relay.received(play.client.leg, b"", play.now))
        play.both_stay()


def test_beats_toward_a_1_0_broker_that_demands_them() -> None:
    """ActiveMQ can be set to expect beats from 1.0 too; each is an LF, for its NIO would take a CR for a command."""
    with joined(
        b"1.0",
        b"1.0",
        over=lambda each: replace(each, heart_beat=Terms(5000, 5000), keep_alive=0.0),
        welcome=b"heart-beat:0,4000\n",
    ) as play:
        play.time_passes(2.6)
        play.broker_gets(b"\n")
    with beating(client=b"0,1000", ours=Terms(1000, 0), broker=b"0,1000", theirs=Terms(1000, 0)) as play:
        play.time_passes(0.5)
        play.client_gets(b"\n")
        play.broker_gets(b"\n")


# Time


def test_before_connect() -> None:
    """A client that does not send CONNECT in time gets an ERROR; of one that goes, nothing was asked of anybody."""
    with Playbook(listener(connect_timeout=3.0)) as play:
        play.time_passes(1)
        play.client_says(b"\n\n")
        play.client_says(b"CONNECT\n")
        play.time_passes(1.9)
        play.client_gets(b"")
        play.time_passes(0.2)
        play.client_gets_error(b"no CONNECT in time")
        assert play.wake == inf
        assert not play.brokers
    with Playbook() as play:
        play.client_goes()
        assert not play.brokers
        assert play.wake == inf
        assert play.noted(Event.VANISHED).startswith("client left: ")


# Losses


@in_all_pairs
def test_a_client_vanishes(client: bytes, broker: bytes) -> None:
    """Its broker's connection ends by the DISCONNECT that it did not say, when it has what was sent behind CONNECT."""
    with joined(client, broker) as play:
        play.part = False
        play.client_said(b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client\n\n\0BEGIN\ntransaction:t\n\n\0")
        play.client_goes()
        play.broker_gets(DISCONNECTING)
        play.broker_is_closed()
        assert play.counters["clients_vanished"] == 1
        assert "reset by peer" in play.noted(Event.VANISHED)
    asked = None if client == broker else frozenset({broker})
    with Playbook(listener(upstream(versions=asked))) as play:
        play.client_says(SAY_HELLO[client] + b"SEND\ndestination:/queue/a\n\nx\0", unasked=True)
        play.client_goes("Connection was closed cleanly.")
        play.broker_welcomes(broker)
        play.broker_gets(b"SEND\ndestination:/queue/a\n\nx\0")
        play.broker_is_closed()


@in_all_cuts
@in_all_pairs
def test_receipts_that_no_broker_owes(client: bytes, broker: bytes, cut: Cut) -> None:
    """RabbitMQ gives none in a transaction that is not committed: DISCONNECT waits for no such one."""
    with joined(client, broker, product="rabbitmq", cut=cut) as play:
        play.client_says(_inside("1", b"COMMIT") + _inside("2", b"ABORT") + _inside("3", b""))
        play.client_says(b"DISCONNECT\nreceipt:end\n\n\0")
        assert b"DISCONNECT" not in play.broker_reads()
        play.broker_says(b"RECEIPT\nreceipt-id:1\n\n\0")
        assert b"receipt-id:1\n" in play.client_reads()
        assert play.broker_reads().startswith(b"DISCONNECT\n")


def _inside(name: str, end: bytes) -> bytes:
    """A transaction with a SEND that asks for a receipt, both called `name`, and how it ends."""
    text = "BEGIN\ntransaction:t%s\n\n\0SEND\ndestination:/queue/a\ntransaction:t%s\nreceipt:%s\n\n\0"
    return (text % (name, name, name)).encode() + (
        end and b"%b\ntransaction:t%b\n\n\0" % (end, name.encode())
    )


@pytest.mark.parametrize(
    "end",
    [
        lambda play: play.relay_stops(),
        lambda play: play.operator_kills(),
        lambda play: play.client_says(b"HELLO\n\n\0"),
    ],
    ids=["the relay stops", "an operator ends it", "the client is wrong"],
)
def test_a_broker_has_disconnect_however_it_ends(end: Callable[[Playbook], None]) -> None:
    """It is told DISCONNECT wherever the relay closes a connection whose client has not said it."""
    with joined(b"1.2", b"1.2") as play:
        play.part = False
        end(play)
        assert play.broker_reads().startswith(b"DISCONNECT\n")
        play.time_passes(5)
        play.broker_is_closed()
        play.client_reads()


# Peers that are not STOMP, or not good at it

HELLO_TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64))


@in_all_cuts
def test_a_tls_hello(cut: Cut) -> None:
    """It gets no byte of STOMP, only a close, and the log tells what to mend."""
    with Playbook(cut=cut, hello=HELLO_TLS) as play:
        play.client_gets(b"")
        assert play.client.closed is not None
        assert "TLS" in play.noted(Event.FOREIGN)
        assert play.counters["foreign"] == 1
        assert not play.brokers


@pytest.mark.parametrize(
    "line",
    [b"GET / HTTP/1.1", b"POST /x HTTP/1.1", b"HEAD / HTTP/1.0", b"OPTIONS * HTTP/1.1", b"PRI * HTTP/2.0"],
    ids=bytes.decode,
)
def test_an_http_request(line: bytes) -> None:
    """It is answered in its own language that this is no web server."""
    with Playbook(hello=line + b"\r\nHost: localhost\r\n\r\n") as play:
        answer = play.client_reads()
        assert answer.startswith(b"HTTP/1.1 400 ")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"\r\nContent-Length: %d\r\n" % len(body) in head
        play.client_is_closed()
        assert "HTTP" in play.noted(Event.FOREIGN)
        assert play.counters["foreign"] == 1


# What a connected client may get wrong, and what it is told.
WRONGS = [
    (b"HELLO\n\n\0", b"unknown command"),
    (b"MESSAGE\nmessage-id:1\n\n\0", b"MESSAGE is not allowed here"),
    (b"CONNECT\naccept-version:1.2\nhost:h\n\n\0", b"CONNECT is not allowed here"),
    (b"STOMP\naccept-version:1.2\nhost:h\n\n\0", b"STOMP is not allowed here"),
    (b"SEND\ndestination\n\n\0", b"malformed header line"),
    (b"SEND\n:x\n\n\0", b"empty header name"),
    (b"SEND\ndestination:/queue\0/a\n\n\0", b"NUL in a frame's head"),
    (b"SEND\ncontent-length:5\n\nhello!\0", b"content-length does not fit the body"),
    (b"SEND\ncontent-length:+5\n\nhello\0", b"content-length is not a number"),
    (b"SEND\ncontent-length:5\ncontent-length:5\n\nhello\0", b"more than one content-length"),
    (b"SUBSCRIBE\nid:0\ncontent-length:5\n\nhello\0", b"SUBSCRIBE must not have a body"),
]


@in_all_cuts
@in_all_versions
@pytest.mark.parametrize(("wrong", "message"), WRONGS)
def test_a_client_that_breaks_the_protocol(version: bytes, wrong: bytes, message: bytes, cut: Cut) -> None:
    """What was right before it is carried; the client is sent what is wrong; both legs end."""
    send = b"SEND\ndestination:/queue/a\n\nright\0"
    with joined(version, b"1.1", cut=cut) as play:
        play.client_tells_broker(send + wrong + send, send)
        play.client_gets_error(message)
        play.broker_is_closed()
        assert play.counters["errors_sent"] == 1
        assert play.noted(Event.ERROR).startswith("client: ")


@in_all_cuts
def test_a_backslash_of_1_1_that_begins_no_escape(cut: Cut) -> None:
    """It stands for itself, and every broker is sent it in its version's spelling; its receipt is the same."""
    said = (
        b"SEND\ndestination:/queue/a\\\nfoo:\\t\\\\t\\n\\r\\:\nfoo:\xc5\xbc\\\xc5\xbc\nreceipt:1\\ 2\n\nx\0"
    )
    spelled = (
        b"destination:/queue/a\\\\\nfoo:\\\\t\\\\t\\n\\\\r\\\\%b\n"
        b"foo:\xc5\xbc\\\\\xc5\xbc\nreceipt:1\\\\ 2\n\nx\0"
    )
    raw = b"destination:/queue/a\\\nfoo:\\t\\t \\r\\:\nfoo:\xc5\xbc\\\xc5\xbc\nreceipt:1\\ 2\n\nx\0"
    for broker, heard in {b"1.0": raw, b"1.1": spelled % b":", b"1.2": spelled % b"\\c"}.items():
        with joined(b"1.1", broker, cut=cut) as play:
            for _ in range(2):
                play.client_tells_broker(said, b"SEND\n" + heard)
            receipt = b"1\\ 2" if broker == b"1.0" else b"1\\\\ 2"
            play.broker_says(b"RECEIPT\nreceipt-id:%b\n\n\0" % receipt)
            play.client_gets(b"RECEIPT\nreceipt-id:1\\\\ 2\n\n\0")


SECRET = b"SEKRET21"


@pytest.mark.parametrize(
    "bad",
    [
        b"passcode:%b\n\n\0",
        b"%b\n\n\0",
        b"passcode:%b",
        b"SEND\npasscode %b\n\n\0",
        b"SEND\ncontent-length:%b\n\n\0",
        b"SEND\n%b\\n\\c:x\n\n\0",
        b"SEND\nx:%b\\t\n\n\0",
        b"SUBSCRIBE\nid:1\nack:%b\ndestination:/queue/a\n\n\0",
        b"BEGIN\n\n%b\0",
        b"ACK\nid:%b\n\n\0",
    ],
    ids=repr,
)
def test_what_a_client_sent_is_not_in_the_log(bad: bytes) -> None:
    """A secret may stand where it does not belong: notes, which are logged and recorded, quote nothing."""
    for hello in (b"", SAY_HELLO[b"1.2"]):
        play = Playbook(listener(upstream(versions=frozenset({b"1.0"})), loss=LossPolicy.REJECT))
        play.client_says(hello)
        if hello:
            play.broker_accepts()
            play.broker_says(SAY_WELCOME[b"1.0"])
        play.client_says(bad % SECRET)
        play.client_is_closed()
        assert play.notes
        for note in play.notes:
            assert SECRET.decode() not in note.text + repr(note.facts)


LIMITS = Limits(headers=4, header_line=100, body=1000)


@in_all_cuts
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (b"SEND\n" + b"a:b\n" * 5 + b"\n\0", b"too many headers"),
        (b"SEND\na:" + b"b" * 100 + b"\n\n\0", b"header line too long"),
        (b"SEND\n\n" + b"b" * 1001 + b"\0", b"body too large"),
        (b"SEND\ncontent-length:1001\n\n" + b"b" * 1001 + b"\0", b"body too large"),
        (b"SEND\ncontent-length:99999999999999999999999\n\nb\0", b"body too large"),
    ],
)
def test_a_client_over_its_limits(wrong: bytes, message: bytes, cut: Cut) -> None:
    """Each limit is answered with an ERROR that tells which and how much; at the limit all is well."""
    right = b"SEND\n" + b"a:" + b"b" * 98 + b"\na:b\na:b\na:b\n\n" + b"b" * 1000 + b"\0"
    with joined(b"1.1", b"1.1", cut=cut, limits=LIMITS) as play:
        play.client_tells_broker(right)
        play.client_errs(wrong, message)
        play.broker_is_closed()


# What a broker may get wrong.
BROKEN = [
    b"HELLO\n\n\0",
    b"message\n\n\0",
    b"SEND\ndestination:/queue/a\n\n\0",
    b"CONNECTED\nversion:1.2\n\n\0",
    b"MESSAGE\nmessage\0-id:1\n\n\0",
    b"MESSAGE\ncontent-length:1\n\nxy\0",
    b"MESSAGE\ncontent-length:a\n\nxy\0",
    b"RECEIPT\nreceipt-id:1\n\nbody\0",
    b"<html><body>502 Bad Gateway</body></html>",
    b"\xff" * 20,
]


@in_all_cuts
@in_all_versions
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broker_that_breaks_the_protocol(version: bytes, broken: bytes, cut: Cut) -> None:
    """What was right before it reaches the client, then an ERROR that tells whose fault it is; both legs end."""
    right = b"MESSAGE\nsubscription:0\nmessage-id:1\n\nright\0"
    with joined(b"1.1", version, cut=cut) as play:
        play.broker_says(right + broken)
        data = play.client_reads()
        assert data.startswith(right + b"ERROR\nmessage:the broker sent what is not STOMP\n")
        assert data.count(b"\0") == 2
        play.both_are_closed()
        assert play.noted(Event.ERROR).startswith("broker: ")


@in_all_pairs
@pytest.mark.parametrize("line", [b"odd", b"o\\cd", b":x", b"o d", b"foo:a\\tb", b"foo:a\\"], ids=repr)
def test_an_odd_line_of_a_broker(client: bytes, broker: bytes, line: bytes) -> None:
    """Brokers are read leniently: a line that is not quite STOMP costs at most itself, never the message."""
    with joined(client, broker) as play:
        play.broker_says(b"MESSAGE\nmessage-id:1\n" + line + b"\nx:y\n\nhi\0")
        delivered = play.client_reads()
        assert delivered.startswith(b"MESSAGE\nmessage-id:1\n")
        assert delivered.endswith(b"\nx:y\n\nhi\0")
        if client == broker:
            assert delivered == b"MESSAGE\nmessage-id:1\n" + line + b"\nx:y\n\nhi\0"
        play.both_stay()


# Inputs for legs that are not there any more


def test_a_stranger_leg_is_dropped() -> None:
    """A connection that is not waited for any more is closed at once."""
    relay = Relay(listener(), b"s", Counters())
    leg = Leg(Side.UPSTREAM, Limits())
    assert relay.handle(inputs.BrokerConnected(leg), 0.0) == [Close(leg, How.ABORT)]
