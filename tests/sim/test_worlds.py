"""Relays that are wrong are found out, and rough words break every rule of the protocol."""

from collections.abc import Callable
from functools import wraps
from random import Random

import pytest

from sim.plan import VERSIONS, draw
from sim.rough import Words
from sim.run import played
from stomprelay.relay.effects import Effect
from stomprelay.relay.inputs import Input, Lost
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import CLIENT_COMMANDS

Spoils = Callable[[Relay, list[Effect]], list[Effect]]


def _seen(what: str) -> bool:
    """Play worlds until something of this kind is found. Return whether it is."""
    return any(what in str(each) for number in range(100) for each in played(draw(5, number)))


def _raises(relay: Relay, effects: list[Effect]) -> list[Effect]:
    raise ValueError("something")


def _torn(relay: Relay, effects: list[Effect]) -> list[Effect]:
    return [Send(each.leg, each.data[:-2]) if isinstance(each, Send) else each for each in effects]


@pytest.mark.parametrize(("spoil", "what"), [(_raises, "ValueError"), (_torn, "cannot read")])
def test_what_must_not_be_is_seen(monkeypatch: pytest.MonkeyPatch, spoil: Spoils, what: str) -> None:
    """A relay with a fault of each kind is found out."""
    original = Relay.received

    @wraps(original)
    def spoilt(relay: Relay, leg: Leg, data: bytes, now: float) -> list[Effect]:
        return spoil(relay, original(relay, leg, data, now))

    monkeypatch.setattr(Relay, "received", spoilt)
    assert _seen(what)


def test_a_session_that_does_not_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay that leaves its brokers open when its client is gone is found out."""
    original = Relay.handle

    def deaf(relay: Relay, event: Input, now: float) -> list[Effect]:
        effects = original(relay, event, now)
        return [] if isinstance(event, Lost) else effects

    monkeypatch.setattr(Relay, "handle", deaf)
    assert _seen("are left after all clients have gone")


def test_rough_words_break_every_rule() -> None:
    """Each error that the decoder knows is provoked; words that are not rough follow the specification."""
    assert {_spoken(version, seed, 0.0) for version in VERSIONS for seed in range(20)} == {""}
    assert {_spoken(b"1.2", seed, 0.3) for seed in range(4000)} >= {
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
