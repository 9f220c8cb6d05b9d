"""What a client believes it has; and what the core asks of the service."""

from collections import Counter

from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg, Side
from stomprelay.session.session import Session, Transaction
from stomprelay.session.subscriptions import INDIVIDUAL
from stomprelay.wire.dialect import V1_1, Headers
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import SUBSCRIBE, UNSUBSCRIBE

SUBSCRIPTION: Headers = [(b"id", b"1"), (b"destination", b"/queue/a"), (b"ack", INDIVIDUAL)]


def session(unsettled: int = 10) -> Session:
    """A new one."""
    return Session(b"s1", V1_1, unsettled, Counter())


# ------------------------------------------------------------------ bounds, receipts, losses


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
    """What it forgot the client may still name, and others may give it again; those like ours are taken for ours."""
    one = session(2)
    two = one.beside()
    for message_id in (b"m", b"n"):
        _delivered(one, message_id, b"k")
    one.observed(UNSUBSCRIBE, [(b"id", b"1")])
    _delivered(one, b"o", b"l")
    assert (one.taken(b"z"), two.taken(b"z")) == (False, True)
    assert (one.clashes(b"z"), two.clashes(b"z")) == (False, True)
    one.lost_broker()
    assert (one.taken(b"z"), two.taken(b"z")) == (True, True)
    assert (one.clashes(b"z"), two.clashes(b"z")) == (False, True)
    one = session()
    assert one.taken(b"relay-ack-7")
    assert not one.clashes(b"relay-ack-7")
    assert one.beside().clashes(b"relay-ack-7")


def test_a_transaction_that_is_too_large() -> None:
    """All but BEGIN goes, and is told to be given back; nothing more is kept then, however small."""
    transaction = Transaction()
    assert transaction.keep(b"BEGIN", 0) == 5
    assert transaction.keep(b"SEND", 4) == 4
    assert (transaction.frames, transaction.size, transaction.cut) == ([b"BEGIN", b"SEND"], 9, False)
    assert transaction.keep(b"SEND", 3) == -4
    assert transaction.keep(b"S", 1000) == 0
    assert (transaction.frames, transaction.size, transaction.cut) == ([b"BEGIN"], 5, True)


LEG, OTHER = Leg(Side.DOWNSTREAM, Limits()), Leg(Side.UPSTREAM, Limits())


def test_a_repr_tells_no_secret() -> None:
    """An effect may end up in a log or a traceback; the CONNECT for a broker is one."""
    assert "secret" not in repr(Send(OTHER, b"CONNECT\nlogin:me\npasscode:secret\n\n\0"))
