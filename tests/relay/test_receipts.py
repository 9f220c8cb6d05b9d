"""Receipts of the relay's own making."""

import pytest

from stomprelay.relay.effects import Effect
from stomprelay.relay.forward import give
from stomprelay.session.effects import Event, Note, Send
from stomprelay.session.leg import Leg
from stomprelay.session.states import Side
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.limits import Limits


@pytest.mark.parametrize(
    ("version", "spelled"),
    [(b"1.0", b"a:b\\"), (b"1.1", b"a\\cb\\\\"), (b"1.2", b"a\\cb\\\\")],
)
def test_all_in_one(version: bytes, spelled: bytes) -> None:
    """As the client's version spells them, and noted by what they are; the client has heard something."""
    client = Leg(Side.DOWNSTREAM, Limits(), DIALECTS[version])
    effects: list[Effect] = []
    give([b"a:b\\", b"\xff"], client, effects, 7.0)
    said, *notes = effects
    wire = b"RECEIPT\nreceipt-id:%b\n\n\0\nRECEIPT\nreceipt-id:\xff\n\n\0\n" % spelled
    assert said == Send(client, wire)
    assert notes == [
        Note(Event.ANSWERED, f"receipt {each} is given by the relay", {"receipt": each}, quiet=True)
        for each in ("a:b\\", "\\xff")
    ]
    assert client.heartbeat.sent_at == 7.0


def test_none() -> None:
    """Nothing is written, and the client has heard nothing."""
    client = Leg(Side.DOWNSTREAM, Limits())
    effects: list[Effect] = []
    give([], client, effects, 7.0)
    assert effects == []
    assert client.heartbeat.sent_at == 0.0
