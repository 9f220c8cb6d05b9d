"""Receipts that the relay gives a client in the place of a broker that will not."""

from collections.abc import Sequence

from stomprelay.relay.effects import Effect
from stomprelay.relay.notes import answered
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg
from stomprelay.wire.frame import compose
from stomprelay.wire.names import RECEIPT, RECEIPT_ID


def give(receipts: Sequence[bytes], client: Leg, effects: list[Effect], now: float) -> None:
    """Write the client a RECEIPT frame for each of these ids, all in one `Send`."""
    if not receipts:
        return
    frames = [compose(RECEIPT, [(RECEIPT_ID, each)], client.dialect) for each in receipts]
    client.heartbeat.said_at = now
    effects += [Send(client, b"".join(frames)), *answered(receipts)]
