"""What is not confirmed, and which receipts are owed: kept, confirmed, lost and sent again."""

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


def test_a_name_that_is_used_twice() -> None:
    """Each RECEIPT confirms the oldest frame that asked for it."""
    kept = unconfirmed(50)
    for wire, receipt in ((b"1", b"r"), (b"2", b"s"), (b"3", b"r")):
        kept.keep(wire, receipt)
    for receipt in (b"s", b"r"):
        kept.received(receipt)
    assert (kept.sends, kept.size) == (1, 1)
    kept.received(b"r")
    assert kept.safe


def test_what_is_overdue() -> None:
    """Entries that were there at the last mark, one by one or in runs, and are not confirmed; no later ones."""
    kept = unconfirmed()
    receipts = of_run(kept, b"1", b"2")
    kept.keep(said(b"3"), b"r3")
    kept.mark()
    more = of_run(kept, b"4")
    kept.received(receipts[0])
    assert [each.wire for each in kept.overdue()] == [said(b"2"), said(b"3")]
    for each in kept.overdue():
        kept.refused(each.receipt)
    assert kept.overdue() == []
    assert kept.received_all(more)
    assert kept.safe
    assert kept.size == 0


def test_what_the_next_broker_is_sent_is_not_overdue() -> None:
    """What was lost with a broker has its own time at the next one."""
    kept = unconfirmed()
    kept.keep(said(b"1"), b"r1")
    kept.mark()
    kept.lost(())
    for each in kept.take():
        kept.keep(each.wire, each.receipt)
    assert kept.overdue() == []
