"""What is delivered and answered: beside `test_conversation`, what concerns several brokers at a time."""

from tests.pipeline.script import Script


def test_answers_while_one_of_several_brokers_is_gone() -> None:
    """The relay does not look which delivery is meant, so it stays, under its name."""
    script = Script()
    script.finds("b")
    script.subscribes()
    script.gets("t1")
    script.gets("t2", at="b")
    script.loses("a")
    script.says("ACK", ack="t1")
    script.recovers("a", "c")
    script.gets("t1", at="c")
    script.says("ACK", ack="t1")
    script.says("ACK", ack="relay-ack-3")
    script.says("ACK", ack="t2")
    assert script.outcomes() == ["returned", "acked", "acked"]
    assert [row[11] for row in script.conversation.outages()] == [2]


def test_one_name_from_two_brokers() -> None:
    """The client is given a token for the second, on older versions in place of its message-id."""
    script = Script("1.1", "1.1")
    script.finds("b", "1.1")
    script.subscribes()
    script.gets("m", trace="t1")
    script.gets("m", trace="t2", at="b")
    script.says("ACK", message_id="relay-ack-2", subscription="1")
    assert script.outcomes() == ["delivered", "acked"]
    script.says("ACK", message_id="m", subscription="1")
    assert script.outcomes() == ["acked", "acked"]


def test_a_subscription_that_was_never_seen_to_be_opened() -> None:
    """After UNSUBSCRIBE of the only one that asked for ACKs, the relay numbers no deliveries of its own version."""
    script = Script()
    script.subscribes()
    script.says("UNSUBSCRIBE", subscription="1")
    script.gets("t1")
    script.subscribes(id="2")
    script.gets("t2", subscription="2")
    script.says("ACK", ack="relay-ack-1")
    assert script.outcomes() == ["delivered", "acked"]
