"""What a client sends while there is no broker: what is kept for the next one, in which order, and what is answered."""

import pytest

from stomprelay.relay.model.counters import Counters
from stomprelay.relay.resend.offline import Offline
from stomprelay.relay.resend.unconfirmed import Kept
from stomprelay.session.delivery import Delivery
from stomprelay.session.session import Session
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.errors import LimitError, Refused
from stomprelay.wire.head import Limits
from stomprelay.wire.names import CLIENT_COMMANDS
from tests.playbook import VERSIONS, Cut, in_all_cuts

in_all_versions = pytest.mark.parametrize("version", VERSIONS, ids=bytes.decode)
with_and_without_receipt = pytest.mark.parametrize(
    "receipt", [b"", b"receipt:r\n"], ids=["without receipt", "with receipt"]
)

SEND = b"SEND\ndestination:/queue/a\n%b\n%b\0"
INSIDE = b"SEND\ndestination:/queue/a\ntransaction:t\n%b\n%b\0"
BEGIN = b"BEGIN\ntransaction:t\n%b\n\0"
COMMIT = b"COMMIT\ntransaction:t\n%b\n\0"
ABORT = b"ABORT\ntransaction:t\n%b\n\0"
SUBSCRIBE = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n%b\n\0"
UNSUBSCRIBE = b"UNSUBSCRIBE\nid:1\n%b\n\0"
ACK = b"ACK\nid:k\n%b\n\0"
OURS = b"s-receipt-%d"


class Scene:
    """A client called `s` without a broker."""

    def __init__(self, version: bytes = b"1.2", *, most: int = 10_000, limits: Limits | None = None) -> None:
        self.counters = Counters()
        self.session = Session(b"s", DIALECTS[version], 10, self.counters)
        self.limits = limits or Limits()
        self.offline = Offline(self.session, self.limits, most)
        self.decoder = Decoder(DIALECTS[version], CLIENT_COMMANDS, self.limits)

    def sends(self, data: bytes) -> None:
        """The client sends this in one chunk."""
        self.decoder.feed(data)
        for frame in self.decoder.frames():
            self.offline.send(frame)

    def kept(self) -> list[Kept]:
        """What the next broker will be sent, which is not kept any more: nothing else is."""
        taken = self.offline.unconfirmed.take()
        assert (
            self.offline.unconfirmed.size
            == self.offline.unconfirmed.sends
            == len(self.offline.unconfirmed)
            == 0
        )
        return taken

    def given(self) -> list[bytes]:
        """The receipts that the relay gives, since the last look."""
        return self.offline.unconfirmed.take_given()

    def owes(self, *receipts: bytes) -> bool:
        """Whether the client awaits each of these."""
        return all(map(self.offline.unconfirmed.owes, receipts))

    def transaction(self) -> list[bytes]:
        """What is kept of the open transaction `t`."""
        return self.session.transactions[b"t"].frames

    def delivered(self) -> Delivery:
        """A lost broker's MESSAGE, of a subscription that the client has."""
        self.sends(SUBSCRIBE % b"")
        (subscription,) = self.session.subscriptions
        delivery = self.session.ledger.noted(subscription, b"m", b"k")
        self.session.lost_broker()
        return delivery


# SEND


@in_all_versions
def test_a_send(version: bytes) -> None:
    """It is kept as the client spelled it, not as one that a broker was sent; a receipt of our own will confirm it."""
    scene = Scene(version)
    scene.sends(SEND % (b"", b"x"))
    assert not scene.offline.unconfirmed.safe
    assert scene.kept() == [Kept(SEND % (b"", b"x"), OURS % 1, sent=False)]
    assert scene.given() == []


@in_all_versions
def test_a_send_with_a_receipt(version: bytes) -> None:
    """Its own receipt will confirm it, and the client has to wait for the broker's."""
    scene = Scene(version)
    wire = SEND % (b"receipt:r\n", b"x")
    scene.sends(wire)
    assert scene.kept() == [Kept(wire, b"r", sent=False)]
    assert scene.owes(b"r")
    assert scene.given() == []


@pytest.mark.parametrize(
    ("version", "receipt"),
    [(b"1.0", b"a\\cb"), (b"1.1", b"a:b"), (b"1.2", b"a:b")],
    ids=["1.0", "1.1", "1.2"],
)
def test_receipts_are_read_in_the_clients_version(version: bytes, receipt: bytes) -> None:
    """What is an escape there is none in STOMP 1.0; what is kept stays as it was spelled."""
    scene = Scene(version)
    wire = SEND % (b"receipt:a\\cb\n", b"x")
    scene.sends(wire)
    assert scene.kept() == [Kept(wire, receipt, sent=False)]
    assert scene.owes(receipt)
    scene.sends(ACK % b"receipt:a\\cb\n")
    assert scene.given() == [receipt]


def test_a_receipt_that_is_asked_for_twice() -> None:
    """Each of the two frames will be confirmed, and the client is owed two receipts."""
    scene = Scene()
    scene.sends(SEND % (b"receipt:r\n", b"1") + SEND % (b"receipt:r\n", b"2"))
    assert len(scene.offline.unconfirmed) == 2
    assert scene.offline.unconfirmed.received(b"r")
    assert scene.owes(b"r")
    assert scene.offline.unconfirmed.received(b"r")
    assert not scene.owes(b"r")
    assert scene.offline.unconfirmed.quiet


@in_all_cuts
def test_the_order_in_which_it_is_kept(cut: Cut) -> None:
    """That of the client; a transaction stands whole where it was committed, as if nothing had come in between."""
    scene = Scene()
    sent = (
        SEND % (b"", b"1")
        + BEGIN % b""
        + SEND % (b"receipt:r\n", b"2")
        + INSIDE % (b"", b"3")
        + SUBSCRIBE % b""
        + SEND % (b"", b"4")
        + INSIDE % (b"receipt:i\n", b"5")
        + COMMIT % b"receipt:c\n"
        + SEND % (b"", b"6")
    )
    for chunk in cut.chunks(sent):
        scene.sends(chunk)
    whole = BEGIN % b"" + INSIDE % (b"", b"3") + INSIDE % (b"receipt:i\n", b"5") + COMMIT % b"receipt:c\n"
    assert scene.offline.unconfirmed.size == sum(
        map(len, [SEND % (b"", b"1"), SEND % (b"receipt:r\n", b"2"), SEND % (b"", b"4"), whole])
    ) + len(SEND % (b"", b"6"))
    assert scene.kept() == [
        Kept(SEND % (b"", b"1"), OURS % 1, sent=False),
        Kept(SEND % (b"receipt:r\n", b"2"), b"r", sent=False),
        Kept(SEND % (b"", b"4"), OURS % 2, sent=False),
        Kept(whole, b"c", sent=False, sends=2),
        Kept(SEND % (b"", b"6"), OURS % 3, sent=False),
    ]
    assert scene.owes(b"r", b"i", b"c")
    assert scene.given() == []
    assert scene.session.transactions == {}
    assert len(scene.session.subscriptions) == 1


# Transactions


@with_and_without_receipt
def test_begin(receipt: bytes) -> None:
    """It opens the transaction and waits with it: a broker will confirm it."""
    scene = Scene()
    scene.sends(BEGIN % receipt)
    assert scene.transaction() == [BEGIN % receipt]
    assert scene.kept() == []
    assert scene.owes(b"r") == bool(receipt)
    assert scene.given() == []


@with_and_without_receipt
def test_a_send_in_a_transaction(receipt: bytes) -> None:
    """It waits with the transaction; what comes of it is not uncertain before COMMIT."""
    scene = Scene()
    scene.sends(BEGIN % b"" + INSIDE % (receipt, b"x"))
    assert scene.transaction() == [BEGIN % b"", INSIDE % (receipt, b"x")]
    assert scene.session.transactions[b"t"].doomed is None
    assert scene.offline.unconfirmed.safe
    assert scene.owes(b"r") == bool(receipt)
    assert scene.given() == []


def test_a_transaction_that_a_lost_broker_had_begun() -> None:
    """What is sent in it now joins what was sent in it before."""
    scene = Scene()
    scene.sends(BEGIN % b"" + INSIDE % (b"", b"1"))
    scene.session.lost_broker()
    scene.sends(INSIDE % (b"", b"2") + COMMIT % b"")
    whole = BEGIN % b"" + INSIDE % (b"", b"1") + INSIDE % (b"", b"2") + COMMIT % b""
    assert scene.kept() == [Kept(whole, OURS % 1, sent=False, sends=2)]


@with_and_without_receipt
def test_commit(receipt: bytes) -> None:
    """The transaction is kept whole, confirmed by the receipt of its COMMIT or one of our own."""
    scene = Scene()
    scene.sends(BEGIN % b"" + COMMIT % receipt)
    kept = Kept(BEGIN % b"" + COMMIT % receipt, b"r" if receipt else OURS % 1, sent=False, sends=0)
    assert scene.kept() == [kept]
    assert scene.owes(b"r") == bool(receipt)
    assert scene.given() == []
    assert scene.session.transactions == {}
    assert scene.offline.unconfirmed.take_doubts() == []


@with_and_without_receipt
def test_abort(receipt: bytes) -> None:
    """No broker is sent the transaction: all receipts in it are given at once, in the client's order."""
    scene = Scene()
    scene.sends(BEGIN % b"receipt:b\n" + INSIDE % (b"receipt:1\n", b"x") + INSIDE % (b"", b"x"))
    scene.sends(INSIDE % (b"receipt:2\n", b"x") + SEND % (b"receipt:3\n", b"x"))
    assert scene.given() == []
    scene.sends(ABORT % receipt)
    assert scene.given() == [b"b", b"1", b"2"] + [b"r"] * bool(receipt)
    assert scene.kept() == [Kept(SEND % (b"receipt:3\n", b"x"), b"3", sent=False)]
    assert scene.owes(b"3")
    assert not scene.owes(b"b")
    assert scene.session.transactions == {}


def test_abort_after_some_receipts_came() -> None:
    """Those that the lost broker gave are not given again."""
    scene = Scene()
    scene.sends(BEGIN % b"receipt:b\n" + INSIDE % (b"receipt:1\n", b"x"))
    assert scene.offline.unconfirmed.received(b"b")
    scene.sends(ABORT % b"")
    assert scene.given() == [b"1"]
    assert scene.offline.unconfirmed.quiet


def test_a_transaction_name_that_is_used_again() -> None:
    """Once committed or aborted, it is another transaction."""
    scene = Scene()
    for body in (b"1", b"2", b"3"):
        scene.sends(BEGIN % b"" + INSIDE % (b"", body) + (ABORT if body == b"2" else COMMIT) % b"")
    assert [kept.wire for kept in scene.kept()] == [
        BEGIN % b"" + INSIDE % (b"", b"1") + COMMIT % b"",
        BEGIN % b"" + INSIDE % (b"", b"3") + COMMIT % b"",
    ]


def test_two_transactions() -> None:
    """Each is kept for itself, in the order in which they were committed."""
    scene = Scene()
    other = BEGIN.replace(b":t", b":u") % b"" + INSIDE.replace(b":t", b":u") % (b"", b"2")
    scene.sends(BEGIN % b"" + other + INSIDE % (b"", b"1"))
    scene.sends(COMMIT.replace(b":t", b":u") % b"" + COMMIT % b"")
    assert [kept.wire for kept in scene.kept()] == [
        other + COMMIT.replace(b":t", b":u") % b"",
        BEGIN % b"" + INSIDE % (b"", b"1") + COMMIT % b"",
    ]


def test_a_transaction_that_was_not_begun() -> None:
    """SEND and COMMIT are kept for the next broker, which judges them; ABORT has nothing to undo."""
    scene = Scene()
    scene.sends(
        INSIDE % (b"receipt:1\n", b"x") + COMMIT % b"receipt:2\n" + COMMIT % b"" + ABORT % b"receipt:3\n"
    )
    assert scene.kept() == [
        Kept(INSIDE % (b"receipt:1\n", b"x"), b"1", sent=False),
        Kept(COMMIT % b"receipt:2\n", b"2", sent=False, sends=0),
        Kept(COMMIT % b"", OURS % 1, sent=False, sends=0),
    ]
    assert scene.owes(b"1", b"2")
    assert scene.given() == [b"3"]


# Transactions that are too large


FITS = len(BEGIN % b"") + len(INSIDE % (b"", b"x" * 100))


@pytest.mark.parametrize(("most", "kept"), [(FITS, True), (FITS - 1, False)])
def test_as_large_as_may_be(most: int, kept: bool) -> None:
    """To the byte, BEGIN included; what does not fit is lost with all of the transaction but its BEGIN."""
    scene = Scene(most=most)
    scene.sends(BEGIN % b"" + INSIDE % (b"", b"x" * 100))
    transaction = scene.session.transactions[b"t"]
    assert scene.transaction()[0] == BEGIN % b""
    assert len(scene.transaction()) == 1 + kept
    assert transaction.doomed == (None if kept else "there was no broker, and it was too large to be kept")
    assert scene.kept() == []


def test_all_open_transactions_share_the_room() -> None:
    """The one that needs too much is lost, not its neighbour; once that is aborted, there is room again."""
    scene = Scene(most=FITS + 200)
    scene.sends(BEGIN.replace(b":t", b":u") % b"" + INSIDE.replace(b":t", b":u") % (b"", b"x" * 100))
    scene.sends(BEGIN % b"" + INSIDE % (b"", b"x" * 200))
    assert scene.session.transactions[b"u"].doomed is None
    assert scene.session.transactions[b"t"].doomed is not None
    scene.sends(ABORT % b"" + ABORT.replace(b":t", b":u") % b"")
    scene.sends(BEGIN % b"" + INSIDE % (b"", b"x" * 200) + COMMIT % b"")
    assert len(scene.kept()) == 1


@with_and_without_receipt
@in_all_cuts
def test_a_transaction_that_is_too_large_is_committed(cut: Cut, receipt: bytes) -> None:
    """It is refused with its reason and its receipt; nothing of it is kept, and the client awaits nothing of it."""
    scene = Scene(most=FITS - 1)
    sent = BEGIN % b"" + INSIDE % (b"", b"x" * 100) + INSIDE % (b"", b"y") + COMMIT % receipt

    def sends() -> None:
        for chunk in cut.chunks(sent):
            scene.sends(chunk)

    with pytest.raises(Refused) as refused:
        sends()
    assert refused.value.message == "the transaction cannot be committed"
    assert refused.value.detail == "there was no broker, and it was too large to be kept"
    assert refused.value.receipt == (b"r" if receipt else None)
    assert scene.kept() == []
    assert not scene.owes(b"r")


def test_a_transaction_that_is_too_large_is_aborted() -> None:
    """It might never have been."""
    scene = Scene(most=FITS - 1)
    scene.sends(BEGIN % b"receipt:b\n" + INSIDE % (b"", b"x" * 100) + ABORT % b"receipt:r\n")
    assert scene.given() == [b"b", b"r"]
    assert scene.kept() == []
    assert scene.session.transactions == {}


def test_a_transaction_that_was_cut_before() -> None:
    """What its lost broker knew is gone; more of it cannot make it whole."""
    scene = Scene(most=FITS - 1)
    scene.sends(BEGIN % b"")
    (frame,) = scene.offline.read(INSIDE % (b"", b"x" * 100))
    scene.offline.keep(scene.session.transactions[b"t"], frame)
    scene.session.lost_broker()
    scene.sends(INSIDE % (b"", b"y"))
    with pytest.raises(Refused, match="cannot be committed"):
        scene.sends(COMMIT % b"")


# SUBSCRIBE, UNSUBSCRIBE


@with_and_without_receipt
def test_subscribe(receipt: bytes) -> None:
    """It is remembered, for the next broker is sent all that are open; that one will confirm it."""
    scene = Scene()
    scene.sends(SUBSCRIBE % receipt)
    (subscription,) = scene.session.subscriptions
    assert subscription.id == b"1"
    assert scene.kept() == []
    assert scene.owes(b"r") == bool(receipt)
    assert scene.given() == []
    assert scene.offline.unconfirmed.safe


def test_unsubscribe() -> None:
    """There is nothing left to be sent: its receipt is given at once, behind that of its SUBSCRIBE."""
    scene = Scene()
    scene.sends(SUBSCRIBE % b"receipt:s\n" + UNSUBSCRIBE % b"receipt:u\n")
    assert scene.given() == [b"s", b"u"]
    assert list(scene.session.subscriptions) == []
    assert scene.kept() == []
    assert scene.offline.unconfirmed.quiet


def test_unsubscribe_without_receipt() -> None:
    """That of the SUBSCRIBE is given all the same."""
    scene = Scene()
    scene.sends(SUBSCRIBE % b"receipt:s\n" + UNSUBSCRIBE % b"")
    assert scene.given() == [b"s"]


def test_unsubscribe_from_what_a_lost_broker_confirmed() -> None:
    """That receipt is not given again."""
    scene = Scene()
    scene.sends(SUBSCRIBE % b"receipt:s\n")
    assert scene.offline.unconfirmed.received(b"s")
    scene.sends(UNSUBSCRIBE % b"receipt:u\n")
    assert scene.given() == [b"u"]


def test_unsubscribe_from_nothing() -> None:
    """There is nothing to undo, and no broker to refuse it."""
    scene = Scene()
    scene.sends(UNSUBSCRIBE % b"receipt:u\n")
    assert scene.given() == [b"u"]
    assert scene.kept() == []


def test_unsubscribe_by_destination() -> None:
    """On STOMP 1.0 the oldest subscription to it ends; others stand."""
    scene = Scene(b"1.0")
    scene.sends(
        b"SUBSCRIBE\ndestination:/queue/a\nreceipt:1\n\n\0SUBSCRIBE\ndestination:/queue/b\nreceipt:2\n\n\0"
    )
    scene.sends(b"UNSUBSCRIBE\ndestination:/queue/a\nreceipt:u\n\n\0")
    assert scene.given() == [b"1", b"u"]
    assert [each.destination for each in scene.session.subscriptions] == [b"/queue/b"]
    assert scene.owes(b"2")


# ACK, NACK


with_both_commands = pytest.mark.parametrize("command", [b"ACK", b"NACK"], ids=bytes.decode)


@with_and_without_receipt
@with_both_commands
def test_an_acknowledgement(command: bytes, receipt: bytes) -> None:
    """It is of a message that the lost broker gives to others: it is counted and left out, its receipt given."""
    scene = Scene()
    delivery = scene.delivered()
    scene.sends(ACK.replace(b"ACK", command) % receipt)
    assert delivery.lost
    assert scene.counters["acks_stale"] == 1
    assert scene.kept() == []
    assert scene.given() == [b"r"] * bool(receipt)
    assert scene.offline.unconfirmed.quiet


@with_both_commands
def test_an_acknowledgement_in_a_transaction(command: bytes) -> None:
    """The transaction cannot be done as a whole any more, and is refused when it is to be committed."""
    scene = Scene()
    scene.delivered()
    scene.sends(BEGIN % b"" + INSIDE % (b"", b"x"))
    scene.sends(ACK.replace(b"ACK", command) % b"transaction:t\nreceipt:a\n")
    assert scene.given() == [b"a"]
    assert scene.counters["acks_stale"] == 1
    with pytest.raises(Refused) as refused:
        scene.sends(COMMIT % b"receipt:c\n")
    assert refused.value.detail == "it acknowledges messages of a broker that was lost"
    assert refused.value.receipt == b"c"
    assert scene.kept() == []
    assert scene.counters["acks_stale"] == 1


def test_a_transaction_that_a_lost_broker_had_acknowledgements_in() -> None:
    """It is refused as well, though all of it was sent to that broker."""
    scene = Scene()
    scene.sends(BEGIN % b"" + INSIDE % (b"", b"x"))
    scene.session.transactions[b"t"].acknowledge()
    scene.session.lost_broker()
    with pytest.raises(Refused, match="cannot be committed") as refused:
        scene.sends(COMMIT % b"")
    assert refused.value.detail == "it acknowledged messages of a broker that was lost"
    assert refused.value.receipt is None


def test_an_acknowledgement_in_a_transaction_that_was_not_begun() -> None:
    """It is as stale as any other, and dooms nothing."""
    scene = Scene()
    scene.delivered()
    scene.sends(BEGIN % b"" + ACK % b"transaction:u\n" + COMMIT % b"")
    assert scene.counters["acks_stale"] == 1
    assert len(scene.kept()) == 1


def test_acknowledgements_in_a_transaction_that_is_aborted() -> None:
    """Nothing is left of it."""
    scene = Scene()
    scene.delivered()
    scene.sends(BEGIN % b"" + ACK % b"transaction:t\n" + ABORT % b"receipt:r\n")
    assert scene.given() == [b"r"]
    assert scene.session.transactions == {}
    assert scene.kept() == []


# Order of receipts


@in_all_cuts
def test_receipts_are_given_in_the_clients_order(cut: Cut) -> None:
    """Each as soon as its frame was sent."""
    scene = Scene()
    sent = (
        ACK % b"receipt:1\n"
        + SUBSCRIBE % b"receipt:2\n"
        + SEND % (b"receipt:no\n", b"x")
        + UNSUBSCRIBE % b"receipt:3\n"
        + BEGIN % b"receipt:4\n"
        + ABORT % b"receipt:5\n"
        + ACK % b"receipt:6\n"
    )
    for chunk in cut.chunks(sent):
        scene.sends(chunk)
    assert scene.given() == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert scene.owes(b"no")


# How much


def test_full_of_what_waits() -> None:
    """What is kept fills the unconfirmed, as what is unconfirmed does."""
    scene = Scene(most=2 * len(SEND % (b"", b"x")))
    scene.sends(SEND % (b"", b"x"))
    assert (scene.offline.unconfirmed.full, scene.offline.unconfirmed.crowded) == (False, False)
    scene.sends(SEND % (b"", b"x"))
    assert (scene.offline.unconfirmed.full, scene.offline.unconfirmed.crowded) == (True, True)


def test_frames_are_read_again_with_what_the_relay_put_in() -> None:
    """Two headers more than a client may have, and no more than that."""
    scene = Scene(limits=Limits(headers=2))
    most = SEND % (b"a:b\n", b"x")
    scene.sends(most)
    assert [frame.wire for frame in scene.offline.read(most * 2)] == [most, most]
    marked = SEND % (b"a:b\nreceipt:r\nrelay-copy:s-1\n", b"x")
    (frame,) = scene.offline.read(marked)
    assert scene.offline.marks(frame) == (b"r", None)
    with pytest.raises(LimitError):
        list(scene.offline.read(SEND % (b"a:b\nreceipt:r\nrelay-copy:s-1\nc:d\n", b"x")))


@pytest.mark.parametrize(
    ("wire", "marks"),
    [
        (SEND % (b"", b"x"), (None, None)),
        (SEND % (b"receipt:r\nreceipt:s\n", b"x"), (b"r", None)),
        (INSIDE % (b"", b"x"), (None, b"t")),
        (COMMIT % b"receipt:r\\n\n", (b"r\n", b"t")),
    ],
)
def test_marks(wire: bytes, marks: tuple[bytes | None, bytes | None]) -> None:
    """The receipt and the transaction of a frame, decoded; of repeated headers the first counts."""
    scene = Scene()
    (frame,) = scene.offline.read(wire)
    assert scene.offline.marks(frame) == marks


def test_receipts_in_a_transaction_that_is_too_large() -> None:
    """No broker will be asked for them: they are given at once, so that a client that waits for them can go on."""
    scene = Scene(most=FITS)
    scene.sends(BEGIN % b"receipt:b\n" + INSIDE % (b"receipt:1\n", b"x"))
    assert scene.given() == []
    scene.sends(INSIDE % (b"receipt:2\n", b"x" * 100))
    assert scene.given() == [b"1", b"2"]
    scene.sends(INSIDE % (b"receipt:3\n", b"x"))
    assert scene.given() == [b"3"]
    assert scene.owes(b"b")
    scene.sends(ABORT % b"receipt:r\n")
    assert scene.given() == [b"b", b"r"]
    assert scene.offline.unconfirmed.quiet
