"""Sessions that lose their broker, as scripts: at every step of a conversation, and what the next broker is told."""

import re

import pytest

from stomprelay.relay.model.group import Checks
from stomprelay.session.effects import Event, How
from stomprelay.session.leg import Terms
from tests.playbook import (
    SAY_HELLO,
    VERSIONS,
    Cut,
    Playbook,
    in_all_cuts,
    in_all_pairs,
    in_cuts_of_halves,
    listener,
    said_welcome,
)
from tests.relay.failing import (
    STOPPING,
    asked,
    client_waits,
    found,
    goes_by_itself,
    link,
    movable,
    moves,
    over,
    started,
)
from tests.relay.frames import (
    ASKING,
    ASKING_AGAIN,
    BEGIN,
    INSIDE,
    OURS,
    RECEIPT,
    SEND,
    SUBSCRIBE,
    header,
    send,
    settle,
)

in_all_versions = pytest.mark.parametrize("version", VERSIONS, ids=bytes.decode)
after_in_all_versions = pytest.mark.parametrize("after", VERSIONS, ids=bytes.decode)
CLIENTS_MODES = [b"client", b"client-individual"]

STOPPED = b"Broker has been stopped: org.apache.activemq.broker.BrokerService$3@271053e1"
CANCELLED = b"java.lang.IllegalStateException: Timer already cancelled."
BROKER_STOPPED = (
    b"ERROR\ncontent-type:text/plain\nreceipt-id:%%b\nmessage:%b\n\n"
    b"org.apache.activemq.broker.BrokerStoppedException: %b\n"
    b"\tat org.apache.activemq.broker.ErrorBroker.send(ErrorBroker.java:191)\n\0" % (STOPPED, STOPPED)
)
"""What ActiveMQ answers while it stops; the connection stays open."""
FROZEN = b"ERROR\nmessage:heart-beat missed\n\nnothing came for longer than was agreed%b\0"
"""What another relay says that was frozen, and judges beats that it has not read."""


def gets(play: Playbook, expected: bytes) -> None:
    """These octets were written to the broker since the last look, and no others but EOLs behind our own frames."""
    assert play.broker_reads().replace(b"\0\n", b"\0") == expected


def message(version: bytes, name: bytes, mode: bytes = b"client", id: bytes = b"1") -> bytes:
    """A MESSAGE to a subscription as a broker of this version names it: `m-` and `k-` go before its body."""
    ack = b"ack:k-%b\n" % name if version == b"1.2" and mode != b"auto" else b""
    head = b"subscription:%b\nmessage-id:m-%b\n%bdestination:/queue/a\n" % (id, name, ack)
    return b"MESSAGE\n%b\n%b\0" % (head, name)


def names(version: bytes, told: bytes, name: bytes) -> bool:
    """Whether an ACK or NACK that a broker of this version was told names this message of its own."""
    if version == b"1.2":
        return header(told, b"id") == b"k-" + name
    return header(told, b"message-id") == b"m-" + name and (
        version == b"1.0" or header(told, b"subscription") == b"1"
    )


def marks(said: bytes) -> list[bytes]:
    """What SENDs that a broker was told have to do with us: our receipts and marks, and their bodies."""
    found = []
    for frame in said.split(b"\0")[:-1]:
        receipt = re.search(rb"\nreceipt:(?:relay-session-receipt-)?(\w+)\n", frame)
        again = b"!" if b"\nrelay-resent:true\n" in frame else b""
        found.append(again + (receipt[1] + b":" if receipt else b"") + frame.rpartition(b"\n")[2])
    return found


@in_cuts_of_halves
@pytest.mark.parametrize(
    ("said", "why"),
    [
        (None, "Connection refused"),
        (b"", "connection closed before CONNECTED"),
        (b"CONNEC", "connection closed before CONNECTED"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not STOMP"),
        (STOPPING, "unavailable"),
        (b"ERROR\nmessage:AMQ339009 Exception getting session\n\n\0", "unavailable"),
    ],
    ids=["not there", "closes", "half", "nonsense", "stopping", "Artemis stops"],
)
def test_the_first_broker_does_not_take_the_client(said: bytes | None, why: str, cut: Cut) -> None:
    """The next one is asked at once, and the client notices nothing, not of half an answer either."""
    with Playbook(listener(movable()), cut=cut, hello=SAY_HELLO[b"1.2"]) as play:
        if said is None:
            play.broker_refuses()
        else:
            play.broker_is_asked()
            play.broker_says(said)
            if len(play.brokers) == 1:
                play.broker_goes()
        assert [each.uri for each in play.opened] == ["tcp://a", "tcp://b"]
        found(play)
        assert play.client_reads().startswith(b"CONNECTED\n")
        assert play.noted(Event.REFUSED).startswith("broker tcp://a did not connect: ")
        assert why in play.noted(Event.REFUSED)
        named = ("brokers_refused", "sessions_connected", "failovers")
        assert [play.counters[name] for name in named] == [1, 1, 0]


DENIED = b"ERROR\nmessage:Bad CONNECT\ncontent-type:text/plain\nversion:1.0,1.1,1.2\n\nAccess refused for user 'x'\n\0"


@in_all_cuts
def test_credentials_that_are_not_accepted(cut: Cut) -> None:
    """They are the client's own fault: it gets the ERROR in the broker's words, and no other broker is asked."""
    with Playbook(listener(movable()), cut=cut, hello=SAY_HELLO[b"1.2"]) as play:
        play.broker_is_asked()
        play.broker_tells_client(DENIED)
        play.client_is_closed()
        play.time_passes(100)
        assert len(play.opened) == 1
        assert over(play)


@pytest.mark.parametrize("unasked", [b"", SEND % b"y"])
def test_the_next_broker_does_not_accept_the_credentials(unasked: bytes) -> None:
    """That ends the session, too: what no broker has confirmed is counted, and what was not sent."""
    with started(confirm=True) as play:
        play.client_said(SEND % b"x")
        goes_by_itself(play)
        play.client_says(unasked, unasked=True)
        asked(play)
        play.broker_is_asked()
        play.broker_tells_client(DENIED)
        play.client_is_closed()
        assert play.counters["possibly_lost"] == 1 + bool(unasked)
        assert play.noted(Event.DISCONNECTED).endswith("may be lost")


def test_the_time_is_over() -> None:
    """`timeout` bounds how long a session is without a broker, also one that accepts and goes; pauses grow."""
    with started(options={"timeout": 5.0}) as play:
        play.broker_goes()
        start = play.now
        play.client_says(ASKING % (b"1", b"x"))
        while play.client.closed is None:
            asked(play)
            play.broker_refuses()
            if play.brokers[-1].closed is not None:
                play.time_passes(play.wake - play.now)
        play.client_gets_error(b"no broker available", detail=b"within 5 s; ")
        assert play.now - start == pytest.approx(5.0)
        assert over(play)
    with started(options={"timeout": 20.0, "jitter": 0.0}) as play:
        pauses = []
        while play.client.closed is None:
            play.broker_goes()
            lost = play.now
            if play.client.closed is None:
                asked_or_over(play)
                pauses.append(round(play.now - lost, 2))
            if play.client.closed is None:
                found(play)
                play.broker_reads()
        assert pauses[:7] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64]
        assert len(pauses) < 20
        assert b"none could be had within 20 s" in play.client_reads()


def asked_or_over(play: Playbook) -> None:
    """Time passes until another broker is asked, or the session is over."""
    before = len(play.brokers)
    while len(play.brokers) == before and play.client.closed is None:
        play.time_passes(play.wake - play.now)


@in_all_cuts
def test_without_confirm_what_nothing_showed_to_have_arrived_is_counted(cut: Cut) -> None:
    """A SEND without receipt is said once; it is possibly lost unless a later RECEIPT told that it was received."""
    with started(cut=cut) as play:
        play.client_says(SEND % b"1" + SEND % b"2" + ASKING % (b"r", b"3"))
        play.broker_says(RECEIPT % b"r")
        play.client_said(SEND % b"4" + SEND % b"5")
        play.client_reads()
        play.broker_goes()
        assert play.counters["possibly_lost"] == 2
        found(play)
        gets(play, b"")
    with started(cut=cut) as play:
        play.broker_goes()
        play.client_says(SEND % b"1" + b"BEGIN\ntransaction:t\nreceipt:t\n\n\0")
        found(play)
        play.broker_reads()
        play.broker_tells_client(RECEIPT % b"t")
        play.broker_goes()
        assert play.counters["possibly_lost"] == 0


@in_all_cuts
@in_all_pairs
def test_confirmed_one_by_one(client: bytes, broker: bytes, cut: Cut) -> None:
    """RabbitMQ confirms each message for itself, so each is asked about; the client sees nothing of it."""
    with started(client, broker, product="rabbitmq", cut=cut, confirm=True) as play:
        play.client_says(SEND % b"1" + ASKING % (b"r", b"2") + SEND % b"3")
        assert marks(play.broker_reads()) == [b"1:1", b"r:2", b"2:3"]
        play.broker_tells_client(RECEIPT % (OURS % 2) + RECEIPT % b"r", RECEIPT % b"r")
        moves(play, broker, "rabbitmq")
        assert marks(play.broker_reads()) == [b"!3:1"]
        play.broker_says(RECEIPT % (OURS % 3))
        play.client_gets(b"")
        assert link(play).quiet
        assert play.counters["possibly_lost"] == 0


@in_all_pairs
@pytest.mark.parametrize("product", ["activemq", "artemis"])
def test_confirmed_by_the_batch(client: bytes, broker: bytes, product: str) -> None:
    """Where a RECEIPT speaks for all SENDs before it, the last one of a chunk is asked about."""
    with started(client, broker, product=product, confirm=True) as play:
        play.client_says(SEND % b"1" + SEND % b"2" + ASKING % (b"r", b"3") + SEND % b"4" + SEND % b"5")
        play.client_says(SEND % b"6")
        assert marks(play.broker_reads()) == [b"1", b"2", b"r:3", b"4", b"1:5", b"2:6"]
        play.broker_tells_client(RECEIPT % b"r")
        moves(play, broker, product)
        assert marks(play.broker_reads()) == [b"!4", b"!5", b"!3:6"]
        play.broker_says(RECEIPT % (OURS % 3))
        play.client_gets(b"")
        assert link(play).quiet
        assert play.counters["frames_resent"] == 3


def test_a_receipt_speaks_for_one_destination() -> None:
    """ActiveMQ confirms at once what it need not store, while what came before may not be stored yet."""
    topic, stored = SEND.replace(b"/queue/a", b"/topic/t"), SEND.replace(b"\n\n", b"\npersistent:true\n\n")
    with started(product="activemq", confirm=True) as play:
        play.client_says(
            b"".join([SEND % b"1", SEND % b"2", topic % b"3", topic % b"4", stored % b"5", SEND % b"6"])
        )
        play.client_says(stored % b"7" + stored % b"8" + ASKING % (b"r", b"9"))
        numbered = [b"1", b"1:2", b"3", b"2:4", b"3:5", b"4:6", b"7", b"5:8", b"r:9"]
        assert marks(play.broker_reads()) == numbered


def test_our_own_receipt() -> None:
    """An ERROR reaches the client without it, and is no reason to say it again; it stands first in any head."""
    with started(product="rabbitmq", confirm=True) as play:
        play.client_said(SEND % b"1")
        error = b"ERROR\r\nmessage:no\r\nreceipt-id:" + OURS % 1 + b"\r\ncontent-length:4\r\n\r\nbody\0"
        play.broker_tells_client(error, b"ERROR\nmessage:no\ncontent-length:4\n\nbody\0")
        assert link(play).quiet
        play.broker_goes()
        play.client_is_closed()
    with started(b"1.2", b"1.0", confirm=True) as play:
        play.client_says(b"SEND\ndestination:/queue/a\nfoo:a\\cb\n\nx\0")
        gets(play, b"SEND\nreceipt:%b\ndestination:/queue/a\nfoo:a:b\n\nx\0" % (OURS % 1))


@in_all_cuts
def test_receipts_around_the_loss(cut: Cut) -> None:
    """Whatever asked for a receipt gets it once: from the lost broker, the next one, or the relay in its place."""
    with started(cut=cut) as play:
        play.client_says(b"SUBSCRIBE\nid:1\ndestination:/queue/a\nreceipt:s1\n\n\0")
        play.client_says(b"SUBSCRIBE\nid:2\ndestination:/queue/b\nack:client\nreceipt:s2\n\n\0")
        play.client_says(b"SUBSCRIBE\nid:3\ndestination:/queue/c\nreceipt:s3\n\n\0")
        play.client_said(b"BEGIN\ntransaction:t\nreceipt:b\n\n\0")
        play.broker_said(RECEIPT % b"s1" + message(b"1.2", b"1", id=b"2"))
        play.client_says(b"ACK\nid:k-1\nreceipt:a\n\n\0UNSUBSCRIBE\nid:3\nreceipt:u\n\n\0")
        play.client_said(b"BEGIN\ntransaction:u\nreceipt:b2\n\n\0ABORT\ntransaction:u\nreceipt:x\n\n\0")
        play.broker_goes()
        given = play.client_reads()
        found(play)
        told = play.broker_reads()
        owed = re.findall(rb"\nreceipt:([^\n]*)\n", told)
        play.broker_says(b"".join([RECEIPT % each for each in owed]))
        given += play.client_reads()
        assert sorted(re.findall(rb"\nreceipt-id:([^\n]*)\n", given)) == sorted(
            [b"s2", b"s3", b"b", b"a", b"u", b"b2", b"x"]
        )
        assert told.replace(b"\0\n", b"\0") == (
            b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0"
            b"SUBSCRIBE\nid:2\ndestination:/queue/b\nack:client\nreceipt:s2\n\n\0"
            b"BEGIN\ntransaction:t\nreceipt:b\n\n\0"
        )


@in_all_versions
@after_in_all_versions
def test_subscriptions_without_a_name(version: bytes, after: bytes) -> None:
    """A 1.0 client need not name them; the relay does toward a broker that wants it, and the client never sees it."""
    with started(b"1.0", version) as play:
        play.client_said(
            b"SUBSCRIBE\ndestination:/queue/a\nack:client\n\n\0SUBSCRIBE\ndestination:/queue/b\n\n\0"
        )
        moves(play, after)
        named = (b"", b"") if after == b"1.0" else (b"id:relay-1\n", b"id:relay-2\n")
        gets(
            play,
            b"SUBSCRIBE\n%bdestination:/queue/a\nack:client\n\n\0SUBSCRIBE\n%bdestination:/queue/b\n\n\0"
            % named,
        )
        subscription = b"" if after == b"1.0" else b"subscription:relay-1\n"
        ack = b"ack:k\n" if after == b"1.2" else b""
        play.broker_says(b"MESSAGE\n%bmessage-id:m\n%bdestination:/queue/a\n\nx\0" % (subscription, ack))
        play.client_gets(b"MESSAGE\nmessage-id:m\ndestination:/queue/a\n\nx\0")
        play.client_says(b"ACK\nmessage-id:m\n\n\0UNSUBSCRIBE\ndestination:/queue/a\n\n\0")
        told = play.broker_reads().split(b"\0")
        if after == b"1.0":
            assert told[0] == b"ACK\nmessage-id:m\n\n"
            assert told[1] == b"UNSUBSCRIBE\ndestination:/queue/a\n\n"
        else:
            assert header(told[0], b"id" if after == b"1.2" else b"message-id") in (b"k", b"m")
            assert told[1] == b"UNSUBSCRIBE\nid:relay-1\n\n"


def test_a_subscription_that_the_next_broker_cannot_be_told() -> None:
    """A name with a line feed cannot be said in 1.0: the client is told so, and the session ends."""
    with started(b"1.2", b"1.2") as play:
        play.client_said(b"SUBSCRIBE\nid:a\\nb\ndestination:/queue/a\n\n\0")
        play.broker_goes()
        asked(play)
        play.broker_welcomes(b"1.0")
        play.client_gets_error(b"a header cannot be said in the other version")
        assert over(play)


@in_all_pairs
@after_in_all_versions
@pytest.mark.parametrize("mode", [b"auto", *CLIENTS_MODES], ids=bytes.decode)
def test_deliveries_of_a_lost_broker(client: bytes, broker: bytes, after: bytes, mode: bytes) -> None:
    """Their ACKs are swallowed, counted and confirmed; those of the next broker's deliveries reach it by its names."""
    with started(client, broker) as play:
        subscribe = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:%b\n\n\0" % mode
        play.client_tells_broker(subscribe)
        play.broker_says(message(broker, b"1", mode) + message(broker, b"2", mode))
        one, two = play.client_reads().split(b"\0")[:2]
        moves(play, after)
        gets(play, subscribe)
        if mode != b"auto":
            play.client_says(settle(client, b"ACK", one, b"receipt:a1\n"))
            gets(play, b"")
            play.client_gets(RECEIPT % b"a1")
            assert play.counters["acks_stale"] == 1
        play.broker_says(message(after, b"1", mode) + message(after, b"2", mode) + message(after, b"3", mode))
        again = play.client_reads().split(b"\0")[:3]
        assert [each.rpartition(b"\n")[2] for each in again] == [b"1", b"2", b"3"]
        if mode == b"auto":
            return
        if client == b"1.2":
            assert len({header(each, b"ack") for each in (one, two, *again)} - {b""}) >= 4
        if client != b"1.2":  # delivered by both: the first ACK is for the one that a broker awaits
            play.client_says(settle(client, b"ACK", two))
            assert names(after, play.broker_reads(), b"2")
        play.client_says(settle(client, b"ACK", two))
        gets(play, b"")
        assert play.counters["acks_stale"] == 2
        play.client_says(settle(client, b"ACK", again[2], b"receipt:a3\n"))
        told = play.broker_reads()
        assert names(after, told, b"3")
        assert b"\nreceipt:a3\n" in told
        play.client_gets(b"")
        play.broker_tells_client(RECEIPT % b"a3")
        session = play.relay.session
        assert session is not None
        assert len(session.ledger) == (0 if mode == b"client" else 2 if client == b"1.2" else 1)
        play.both_stay()


@pytest.mark.parametrize("client", [b"1.0", b"1.1"], ids=bytes.decode)
@pytest.mark.parametrize("mode", CLIENTS_MODES, ids=bytes.decode)
def test_each_ack_of_what_was_delivered_again_reaches_the_broker(client: bytes, mode: bytes) -> None:
    """Three messages, delivered by both brokers by the same names, each acknowledged once, then once more."""
    with started(client) as play:
        subscribe = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:%b\n\n\0" % mode
        messages = b"".join([message(client, b"%d" % n, mode) for n in range(3)])
        play.client_tells_broker(subscribe)
        play.broker_says(messages)
        moves(play, client)
        gets(play, subscribe)
        play.broker_says(messages)
        delivered = play.client_reads().split(b"\0")[3:6]
        for n, each in enumerate(delivered):
            play.client_tells_broker(settle(client, b"ACK", each, b"receipt:r%d\n" % n))
            play.client_gets(b"")
            play.broker_tells_client(RECEIPT % (b"r%d" % n))
        assert play.counters["acks_stale"] == 0
        for n, each in enumerate(delivered):
            play.client_says(settle(client, b"ACK", each, b"receipt:s%d\n" % n))
            play.client_gets(RECEIPT % (b"s%d" % n))
        assert play.counters["acks_stale"] == 3
        play.both_stay()


@in_all_versions
def test_an_ack_of_a_lost_delivery(version: bytes) -> None:
    """Covered by a later one, it reaches no other broker; in a transaction, that cannot be committed any more."""
    with started(version) as play:
        subscribe = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0"
        play.client_tells_broker(subscribe)
        play.broker_says(message(version, b"1", b"client"))
        moves(play, version)
        gets(play, subscribe)
        play.broker_says(message(version, b"2", b"client"))
        lost, new = play.client_reads().split(b"\0")[:2]
        play.client_says(settle(version, b"ACK", new))
        assert names(version, play.broker_reads(), b"2")
        play.client_says(settle(version, b"ACK", lost, b"receipt:r\n"))
        gets(play, b"")
        play.client_gets(RECEIPT % b"r")
        assert play.counters["acks_stale"] == 1
    for late in (False, True):
        with started(version) as play:
            play.client_says(SUBSCRIBE)
            play.broker_says(message(version, b"1"))
            one = play.client_reads()
            if not late:
                play.client_says(BEGIN)
            play.broker_reads()
            moves(play, version)
            if late:
                play.client_says(BEGIN)
            play.client_says(settle(version, b"ACK", one, b"transaction:t\nreceipt:a\n"))
            gets(play, SUBSCRIBE + BEGIN)
            play.client_gets(RECEIPT % b"a")
            play.client_says(COMMIT)
            detail = b"broker that was lost"
            play.client_gets_error(b"the transaction cannot be committed", receipt=b"c", detail=detail)
            gets(play, b"")


COMMIT = b"COMMIT\ntransaction:t\nreceipt:c\n\n\0"
ABORT = b"ABORT\ntransaction:t\nreceipt:x\n\n\0"


@in_all_cuts
@pytest.mark.parametrize("receipt", [b"receipt:c\n", b""], ids=["receipt", "silent"])
def test_after_commit(receipt: bytes, cut: Cut) -> None:
    """A COMMIT that was not answered: nobody knows what became of it, and the client is told so."""
    with started(cut=cut) as play:
        play.client_said(BEGIN + INSIDE % b"1" + b"COMMIT\ntransaction:t\n%b\n\0" % receipt)
        play.broker_goes()
        play.client_gets_error(b"the outcome of a transaction is unknown", receipt=b"c" if receipt else None)
        assert len(play.opened) == 1
        assert over(play)


@in_all_cuts
def test_lost_while_disconnect_waits(cut: Cut) -> None:
    """First the SENDs are said again, then, confirmed, DISCONNECT; no SUBSCRIBE, and each RECEIPT comes."""
    subscribe = SUBSCRIBE.replace(b"\n", b"\nreceipt:s\n", 1)
    with started(cut=cut) as play:
        play.client_says(subscribe + ASKING % (b"r", b"x") + b"DISCONNECT\nreceipt:bye\n\n\0")
        gets(play, subscribe + ASKING % (b"r", b"x"))
        moves(play)
        play.client_gets(RECEIPT % b"s")
        gets(play, ASKING_AGAIN % (b"r", b"x"))
        play.broker_tells_client(RECEIPT % b"r")
        gets(play, b"DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_tells_client(RECEIPT % b"bye")
        play.broker_goes()
        play.client_is_closed()
        assert over(play)


@pytest.mark.parametrize("confirm", [False, True])
def test_disconnect_is_confirmed_and_a_send_is_not(confirm: bool) -> None:
    """When the time for its receipt is over, no other broker is sent the SEND: it is counted, and the log says so."""
    with started(brokers=1, confirm=confirm) as play:
        play.client_said((SEND if confirm else ASKING % (b"r", b"%b")) % b"x")
        play.client_says(b"DISCONNECT\nreceipt:bye\n\n\0")
        play.time_passes(5.01)
        if confirm:
            found(play)
            assert marks(play.broker_reads()) == [b"!2:x"]
            play.time_passes(5.01)
        gets(play, b"DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_tells_client(RECEIPT % b"bye")
        play.broker_goes()
        play.client_is_closed()
        assert over(play)
        assert play.counters["possibly_lost"] == 1
        assert play.noted(Event.DISCONNECTED).endswith("1 SEND may be lost")


@pytest.mark.parametrize("brokers", [1, 2])
def test_brokers_that_close_at_disconnect(brokers: int) -> None:
    """Each is asked once more than it closed; then no other is sought, and the client is told: it closes anyway."""
    with started(brokers=brokers) as play:
        play.client_says(b"DISCONNECT\nreceipt:bye\n\n\0")
        for _ in range(brokers):
            gets(play, b"DISCONNECT\nreceipt:bye\n\n\0")
            moves(play)
        gets(play, b"DISCONNECT\nreceipt:bye\n\n\0")
        play.broker_goes()
        play.client_gets_error(b"connection to the broker was lost", receipt=b"bye")
        assert over(play)
        assert play.counters["sessions_given_up"] == 0
        assert "closed at DISCONNECT without its RECEIPT" in play.notes[-3].text


@pytest.mark.parametrize("product", ["rabbitmq", "activemq"])
def test_too_much_is_unconfirmed(product: str) -> None:
    """At `resend_buffer` the client is not read from any more; once half of it is confirmed it is again."""
    frame = SEND % (b"x" * 20)
    with started(product=product, confirm=True, resend_buffer=4 * len(frame)) as play:
        for _ in range(3):
            play.client_says(frame)
        assert not client_waits(play)
        play.client_says(frame)
        assert client_waits(play)
        play.client_says(frame)
        assert play.broker_reads().count(b"\0") == 4
        play.broker_says(RECEIPT % (OURS % 1))
        assert client_waits(play)
        play.broker_says(RECEIPT % (OURS % 2))
        assert not client_waits(play)
        assert play.broker_reads().count(b"\0") == 1
        resender = link(play).resender
        assert resender is not None
        assert resender.unconfirmed.size == 3 * len(frame)


def test_what_is_left_of_a_client_is_not_confirmed() -> None:
    """All brokers together have `disconnect_timeout` for it; then it is given up, counted and logged."""
    with started(product="rabbitmq", confirm=True, disconnect_timeout=8.0) as play:
        play.broker_goes()
        play.client_says(SEND % b"1")
        play.client_goes()
        went = play.now
        for told, until in ((b"1:1", 4.0), (b"!2:1", 6.0), (b"!3:1", 8.0)):
            found(play, b"1.2", "rabbitmq")
            assert marks(play.broker_reads()) == [told]
            assert not over(play)
            play.time_passes(went + until + 0.01 - play.now)
        assert over(play)
        play.time_passes(100)
        assert len(play.opened) == 4
        assert "did not confirm" in play.noted(Event.LOST)
        assert play.counters["possibly_lost"] == 1


def test_a_silent_broker() -> None:
    """A broker that misses its beats is lost to the session, and known to be unwell to all others."""
    with started(
        welcome=b"heart-beat:1000,0\n", heart_beat=Terms(0, 1000), checks=Checks(pause=60.0)
    ) as play:
        first, second = play.relay.listener.upstream.brokers
        play.client_said(ASKING % (b"r", b"x"))
        play.time_passes(1.9)
        assert len(play.opened) == 1
        play.time_passes(0.2)
        found(play, welcome=b"heart-beat:0,0\n")
        gets(play, ASKING_AGAIN % (b"r", b"x"))
        play.both_stay()
        assert play.brokers[0].closed is How.ABORT
        assert first.health.up is False
        assert first.health.out(play.now)
        assert second.health.up is True
        assert play.counters["beats_missed"] == 1
        assert "heart-beat" in play.noted(Event.LOST)


@in_all_cuts
@pytest.mark.parametrize(
    "error",
    [
        STOPPING,
        b"ERROR\nmessage:connection_forced\ncontent-type:text/plain\n\n"
        b"CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'\0",
        b"ERROR\nmessage:Timer already cancelled.\n\n%b\n\tat java.base/java.util.Timer\0" % CANCELLED,
        b"ERROR\nmessage:the relay is stopping\n\nconnect again\0",
        b"ERROR\nmessage:the relay is stopping\n\nconnect again; what has no receipt may be lost\0",
        FROZEN % b"",
        FROZEN % b"; what has no receipt may be lost",
    ],
    ids=["stopping", "forced", "cancelled", "relay", "relay, lost", "frozen", "frozen, lost"],
)
def test_a_broker_says_that_it_stops(error: bytes, cut: Cut) -> None:
    """A broker or a relay, which may have been frozen: an outage, whoever it is said to, and no client sees it."""
    with started(cut=cut) as play:
        play.client_said(SUBSCRIBE + ASKING % (b"r", b"1"))
        play.broker_says(error)
        play.client_gets(b"")
        moves(play)
        gets(play, SUBSCRIBE + ASKING_AGAIN % (b"r", b"1"))
        play.both_stay()
        assert play.counters["brokers_lost"] == play.counters["errors_withheld"] == 1
        assert play.counters["errors_passed"] == 0


@in_all_cuts
@pytest.mark.parametrize("confirm", [True, False])
def test_a_stopped_broker_that_answers_a_send(confirm: bool, cut: Cut) -> None:
    """ActiveMQ refuses each by its receipt while it stops, and closes nothing: the next broker is sent them all."""
    with started(product="activemq", confirm=confirm, cut=cut) as play:
        play.client_said(ASKING % (b"r", b"x") + ASKING % (b"s", b"y"))
        play.broker_says(BROKER_STOPPED % b"r" + BROKER_STOPPED % b"s", unasked=cut is not Cut.WHOLE)
        play.broker_is_closed(How.ABORT, at="tcp://a")
        assert not play.opened[0].health.sight().well
        found(play, product="activemq")
        assert play.broker_reads() == ASKING_AGAIN % (b"r", b"x") + ASKING_AGAIN % (b"s", b"y")
        play.broker_says(b"RECEIPT\nreceipt-id:r\n\n\0RECEIPT\nreceipt-id:s\n\n\0")
        assert play.client_reads() == b"RECEIPT\nreceipt-id:r\n\n\0RECEIPT\nreceipt-id:s\n\n\0"
        play.both_stay()
        assert play.counters["errors_passed"] == 0
        assert play.counters["brokers_lost"] == play.counters["failovers"] == 1


def test_connected_is_sent_once() -> None:
    """That of the second broker is not passed on; both are in the log."""
    with started() as play:
        moves(play)
        play.nobody_gets_more()
        assert play.noted(Event.CONNECTED).endswith("at tcp://a")
        assert play.noted(Event.RECOVERED).endswith("at tcp://b")
        assert (play.counters["sessions_connected"], play.counters["failovers"]) == (1, 1)


def test_what_the_next_broker_is_sent() -> None:
    """The same CONNECT; subscriptions as they were made; what is not confirmed; open transactions; the rest."""
    orders = [
        b"SUBSCRIBE\nid:1\ndestination:/topic/a\ndurable:true\nauto-delete:false\nx-odd:1\n\n\0",
        b"SUBSCRIBE\nid:0\ndestination:/temp-queue/b\nack:client\nselector:c = 1\n\n\0",
    ]
    transaction = b"BEGIN\ntransaction:t\n\n\0" + send(b"2", transaction="t")
    with Playbook(listener(movable())) as play:
        play.client_says(b"CONNECT\naccept-version:1.2\nhost:/\nclient-id:me\nlogin:a\npasscode:b\n\n\0")
        hello = play.broker_is_asked()
        assert b"\nclient-id:me\nlogin:a\npasscode:b\n" in hello
        play.broker_said(said_welcome(b"1.2"))
        play.client_said(b"".join(orders) + transaction + send(b"1", receipt="r"))
        play.broker_goes()
        play.client_says(send(b"3"))
        asked(play)
        play.broker_accepts()
        play.broker_gets(hello)
        play.broker_says(said_welcome(b"1.2"))
        again = send(b"1", receipt="r").replace(b"SEND\n", b"SEND\nrelay-resent:true\n")
        told = play.broker_reads().replace(b"\0\n", b"\0")
        assert told == b"".join(orders) + again + transaction + send(b"3")


def test_a_broker_that_was_paused_meanwhile_is_left_again() -> None:
    """An operator took it out while it was answering: the client has its answer, and goes on at one that is in."""
    with Playbook(listener(movable()), hello=SAY_HELLO[b"1.2"]) as play:
        play.opened[0].health.paused = True
        play.broker_welcomes()
        play.client_gets(b"CONNECTED\nversion:1.2\nsession:s-1\n\n\0")
        other = play.opened[1].uri
        play.broker_welcomes(at=other)
        play.broker_gets(b"DISCONNECT\nreceipt:%b\n\n\0\n" % (OURS % 1))
        play.client_says(send(b"1"))
        play.broker_gets(b"")
        play.broker_says(RECEIPT % (OURS % 1))
        assert play.brokers[0].closed is How.LINGER
        found(play)
        assert play.opened[1] is not play.opened[0]
        play.broker_gets(send(b"1"))
        play.both_stay()
