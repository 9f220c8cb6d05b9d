"""What one command costs, however much its client has piled up: lines of Python executed, at n and at 8 n."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from tests.broker.scene import Peer, Scene
from tests.counting import lines

MANY: Final[dict[str, Any]] = {
    "subscriptions": 100_000,
    "transactions": 100_000,
    "transaction_frames": 100_000,
}


class Case(NamedTuple):
    """A client of this version that has piled up n of something; and what it says then, in one chunk."""

    version: bytes
    pile: Callable[[Peer, int], object]
    said: Callable[[int], bytes]


def subscribed(ack: bytes, *, apart: bool = True) -> Callable[[Peer, int], None]:
    """N subscriptions, each to a destination of its own or all to one topic."""

    def pile(peer: Peer, n: int) -> None:
        for at in range(n):
            peer.subscribes(b"/queue/%d" % at if apart else b"/topic/t", ack, b"s%d" % at)
        peer.reads()

    return pile


def unnamed(peer: Peer, n: int) -> None:
    """N subscriptions of 1.0 without an id, all to one queue."""
    peer.sends(b"SUBSCRIBE\ndestination:/queue/a\nack:client\n\n\0" * n)
    peer.reads()


def on_many(peer: Peer, n: int) -> None:
    """One message on n subscriptions, acknowledged on all but one."""
    subscribed(b"client-individual", apart=False)(peer, n)
    peer.sends_to(b"/topic/t", b"x")
    peer.sends(b"ACK\nmessage-id:b-1\n\n\0" * (n - 1))
    peer.reads()


def unsettled(ack: bytes) -> Callable[[Peer, int], None]:
    """N messages that one subscription has not acknowledged."""

    def pile(peer: Peer, n: int) -> None:
        peer.subscribes(b"/queue/a", ack, more=b"prefetch-count:1000000\n")
        for _ in range(n):
            peer.sends_to(b"/queue/a", b"x")
        peer.reads()

    return pile


def waiting(peer: Peer, n: int) -> None:
    """N messages that nobody wants, and a consumer that may have no more."""
    peer.subscribes(b"/queue/a", b"client-individual", more=b"prefetch-count:1\n")
    for _ in range(n):
        peer.sends_to(b"/queue/a", b"x")
    peer.reads()


def begun(peer: Peer, n: int) -> None:
    """N open transactions."""
    peer.sends(b"".join([b"BEGIN\ntransaction:%d\n\n\0" % at for at in range(n)]))


def full(peer: Peer, n: int) -> None:
    """N subscriptions that have what they want, while one has more than may be written in a turn."""
    subscribed(b"client-individual")(peer, n)
    peer.sends_to(b"/queue/last", *[b"x" * 60_000] * 30)
    peer.subscribes(b"/queue/last", b"auto", b"last")
    peer.reads()


def tied(command: bytes, number: Callable[[int], int], end: bytes = b"ABORT") -> Callable[[int], bytes]:
    """In a transaction, an ACK or NACK of one of the n; and its end."""
    named = b"\nsubscription:1\nmessage-id:b-%d"
    said = b"BEGIN%b" + command + named + b"%b" + end + b"%b"
    tie = b"\ntransaction:t\n\n\0"
    return lambda n: said % (tie, number(n), tie, tie)


INDIVIDUAL, CUMULATIVE = unsettled(b"client-individual"), unsettled(b"client")
ENDS: Final = b"UNSUBSCRIBE\n%b\n\n\0"
SETTLES: Final = b"%b\nsubscription:1\nmessage-id:b-%d\n\n\0"
BEGINS: Final = b"BEGIN\ntransaction:t\n\n\0"


def last(n: int) -> int:
    """The last of n."""
    return n


def middle(n: int) -> int:
    """The one in the middle of n."""
    return n // 2


CASES: Final[dict[str, Case]] = {
    "UNSUBSCRIBE by destination": Case(
        b"1.0", subscribed(b"auto"), lambda n: ENDS % b"destination:/queue/%d" % (n - 1)
    ),
    "UNSUBSCRIBE of one of many": Case(b"1.0", unnamed, lambda _: ENDS % b"destination:/queue/a" * 5),
    "UNSUBSCRIBE by id": Case(b"1.2", subscribed(b"client"), lambda n: ENDS % b"id:s%d" % (n - 1)),
    "SUBSCRIBE": Case(
        b"1.2", subscribed(b"client"), lambda _: b"SUBSCRIBE\nid:x\ndestination:/queue/x\n\n\0"
    ),
    "ACK of a message on many subscriptions": Case(b"1.0", on_many, lambda _: b"ACK\nmessage-id:b-1\n\n\0"),
    "ACK of the last": Case(b"1.1", INDIVIDUAL, lambda n: SETTLES % (b"ACK", n)),
    "NACK of the first": Case(b"1.1", INDIVIDUAL, lambda _: SETTLES % (b"NACK", 1)),
    "ACK, aborted": Case(b"1.1", INDIVIDUAL, tied(b"ACK", last)),
    "NACK, aborted": Case(b"1.1", INDIVIDUAL, tied(b"NACK", middle)),
    "cumulative ACK of the last, aborted": Case(b"1.1", CUMULATIVE, tied(b"ACK", last)),
    "cumulative ACK in the middle, aborted": Case(b"1.1", CUMULATIVE, tied(b"ACK", middle)),
    "cumulative NACK in the middle, aborted": Case(b"1.1", CUMULATIVE, tied(b"NACK", middle)),
    "cumulative ACK of 1.0, aborted": Case(b"1.0", CUMULATIVE, tied(b"ACK", last)),
    "SEND": Case(b"1.2", waiting, lambda _: b"SEND\ndestination:/queue/a\n\nx\0"),
    "BEGIN and ABORT": Case(b"1.2", begun, lambda _: BEGINS + b"ABORT\ntransaction:t\n\n\0"),
    "BEGIN and COMMIT": Case(b"1.2", begun, lambda _: BEGINS + b"COMMIT\ntransaction:t\n\n\0"),
    "COMMIT of the last": Case(b"1.2", begun, lambda n: b"COMMIT\ntransaction:%d\n\n\0" % (n - 1)),
    "a beat, while more waits": Case(b"1.2", full, lambda _: b"\n"),
}


def _cost(case: Case, n: int) -> int:
    peer = Scene(**MANY).client(case.version)
    case.pile(peer, n)
    said = case.said(n)
    peer.sends(b"\n")
    cost = lines(lambda: peer.sends(said))
    assert peer.closed is None, peer.reads()[-300:]
    return cost


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_command_costs_the_same_however_much_there_is(case: Case) -> None:
    """Nothing that a client piled up is looked through."""
    few, many = _cost(case, 20), _cost(case, 160)
    assert many <= 1.1 * few + 20


@pytest.mark.parametrize("ack", [b"client", b"client-individual"])
def test_what_is_done_once_for_each_message(ack: bytes) -> None:
    """Settling or giving back n messages costs n of them, once."""
    costs = []
    for n in (20, 160):
        peer = Scene(**MANY).client(b"1.1")
        unsettled(ack)(peer, n)
        costs.append(lines(lambda peer=peer: peer.sends(b"UNSUBSCRIBE\nid:1\n\n\0")))  # type: ignore[misc]
    assert costs[1] <= 8.5 * costs[0]


def test_an_aborted_ack_is_awaited_again_by_1_0() -> None:
    """By its message-id alone, each time."""
    peer = Scene(**MANY).client(b"1.0")
    unsettled(b"client")(peer, 4)
    for _ in range(3):
        peer.sends(tied(b"ACK", lambda n: n, b"ABORT")(3))
    peer.sends(tied(b"ACK", lambda n: n, b"COMMIT")(3))
    assert peer.closed is None
    peer.sends(b"ACK\nmessage-id:b-4\n\n\0")
    assert peer.closed is None
    peer.sends(b"ACK\nmessage-id:b-2\n\n\0")
    peer.receives_error(b"ACK names no message that awaits one")
