"""One STOMP connection: decoder, dialect, state and heart-beat. It dies with its socket."""

from stomprelay.session.heartbeat import HeartBeat
from stomprelay.session.states import EXPECTED, NEXT, Side, State
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_0, Dialect
from stomprelay.wire.limits import Limits


class Leg:
    """A connection to a client (`Side.DOWNSTREAM`) or to a broker (`Side.UPSTREAM`).

    Whoever performs effects maps legs to sockets; a leg knows none. Before CONNECT and CONNECTED a leg speaks
    1.0, as those frames do.

    `gone`: the connection has ended, yet the leg is not closed, because what came on it is still to be delivered.
    """

    __slots__ = ("decoder", "dialect", "gone", "heartbeat", "side", "state")

    def __init__(self, side: Side, limits: Limits, dialect: Dialect = V1_0) -> None:
        self.side = side
        self.state = State.OPENING
        self.dialect = dialect
        self.heartbeat = HeartBeat()
        self.gone = False
        self.decoder = Decoder(dialect, EXPECTED[side, self.state], limits)

    def enter(self, state: State, dialect: Dialect | None = None) -> None:
        """Go on to `state`, from the next frame on in `dialect` where one is given."""
        assert state in NEXT[self.state], f"{self.state} -> {state}"
        self.state = state
        self.dialect = dialect or self.dialect
        self.decoder.expect(self.dialect, EXPECTED[self.side, state])

    def lost(self) -> None:
        """The connection has ended: from now on nothing is written to the leg."""
        self.gone = True

    @property
    def closed(self) -> bool:
        """Whether nothing may be written to it any more."""
        return self.state is State.CLOSED
