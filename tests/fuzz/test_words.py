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


def _delivered(client: Client, *messages: tuple[bytes, bytes]) -> list[bytes | None]:
    """A client is sent messages: subscription and `ack` of each. Return whether ACKs of what it has are judged."""
    decoder = Decoder(DIALECTS[b"1.2"], frozenset({b"MESSAGE"}), Limits())
    for subscription, ack in messages:
        decoder.feed(b"MESSAGE\nsubscription:%b\nmessage-id:m\nack:%b\ncopy:c\n\n\0" % (subscription, ack))
        for frame in decoder.frames():
            client.delivered(frame)
    return [each.copy for each in client.deliveries]


def test_only_acks_that_can_be_for_one_message_alone_are_judged() -> None:
    """Not those for subscriptions that are over, and none by a name that was said of a settled message too."""
    client = Client(b"1.2", Words(Random(1), wild=0.0, odd=0.0, returns=False))
    client.subscriptions += [b"1", b"2"]
    assert _delivered(client, (b"1", b"a"), (b"2", b"b"), (b"3", b"c")) == [b"c", b"c", None]
    client._doubt(b"d")
    assert _delivered(client, (b"2", b"d")) == [b"c", None, None, None]
