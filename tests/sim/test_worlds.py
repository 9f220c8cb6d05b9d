"""Worlds find nothing that must not be; `make test-deep` plays more of them. What must not be is seen."""

import random
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial, wraps
from multiprocessing import get_context
from random import Random

import pytest

from sim.plan import VERSIONS, draw
from sim.rough import Words
from sim.run import played, run
from sim.world import World, simulated
from stomprelay.relay.effects import Effect
from stomprelay.relay.inputs import Input, Lost
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import CLIENT_COMMANDS

Spoils = Callable[[Relay, list[Effect]], list[Effect]]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_look(seed: int) -> None:
    """Nothing is found in some worlds. They have a process to themselves: memory that others leave would count."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        result = alone.submit(partial(run, seed, worlds=400)).result()
    assert not result.failed, str(result)


@pytest.mark.long
def test_a_long_look() -> None:
    """Nothing is found in half an hour, from a seed that is drawn."""
    seed = random.randrange(1_000_000)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        result = alone.submit(partial(run, seed, seconds=1800)).result()
    assert not result.failed, f"seed {seed}\n{result}"


def test_a_number_says_it_all() -> None:
    """A world that is played again is the same, event by event; another one is not."""
    with simulated():
        first, again, other = [list(map(str, World(draw(1, number)).play())) for number in (7, 7, 8)]
    assert first == again != other


def _found(*numbers: int) -> set[str]:
    """Play worlds. Return the rules that are broken, with what is wrong."""
    with simulated():
        return {
            f"{each.rule} {each.text}" for number in numbers or range(40) for each in played(draw(5, number))
        }


def _raises(relay: Relay, effects: list[Effect]) -> list[Effect]:
    raise ValueError("something")


def _torn(relay: Relay, effects: list[Effect]) -> list[Effect]:
    return [Send(each.leg, each.data[:-2]) if isinstance(each, Send) else each for each in effects]


def _doubled(relay: Relay, effects: list[Effect]) -> list[Effect]:
    return [
        Send(each.leg, each.data * 2)
        if isinstance(each, Send) and each.leg is relay.client and each.data.startswith(b"RECEIPT")
        else each
        for each in effects
    ]


@pytest.mark.parametrize(
    ("spoil", "what"), [(_raises, "ValueError"), (_torn, "cannot read"), (_doubled, "a_receipt_comes_once")]
)
def test_what_must_not_be_is_seen(monkeypatch: pytest.MonkeyPatch, spoil: Spoils, what: str) -> None:
    """A relay with a fault of each kind is found out."""
    original = Relay.received

    @wraps(original)
    def spoilt(relay: Relay, leg: Leg, data: bytes, now: float) -> list[Effect]:
        return spoil(relay, original(relay, leg, data, now))

    monkeypatch.setattr(Relay, "received", spoilt)
    assert any(what in each for each in _found())


def test_a_session_that_does_not_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay that leaves its brokers open when its client is gone is found out."""
    original = Relay.handle

    def deaf(relay: Relay, event: Input, now: float) -> list[Effect]:
        effects = original(relay, event, now)
        return [] if isinstance(event, Lost) else effects

    monkeypatch.setattr(Relay, "handle", deaf)
    assert any("are left after all clients have gone" in each for each in _found())


@pytest.mark.parametrize("question", ["taken", "clashes"])
def test_an_ack_that_goes_astray_is_seen(monkeypatch: pytest.MonkeyPatch, question: str) -> None:
    """A relay that lets two brokers give their messages one name is found out, in each way of naming them."""
    monkeypatch.setattr(Session, question, lambda session, name: False)
    assert any("an_ack_is_for_its_message" in each for each in _found(*range(1000)))


@pytest.mark.parametrize("version", VERSIONS)
def test_rough_words_break_every_rule(version: bytes) -> None:
    """Each error that the decoder knows is provoked; words that are not rough follow the specification."""
    errors = {_spoken(version, seed, 0.3) for seed in range(4000)}
    wanted = {
        "NUL in a frame's head",
        "content-length is not a number",
        "content-length does not fit the body",
        "more than one content-length",
        "malformed header line",
        "empty header name",
        "undefined escape sequence in a header",
        "header line too long",
        "too many headers",
        "carriage return inside a header",
        "unknown command",
        "body too large",
    }
    assert wanted - errors == (set() if version == b"1.2" else wanted - errors)
    assert {_spoken(version, seed, 0.0) for seed in range(20)} == {""}


def _spoken(version: bytes, seed: int, wild: float) -> str:
    """Speak, and return what a strict reader takes offence at."""
    words = Words(Random(seed), wild, wild)
    decoder = Decoder(DIALECTS[version], CLIENT_COMMANDS, Limits())
    try:
        for _ in range(20):
            headers = [(b"destination", words.value(b"/queue/a")), (b"receipt", words.value(b"r"))]
            decoder.feed(words.frame(b"SEND", headers, b"body"))
            for _ in decoder.frames():
                pass
    except StompError as error:
        return error.message
    return ""
