"""What one input makes the broker write and do."""

from stomprelay.broker.output import Output
from stomprelay.session.effects import Close, Event, How, Note, Send
from tests.broker.parts import Slow, buffer


def test_everything_of_one_input_is_one_write() -> None:
    """In the order in which it was added, and in front of all other effects."""
    slow = Slow()
    one, two = slow.buffer(), slow.buffer()
    two.reply(b"other")
    one.deliver(b"one ", b"body ")
    slow.output.note(Event.ERROR, "text")
    one.reply(b"receipt ")
    slow.output.put(Close(one.leg, How.LINGER))
    one.deliver(b"two ", b"body")
    slow.output.flush(7.0)
    assert slow.output.drain() == [
        Send(two.leg, b"other"),
        Send(one.leg, b"one body receipt two body"),
        Note(Event.ERROR, "text"),
        Close(one.leg, How.LINGER),
    ]
    slow.output.flush(8.0)
    assert slow.output.drain() == []


def test_who_overran_is_ended_once() -> None:
    """At the end of the input, and whoever overran because of that as well."""
    output = Output()
    ended: list[str] = []

    def first() -> None:
        ended.append("first")
        output.overran(second)

    def second() -> None:
        ended.append("second")

    output.overran(first)
    output.overran(first)
    assert ended == []
    output.flush(0.0)
    output.flush(0.0)
    assert ended == ["first", "second"]


def test_one_turn_has_its_limit() -> None:
    """The message that reaches it is still added; then none is, until the next turn."""
    box = buffer()
    box.start_turn(8)
    box.deliver(b"1234", b"567")
    assert (box.ready, box.at_limit) == (True, False)
    box.deliver(b"8", b"9")
    assert (box.ready, box.at_limit) == (False, True)
    assert box.drain() == b"123456789"
    box.start_turn(8)
    assert (box.ready, box.at_limit) == (True, False)


def test_a_full_transport_gets_no_messages_but_replies() -> None:
    """What is replied meanwhile is counted, from the pause to the end of it."""
    box = buffer()
    box.reply(b"receipt")
    assert box.unread == 0
    box.paused()
    box.reply(b"receipt")
    box.start_turn(8)
    assert (box.ready, box.unread) == (False, 7)
    box.resumed()
    box.start_turn(8)
    assert (box.ready, box.unread) == (True, 0)
