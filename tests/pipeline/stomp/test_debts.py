"""Deliveries whose ACK waits for Spark."""

from stomprelay.pipeline.stomp.receiver import PendingAck, PendingAcks


def test_what_is_committed_is_due_once() -> None:
    """The last delivery below the committed sequence, by subscription; it stands for those before it."""
    pending = PendingAcks(10)
    for number in range(4):
        pending.owe(b"0" if number % 2 else b"1", PendingAck(number, b"a%d" % number))
    assert len(pending) == 4
    assert pending.due(0) == {}
    assert pending.due(3) == {b"1": b"a2", b"0": b"a1"}
    assert pending.due(3) == {}
    assert len(pending) == 1


def test_nothing_is_due_behind_what_is_not_committed() -> None:
    """An ACK is cumulative: a message that came again must not take along one that Spark does not have."""
    pending = PendingAcks(10)
    for sequence, ack in ((7, b"x"), (2, b"again")):
        pending.owe(b"0", PendingAck(sequence, ack))
    assert pending.due(5) == {}
    assert pending.due(8) == {b"0": b"again"}


def test_a_message_is_known_by_its_id_and_its_body() -> None:
    """A broker that gives an id twice does not cost a message."""
    pending = PendingAcks(10)
    pending.remember(3, b"m", b"body")
    assert pending.known(b"m", b"body") == 3
    assert pending.known(b"m", b"other") is None
    assert pending.known(b"n", b"body") is None


def test_what_cannot_come_again_is_forgotten() -> None:
    """As many messages as may be under way are remembered below the committed one."""
    pending = PendingAcks(2)
    for sequence in range(6):
        pending.remember(sequence, b"m%d" % sequence, b"")
    pending.due(5)
    assert [pending.known(b"m%d" % sequence, b"") for sequence in range(6)] == [None, None, None, 3, 4, 5]
