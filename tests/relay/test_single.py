"""Frames between two connected legs: receipts, DISCONNECT, errors, and how much a client may leave unacknowledged."""

from dataclasses import replace

import pytest

from stomprelay.session.leg import Terms
from tests.playbook import PAIRS, Cut, in_all_cuts, joined

BRIDGED = tuple((client, broker) for client, broker in PAIRS if client != broker)

in_some_pairs = pytest.mark.parametrize(
    ("client", "broker"), [(b"1.2", b"1.2"), (b"1.0", b"1.2"), (b"1.2", b"1.0")], ids=bytes.decode
)
"""One version on both legs, and two on which a bridge looks at all frames: more pairs tell nothing else."""

in_bridged_pairs = pytest.mark.parametrize(("client", "broker"), BRIDGED, ids=bytes.decode)

# DISCONNECT


@in_all_cuts
@in_some_pairs
def test_what_follows_disconnect_is_ignored(client: bytes, broker: bytes, cut: Cut) -> None:
    """Frames, garbage too, in the same chunk or later; and a second RECEIPT, as ActiveMQ gives."""
    with joined(client, broker, cut=cut) as play:
        play.client_says(b"DISCONNECT\nreceipt:bye\n\n\0SEND\ndestination:/queue/a\n\n1\0")
        play.client_says(b"SEND\ndestination:/queue/a\n\n2\0")
        play.client_tells_broker(b"GARBAGE\0\0\xff", b"DISCONNECT\nreceipt:bye\n\n\0")
        play.both_stay()
    with joined(client, broker, cut=cut) as play:
        play.client_said(b"DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_says(b"RECEIPT\nreceipt-id:bye\n\n\0RECEIPT\nreceipt-id:bye\n\n\0")
        play.client_gets(b"RECEIPT\nreceipt-id:bye\n\n\0")
        play.broker_says(b"RECEIPT\nreceipt-id:bye\n\n\0")
        play.client_gets(b"")


@in_all_cuts
@in_some_pairs
def test_a_disconnect_waits_for_the_receipts_of_sends(client: bytes, broker: bytes, cut: Cut) -> None:
    """A broker may answer DISCONNECT and close before it confirmed SENDs: so it is sent DISCONNECT when it has."""
    with joined(client, broker, cut=cut) as play:
        play.client_says(
            b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0SEND\ndestination:/queue/a\nreceipt:2\n\nx\0"
            b"DISCONNECT\nreceipt:bye\n\n\0"
        )
        play.broker_gets(
            b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0SEND\ndestination:/queue/a\nreceipt:2\n\nx\0"
        )
        play.broker_tells_client(b"RECEIPT\nreceipt-id:2\n\n\0")
        play.broker_gets(b"")
        play.broker_tells_client(b"RECEIPT\nreceipt-id:1\n\n\0")
        play.broker_gets(b"DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_tells_client(b"RECEIPT\nreceipt-id:bye\n\n\0")
        play.broker_goes()
        play.client_is_closed()
        assert play.counters["possibly_lost"] == play.counters["errors_sent"] == 0


@pytest.mark.parametrize("sends", [0, 1])
def test_an_unanswered_disconnect_ends_in_an_error(sends: int) -> None:
    """A RECEIPT is never invented: the client learns that its DISCONNECT was not confirmed."""
    with joined(b"1.2", b"1.2", over=lambda each: replace(each, disconnect_timeout=5.0)) as play:
        play.client_said(
            b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0" * sends + b"DISCONNECT\nreceipt:bye\n\n\0"
        )
        play.time_passes(4.9)
        play.client_gets(b"")
        play.time_passes(5.2)
        play.client_gets_error(b"connection to the broker was lost", receipt=b"bye")
        play.broker_reads()
        play.broker_is_closed()


def test_beats_and_a_disconnect() -> None:
    """The broker is beaten to until it is sent DISCONNECT, the client until that is answered."""
    terms = Terms(1000, 0)
    with joined(
        b"1.2",
        b"1.2",
        over=lambda each: replace(each, heart_beat=terms, disconnect_timeout=5.0),
        welcome=b"heart-beat:0,1000\n",
    ) as play:
        play.client_says(b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_gets(b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0")
        play.time_passes(2.0)
        play.broker_gets(b"\n\n\n\n")
    with joined(
        b"1.2",
        b"1.2",
        over=lambda each: replace(each, heart_beat=Terms(1000, 1000), disconnect_timeout=60.0),
        hello=b"heart-beat:1000,1000\n",
        welcome=b"heart-beat:1000,1000\n",
    ) as play:
        play.client_tells_broker(b"DISCONNECT\nreceipt:bye\n\n\0")
        play.time_passes(50)
        assert set(play.client_reads_all()) == set(b"\n")
        play.broker_gets(b"")
        play.both_stay()
        play.broker_tells_client(b"RECEIPT\nreceipt-id:bye\n\n\0")
        play.time_passes(1.5)


# ERROR


@in_all_cuts
@in_some_pairs
def test_an_upstream_that_closes_on_error(client: bytes, broker: bytes, cut: Cut) -> None:
    """With `close_on_error` an ERROR passes and both legs end, as 1.2 has it."""
    with joined(client, broker, cut=cut, over=lambda each: replace(each, close_on_error=True)) as play:
        play.broker_says(b"ERROR\nmessage:no\n\nwhy\0MESSAGE\nsubscription:0\nmessage-id:1\n\n\0")
        data = play.client_reads()
        assert data.startswith(b"ERROR\nmessage:no\n\nwhy\0")
        play.both_are_closed()


# The ledger's bound


@in_some_pairs
def test_no_receipt_before_the_brokers(client: bytes, broker: bytes) -> None:
    """RECEIPTs among MESSAGEs, asked for or not; the relay itself confirms nothing, however long it takes."""
    with joined(client, broker, over=lambda each: replace(each, keep_alive=0.0)) as play:
        play.client_said(b"SEND\ndestination:/queue/a\nreceipt:1\n\n\0")
        play.time_passes(3600)
        play.client_gets(b"")
        play.broker_goes()
        play.client_gets_error(b"connection to the broker was lost")
        assert play.counters["possibly_lost"] == 1
    with joined(client, broker) as play:
        for n in (1, 2):
            play.client_says(b"SEND\ndestination:/queue/a\nreceipt:%d\n\n\0" % n)
        play.broker_reads()
        said = [
            b"RECEIPT\nreceipt-id:%d\n\n\0MESSAGE\nsubscription:0\nmessage-id:%d\n\n\0" % (n, n)
            for n in (2, 9, 1)
        ]
        play.broker_tells_client(b"".join(said))


def message(version: bytes, n: int) -> bytes:
    """The n-th MESSAGE of a broker of this version."""
    ack = b"ack:k%d\n" % n if version == b"1.2" else b""
    return b"MESSAGE\nsubscription:0\nmessage-id:%d\n%b\nhi\0" % (n, ack)


def ack(client: bytes, broker: bytes, n: int) -> bytes:
    """The client's ACK of the n-th message, which is the n-th delivery."""
    if client == b"1.2":
        return b"ACK\nid:relay-ack-%d\n\n\0" % n
    return b"ACK\nsubscription:0\nmessage-id:%d\n\n\0" % n


@in_bridged_pairs
def test_a_client_that_never_acknowledges(client: bytes, broker: bytes) -> None:
    """Between versions deliveries are remembered, so many of them, then the broker is not read from."""
    with joined(client, broker, unacknowledged=8) as play:
        play.client_said(b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0")
        for n in range(1, 21):
            play.broker_says(message(broker, n))
        assert play.broker.paused
        assert play.broker.pauses == 1
        assert play.client_reads().count(b"\0") == 8
        for n in (1, 2, 3):
            play.client_says(ack(client, broker, n))
            assert play.broker_reads().count(b"\0") == 1
        assert play.broker.paused
        play.client_gets(b"")
        play.client_says(ack(client, broker, 4))
        assert play.broker_reads().count(b"\0") == 1
        assert play.client_reads().count(b"\0") == 4
        assert play.broker.paused
        play.both_stay()


def test_an_eol_that_comes_late_is_not_waited_for() -> None:
    """Old clients take NUL and LF together for a frame's end; where the broker writes both, neither comes alone."""
    with joined(b"1.0", b"1.0") as play:
        play.broker_says(b"MESSAGE\nmessage-id:1\n\nhi\0")
        play.client_gets_exactly(b"MESSAGE\nmessage-id:1\n\nhi\0")
        play.broker_says(b"\nMESSAGE\nmessage-id:2\n\nhi\0\n")
        play.client_gets_exactly(b"MESSAGE\nmessage-id:2\n\nhi\0\n")
        play.broker_says(b"MESSAGE\nmessage-id:3\n\nhi\0")
        play.client_gets_exactly(b"MESSAGE\nmessage-id:3\n\nhi\0\n")
        play.broker_says(b"\n")
        play.client_gets_exactly(b"")
