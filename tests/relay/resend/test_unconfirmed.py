"""What is not confirmed, and which receipts are owed: kept, confirmed, lost and sent again."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from stomprelay.relay.resend.unconfirmed import Unconfirmed
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import SEND
from stomprelay.wire.run import Rule, Run
from tests.passing import run_of


def unconfirmed(most: int = 100, *, cumulative: bool = False) -> Unconfirmed:
    """One of a session called `s`."""
    kept = Unconfirmed(b"s", most)
    kept.cumulative = cumulative
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


def wires(kept: Unconfirmed) -> list[bytes]:
    """What would have to be sent again. It is kept no longer."""
    return [each.wire for each in kept.take()]


def test_a_run_is_confirmed_frame_by_frame() -> None:
    """In order, in any portions: what is kept is told exactly at each point."""
    kept = unconfirmed(1000)
    first, second = of_run(kept, b"1", b"22", b"333"), of_run(kept, b"4444")
    sizes = [len(said(each)) for each in (b"1", b"22", b"333", b"4444")]
    assert (kept.sends, kept.size) == (4, sum(sizes))
    assert kept.received_all(first[:1])
    assert (kept.sends, kept.size) == (3, sum(sizes[1:]))
    assert kept.received_all([*first[1:], *second])
    assert (kept.sends, kept.size) == (0, 0)
    assert kept.safe


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


def test_receipts_that_nothing_asks_for_again() -> None:
    """They are given in the broker's place, each as often as it is owed, and not by the next broker as well."""
    kept = unconfirmed()
    for receipt in (b"send", b"subscribe", b"unsubscribe", b"ack", b"ack", b"commit"):
        kept.owe(receipt)
    kept.keep(b"SEND", b"send")
    kept.commit(b"commit", ours=False)
    assert kept.lost([b"subscribe"]) == [b"commit"]
    assert sorted(kept.take_given()) == [b"ack", b"ack", b"unsubscribe"]
    kept.refused(b"commit")
    assert kept.owes(b"send")
    assert kept.owes(b"subscribe")
    assert kept.lost([b"subscribe"]) == kept.take_given() == []
    assert kept.received(b"send")
    assert not kept.received(b"ack")


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
        self.kept.lost([])
        for receipt in self.kept.take_given():
            self.owed.remove(receipt)
        assert all(self.owed.count(each) <= [r for r, _ in self.model].count(each) for each in again)
        taken = self.kept.take()
        assert [(each.receipt, each.wire) for each in taken] == self.model
        self.kept.cumulative = cumulative
        for each in taken:
            self.kept.keep(each.wire, each.receipt)

    @invariant()
    def the_accounts_agree(self) -> None:
        assert self.kept.sends == len(self.model)
        assert self.kept.safe is (not self.model)
        assert self.kept.size == sum(len(wire) for _, wire in self.model)
        for name in (b"r", b"s"):
            assert self.kept.owes(name) is (name in self.owed)


def test_any_course_of_things() -> None:
    """Kept, confirmed in any order, lost and sent again: nothing is forgotten, nothing stays."""
    run_state_machine_as_test(Account)
