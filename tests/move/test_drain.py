"""The drain of queues as a script: what two brokers say, and what each of them is told."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from stomprelay.move.consumer import PATIENCE, WINDOW, Connect, End, HangUp, Request, Write
from stomprelay.move.drain import HELD, Drain
from stomprelay.relay.model.group import Group, Reconnect
from stomprelay.relay.model.profile import ACTIVEMQ, ARTEMIS, GENERIC, RABBITMQ, Profile
from stomprelay.relay.model.upstream import Upstream

OLD, NEW = End.OLD, End.NEW
EPOCH = 1_000_000.0
"""The time 0 of the scripts, in seconds since 1970."""


class Script:
    """A drain of `/queue/a` and `/queue/b` at a time that the test sets."""

    def __init__(
        self, old: Profile = GENERIC, new: Profile = GENERIC, *, tries: bool = True, **options: Any
    ) -> None:
        self.now = 0.0
        self.wake = 0.0
        self.ends: list[str] = []
        self.held: list[bool] = []
        self.opening: set[End] = set()
        self.written: dict[End, list[bytes]] = {OLD: [], NEW: []}
        group = Group("", (), Reconnect(initial_delay=1.0, jitter=0) if tries else None)
        self.drain = Drain(
            ["/queue/a", "/queue/b"],
            {each: Upstream(each.name, (group,)) for each in End},
            {OLD: old, NEW: new}.__getitem__,
            epoch=EPOCH,
            **options,
        )

    def did(self, requests: Sequence[Request]) -> None:
        """Note what the drain asks for."""
        for each in requests:
            match each:
                case Connect(end):
                    self.ends.append(f"open {end.name}")
                    self.opening.add(end)
                case HangUp(end):
                    self.ends.append(f"close {end.name}")
                case Write(end, data):
                    self.written[end] += re.findall(rb"[A-Z]+\n.*?\n\n[^\0]*\0", data, re.DOTALL)
        self.wake = self.drain.wakes_at
        if self.drain.holding is not bool(self.held and self.held[-1]):
            self.held.append(self.drain.holding)
        if self.drain.done:
            self.ends.append("done")

    def says(self, end: End, *frames: bytes) -> None:
        """A broker says something."""
        self.did(self.drain.received(end, b"".join(frames), self.now))

    def connects(self, end: End) -> None:
        """A connection is opened, and the broker accepts."""
        self.opening.remove(end)
        self.did(self.drain.opened(end, self.now))
        self.says(end, b"CONNECTED\nversion:1.2\n\n\0")

    def loses(self, end: End, reason: str = "it left") -> None:
        """A connection ends."""
        self.opening.discard(end)
        self.did(self.drain.lost(end, reason, self.now))

    def sleeps(self) -> None:
        """Nothing happens until the drain wakes."""
        self.now = max(self.now, self.wake)
        self.did(self.drain.woke(self.now))

    def told(self, end: End) -> list[bytes]:
        """Take what a broker was told since the last look."""
        told, self.written[end] = self.written[end], []
        return told

    def sent(self) -> list[bytes]:
        """Take the bodies of the SENDs since the last look."""
        return [each.rpartition(b"\n\n")[2][:-1] for each in self.told(NEW) if each.startswith(b"SEND\n")]

    def acked(self) -> list[bytes]:
        """Take the names of the deliveries that were acknowledged since the last look."""
        return [ack for each in self.told(OLD) for ack in re.findall(rb"^ACK\nid:(.*)\n", each)]

    def confirms(self, *numbers: int) -> None:
        """NEW sends the RECEIPTs of these SENDs, counted from 1."""
        self.says(NEW, *[b"RECEIPT\nreceipt-id:%d\n\n\0" % each for each in numbers])

    def begins(self) -> "Script":
        """Connect both ends and subscribe."""
        self.did(self.drain.begun(self.now))
        self.connects(NEW)
        self.subscribes()
        self.told(NEW)
        self.told(OLD)
        return self

    def subscribes(self) -> None:
        """OLD accepts, and confirms the subscriptions."""
        self.connects(OLD)
        self.says(OLD, *[b"RECEIPT\nreceipt-id:%d\n\n\0" % each for each in range(2)])

    def ends_well(self) -> None:
        """Nothing comes any more, and OLD confirms DISCONNECT."""
        self.sleeps()
        assert self.told(OLD)[-1] == b"DISCONNECT\nreceipt:bye\n\n\0"
        self.says(OLD, b"RECEIPT\nreceipt-id:bye\n\n\0")
        assert self.ends[-1] == "done"


def message(number: int, queue: int = 0, more: bytes = b"", body: bytes | None = None) -> bytes:
    """A MESSAGE of OLD. Its body is its number."""
    content = b"%d" % number if body is None else body
    head = b"subscription:%d\nmessage-id:m-%d\nack:a-%d\ndestination:/queue/x\n" % (queue, number, number)
    return b"MESSAGE\n%b%b\n%b\0" % (head, more, content)


ALONE = "(when nothing else was under way, too)"
ERROR = b"ERROR\nmessage:no\n%b\nwhy\0"


def test_new_is_connected_before_anything_is_taken() -> None:
    """OLD is opened when NEW has accepted, and gets a subscription for each queue."""
    script = Script(ACTIVEMQ)
    script.did(script.drain.begun(0.0))
    assert script.ends == ["open NEW"]
    script.connects(NEW)
    assert script.ends == ["open NEW", "open OLD"]
    script.connects(OLD)
    connect, *subscribes = script.told(OLD)
    assert connect.startswith(b"CONNECT\naccept-version:1.2\n")
    assert [re.findall(rb"destination:(.*)\nack:(.*)\n", each) for each in subscribes] == [
        [(b"/queue/a", b"client-individual")],
        [(b"/queue/b", b"client-individual")],
    ]


@pytest.mark.parametrize(
    ("product", "header"),
    [
        (ACTIVEMQ, b"activemq.prefetchSize:100"),
        (RABBITMQ, b"prefetch-count:100"),
        (ARTEMIS, b"subscription-type:ANYCAST"),
        (ARTEMIS, b"consumer-window-size:262144"),
    ],
)
def test_old_delivers_a_few_at_a_time(product: Profile, header: bytes) -> None:
    """In each product's words, because other consumers of the queue want some, too."""
    script = Script(product)
    script.did(script.drain.begun(0.0))
    script.connects(NEW)
    script.connects(OLD)
    assert all(header in each for each in script.told(OLD)[1:])


def test_a_message_is_acknowledged_when_new_has_confirmed_it() -> None:
    """Not before, and in the order of the RECEIPTs; several are under way."""
    script = Script().begins()
    script.says(OLD, message(1), message(2), message(3, queue=1))
    assert script.sent() == [b"1", b"2", b"3"]
    assert script.acked() == []
    script.confirms(1, 2)
    assert script.acked() == [b"a-1", b"a-2"]
    script.confirms(3)
    assert script.acked() == [b"a-3"]
    script.ends_well()
    assert script.drain.reason == ""
    assert [(each.name, each.moved, each.bytes) for each in script.drain.queues] == [
        ("/queue/a", 2, 2),
        ("/queue/b", 1, 1),
    ]


def test_the_end_waits_until_nothing_came_for_a_while() -> None:
    """A message begins the time anew, and nothing ends while a message is under way."""
    script = Script(idle=5.0).begins()
    assert script.wake == 5.0
    script.now = 4.0
    script.says(OLD, message(1))
    script.now = 20.0
    script.confirms(1)
    assert script.wake == 25.0
    script.ends_well()


@pytest.mark.parametrize("more", [b"content-length:5\n", b""])
def test_a_body_is_copied_byte_for_byte(more: bytes) -> None:
    """With `content-length` where it came with one: for JMS it decides between bytes and text."""
    script = Script().begins()
    script.did(script.drain.received(OLD, message(1, more=more, body=b"a\nb\xffc"), 0.0))
    (sent,) = script.told(NEW)
    assert sent.endswith(b"\n\na\nb\xffc\0")
    assert (b"\ncontent-length:5\n" in sent) is bool(more)


def test_headers_of_the_sender_are_copied() -> None:
    """Those of the broker and of the delivery are not; the copy has the message's first name."""
    script = Script().begins()
    theirs = b"priority:7\npersistent:true\ncorrelation-id:c\\c1\nx:1\nx:2\n"
    script.says(OLD, message(1, more=theirs + b"redelivered:false\nreceipt:r-1\nJMSXUserID:u\n"))
    (sent,) = script.told(NEW)
    head = b"SEND\nreceipt:1\ndestination:/queue/a\nrelay-drained:m-1\n"
    assert sent == head + theirs + b"\n1\0"


def test_a_copy_of_a_copy_keeps_the_first_name() -> None:
    """A message that is drained twice has the name that it had at first, and keeps its mark."""
    script = Script().begins()
    script.says(OLD, message(1, more=b"relay-drained:first\nrelay-resent:true\n"))
    (sent,) = script.told(NEW)
    assert sent.count(b"relay-drained") == sent.count(b"relay-resent") == 1
    assert b"\nrelay-resent:true\nrelay-drained:first\n" in sent


def test_artemis_is_told_that_it_is_a_queue() -> None:
    """Otherwise it drops what nobody is subscribed to, and confirms it."""
    script = Script(ARTEMIS, ARTEMIS).begins()
    script.says(OLD, message(1, more=b"destination-type:MULTICAST\n"))
    (sent,) = script.told(NEW)
    assert re.findall(rb"destination-type:(.*)", sent) == [b"ANYCAST"]


@pytest.mark.parametrize(
    ("old", "new", "said", "told"),
    [
        (ACTIVEMQ, ARTEMIS, b"expires:1000009000", {b"expires": b"1000009000"}),
        (ACTIVEMQ, RABBITMQ, b"expires:1000009000", {b"expiration": b"9000"}),
        (ACTIVEMQ, RABBITMQ, b"expires:999999000", {b"expiration": b"0"}),
        (ACTIVEMQ, RABBITMQ, b"expires:0", {}),
        (ACTIVEMQ, RABBITMQ, b"expires:soon", {}),
        (ARTEMIS, RABBITMQ, b"expiration:5", {}),
        (RABBITMQ, ACTIVEMQ, b"expiration:9000", {b"expires": b"1000009000"}),
        (RABBITMQ, ARTEMIS, b"expires:5", {}),
        (RABBITMQ, RABBITMQ, b"expiration:9000", {b"expiration": b"9000"}),
        (GENERIC, RABBITMQ, b"expires:5", {b"expires": b"5"}),
    ],
)
def test_a_life_ends_when_it_would_have_ended(
    old: Profile, new: Profile, said: bytes, told: dict[bytes, bytes]
) -> None:
    """Absolute for ActiveMQ and Artemis, the rest of it for RabbitMQ; what meant nothing at OLD ends no life at NEW."""
    script = Script(old, new).begins()
    script.says(OLD, message(1, more=said + b"\n"))
    (sent,) = script.told(NEW)
    assert dict(re.findall(rb"\n(expir\w+):(.*)", sent)) == told


def test_a_reply_to_a_temporary_queue_is_left_out() -> None:
    """NEW does not have that queue, and RabbitMQ would make one for the drain. It is counted."""
    script = Script(ACTIVEMQ, RABBITMQ).begins()
    script.says(
        OLD, message(1, more=b"reply-to:/remote-temp-queue/ID\\c1\n"), message(2, more=b"reply-to:/queue/r\n")
    )
    first, second = script.told(NEW)
    assert b"reply-to" not in first
    assert b"\nreply-to:/queue/r\n" in second
    script.confirms(1, 2)
    assert script.drain.queues[0].repliless == 1


def test_a_copy_of_a_shadow_is_removed() -> None:
    """Its original went to another broker: NEW would have it twice. It is acknowledged, and counted."""
    script = Script().begins()
    script.says(
        OLD, message(1, more=b"relay-copy:s1-shadow-3-00000000\n"), message(2, more=b"relay-copy:s1-4\n")
    )
    assert script.sent() == [b"2"]
    assert script.acked() == [b"a-1"]
    assert script.drain.queues[0].shadows == 1


def test_what_was_delivered_before_is_marked() -> None:
    """An earlier run may have given it to NEW, and may have been killed before the ACK."""
    script = Script().begins()
    script.says(OLD, message(1, more=b"redelivered:true\n"), message(2, more=b"redelivered:false\n"))
    assert [b"relay-resent:true" in each for each in script.told(NEW)] == [True, False]
    script.confirms(1, 2)
    assert script.drain.queues[0].marked == 1


def test_what_artemis_does_not_mark_is_marked() -> None:
    """Of what a consumer had, Artemis marks only the first: NEW may have as much of the same queue behind it."""
    script = Script(ARTEMIS).begins()
    large = b"x" * (WINDOW - 500)
    script.says(OLD, message(1, body=large), message(2, more=b"redelivered:true\n", body=large))
    script.says(OLD, message(3, queue=1), message(4, body=b"x" * 500), message(5))
    assert [b"relay-resent:true" in each for each in script.told(NEW)] == [False, True, False, True, False]


def test_what_new_did_not_confirm_is_sent_again_one_by_one() -> None:
    """Marked, in the old order, each after the RECEIPT of the one before; then several at a time again."""
    script = Script().begins()
    script.says(OLD, message(1), message(2))
    assert script.sent() == [b"1", b"2"]
    script.loses(NEW)
    script.says(OLD, message(3), message(4))
    script.sleeps()
    assert script.ends[-1] == "open NEW"
    script.connects(NEW)
    connect, first = script.told(NEW)
    assert connect.startswith(b"CONNECT\n")
    assert b"\nrelay-resent:true\n" in first
    assert first.endswith(b"\n1\0")
    script.confirms(3)
    (second,) = script.told(NEW)
    assert b"\nrelay-resent:true\n" in second
    script.confirms(4)
    assert script.acked() == [b"a-1", b"a-2"]
    assert [b"relay-resent" in each for each in script.told(NEW)] == [False, False]


def test_what_old_delivers_again_after_a_loss_is_marked() -> None:
    """It may be what NEW has already: the ACK may not have arrived. What OLD delivers for the first time is not."""
    script = Script().begins()
    script.says(OLD, message(1), message(2))
    script.confirms(1)
    assert script.acked() == [b"a-1"]
    script.loses(OLD)
    script.confirms(2)
    assert script.acked() == []
    script.sleeps()
    script.subscribes()
    script.told(NEW)
    script.says(OLD, message(1), message(2), message(3))
    assert [b"relay-resent" in each for each in script.told(NEW)] == [True, True, False]
    script.confirms(3, 4, 5)
    assert script.acked() == [b"a-1", b"a-2", b"a-3"]
    script.ends_well()


def test_a_broker_at_a_plain_address_is_not_tried_again() -> None:
    """The drain ends, and says why."""
    script = Script(tries=False).begins()
    script.says(OLD, message(1))
    script.loses(NEW, "connection reset")
    assert script.told(OLD)[-1] == b"DISCONNECT\nreceipt:bye\n\n\0"
    script.says(OLD, b"RECEIPT\nreceipt-id:bye\n\n\0")
    assert script.drain.reason == "the new broker was lost: connection reset"
    assert (script.ends[-1], script.drain.unconfirmed) == ("done", 1)


def test_patience_ends() -> None:
    """A broker that does not come back is given up after a minute."""
    script = Script().begins()
    script.loses(NEW)
    while not script.drain.reason:
        script.sleeps()
        assert NEW in script.opening
        script.loses(NEW, "connection refused")
    assert script.drain.reason == "the new broker was lost: connection refused"
    assert 30 < script.now <= PATIENCE


def test_a_refused_login_ends_the_drain() -> None:
    """It would be refused again."""
    script = Script()
    script.did(script.drain.begun(0.0))
    script.did(script.drain.opened(NEW, 0.0))
    script.says(NEW, ERROR % b"")
    assert script.ends == ["open NEW", "close NEW", "done"]
    assert script.drain.reason == "the new broker refused the connection: no: why"


def test_a_broker_that_cannot_be_had_is_tried_again() -> None:
    """The relay in front of it says so by an ERROR, and closes."""
    script = Script()
    script.did(script.drain.begun(0.0))
    script.did(script.drain.opened(NEW, 0.0))
    script.says(NEW, b"ERROR\nmessage:broker not available\n\nupstream new did not connect\0")
    script.loses(NEW)
    script.sleeps()
    assert script.ends == ["open NEW", "open NEW"]


def test_a_refused_subscription_ends_the_drain() -> None:
    """For example because of the user's rights."""
    script = Script()
    script.did(script.drain.begun(0.0))
    script.connects(NEW)
    script.connects(OLD)
    script.says(OLD, ERROR % b"receipt-id:0\n")
    assert script.ends[-1] == "done"
    assert script.drain.reason == "the old broker refused the subscription: no: why"


def test_a_subscription_that_is_never_confirmed_is_a_loss() -> None:
    """Otherwise nobody knew whether the queue is empty."""
    script = Script()
    script.did(script.drain.begun(0.0))
    script.connects(NEW)
    script.connects(OLD)
    script.sleeps()
    assert (script.now, script.ends[-1]) == (30.0, "close OLD")


def test_a_refused_message_stays_at_old_and_ends_the_drain() -> None:
    """It is never answered by NACK. What else is under way is waited for."""
    script = Script().begins()
    script.says(OLD, message(1), message(2), message(3))
    script.says(NEW, ERROR % b"receipt-id:2\n")
    script.says(OLD, message(4))
    assert script.sent() == [b"1", b"2", b"3"]
    script.confirms(1, 3)
    told = script.told(OLD)
    assert [each.split(b"\n")[0] for each in told] == [b"ACK", b"ACK", b"DISCONNECT"]
    script.says(OLD, b"RECEIPT\nreceipt-id:bye\n\n\0")
    assert script.drain.reason == "the new broker refused message m-2 of /queue/a: no: why"
    assert (script.drain.moved, script.drain.queues[0].refused[0].message) == (2, "m-2")


def test_a_refused_message_can_be_skipped() -> None:
    """The others are moved, and the command says in the end that it is still there."""
    script = Script(skip=True).begins()
    script.says(OLD, message(1), message(2))
    script.says(NEW, ERROR % b"receipt-id:1\n")
    script.confirms(2)
    assert script.acked() == [b"a-2"]
    script.ends_well()
    assert script.drain.reason == "the new broker refused what is still at the old broker, messages: 1"


def test_a_broker_that_stops_refuses_nothing() -> None:
    """It says so in answer to a SEND; the message is sent again when it is back."""
    script = Script(new=ACTIVEMQ).begins()
    script.says(OLD, message(1))
    stopped = b"org.apache.activemq.broker.BrokerStoppedException: Broker has been stopped: b"
    script.says(NEW, b"ERROR\nmessage:Broker has been stopped\\c b\nreceipt-id:1\n\n%b\0" % stopped)
    assert (script.drain.reason, script.ends[-1]) == ("", "close NEW")
    script.sleeps()
    script.connects(NEW)
    assert script.sent() == [b"1", b"1"]


def test_the_reason_of_a_loss_is_the_connections() -> None:
    """The ERROR of the relay in front of the broker does not say it."""
    script = Script(tries=False).begins()
    script.says(NEW, b"ERROR\nmessage:connection to the broker was lost\n\nupstream new; connect again\0")
    assert script.drain.reason == ""
    script.loses(NEW, "connection reset")
    assert script.drain.reason == "the new broker was lost: connection reset"


def test_a_message_for_which_new_closes_is_refused() -> None:
    """When NEW was lost again and again while nothing else was under way."""
    script = Script().begins()
    script.says(OLD, message(1), message(2))
    script.loses(NEW, "closed")
    for _ in range(2):
        script.sleeps()
        script.connects(NEW)
        script.loses(NEW, "closed")
    assert script.sent() == [b"1", b"2", b"1", b"1"]
    assert script.drain.reason == f"the new broker refused message m-1 of /queue/a: closed {ALONE}"


def test_a_message_that_is_never_confirmed_is_refused() -> None:
    """RabbitMQ answers nothing where a full queue rejects what is published."""
    script = Script().begins()
    script.says(OLD, message(1))
    while not script.drain.reason:
        script.sleeps()
        if NEW in script.opening:
            script.connects(NEW)
    assert (
        script.drain.reason
        == f"the new broker refused message m-1 of /queue/a: no RECEIPT within 30 s {ALONE}"
    )


def test_an_operator_ends_it() -> None:
    """Nothing more is sent; what is under way is waited for, but not for ever."""
    script = Script(rate=1.0).begins()
    script.says(OLD, message(1), message(2))
    script.did(script.drain.stopped("interrupted", 0.0))
    assert script.sent() == [b"1"]
    script.sleeps()
    assert script.told(OLD)[-1].startswith(b"DISCONNECT\n")
    script.sleeps()
    assert script.ends[-1] == "done"
    assert script.drain.reason.startswith("interrupted; the old broker: it did not confirm DISCONNECT")
    assert script.drain.unconfirmed == 1


def test_the_rate_is_kept() -> None:
    """Ten messages a second, with a tenth of a second to be made up for."""
    script = Script(rate=10.0).begins()
    script.now = 1.0
    script.says(OLD, *[message(number) for number in range(30)])
    times: list[float] = []
    while len(times) < 30:
        times += [script.now] * len(script.sent())
        script.confirms(*range(1, len(times) + 1))
        script.sleeps()
    assert times[:2] == [1.0, 1.0]
    assert times[-1] == pytest.approx(1.0 + 28 / 10)


def test_old_is_not_read_from_while_much_waits() -> None:
    """Until half of it is confirmed."""
    script = Script().begins()
    size = HELD // 4
    for number in range(5):
        script.says(OLD, message(number, more=b"content-length:%d\n" % size, body=b"x" * size))
    assert script.held == [True]
    script.confirms(1, 2)
    assert script.held == [True]
    script.confirms(3)
    assert script.held == [True, False]


def test_broken_frames_are_a_loss() -> None:
    """The connection is closed and opened anew."""
    script = Script().begins()
    script.says(NEW, b"NONSENSE\n\n\0")
    assert script.ends[-1] == "close NEW"
    script.sleeps()
    assert script.ends[-1] == "open NEW"
