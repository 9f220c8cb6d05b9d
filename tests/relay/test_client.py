"""A client that sent CONNECT, joined to its brokers: CONNECTED, what it sends while there is no broker, and its beats.

Whole conversations across a loss are in `test_failover`; here is what only the client's connection decides.
"""

from itertools import pairwise
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.client.turns import Flow, InputBuffer
from stomprelay.relay.effects import Effect, Outbox
from stomprelay.session.effects import Event, How, Pause
from stomprelay.session.leg import Leg, Side
from stomprelay.wire.frame import Limits
from tests.playbook import (
    SAY_HELLO,
    Playbook,
    listener,
)
from tests.relay.failing import STOPPING, asked, found, movable, said_welcome, started


def send(body: bytes, headers: bytes = b"") -> bytes:
    """A SEND with more headers."""
    return b"SEND\ndestination:/queue/a\n%b\n%b\0" % (headers, body)


def receipt(name: bytes) -> bytes:
    """A RECEIPT."""
    return b"RECEIPT\nreceipt-id:%b\n\n\0" % name


def own(number: int) -> bytes:
    """A receipt id of the relay's own."""
    return b"relay-session-receipt-%d" % number


# Brokers come and go


def test_connected_is_sent_once() -> None:
    """That of the second broker is not passed on; both are in the log."""
    with started() as play:
        play.broker_goes()
        found(play)
        play.nobody_gets_more()
        assert play.noted(Event.CONNECTED).endswith("at tcp://a")
        assert play.noted(Event.RECOVERED).endswith("at tcp://b")
        assert (play.counters["sessions_connected"], play.counters["failovers"]) == (1, 1)


def test_what_the_next_broker_is_sent() -> None:
    """The same CONNECT; subscriptions as they were made; what is not confirmed; open transactions; what was sent
    meanwhile. So durable subscriptions keep their names, and temporary queues are made anew where they were named.
    """
    orders = [
        b"SUBSCRIBE\nid:1\ndestination:/topic/a\ndurable:true\nauto-delete:false\nx-odd:1\n\n\0",
        b"SUBSCRIBE\nid:0\ndestination:/temp-queue/b\nack:client\nselector:c = 1\n\n\0",
    ]
    transaction = b"BEGIN\ntransaction:t\n\n\0" + send(b"2", b"transaction:t\n")
    with Playbook(listener(movable())) as play:
        play.client_says(b"CONNECT\naccept-version:1.2\nhost:/\nclient-id:me\nlogin:a\npasscode:b\n\n\0")
        play.broker_accepts()
        hello = play.broker_reads()
        assert b"\nclient-id:me\nlogin:a\npasscode:b\n" in hello
        play.broker_says(said_welcome(b"1.2"))
        play.client_reads()
        play.client_says(b"".join(orders) + transaction + send(b"1", b"receipt:r\n"))
        play.broker_reads()
        play.broker_goes()
        play.client_says(send(b"3"))
        asked(play)
        play.broker_accepts()
        play.broker_gets(hello)
        play.broker_says(said_welcome(b"1.2"))
        again = send(b"1", b"receipt:r\n").replace(b"SEND\n", b"SEND\nrelay-resent:true\n")
        told = play.broker_reads().replace(b"\0\n", b"\0")
        assert told == b"".join(orders) + again + transaction + send(b"3")


def test_a_broker_that_tells_that_it_stops() -> None:
    """The client need not know, whether it says so by itself or in answer to something."""
    with started() as play:
        play.broker_says(STOPPING)
        play.broker_goes()
        found(play)
        play.both_stay()
        assert play.counters["errors_withheld"] == 1
        play.broker_says(STOPPING.replace(b"\n\n", b"\nreceipt-id:1\n\n"))
        play.broker_is_closed(How.ABORT, at="tcp://b")
        found(play)
        play.both_stay()
        assert play.counters["brokers_lost"] == play.counters["errors_withheld"] == 2


def test_a_broker_that_was_paused_meanwhile_is_left_again() -> None:
    """An operator took it out while it was answering: the client has its answer, and goes on at one that is in."""
    with Playbook(listener(movable())) as play:
        play.client_says(SAY_HELLO[b"1.2"])
        play.opened[0].health.paused = True
        play.broker_accepts()
        play.broker_reads()
        play.broker_says(said_welcome(b"1.2"))
        play.client_gets(b"CONNECTED\nversion:1.2\nsession:s-1\n\n\0")
        other = play.opened[1].uri
        play.broker_accepts(at=other)
        play.broker_reads(at=other)
        play.broker_says(said_welcome(b"1.2"), at=other)
        play.broker_gets(b"DISCONNECT\nreceipt:%b\n\n\0\n" % own(1))
        play.client_says(send(b"1"))
        play.broker_gets(b"")
        play.broker_says(receipt(own(1)))
        assert play.brokers[0].closed is How.LINGER
        found(play)
        assert play.opened[1] is not play.opened[0]
        play.broker_gets(send(b"1"))
        play.both_stay()


# The input buffer

CLIENT = Leg(Side.DOWNSTREAM, Limits())


class Buffered(InputBuffer):
    """An input buffer of so many bytes, with an outbox of its own."""

    def __init__(self, most: int = 10) -> None:
        self.outbox = Outbox()
        super().__init__(CLIENT, self.outbox, most)

    def asks(self, *, full: bool = False, crowded: bool = False) -> list[Effect]:
        """What it asks for when the flow is so full."""
        self.paced(cast(Flow, SimpleNamespace(full=full, crowded=crowded)))
        return self.outbox.drain()


chunks = st.binary(min_size=1, max_size=6)
steps = st.lists(st.one_of(chunks, st.none(), st.sampled_from(["full", "crowded", "free"])))


@given(most=st.integers(1, 12), script=steps)
def test_nothing_is_lost_and_the_client_is_not_paused_twice(
    most: int, script: list[bytes | str | None]
) -> None:
    """Bytes stay in their order, Pause and Resume alternate, and a client is paused whenever the bound is reached."""
    buffer = Buffered(most)
    expected = b""
    effects: list[Effect] = []
    full = crowded = False
    for step in script:
        match step:
            case bytes():
                buffer.append(step)
                expected += step
            case str():
                full, crowded = step == "full", step != "free"
            case None if expected:
                taken = buffer.take()
                assert taken
                assert expected.startswith(taken)
                expected = expected.removeprefix(taken)
        effects += buffer.asks(full=full, crowded=crowded)
        assert buffer.cost == len(expected)
        assert buffer.paused or (buffer.cost < most and not full)
        assert buffer.paused is (len(effects) % 2 == 1)
    assert effects[:1] in ([], [Pause(CLIENT)])
    assert all(one != other for one, other in pairwise(effects))
