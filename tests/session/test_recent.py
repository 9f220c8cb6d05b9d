"""Deliveries and receipts of a whole run, recorded by their names in one call."""

from collections import Counter

import pytest

from stomprelay.session.delivery import Delivery
from stomprelay.session.recent import COMPILED, Row, joined
from stomprelay.session.session import Budget, Session
from stomprelay.wire.dialect import DIALECTS, V1_1, V1_2
from stomprelay.wire.names import SUBSCRIBE

pytestmark = pytest.mark.skipif(COMPILED is None, reason="not built, or not wanted")
in_all_versions = pytest.mark.parametrize("version", DIALECTS, ids=bytes.decode)


def session(version: bytes = b"1.2", most: int = 10, kept: Budget | None = None) -> Session:
    """A new one."""
    return Session(b"s", DIALECTS[version], most, Counter(), kept=kept or Budget())


def subscribe(it: Session, id: bytes, mode: bytes = b"client-individual") -> None:
    """SUBSCRIBE."""
    it.observed(SUBSCRIBE, [(b"id", id), (b"destination", b"/queue/a"), (b"ack", mode)])


def row(it: Session, name: bytes, subscription: bytes = b"a") -> Row:
    """What a MESSAGE says of its delivery; its `ack` value is its message-id with a mark."""
    return (subscription, name, name + b"-k") if it.dialect is V1_2 else (subscription, name)


def named(it: Session, name: bytes, subscription: bytes = b"a") -> Row:
    """What an ACK says of it."""
    if it.dialect is V1_2:
        return (name + b"-k",)
    return (subscription, name) if it.dialect is V1_1 else (name,)


def deliver(it: Session, *rows: Row) -> bool:
    """MESSAGEs with these rows come, in one run."""
    return it.delivered(joined(rows), len(rows[0]), len(rows))


def delivered(it: Session, *names: bytes, to: bytes = b"a") -> bool:
    """MESSAGEs of these names come, in one run."""
    return deliver(it, *[row(it, name, to) for name in names])


def acknowledged(it: Session, *names: bytes, on: bytes = b"a") -> bool:
    """ACKs come, in one run."""
    return it.acknowledged(joined([named(it, name, on) for name in names]))


def found(it: Session, name: bytes) -> Delivery:
    """The delivery of this name, which is there."""
    delivery = it.ledger.by_message(name)
    assert delivery is not None
    return delivery


@in_all_versions
def test_a_cumulative_ack(version: bytes) -> None:
    """It covers what came before on its subscription, whether it has become a delivery or not, and nothing else."""
    it = session(version)
    subscribe(it, b"a", b"client")
    subscribe(it, b"b", b"client")
    subscribe(it, b"c")
    delivered(it, b"a1", b"a2")
    delivered(it, b"b1", to=b"b")
    delivered(it, b"c1", to=b"c")
    old = [found(it, each) for each in (b"a1", b"a2", b"b1", b"c1")]
    delivered(it, b"a3", b"a4")
    delivered(it, b"c2", to=b"c")
    assert acknowledged(it, b"a3")
    assert [each.gone for each in old] == [True, True, False, False]
    assert (len(it.ledger), it.ledger.awaited) == (4, 4)
    assert [it.ledger.by_message(each) is None for each in (b"a3", b"a4", b"c2")] == [True, False, False]


@in_all_versions
@pytest.mark.parametrize(
    "names",
    [[b"2", b"2"], [b"3", b"1"], [b"relay-ack-1"], [b"2\r"]],
    ids=["twice in a run", "once more", "a token", "a CR"],
)
def test_names_that_need_a_look(version: bytes, names: list[bytes]) -> None:
    """None of their run is recorded."""
    it = session(version)
    subscribe(it, b"a")
    delivered(it, b"1")
    assert not delivered(it, *names)
    assert (len(it.ledger), it.ledger.awaited) == (1, 1)
    assert acknowledged(it, b"1")
    assert it.ledger.cost == 0


def test_subscriptions_that_need_no_ack() -> None:
    """Their MESSAGEs are not recorded, and are no reason to look at others."""
    it = session()
    subscribe(it, b"a")
    subscribe(it, b"b", b"auto")
    assert deliver(it, row(it, b"1", b"b"))
    assert deliver(it, row(it, b"1", b"b"), row(it, b"1"), row(it, b"1", b"b"))
    assert len(it.ledger) == 1


def test_where_room_would_have_to_be_made() -> None:
    """What is forgotten then is forgotten one by one; from then on an unknown name may be a forgotten one's."""
    it = session(most=3)
    subscribe(it, b"a")
    delivered(it, b"1", b"2")
    it.lost_broker()
    assert delivered(it, b"3")
    assert not delivered(it, b"4")
    for name in (b"4", b"5"):
        it.ledger.noted(found(it, b"3").subscription, name, name + b"-k")
    assert it.ledger.forgot
    assert not delivered(it, b"6")
    assert not acknowledged(it, b"4")


def test_receipts_that_are_too_many() -> None:
    """They are looked at one by one: as many as there is room for are owed."""
    it = session(kept=Budget(most=500))
    assert it.owed_all([b"1", b"2"])
    assert not it.owed_all([b"3", b"4"])
    assert list(it.receipts) == [b"1", b"2"]
    assert it.owed_all([b"3", b"1"])
    it.received_all([b"1", b"2", b"3"])
    assert it.kept.size == 0
