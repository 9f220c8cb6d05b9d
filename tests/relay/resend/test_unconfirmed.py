"""What is not confirmed, and which receipts are owed: kept, confirmed, lost and sent again."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from stomprelay.relay.resend.unconfirmed import Kept, Unconfirmed
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.head import Limits
from stomprelay.wire.names import SEND
from stomprelay.wire.run import Rule, Run
from tests.passing import run_of

cumulative_or_not = pytest.mark.parametrize("cumulative", [False, True], ids=["each", "cumulative"])


def unconfirmed(most: int = 100, *, cumulative: bool = False) -> Unconfirmed:
    """One of a session called `s`."""
    kept = Unconfirmed(b"s", most)
    kept.connected(cumulative=cumulative)
    return kept


def said(body: bytes) -> bytes:
    """A SEND."""
    return b"SEND\n\n%b\0" % body


def run(*bodies: bytes) -> Run:
    """SENDs with these bodies, in a chunk that begins with something else."""
    decoder = Decoder(V1_2, frozenset({SEND}), Limits())
    decoder.feed(b"".join(map(said, (b"before", *bodies))))
    return run_of(Rule(SEND, parts=True), list(decoder.frames())[1:])


def of_run(kept: Unconfirmed, *bodies: bytes) -> list[bytes]:
    """Keep a run of these. Returns the receipts that it asks for."""
    receipts = kept.ask_each(len(bodies))
    kept.keep_run(run(*bodies), receipts)
    return receipts


def quiet(kept: Unconfirmed) -> bool:
    """Whether no answer is outstanding."""
    return kept.quiet


def wires(kept: Unconfirmed) -> list[bytes]:
    """What would have to be sent again. It is kept no longer."""
    return [each.wire for each in kept.take()]


# Receipts of our own


def test_our_receipts_are_all_different() -> None:
    """They name the session, and are known to be ours."""
    kept = unconfirmed()
    asked = [kept.ask() for _ in range(3)]
    assert asked == [b"s-receipt-1", b"s-receipt-2", b"s-receipt-3"]
    assert all(map(kept.is_ours, asked))
    assert kept.ask_each(2) == [b"s-receipt-4", b"s-receipt-5"]
    assert kept.ask() == b"s-receipt-6"


def test_a_name_with_a_percent_sign() -> None:
    """It is no format."""
    kept = Unconfirmed(b"%s%d", 100)
    assert [*kept.ask_each(2), kept.ask()] == [b"%%s%%d-receipt-%d" % number for number in (1, 2, 3)]


@pytest.mark.parametrize("receipt", [None, b"", b"1", b"t-receipt-1", b"s-receipt", b"xs-receipt-1"])
def test_receipts_of_others(receipt: bytes | None) -> None:
    """A client's own, another session's, and none."""
    assert not unconfirmed().is_ours(receipt)


# Keeping and confirming


@cumulative_or_not
def test_what_is_confirmed_is_not_kept(cumulative: bool) -> None:
    """One after the other, in order: both kinds of broker mean the same by it."""
    kept = unconfirmed(cumulative=cumulative)
    kept.keep(b"one", b"1")
    kept.keep(b"three", b"2")
    assert (len(kept), kept.size) == (2, 8)
    assert not kept.received(b"1")
    assert (len(kept), kept.size) == (1, 5)
    assert not kept.received(b"2")
    assert (len(kept), kept.size) == (0, 0)
    assert kept.safe


def test_out_of_order_each_for_itself() -> None:
    """RabbitMQ's way: a later one says nothing of an earlier one, and what is left keeps its place."""
    kept = unconfirmed()
    for number in (b"1", b"2", b"3", b"4"):
        kept.keep(number, number)
    kept.received(b"3")
    kept.received(b"1")
    assert wires(kept) == [b"2", b"4"]


def test_a_later_one_for_all_before_it() -> None:
    """ActiveMQ's way."""
    kept = unconfirmed(cumulative=True)
    for number in (b"1", b"2", b"3", b"4"):
        kept.keep(number, number)
    kept.received(b"3")
    assert kept.size == 1
    assert wires(kept) == [b"4"]


@cumulative_or_not
def test_a_receipt_that_is_not_waited_for(cumulative: bool) -> None:
    """It changes nothing of what is kept, and is not the client's."""
    kept = unconfirmed(cumulative=cumulative)
    kept.keep(b"one", b"1")
    assert not kept.received(b"another")
    assert len(kept) == 1


@cumulative_or_not
def test_a_receipt_id_that_is_used_twice(cumulative: bool) -> None:
    """The oldest of that name is meant."""
    kept = unconfirmed(cumulative=cumulative)
    kept.keep(b"old", b"r")
    kept.keep(b"new", b"r")
    kept.received(b"r")
    assert [each.wire for each in kept.take()] == [b"new"]
    kept.keep(b"new", b"r")
    kept.received(b"r")
    assert kept.safe


# Runs


def test_a_run_is_confirmed_frame_by_frame() -> None:
    """In order, in any portions: what is kept is told exactly at each point."""
    kept = unconfirmed(1000)
    first, second = of_run(kept, b"1", b"22", b"333"), of_run(kept, b"4444")
    sizes = [len(said(each)) for each in (b"1", b"22", b"333", b"4444")]
    assert (len(kept), kept.sends, kept.size) == (4, 4, sum(sizes))
    assert kept.received_all(first[:1])
    assert (len(kept), kept.sends, kept.size) == (3, 3, sum(sizes[1:]))
    assert kept.received_all([*first[1:], *second])
    assert (len(kept), kept.sends, kept.size) == (0, 0, 0)
    assert kept.safe


def test_what_is_left_of_a_run() -> None:
    """It is sent again frame by frame, in its place."""
    kept = unconfirmed(1000)
    kept.keep(b"before", b"x")
    first = of_run(kept, b"1", b"2", b"3", b"4")
    kept.keep(b"after", b"y")
    assert not kept.received(b"x")
    assert not kept.received(first[0])
    assert not kept.received(first[2])
    assert (len(kept), kept.sends, kept.size) == (3, 3, 2 * len(said(b"1")) + 5)
    assert kept.take() == [
        Kept(said(b"2"), first[1], True),
        Kept(said(b"4"), first[3], True),
        Kept(b"after", b"y", True),
    ]
    assert (len(kept), kept.sends, kept.size) == (0, 0, 0)


@pytest.mark.parametrize(
    "what", ["later ones", "one twice", "an unknown one", "one too many", "the client's", "an older one's"]
)
def test_receipts_that_are_not_just_the_next(what: str) -> None:
    """They are left to a look at each, and nothing was recorded."""
    kept = unconfirmed(1000)
    older = of_run(kept, b"a", b"b")
    kept.received(older[1])
    first, second = of_run(kept, b"1", b"2"), of_run(kept, b"3", b"4")
    kept.pass_unkept()
    receipts = {
        "later ones": [first[0], *second],
        "one twice": [first[0], *first],
        "an unknown one": [*first, b"s-receipt-99"],
        "one too many": [*first, *second, b"x"],
        "the client's": first,
        "an older one's": [older[0], *first],
    }[what]
    if what == "the client's":
        kept.owe(first[1])
    before = len(kept), kept.sends, kept.size
    assert not kept.received_all(receipts)
    assert (len(kept), kept.sends, kept.size) == before
    assert kept.unproved == 1
    given = [kept.received(receipt) for receipt in receipts]
    assert given == [what == "the client's" and receipt == first[1] for receipt in receipts]
    left = [wire for wire, receipt in zip((b"1", b"2"), first, strict=True) if receipt not in receipts]
    left += [wire for wire, receipt in zip((b"3", b"4"), second, strict=True) if receipt not in receipts]
    assert wires(kept) == [said(each) for each in ([] if older[0] in receipts else [b"a"]) + left]


def test_any_receipt_of_a_run_proves_what_was_sent_before_it() -> None:
    """As a single one does."""
    kept = unconfirmed(1000)
    receipts = of_run(kept, b"1", b"2")
    kept.pass_unkept(3)
    assert kept.received_all(receipts[:1])
    assert kept.unproved == 0


def test_a_frame_of_a_run_that_is_refused() -> None:
    """It is answered for good; the others are not."""
    kept = unconfirmed(1000)
    receipts = of_run(kept, b"1", b"2", b"3")
    kept.refused(receipts[0])
    assert kept.sends == 2
    kept.refused(receipts[2])
    assert wires(kept) == [said(b"2")]


def test_what_is_kept_costs_the_same_in_runs() -> None:
    """Whoever limits what a client may pile up need not know of them."""
    together, each = unconfirmed(1000), unconfirmed(1000)
    of_run(together, b"1", b"22", b"333")
    for body in (b"1", b"22", b"333"):
        each.keep(said(body), each.ask())
    assert together.cost == each.cost


def test_bounds() -> None:
    """Full at the bound, crowded above half of it."""
    kept = unconfirmed(10)
    kept.keep(b"12345", b"1")
    assert (kept.full, kept.crowded) == (False, False)
    kept.keep(b"6", b"2")
    assert (kept.full, kept.crowded) == (False, True)
    kept.keep(b"7890", b"3")
    assert (kept.full, kept.crowded) == (True, True)
    kept.received(b"1")
    assert (kept.full, kept.crowded) == (False, False)


def test_what_was_taken_is_kept_when_it_is_sent() -> None:
    """Not before, and it tells whether a broker may have it already."""
    kept = unconfirmed()
    kept.keep(b"one", b"1")
    kept.keep(b"two", b"2", sent=False)
    assert kept.take() == [Kept(b"one", b"1", True), Kept(b"two", b"2", False)]
    assert (len(kept), kept.size) == (0, 0)
    assert kept.take() == []
    kept.keep(b"one", b"3")
    kept.received(b"1")
    assert len(kept) == 1


# What is owed


def test_a_receipt_is_given_once() -> None:
    """However often its frame was sent, and however often a broker answers."""
    kept = unconfirmed()
    kept.owe(b"r")
    assert kept.owes(b"r")
    assert kept.received(b"r")
    assert not kept.owes(b"r")
    assert not kept.received(b"r")


def test_a_receipt_is_given_as_often_as_it_was_asked_for() -> None:
    """A client may use one receipt id for all its frames."""
    kept = unconfirmed()
    kept.owe(b"r")
    kept.owe(b"r")
    assert [kept.received(b"r") for _ in range(3)] == [True, True, False]


def test_an_error_that_names_a_receipt() -> None:
    """What asked for it is answered for good: neither kept nor owed."""
    kept = unconfirmed()
    kept.keep(b"one", b"1")
    kept.keep(b"two", b"2")
    kept.owe(b"2")
    kept.refused(b"2")
    assert not kept.owes(b"2")
    assert wires(kept) == [b"one"]
    kept.refused(b"unknown")


@pytest.mark.parametrize("what", ["kept", "owed", "committing"])
def test_quiet(what: str) -> None:
    """Nothing may be outstanding; an owed receipt alone is no danger to anything."""
    kept = unconfirmed()
    assert quiet(kept)
    match what:
        case "kept":
            kept.keep(b"x", b"1")
        case "owed":
            kept.owe(b"1")
        case _:
            kept.commit(b"1", ours=True)
    assert not quiet(kept)
    assert kept.safe is (what == "owed")
    kept.received(b"1")
    assert quiet(kept)


# What a loss means


def test_receipts_that_nothing_asks_for_again() -> None:
    """They are given in the broker's place, each as often as it is owed, and not by the next broker as well."""
    kept = unconfirmed()
    for receipt in (b"send", b"subscribe", b"unsubscribe", b"ack", b"ack", b"commit"):
        kept.owe(receipt)
    kept.keep(b"SEND", b"send")
    kept.commit(b"commit", ours=False)
    assert sorted(kept.lost([b"subscribe"])) == [b"ack", b"ack", b"unsubscribe"]
    assert kept.owes(b"send")
    assert kept.owes(b"subscribe")
    assert kept.lost([b"subscribe"]) == []
    assert kept.received(b"send")
    assert not kept.received(b"ack")


def test_one_receipt_id_for_what_is_sent_again_and_what_is_not() -> None:
    """As many are given as the next broker will not give."""
    kept = unconfirmed()
    for _ in range(3):
        kept.owe(b"r")
    kept.keep(b"SEND", b"r")
    assert kept.lost([]) == [b"r", b"r"]
    assert kept.received(b"r")


def test_receipts_that_are_not_owed_any_more() -> None:
    """What the next broker is asked for again in vain does not count."""
    kept = unconfirmed()
    kept.owe(b"a")
    assert kept.lost([b"a", b"b", b"b"]) == []
    assert kept.owes(b"a")


@pytest.mark.parametrize("ours", [False, True], ids=["client", "ours"])
def test_a_commit_that_was_not_answered(ours: bool) -> None:
    """It is in doubt, and returned once, as the receipt that its client asked for, if it did."""
    kept = unconfirmed()
    assert kept.take_doubts() == []
    kept.commit(b"c", ours=ours)
    assert kept.take_doubts() == [None if ours else b"c"]
    assert kept.take_doubts() == []


def test_a_commit_that_was_answered() -> None:
    """By a RECEIPT or an ERROR: no doubt is left."""
    kept = unconfirmed()
    kept.commit(b"c", ours=False)
    kept.commit(b"d", ours=True)
    kept.received(b"c")
    kept.refused(b"d")
    assert kept.take_doubts() == []


def test_any_receipt_proves_what_was_sent_before_it() -> None:
    """RECEIPT is cumulative as far as receiving goes; an ERROR is not."""
    kept = unconfirmed()
    for _ in range(3):
        kept.pass_unkept()
    kept.refused(b"x")
    assert kept.unproved == 3
    kept.received(b"whatever")
    assert kept.unproved == 0


def test_a_loss_ends_what_was_unproved() -> None:
    """The next broker was sent none of it; whoever counts it reads `unproved` before."""
    kept = unconfirmed()
    kept.pass_unkept()
    assert kept.lost([]) == []
    assert kept.unproved == 0


def test_receipts_in_a_brokers_place() -> None:
    """Those that the relay gives are taken once, in order: those given at once, then those of a loss."""
    kept = unconfirmed()
    kept.give(b"a")
    kept.owe(b"b")
    kept.lost([])
    assert kept.take_given() == [b"a", b"b"]
    assert kept.take_given() == []


# All together


class Account(RuleBasedStateMachine):
    """What is unconfirmed, beside the simplest account of it that there is."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = unconfirmed(50)
        self.model: list[tuple[bytes, bytes]] = []
        self.owed: list[bytes] = []
        self.number = 0

    @rule(name=st.sampled_from([b"r", b"s", None]), size=st.integers(1, 20), owed=st.booleans())
    def keeps(self, name: bytes | None, size: int, owed: bool) -> None:
        receipt = self.kept.ask() if name is None else name
        self.number += 1
        wire = b"%d" % self.number * size
        self.kept.keep(wire, receipt)
        self.model.append((receipt, wire))
        if owed and name is not None:
            self.kept.owe(name)
            self.owed.append(name)

    @rule(count=st.integers(1, 4))
    def keeps_a_run(self, count: int) -> None:
        bodies = [b"%d" % (self.number + at) for at in range(count)]
        self.number += count
        if self.kept.cumulative:
            return  # there a run is one thing
        receipts = of_run(self.kept, *bodies)
        self.model += zip(receipts, map(said, bodies), strict=True)

    @rule(data=st.data())
    def confirms_some(self, data: st.DataObject) -> None:
        names = [receipt for receipt, _ in self.model] + [b"unknown"]
        start = data.draw(st.integers(0, len(names) - 1))
        receipts = names[start : start + data.draw(st.integers(1, 6))]
        if self.kept.received_all(receipts):
            assert not set(receipts) & {*self.owed, b"unknown"}
            for receipt in receipts:
                self._forget(receipt)

    @rule(data=st.data())
    def confirms(self, data: st.DataObject) -> None:
        names = [receipt for receipt, _ in self.model] + [b"unknown"]
        receipt = data.draw(st.sampled_from(names))
        given = self.kept.received(receipt)
        assert given is (receipt in self.owed)
        if given:
            self.owed.remove(receipt)
        self._forget(receipt)

    def _forget(self, receipt: bytes) -> None:
        names = [name for name, _ in self.model]
        if receipt in names:
            at = names.index(receipt)
            del self.model[0 if self.kept.cumulative else at : at + 1]

    @rule(cumulative=st.booleans())
    def goes_to_another_broker(self, cumulative: bool) -> None:
        again = {receipt for receipt, _ in self.model}
        given = self.kept.lost([])
        for receipt in given:
            self.owed.remove(receipt)
        assert all(self.owed.count(each) <= [r for r, _ in self.model].count(each) for each in again)
        taken = self.kept.take()
        assert [(each.receipt, each.wire) for each in taken] == self.model
        self.kept.connected(cumulative=cumulative)
        for each in taken:
            self.kept.keep(each.wire, each.receipt)

    @invariant()
    def the_accounts_agree(self) -> None:
        assert len(self.kept) == self.kept.sends == len(self.model)
        assert self.kept.safe is (not self.model)
        assert self.kept.size == sum(len(wire) for _, wire in self.model)
        assert self.kept.full is (self.kept.size >= 50)
        assert self.kept.crowded is (self.kept.size > 25)
        for name in (b"r", b"s"):
            assert self.kept.owes(name) is (name in self.owed)


def test_any_course_of_things() -> None:
    """Kept, confirmed in any order, lost and sent again: nothing is forgotten, nothing stays."""
    run_state_machine_as_test(Account)
