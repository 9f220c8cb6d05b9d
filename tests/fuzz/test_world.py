"""A world: the same one for the same number, and it sees what must not be."""

from collections.abc import Callable
from functools import wraps

import pytest

from fuzz.broker import Scripted
from fuzz.caller import Caller
from fuzz.told import told
from fuzz.world import World
from stomprelay.relay.effects import Effect
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Close, Send, Wake
from stomprelay.session.leg import Leg, Side
from stomprelay.session.session import Session

Spoils = Callable[[Relay, list[Effect]], list[Effect]]


def _spoilt(monkeypatch: pytest.MonkeyPatch, spoil: Spoils, name: str = "received") -> set[str]:
    """Play worlds with relays one of whose inputs returns something else. Return what was found."""
    original = getattr(Relay, name)

    @wraps(original)
    def spoilt(relay: Relay, *arguments: object) -> list[Effect]:
        return spoil(relay, original(relay, *arguments))

    monkeypatch.setattr(Relay, name, spoilt)
    found: set[str] = set()
    for number in range(40):
        world = World(5, number)
        world.run()
        found.update(finding.what for finding in world.findings)
    return found


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
    found = _spoilt(monkeypatch, lambda relay, effects: [], "lost")
    assert "a session that is over has a leg that is open" in found


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


def test_acks_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ACK that settles another message than it says is seen, where brokers can tell."""

    def swapped(relay: Relay, effects: list[Effect]) -> list[Effect]:
        return [
            Send(each.leg, each.data.replace(b"ACK\nid:a2\n", b"ACK\nid:a1\n"))
            if isinstance(each, Send) and each.leg is not relay.client
            else each
            for each in effects
        ]

    original = Relay.received
    found: set[str] = set()
    monkeypatch.setattr(Relay, "received", lambda relay, *said: swapped(relay, original(relay, *said)))
    for number in range(600):
        world = World(6, number)
        world.run()
        found.update(finding.what for finding in world.findings)
    assert "an ACK reached another message than the one that it is for" in found


def test_what_leads_to_a_finding_can_be_told() -> None:
    """Inputs, and effects behind each, in words."""
    lines, _ = told(1, 7)
    assert any(line.startswith("1000.000 c0 opened") for line in lines)
    assert any(line.startswith("    Send ") for line in lines)


def test_listening_changes_nothing() -> None:
    """A world that is told of is the one that was played."""
    heard: list[str] = []

    def listen(caller: Caller, act: Callable[..., object], arguments: tuple[object, ...]) -> None:
        heard.append(act.__name__)

    silent, loud = World(1, 7), World(1, 7)
    loud.listen = listen
    silent.run()
    loud.run()
    assert (silent.octets, silent.frames, silent.inputs) == (loud.octets, loud.frames, loud.inputs)
    assert len(heard) == loud.inputs


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
