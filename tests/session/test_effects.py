"""What the core asks of the service: plain values that a script can compare."""

from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg, Side
from stomprelay.wire.frame import Limits

LEG, OTHER = Leg(Side.DOWNSTREAM, Limits()), Leg(Side.UPSTREAM, Limits())


def test_a_repr_tells_no_secret() -> None:
    """An effect may end up in a log or a traceback; the CONNECT for a broker is one."""
    assert "secret" not in repr(Send(OTHER, b"CONNECT\nlogin:me\npasscode:secret\n\n\0"))
