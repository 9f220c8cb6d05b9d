"""What a client believes it has."""

from collections import Counter

import pytest

from stomprelay.session.session import Session
from stomprelay.session.subscriptions import INDIVIDUAL
from stomprelay.wire.dialect import V1_1, Headers
from stomprelay.wire.errors import ProtocolError
from stomprelay.wire.names import ABORT, BEGIN, COMMIT, SUBSCRIBE, UNSUBSCRIBE

SUBSCRIPTION: Headers = [(b"id", b"1"), (b"destination", b"/queue/a"), (b"ack", INDIVIDUAL)]


def session(unsettled: int = 10) -> Session:
    """A new one."""
    return Session(b"s1", V1_1, unsettled, Counter())


def transaction(name: bytes) -> Headers:
    """The headers of BEGIN, COMMIT and ABORT."""
    return [(b"transaction", name)]


# ------------------------------------------------------------------ subscriptions


def test_unsubscribe_makes_room_in_a_crowded_ledger() -> None:
    """What an ended subscription left unacknowledged does not keep its broker paused for ever."""
    it = session(4)
    ended = it.observed(SUBSCRIBE, SUBSCRIPTION)
    assert ended is not None
    for n in range(4):
        it.ledger.noted(ended, b"%d" % n, None)
    assert it.full
    it.observed(UNSUBSCRIBE, [(b"id", b"1")])
    assert not it.crowded
    assert len(it.ledger) == 0


# ------------------------------------------------------------------ transactions


@pytest.mark.parametrize("end", [COMMIT, ABORT], ids=bytes.decode)
def test_a_transaction_is_open_from_begin_to_its_end(end: bytes) -> None:
    """In the order in which they were begun; the first `transaction` header counts."""
    it = session()
    assert it.observed(BEGIN, transaction(b"t2")) is None
    it.observed(BEGIN, [*transaction(b"t1"), *transaction(b"t9")])
    assert list(it.transactions) == [b"t2", b"t1"]
    assert it.observed(end, transaction(b"t2")) is None
    assert list(it.transactions) == [b"t1"]


@pytest.mark.parametrize("end", [COMMIT, ABORT], ids=bytes.decode)
def test_the_end_of_what_was_never_begun(end: bytes) -> None:
    """The broker says what it thinks of it; here nothing happens."""
    it = session()
    it.observed(BEGIN, transaction(b"t1"))
    it.observed(end, transaction(b"t2"))
    it.observed(end, [])
    assert list(it.transactions) == [b"t1"]


def test_commit_and_abort_reach_the_ledger() -> None:
    """An ACK in a transaction that is aborted is taken back; a committed one is not."""
    it = session()
    to = it.observed(SUBSCRIBE, SUBSCRIPTION)
    assert to is not None
    one, two = it.ledger.noted(to, b"a", None), it.ledger.noted(to, b"b", None)
    it.observed(BEGIN, transaction(b"t1"))
    it.ledger.settled(one, b"t1")
    it.observed(COMMIT, transaction(b"t1"))
    it.observed(BEGIN, transaction(b"t2"))
    it.ledger.settled(two, b"t2")
    it.observed(ABORT, transaction(b"t2"))
    assert it.ledger.by_token(one.token) is None
    assert it.ledger.by_token(two.token) is two


def test_open_transactions_are_bounded() -> None:
    """One more than may be is an error, until one has ended."""
    it = Session(b"s1", V1_1, 10, Counter(), transactions=2)
    for name in (b"t1", b"t2", b"t2"):
        it.observed(BEGIN, transaction(name))
    with pytest.raises(ProtocolError, match="too many open transactions") as caught:
        it.observed(BEGIN, transaction(b"t3"))
    assert caught.value.detail == "the limit is 2"
    it.observed(COMMIT, transaction(b"t1"))
    it.observed(BEGIN, transaction(b"t3"))


# ------------------------------------------------------------------ bounds, receipts, losses


def test_receipts_that_are_owed() -> None:
    """In the order in which they were asked for, until the broker gives them; others do not matter."""
    it = session()
    it.owed(b"r1")
    it.owed(b"r2")
    it.received(b"r3")
    it.received(None)
    assert list(it.receipts) == [b"r1", b"r2"]
    it.received(b"r1")
    it.received(b"r1")
    assert list(it.receipts) == [b"r2"]


def test_receipts_that_are_owed_are_bounded() -> None:
    """A broker that never answers costs no more memory than was allowed."""
    it = session(3)
    for n in range(10):
        it.owed(b"%d" % n)
    assert len(it.receipts) == 3


def test_losses_are_counted() -> None:
    """By kind; and each is a trace, so that a SEND that lost something is looked at again next time."""
    it = session()
    before = it.traces
    it.lose("loss_value")
    it.lose("loss_reserved", 2)
    assert it.counters == {"loss_value": 1, "loss_reserved": 2}
    assert it.traces > before
    before = it.traces
    it.owed(b"r1")
    assert it.traces > before


def _delivered(it: Session, message_id: bytes, ack: bytes) -> int:
    """A MESSAGE passed to the client; its number."""
    opened = it.observed(SUBSCRIBE, SUBSCRIPTION)
    assert opened is not None
    return it.ledger.noted(opened, message_id, ack).order


def test_sessions_of_one_client() -> None:
    """They number deliveries in one order, and know which names are taken."""
    one = session()
    assert _delivered(one, b"m", b"k") == 1
    two = one.beside()
    three = two.beside()
    assert [_delivered(each, b"n", b"j") for each in (two, one, three)] == [2, 3, 4]
    assert all(each.taken(b"k") and each.taken(b"j") and not each.taken(b"l") for each in (one, two, three))
    assert (one.clashes(b"m"), two.clashes(b"m"), three.clashes(b"m")) == (False, True, True)
    assert (two.name, two.dialect, two.counters) == (one.name, one.dialect, one.counters)
    assert len(two.subscriptions) == 1


def test_names_that_another_session_may_have_had() -> None:
    """What it forgot the client may still name: its own session's broker does not give the name again, others may."""
    one = session(2)
    two = one.beside()
    for message_id in (b"m", b"n"):
        _delivered(one, message_id, b"k")
    one.observed(UNSUBSCRIBE, [(b"id", b"1")])
    assert (one.taken(b"z"), two.taken(b"z")) == (False, True)
    assert (one.clashes(b"z"), two.clashes(b"z")) == (False, True)
    one.lost_broker()
    assert (one.taken(b"z"), two.taken(b"z")) == (True, True)
    assert (one.clashes(b"z"), two.clashes(b"z")) == (False, True)


def test_names_like_ours() -> None:
    """They are taken for ours, for who could tell."""
    one = session()
    assert one.taken(b"relay-ack-7")
    assert not one.clashes(b"relay-ack-7")
    assert one.beside().clashes(b"relay-ack-7")


# ------------------------------------------------------------------ a broker is lost


def quiet(it: Session) -> bool:
    """Whether its broker could be left without a trace."""
    return it.quiet


def doom(it: Session) -> str:
    """Why its transaction `t` cannot be committed."""
    return it.transactions[b"t"].doomed or ""


def test_what_disturbs_the_quiet() -> None:
    """An open transaction, a delivery that awaits its ACK; subscriptions do not."""
    it = session()
    assert quiet(it)
    opened = it.observed(SUBSCRIBE, SUBSCRIPTION)
    assert opened is not None
    assert quiet(it)
    it.observed(BEGIN, transaction(b"t"))
    assert not quiet(it)
    it.observed(COMMIT, transaction(b"t"))
    assert quiet(it)
    delivery = it.ledger.noted(opened, b"m", None)
    assert not quiet(it)
    it.ledger.settled(delivery)
    assert quiet(it)
    it.ledger.noted(opened, b"m", None)
    it.observed(UNSUBSCRIBE, [(b"id", b"1")])
    assert quiet(it)


def test_a_lost_broker_takes_its_deliveries_along() -> None:
    """Subscriptions and transactions stay: the next broker is told of them."""
    it = session()
    opened = it.observed(SUBSCRIBE, SUBSCRIPTION)
    assert opened is not None
    delivery = it.ledger.noted(opened, b"m", None)
    it.observed(BEGIN, transaction(b"t"))
    it.lost_broker()
    assert delivery.lost
    assert list(it.subscriptions) == [opened]
    assert doom(it) == ""
    it.transactions[b"t"].acknowledged = True
    it.lost_broker()
    assert "acknowledged" in doom(it)
    it.observed(ABORT, transaction(b"t"))
    assert quiet(it)


def test_a_session_without_deliveries_loses_its_broker() -> None:
    """There is nothing to be told."""
    it = session()
    it.lost_broker()
    assert quiet(it)


def test_begin_again_does_not_forget_what_was_said() -> None:
    """A client that repeats BEGIN is the broker's to refuse; what is kept of the transaction stays."""
    it = session()
    it.observed(BEGIN, transaction(b"t"))
    it.transactions[b"t"].keep(b"BEGIN", 100)
    it.observed(BEGIN, transaction(b"t"))
    assert it.transactions[b"t"].frames == [b"BEGIN"]
