"""A client's first octets, up to its CONNECT."""

from stomprelay.relay.listener import Listener
from stomprelay.session.foreign import Foreign, recognise
from stomprelay.session.handshake import Offer
from stomprelay.session.leg import Leg
from stomprelay.wire.errors import LimitError


def greeted(client: Leg, data: bytes, listener: Listener) -> Offer | Foreign | None:
    """What the client says of itself: its CONNECT, or that it does not speak STOMP; None while more has to come.

    What follows CONNECT in the chunk stays in the leg's decoder. Raises `StompError` for what is neither.
    """
    foreign = None if client.decoder.buffered else recognise(data)
    if foreign is not None:
        return foreign
    client.decoder.feed(data)
    for frame in client.decoder.frames():
        return Offer.read(frame)
    if client.decoder.buffered > listener.before_connect:
        raise LimitError("too much before CONNECT", f"the limit is {listener.before_connect} bytes")
    return None
