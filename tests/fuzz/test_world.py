"""A world: the same one for the same number, and it sees what must not be."""

from collections.abc import Callable
from functools import wraps

import pytest

from fuzz.broker import Scripted
from fuzz.told import told
from fuzz.world import World
from stomprelay.relay.effects import Effect
from stomprelay.relay.inputs import Input, Lost
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Close, Send, Wake
from stomprelay.session.leg import Leg, Side
from stomprelay.session.session import Session

Spoils = Callable[[Relay, list[Effect]], list[Effect]]


def _found() -> set[str]:
    """Play some worlds. Return what was found."""
    found: set[str] = set()
    for number in range(40):
        world = World(5, number)
        world.run()
        found.update(finding.what for finding in world.findings)
    return found


def _spoilt(monkeypatch: pytest.MonkeyPatch, spoil: Spoils) -> set[str]:
    """Play worlds with relays that return something else for what they read. Return what was found."""
    original = Relay.received

    @wraps(original)
    def spoilt(relay: Relay, leg: Leg, data: bytes, now: float) -> list[Effect]:
        return spoil(relay, original(relay, leg, data, now))

    monkeypatch.setattr(Relay, "received", spoilt)
    return _found()


def test_a_number_says_it_all() -> None:
    """A world that is played again is the same to the byte, another one is not."""
    assert told(1, 7) == told(1, 7)
    assert told(1, 7) != told(1, 8)


def _raises(relay: Relay, effects: list[Effect]) -> list[Effect]:
    raise ValueError("something")


def _late(relay: Relay, effects: list[Effect]) -> list[Effect]:
    return [*effects, Wake(1.0)]


def _torn(relay: Relay, effects: list[Effect]) -> list[Effect]:
    return [Send(each.leg, each.data[:-2]) if isinstance(each, Send) else each for each in effects]


def _twice(relay: Relay, effects: list[Effect]) -> list[Effect]:
    return [*effects, *(each for each in effects if isinstance(each, Close))]


def _afterwards(relay: Relay, effects: list[Effect]) -> list[Effect]:
    return [*effects, *(Send(each.leg, b"\n") for each in effects if isinstance(each, Close))]


def _nobody(relay: Relay, effects: list[Effect]) -> list[Effect]:
    return [*effects, Send(Leg(Side.UPSTREAM, relay.listener.limits), b"\n")]


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (_raises, "received raises"),
        (_late, "asks to be woken in the past"),
        (_torn, "what is written to a client is no whole frame"),
        (_twice, "a leg is closed twice"),
        (_afterwards, "written to a leg that is closed"),
        (_nobody, "an effect for a leg that nobody opened"),
    ],
)
def test_what_must_not_be_is_seen(monkeypatch: pytest.MonkeyPatch, spoil: Spoils, what: str) -> None:
    """A relay with a fault of each kind is found out."""
    assert what in _spoilt(monkeypatch, spoil)


def test_a_session_that_does_not_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay that leaves its brokers open when its client is gone is found out."""
    original = Relay.handle

    def deaf(relay: Relay, event: Input, now: float) -> list[Effect]:
        effects = original(relay, event, now)
        return [] if isinstance(event, Lost) else effects

    monkeypatch.setattr(Relay, "handle", deaf)
    assert "a session that is over has a leg that is open" in _found()


def test_receipts_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes twice is seen, where brokers give none twice."""

    def doubled(relay: Relay, effects: list[Effect]) -> list[Effect]:
        return [
            Send(each.leg, each.data * 2)
            if isinstance(each, Send) and each.leg is relay.client and each.data.startswith(b"RECEIPT")
            else each
            for each in effects
        ]

    assert "a receipt comes that was not asked for" in _spoilt(monkeypatch, doubled)


@pytest.mark.parametrize(("question", "versions"), [("taken", {b"1.2"}), ("clashes", {b"1.0", b"1.1"})])
def test_an_ack_that_goes_astray_is_seen(
    monkeypatch: pytest.MonkeyPatch, question: str, versions: set[bytes]
) -> None:
    """A relay that lets two brokers give their messages one name is found out, in each way of naming them."""
    monkeypatch.setattr(Session, question, lambda session, name: False)
    for number in range(20_000):
        world = World(5, number)
        scene = world.scene
        repeats = [isinstance(each, Scripted) and each.redelivers for each in scene.addresses.values()]
        if scene.client in versions and scene.tame and all(repeats):
            world.run()
            if any(found.what.startswith("an ACK reached another") for found in world.findings):
                return
    pytest.fail("it was not found out")
