"""One subscription: how its messages are headed, and which of them an ACK is about."""

import pytest

from stomprelay.broker.message import Head, Message
from stomprelay.broker.queue import Consumer, Entry
from stomprelay.session.subscriptions import AUTO, CUMULATIVE, INDIVIDUAL
from stomprelay.wire.dialect import DIALECTS, V1_0, V1_1, V1_2, Dialect
from tests.broker.test_outbox import outbox

dialects = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda dialect: dialect.version.decode())


def consumer(
    dialect: Dialect = V1_2,
    mode: bytes = AUTO,
    id: bytes | None = b"s",
    destination: bytes = b"/queue/a",
    prefetch: int = 3,
) -> Consumer:
    """A consumer with an outbox of its own."""
    return Consumer(b"7", id, destination, mode, prefetch, dialect, outbox())


def entry(number: int) -> Entry:
    """An entry of that order, of a message with that number for id and body."""
    text = b"%d" % number
    return Entry(Message(b"m-" + text, Head(b"/queue/a", b"foo:bar\n\n", []), text + b"\0"), number)


@pytest.mark.parametrize(
    ("dialect", "mode", "id", "expected"),
    [
        (V1_0, AUTO, None, b"MESSAGE\ndestination:/queue/a\nmessage-id:m-1\nfoo:bar\n\n1\0"),
        (V1_0, CUMULATIVE, None, b"MESSAGE\ndestination:/queue/a\nmessage-id:m-1\nfoo:bar\n\n1\0"),
        (V1_0, AUTO, b"s", b"MESSAGE\nsubscription:s\ndestination:/queue/a\nmessage-id:m-1\nfoo:bar\n\n1\0"),
        (V1_1, AUTO, b"s", b"MESSAGE\nsubscription:s\ndestination:/queue/a\nmessage-id:m-1\nfoo:bar\n\n1\0"),
        (
            V1_1,
            INDIVIDUAL,
            b"s",
            b"MESSAGE\nsubscription:s\ndestination:/queue/a\nmessage-id:m-1\nfoo:bar\n\n1\0",
        ),
        (V1_2, AUTO, b"s", b"MESSAGE\nsubscription:s\ndestination:/queue/a\nmessage-id:m-1\nfoo:bar\n\n1\0"),
        (
            V1_2,
            CUMULATIVE,
            b"s",
            b"MESSAGE\nsubscription:s\ndestination:/queue/a\nmessage-id:m-1\nack:7-m-1\nfoo:bar\n\n1\0",
        ),
    ],
)
def test_a_message_is_headed_for_its_consumer(
    dialect: Dialect, mode: bytes, id: bytes | None, expected: bytes
) -> None:
    """The subscription where it has a name, the `ack` header where the version and the mode want one."""
    one = consumer(dialect, mode, id)
    one.write(entry(1).message, False)
    assert one.outbox.drained() == expected


@dialects
def test_a_second_delivery_says_so(dialect: Dialect) -> None:
    """`redelivered` stands before the sender's own headers."""
    one = consumer(dialect)
    one.write(entry(1).message, True)
    assert b"\nmessage-id:m-1\nredelivered:true\nfoo:bar\n\n" in one.outbox.drained()


def test_its_own_words_come_back_in_its_own_spelling() -> None:
    """The id and the destination are escaped as the consumer escapes."""
    one = consumer(V1_2, id=b"a:b", destination=b"/queue/\n\r")
    one.write(entry(1).message, False)
    assert one.outbox.drained().startswith(b"MESSAGE\nsubscription:a\\cb\ndestination:/queue/\\n\\r\n")
    old = consumer(V1_0, id=b"a:b")
    old.write(entry(1).message, False)
    assert old.outbox.drained().startswith(b"MESSAGE\nsubscription:a:b\n")


def test_the_window_bounds_what_awaits_an_ack() -> None:
    """And nothing else does, while the outbox is ready."""
    one = consumer(mode=INDIVIDUAL, prefetch=2)
    able = [one.able]
    for number in (1, 2):
        one.take(entry(number))
        able.append(one.able)
    one.named(b"m-1")
    able.append(one.able)
    one.outbox.paused()
    able.append(one.able)
    assert able == [True, True, False, True, False]


def test_a_cumulative_ack_takes_all_before_it() -> None:
    """In the order of delivery, which need not be that of arrival."""
    one = consumer(mode=CUMULATIVE)
    for number in (5, 2, 9):
        one.take(entry(number))
    assert [each.order for each in one.named(b"m-2")] == [5, 2]
    assert one.named(b"m-5") == []
    assert [each.order for each in one.named(b"m-9")] == [9]


def test_an_individual_ack_takes_no_other() -> None:
    """Each only once."""
    one = consumer(mode=INDIVIDUAL)
    for number in (1, 2, 3):
        one.take(entry(number))
    assert [each.order for each in one.named(b"m-2")] == [2]
    assert one.named(b"m-2") == []
    assert list(one.unsettled) == [b"m-1", b"m-3"]


def test_what_comes_back_comes_back_in_its_place() -> None:
    """So a cumulative ACK after an ABORT means what it meant before."""
    one = consumer(mode=CUMULATIVE)
    for number in (1, 2, 3):
        one.take(entry(number))
    taken = one.named(b"m-2")
    one.take(entry(4))
    one.restore(taken)
    assert list(one.unsettled) == [b"m-1", b"m-2", b"m-3", b"m-4"]
