"""Whose frames go on now, without the core or by it, and whose when others had their turn."""

from collections.abc import Callable, Collection
from math import inf
from typing import Final

from stomprelay.relay.client.buffer import InputBuffer
from stomprelay.relay.effects import Outbox, Pass
from stomprelay.relay.flow import Flow
from stomprelay.relay.forward import TURN
from stomprelay.relay.model.rates import TokenBucket
from stomprelay.relay.notes import limited
from stomprelay.session.effects import GiveWay
from stomprelay.session.leg import Leg, State

_NONE: Final = frozenset[Leg]()


class Turns:
    """The legs of a session of which more came than is carried in one turn, `deferred`: what comes on them waits behind
    that until `had`. What the client sent waits in the `buffer` as well, for its brokers or for its pace. `allowed`:
    what may pass straight on now, because nothing waits on either side. `deadline`: when to `release` more, in
    seconds, because the pace has the client wait until then; infinity where it does not.
    """

    __slots__ = ("_buffer", "_client", "_flow", "_outbox", "allowed", "deadline", "deferred")

    def __init__(self, client: Leg, flow: Flow, buffer: InputBuffer, outbox: Outbox) -> None:
        self._client = client
        self._flow = flow
        self._buffer = buffer
        self._outbox = outbox
        self.deferred = _NONE
        self.allowed: tuple[Pass, ...] = ()
        self.deadline = inf

    def had(self, leg: Leg) -> None:
        """The next turn of the leg has come, or it needs none any more."""
        self.deferred -= {leg}

    def give_way(self, leg: Leg) -> None:
        """Leave to the next turn what there is more to do on this leg than was done in this one."""
        if not leg.closed and leg not in self.deferred:
            self.deferred |= {leg}
            self._outbox.put(GiveWay(leg))

    @property
    def readable(self) -> bool:
        """Whether what the client sent may be carried to brokers now, as far as its pace allows."""
        client = self._client
        return client.state is State.CONNECTED and self._flow.flowing and client not in self.deferred

    @property
    def held_by(self) -> TokenBucket | None:
        """The limit for which the client waits now; None where it does not."""
        pace = self._buffer.pace
        return None if pace is None or self.deadline == inf else pace.held_by

    def release(self, carry: Callable[[float, bytes, int], int], now: float) -> None:
        """Have `carry` carry what waits in the buffer: all of it, or as much as the pace allows now, before others have
        their turn. It returns how many frames it carried. Raises `StompError` where the pace refuses more.
        """
        client, buffer, pace = self._client, self._buffer, self._buffer.pace
        self.deadline = inf
        if pace is None:
            if self.readable:
                carry(now, b"", TURN)
            while buffer.cost and self.readable:
                carry(now, buffer.take(), TURN)
        elif buffer.unread and self.readable:
            behind = client.decoder.behind
            if not pace.ready(0 if behind else buffer.cost, now):
                self.deadline = pace.until
                if pace.held_by is not None and not pace.told:
                    pace.told = True
                    self._outbox.put(limited(pace.held_by))
            else:
                frames, size = pace.begin()
                data = b"" if behind else buffer.part(size)
                frames -= carry(now, data, frames)
                pace.done(frames, size - len(data), begun=client.decoder.buffered > 0 or buffer.cost > 0)
                if client.decoder.behind or (client.state is State.CONNECTED and buffer.unread):
                    self.give_way(client)

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
        if leg in self.deferred or leg.decoder.buffered:
            return False
        buffer = self._buffer
        return not (leg is self._client and (buffer.cost or buffer.paused or buffer.pace is not None))


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
