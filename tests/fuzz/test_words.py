"""What is said: mostly right, and wrong where it is meant to be."""

from random import Random

import pytest

from fuzz.client import Client
from fuzz.words import Words
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS, V1_0
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import CLIENT_COMMANDS, OPENING


def _spoken(version: bytes, seed: int, wild: float, odd: float = 0.0) -> str:
    """Speak, and return what a strict reader takes offence at."""
    client = Client(version, Words(Random(seed), wild=wild, odd=odd, returns=version != b"1.2"))
    decoder = Decoder(V1_0, OPENING, Limits())
    try:
        for data in [client.connect(), *(client.speech() for _ in range(40))]:
            decoder.feed(data)
            for frame in decoder.frames():
                if frame.command in OPENING:
                    decoder.expect(DIALECTS[version], CLIENT_COMMANDS)
    except StompError as error:
        return error.message
    return ""


@pytest.mark.parametrize("version", [b"1.0", b"1.1", b"1.2"])
def test_a_tame_client_follows_the_specification(version: bytes) -> None:
    """Whatever its values, what it says decodes."""
    assert [_spoken(version, seed, 0.0) for seed in range(20)] == [""] * 20
    assert [_spoken(version, seed, 0.0, 0.2) for seed in range(20)].count("") >= 18


def test_a_wild_one_breaks_every_rule() -> None:
    """Each error that the decoder knows is provoked."""
    errors = {_spoken(b"1.2", seed, 0.3) for seed in range(600)}
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
    assert wanted - errors == set()
