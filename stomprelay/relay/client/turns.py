"""Whose frames go on now, without the core or by it, and whose when others had their turn."""

from collections.abc import Collection
from typing import Final

from stomprelay.relay.client.buffer import InputBuffer
from stomprelay.relay.effects import Outbox, Pass
from stomprelay.session.effects import GiveWay
from stomprelay.session.leg import Leg, State

_NONE: Final = frozenset[Leg]()


class Turns:
    """The legs of a session of which more came than is carried in one turn: what comes on them waits behind that until
    `had`. `allowed`: what may pass straight on now, because nothing waits on either side.
    """

    __slots__ = ("_buffer", "_client", "_deferred", "_outbox", "allowed")

    def __init__(self, client: Leg, buffer: InputBuffer, outbox: Outbox) -> None:
        self._client = client
        self._buffer = buffer
        self._outbox = outbox
        self._deferred = _NONE
        self.allowed: tuple[Pass, ...] = ()

    def awaits(self, leg: Leg) -> bool:
        """Whether what is left of this leg waits for its next turn."""
        return leg in self._deferred

    def had(self, leg: Leg) -> None:
        """The next turn of the leg has come, or it needs none any more."""
        self._deferred -= {leg}

    def give_way(self, leg: Leg, *, more: bool = False) -> None:
        """Leave to the next turn what the leg has more than was carried in this one, or that there is `more` to do."""
        if (more or leg.decoder.behind) and not leg.closed and leg not in self._deferred:
            self._deferred |= {leg}
            self._outbox.put(GiveWay(leg))

    def let_pass(self, able: Collection[Pass]) -> None:
        """Ask that of these what may pass straight on does so, and no more than that."""
        passes = tuple([each for each in able if self._unburdened(each.leg, each.to)])
        if passes != self.allowed:
            self._outbox.put(*_changed(self.allowed, passes))
            self.allowed = passes

    def _unburdened(self, leg: Leg, to: Leg) -> bool:
        """Whether both are there and nothing of `leg` waits, which what comes next would overtake."""
        if leg.state is not State.CONNECTED or to.state is not State.CONNECTED or leg.gone or to.gone:
            return False
        if leg in self._deferred or leg.decoder.buffered:
            return False
        return not (leg is self._client and (self._buffer or self._buffer.paused))


def _changed(allowed: Collection[Pass], passes: Collection[Pass]) -> list[Pass]:
    """Return what the service has to be told where it was told before that `allowed` may be sent straight on, and now
    `passes` may, one for a leg at most, and no others.
    """
    legs = {each.leg for each in passes}
    ended = [each for each in allowed if each.leg not in legs and not each.leg.closed]
    return [
        *(Pass(each.leg, each.to, None) for each in ended),
        *(each for each in passes if each not in allowed),
    ]
