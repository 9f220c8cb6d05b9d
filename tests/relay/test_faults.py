"""A relay that fails itself: whatever raises, and wherever, the session ends and leaves nothing behind."""

from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from stomprelay.relay import inputs
from stomprelay.relay.client import opening
from stomprelay.relay.client.shutdown import Shutdown
from stomprelay.relay.client.turns import InputBuffer
from stomprelay.relay.effects import Outbox, Report
from stomprelay.relay.fanout.fanout import Fanout
from stomprelay.relay.fanout.router import Member
from stomprelay.relay.link.link import Link
from stomprelay.relay.relay import ClientConnection
from stomprelay.relay.resend.resender import Resender
from stomprelay.relay.resend.unconfirmed import Unconfirmed
from stomprelay.relay.single import Single
from stomprelay.session.effects import Event
from stomprelay.session.session import Session
from stomprelay.wire.errors import Refused
from tests.playbook import SAY_HELLO, Playbook, listener
from tests.relay.failing import movable, moves, started
from tests.relay.frames import SUBSCRIBE, send, tell
from tests.relay.several import fanned

MESSAGE = b"MESSAGE\nsubscription:1\nmessage-id:m\nack:k\ndestination:/queue/a\n\nx\0"
ASKING = send(b"x", receipt="r")


class Bug(Exception):
    """Nobody thought of it."""


def _busy() -> Playbook:
    """A session with a subscription, a delivery, a transaction and a SEND that is not confirmed."""
    play = started(confirm=True)
    play.client_says(SUBSCRIBE + ASKING + tell(b"BEGIN", transaction="t") + send(b"y", transaction="t"))
    play.broker_says(MESSAGE)
    return play


def _fanned() -> Playbook:
    play = fanned(confirm=True)
    play.client_says(SUBSCRIBE + ASKING)
    return play


def _disconnecting() -> Playbook:
    play = _busy()
    play.client_says(b"DISCONNECT\nreceipt:bye\n\n\0")
    return play


def _searching() -> Playbook:
    play = _busy()
    play.broker_goes()
    play.client_says(send(b"z"))
    return play


def _asking() -> Playbook:
    play = Playbook(listener(movable()))
    play.client_says(SAY_HELLO[b"1.2"] + ASKING)
    play.broker_accepts()
    return play


SCENES = (_busy, _fanned, _disconnecting, _searching, _asking)


def _wakes(play: Playbook) -> None:
    play.time_passes(60)


def _comes_back(play: Playbook) -> None:
    moves(play)


def _is_wrong(play: Playbook) -> None:
    if play.broker.closed is None:
        play.broker_says(b"NONSENSE\n\n\0")


INPUTS: dict[str, Callable[[Playbook], None]] = {
    "the client goes": Playbook.client_goes,
    "the client is wrong": lambda play: play.client_says(b"NONSENSE\n\n\0", unasked=True),
    "the broker goes": _comes_back,
    "the broker is wrong": _is_wrong,
    "the relay stops": Playbook.relay_stops,
    "nobody answers": _wakes,
}

_METHODS: dict[type, str] = {
    Shutdown: "vanished fail close overdue unanswered searching found",
    ClientConnection: "received _broker_lost _sought",
    Link: "go_on end hang_up lost seek",
    Single: "lost connected to_broker to_client",
    Fanout: "lost connected",
    Member: "lost flush",
    Resender: "lost replay unsubscribe flush",
    Unconfirmed: "lost take",
    Session: "lost_broker",
    InputBuffer: "clear",
    Outbox: "send",
}
STEPS: list[tuple[type, str | type]] = [
    *((owner, method) for owner, methods in _METHODS.items() for method in methods.split()),
    (ClientConnection, inputs.Lost),
    (ClientConnection, inputs.Woke),
]


def _is_over(play: Playbook) -> None:
    assert play.client.closed is not None
    assert all(peer.closed is not None for peer in play.brokers)
    assert play.wake == inf
    assert play.relay.over


def _nothing_is_left(play: Playbook) -> None:
    """All connections are closed, nothing is due, nothing more is done, and what was kept is forgotten."""
    _is_over(play)
    assert play.relay.links == []
    opened = len(play.opened)
    for peer in (play.client, *play.brokers):
        assert play.relay.handle(inputs.Lost(peer.leg, "gone"), play.now) == []
        assert play.relay.received(peer.leg, b"\n", play.now) == []
    play.time_passes(1000)
    assert len(play.opened) == opened
    assert play.relay._outbox.drain() == []
    assert not play.relay._outbox.legs


@pytest.mark.parametrize("input", INPUTS.values(), ids=INPUTS.keys())
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__.strip("_"))
@pytest.mark.parametrize(("owner", "method"), STEPS, ids=lambda each: getattr(each, "__name__", each))
@pytest.mark.parametrize("error", [Bug("oops"), Refused("it cannot be said")], ids=["bug", "refused"])
def test_whatever_raises_while_a_session_ends_it_ends(
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    owner: Any,
    method: str | type,
    scene: Callable[[], Playbook],
    input: Callable[[Playbook], None],
) -> None:
    """All legs are closed, the timer is off, the client that is there has an ERROR, and the fault is reported once."""
    play = scene()
    raised = []

    def fails(*_: Any, **__: Any) -> None:
        raised.append(True)
        raise error

    if isinstance(method, str):
        monkeypatch.setattr(owner, method, fails)
    else:
        monkeypatch.setitem(owner.inputs, method, fails)
    try:
        input(play)
    except AssertionError:
        assert raised  # the script could not be played to its end
    monkeypatch.undo()
    if play.counters["faults"]:
        assert raised
        _nothing_is_left(play)
    elif play.relay.over:
        _is_over(play)
    else:
        assert not raised or isinstance(error, Refused)


def test_a_fault_ends_in_an_error_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client learns that it is not to blame, and not what went wrong; the service is given the exception."""
    play = _busy()
    bug = Bug("a secret of somebody's")

    def fails(*_: Any) -> None:
        raise bug

    play.client_reads()
    monkeypatch.setattr(Resender, "send", fails)
    effects = play.relay.received(play.client.leg, ASKING, play.now)
    assert [each.error for each in effects if isinstance(each, Report)] == [bug]
    play._do(effects)
    play.client_gets_error(b"the relay failed")
    assert play.facts(Event.ERROR) == [{"side": "relay", "message": "the relay failed"}]
    assert play.facts(Event.DISCONNECTED) == [{"end": "relay", "possibly_lost": 1}]
    assert play.counters["faults"] == 1
    _nothing_is_left(play)


def test_a_fault_before_connect_was_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends like any other."""
    play = Playbook(listener(movable()))

    def fails(*_: Any) -> None:
        raise Bug

    monkeypatch.setattr(opening, "read_opening", fails)
    play.client_errs(SAY_HELLO[b"1.2"], b"the relay failed")
    _nothing_is_left(play)


def test_a_subscription_whose_id_ends_in_a_cr() -> None:
    """1.1 to 1.1 it is spelled as the client spelled it, in what the relay says of it too, on any broker."""
    subscribe = b"SUBSCRIBE\nid:s\r\ndestination:/queue/a\n\n\0"
    with started(b"1.1", confirm=True, product="rabbitmq") as play:
        play.client_tells_broker(subscribe)
        moves(play, b"1.1", "rabbitmq")
        play.broker_gets(subscribe.replace(b"\0", b"\0\n"))
        play.client_said(send(b"x"))
        play.client_goes()
        play.broker_gets(b"UNSUBSCRIBE\nid:s\r\n\n\0\n")
        play.broker_says(b"RECEIPT\nreceipt-id:relay-session-receipt-1\n\n\0")
        assert play.relay.over
        assert play.counters["faults"] == 0
