"""Deliveries that await their ACK."""

import gc
from collections.abc import Iterable
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stomprelay.session.delivery import Delivery
from stomprelay.session.ledger import Ledger
from stomprelay.session.subscriptions import CUMULATIVE, INDIVIDUAL, Subscription


def subscription(id: bytes = b"1", ack: bytes = INDIVIDUAL) -> Subscription:
    """An open one."""
    return Subscription(id, [(b"id", id), (b"ack", ack)], named=True)


def delivered(ledger: Ledger, to: Subscription, *message_ids: bytes) -> list[Delivery]:
    """So many MESSAGEs, in order."""
    return [ledger.noted(to, message_id, None) for message_id in message_ids]


def end(ledger: Ledger, ended: Subscription) -> None:
    """UNSUBSCRIBE."""
    ended.close()
    ledger.ended(ended)


def pending(ledger: Ledger, deliveries: Iterable[Delivery]) -> list[bytes]:
    """The message ids that still await their ACK, in the order of the argument."""
    return [each.message_id for each in deliveries if ledger.by_token(each.token) is each]


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "transaction"])
@pytest.mark.parametrize("kind", ["tokened", "hidden"])
def test_names_that_the_client_does_not_know(kind: str, inside: bool) -> None:
    """They name nothing for it and are free for other brokers', but are known for the broker's until that is gone."""
    ledger = Ledger(10)
    one = ledger.noted(subscription(), b"n", b"n", tokened=kind == "tokened", hidden=kind == "hidden")
    assert ledger.by_token(one.token) is one
    assert (ledger.by_token(b"n"), ledger.taken(b"n")) == (
        (None, False) if kind == "tokened" else (one, True)
    )
    assert (ledger.by_message(b"n"), ledger.named(b"n")) == (
        (None, False) if kind == "hidden" else (one, True)
    )
    assert ledger.hides(b"n")
    ledger.settled(one, b"tx" if inside else None)
    assert ledger.hides(b"n") == inside
    ledger.committed(b"tx")
    assert not ledger.hides(b"n")


def test_a_hidden_name_that_comes_again() -> None:
    """The newest has it, whatever becomes of the others; and a cumulative ACK is not for the lost one any more."""
    ledger, to = Ledger(10), subscription(ack=CUMULATIVE)
    one = ledger.noted(to, b"n", b"n", tokened=True, hidden=True)
    ledger.lost()
    two = ledger.noted(to, b"n", b"n", tokened=True, hidden=True)
    assert ledger.settled(two)
    assert not ledger.settled(one)
    assert not ledger.hides(b"n")


def test_nothing_is_kept_of_what_was_settled_behind_its_namesake() -> None:
    """One message again and again, while another subscription's delivery of it awaits its ACK."""
    ledger, to = Ledger(10), subscription(b"2")
    delivered(ledger, subscription(b"1"), b"n")
    for _ in range(500):
        for each in delivered(ledger, to, b"n"):
            ledger.settled(each)
    kept = [each for each in gc.get_objects() if type(each) is Delivery and each.message_id == b"n"]
    assert len(kept) < 50


def test_an_ended_subscription_does_not_crowd() -> None:
    """The client owes no ACK for what is left of it, comes late, or comes back by an ABORT."""
    ledger = Ledger(4)
    ended = subscription(b"1", CUMULATIVE)
    deliveries = delivered(ledger, ended, b"a", b"b", b"c")
    assert ledger.crowded
    end(ledger, ended)
    deliveries += delivered(ledger, ended, b"d")
    assert (ledger.full, ledger.crowded, ledger.awaited) == (False, False, 0)
    assert pending(ledger, deliveries) == [b"a", b"b", b"c", b"d"]
    for ack in (INDIVIDUAL, CUMULATIVE):
        ledger = Ledger(2)
        ended = subscription(b"1", ack)
        for each in delivered(ledger, ended, b"a", b"b"):
            ledger.settled(each, b"t")
        end(ledger, ended)
        assert ledger.full
        ledger.aborted(b"t")
        assert (ledger.full, ledger.crowded, len(ledger)) == (False, False, 2)


operations = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.just("ack"), st.integers(0, 9), st.sampled_from([None, b"t1", b"t2"])),
        st.tuples(st.just("commit"), st.sampled_from([b"t1", b"t2"]), st.none()),
        st.tuples(st.just("abort"), st.sampled_from([b"t1", b"t2"]), st.none()),
        st.tuples(st.just("lost"), st.none(), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=2 * settings().max_examples)
@given(script=operations)
def test_the_ledger_is_an_ordered_list_with_names(script: list[tuple[str, object, object]]) -> None:
    """Any deliveries, ACKs and transactions: the same as a plain list that is searched."""
    subscriptions = [subscription(b"a", CUMULATIVE), subscription(b"b", CUMULATIVE), subscription(b"c")]
    ledger = Ledger(8)
    waiting: list[Delivery] = []
    every: list[Delivery] = []
    held: dict[object, list[Delivery]] = {}
    lost: set[Delivery] = set()
    replaced: set[Delivery] = set()
    for what, first, second in script:
        match what, first, second:
            case "deliver", int(which), int(message):
                same = [each for each in waiting if each.subscription is subscriptions[which]]
                same = [each for each in same if each.message_id == b"m%d" % message]
                if which < 2 and same and lost.issuperset(same) and not replaced.issuperset(same[:1]):
                    replaced.add(same[0])
                delivery = ledger.noted(subscriptions[which], b"m%d" % message, None)
                waiting.append(delivery)
                every.append(delivery)
            case "ack", int(which), transaction if waiting:
                named = waiting[which % len(waiting)]
                same = [each for each in waiting if each.subscription is named.subscription]
                gone = same[: same.index(named) + 1]
                gone = [each for each in gone if each not in replaced]
                if named.subscription.ack != CUMULATIVE or named in replaced:
                    gone = [named]
                whole = ledger.settled(named, transaction if isinstance(transaction, bytes) else None)
                assert whole is not any(each in lost for each in gone)
                waiting = [each for each in waiting if each not in gone]
                if transaction is not None:
                    held.setdefault(transaction, []).extend(gone)
            case "commit", bytes(transaction), _:
                ledger.committed(transaction)
                held.pop(transaction, None)
            case "abort", bytes(transaction), _:
                ledger.aborted(transaction)
                waiting = sorted([*waiting, *held.pop(transaction, [])], key=lambda each: each.order)
            case "lost", _, _:
                ledger.lost()
                lost.update(every)
        forgotten = {each for each in waiting if each.gone}
        assert forgotten <= lost
        assert ledger.forgot or not forgotten
        waiting = [each for each in waiting if not each.gone]
        assert len(ledger) == len(waiting)
        assert ledger.expecting is any(each not in lost for each in waiting)
        assert [each.lost for each in every] == [each in lost for each in every]
        assert [each for each in every if ledger.by_token(each.token) is each] == waiting
        for message in range(4):
            for name in (None, b"a", b"b", b"c"):
                right = [
                    each
                    for each in waiting
                    if each.message_id == b"m%d" % message and name in (None, each.subscription.id)
                ]
                right.sort(key=lambda each: (each in lost, each.order))
                assert ledger.by_message(b"m%d" % message, name) is (right[0] if right else None)
            present = [
                each for each in [*waiting, *chain(*held.values())] if each.message_id == b"m%d" % message
            ]
            assert ledger.named(b"m%d" % message) is bool(present)
        for each in subscriptions[:2]:
            below = [copy for copy in waiting if copy.subscription is each and copy.order < len(every)]
            below = [copy for copy in below if copy not in replaced]
            assert ledger.latest(each, len(every)) is (below[-1] if below else None)
        remembered = len([each for each in waiting if each not in lost]) + sum(map(len, held.values()))
        assert ledger.full is (remembered >= 8)
        assert ledger.crowded is (remembered * 2 > 8)


def test_a_twin_that_a_transaction_gives_back() -> None:
    """Of one message on two subscriptions: what is held is passed over, and found again after ABORT."""
    for ack in (INDIVIDUAL, CUMULATIVE):
        ledger = Ledger(10)
        one, two = (ledger.noted(subscription(id, ack), b"m", None) for id in (b"1", b"2"))
        ledger.settled(one, b"t")
        assert ledger.by_message(b"m") is two
        assert ledger.by_message(b"m", b"1") is None
        ledger.aborted(b"t")
        assert ledger.by_message(b"m") is one
        assert ledger.by_message(b"m", b"1") is one
        ledger.settled(one, b"t")
        ledger.settled(two, b"u")
        assert ledger.by_message(b"m") is None
        ledger.committed(b"t")
        ledger.aborted(b"u")
        assert ledger.by_message(b"m") is two
