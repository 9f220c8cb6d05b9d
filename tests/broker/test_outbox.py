"""What waits to be written to one leg."""

from stomprelay.broker.output import Outbox
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side
from stomprelay.wire.limits import Limits


def outbox(touched: list[Outbox] | None = None) -> Outbox:
    """An outbox of a fresh leg."""
    return Outbox(Leg(Side.DOWNSTREAM, Limits()), [] if touched is None else touched)


def test_everything_of_one_input_is_one_write() -> None:
    """In the order in which it was added; the outbox is listed once for it."""
    touched: list[Outbox] = []
    box = outbox(touched)
    box.deliver(b"one ", b"body ")
    box.reply(b"receipt ")
    box.deliver(b"two ", b"body")
    assert touched == [box]
    assert box.drained() == b"one body receipt two body"
    assert box.drained() == b""


def test_one_turn_has_its_measure() -> None:
    """The message that reaches it is still added; then none is, until the next turn."""
    box = outbox()
    box.began(8)
    box.deliver(b"1234", b"567")
    assert (box.ready, box.sated) == (True, False)
    box.deliver(b"8", b"9")
    assert (box.ready, box.sated) == (False, True)
    assert box.drained() == b"123456789"
    box.began(8)
    assert (box.ready, box.sated) == (True, False)


def test_a_full_transport_gets_no_messages_but_replies() -> None:
    """What is replied meanwhile is counted, from the pause to the end of it."""
    box = outbox()
    box.reply(b"receipt")
    assert box.unread == 0
    box.paused()
    box.reply(b"receipt")
    box.began(8)
    assert (box.ready, box.unread) == (False, 7)
    box.resumed()
    box.began(8)
    assert (box.ready, box.unread) == (True, 0)


def test_a_closed_leg_gets_no_messages() -> None:
    """Whatever the transport says afterwards."""
    box = outbox()
    box.closed()
    box.resumed()
    box.began(8)
    assert not box.ready
