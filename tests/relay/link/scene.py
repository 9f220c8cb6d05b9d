"""A session, its link to one group of brokers and its search, without anything that carries frames."""

from math import inf
from typing import Any

import pytest

from stomprelay.relay import inputs
from stomprelay.relay.effects import Effect, Open, Outbox
from stomprelay.relay.guard import Guard
from stomprelay.relay.link.link import Accepted, Denied, Ended, Link, Waiting
from stomprelay.relay.model.counters import Counters
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.rules import ANYBODY
from stomprelay.relay.model.upstream import Upstream
from stomprelay.relay.relay import ClientConnection
from stomprelay.relay.resend.resender import Resender
from stomprelay.relay.single import Single
from stomprelay.session.effects import How
from stomprelay.session.handshake import Offer
from stomprelay.session.leg import Leg, LegState, Side
from stomprelay.session.session import Session
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.errors import StompError
from tests.playbook import VERSIONS, listener, said_welcome
from tests.relay.failing import middle, movable


class Search(ClientConnection):
    """A client's connection that looks for brokers, and raises what its session would end with."""

    def _broker_failed(self, error: StompError, links: list[Link], now: float) -> None:
        raise error


class Scene:
    """A session `s`, its link to the first group of an upstream, and its search. `now` is the time of what is told."""

    def __init__(
        self, over: Upstream | None = None, *, version: bytes = b"1.2", resends: bool = False, **settings: Any
    ) -> None:
        self.over = over or movable(**settings)
        front = listener(self.over)
        self.counters = Counters()
        self.session = Session(b"s", DIALECTS[version], 10, self.counters)
        self.outbox = Outbox()
        offer = Offer([], frozenset(VERSIONS[: VERSIONS.index(version) + 1]), None)
        group, rooms = self.over.groups[0], (self.session, self.outbox)
        self.link = Link(front, self.over, group, offer, *rooms, middle, resends=resends)
        client = Leg(Side.DOWNSTREAM, front.limits)
        client.enter(LegState.CONNECTED, DIALECTS[version])
        self.flow = Single(client, self.link, self.outbox, Guard(None, ANYBODY, self.session.counters))
        self.search = Search(client, front, offer, self.session, self.flow, self.outbox)
        self.now = 100.0

    @property
    def leg(self) -> Leg:
        """The leg that it has."""
        assert self.link.state.leg is not None
        return self.link.state.leg

    @property
    def resender(self) -> Resender:
        """Of a session that survives its broker."""
        assert self.link.resender is not None
        return self.link.resender

    # What happens

    def hears(self, event: inputs.Input) -> None:
        """The search is given an input."""
        self.search.inputs[type(event)](self.search, event, self.now)

    def seeks(self) -> None:
        """The search begins."""
        self.search._begin([self.link], self.now)

    def accepts(self) -> None:
        """The connection is there."""
        self.hears(inputs.BrokerConnected(self.leg))

    def refuses(self, reason: str = "Connection refused") -> None:
        """The broker that is asked cannot be reached."""
        self.hears(inputs.NotConnected(self.leg, reason))

    def answers(self, data: bytes) -> Accepted | Denied | None:
        """The broker that is asked sends this."""
        return self.link.answered(data, self.now)

    def wakes(self) -> None:
        """At the time that it asked for."""
        assert self.link.until < inf
        self.now = max(self.now, self.link.until)
        self.hears(inputs.Woke())

    def finds(self, version: bytes = b"1.2", product: str = "generic") -> None:
        """The next broker that is asked accepts. All effects are forgotten."""
        while isinstance(self.link.state, Waiting):
            self.wakes()
        assert isinstance(self.answers(said_welcome(version, product)), Accepted)
        self.outbox.drain()

    def loses(self) -> None:
        """Its broker is gone, and another one is sought."""
        self.resender.lost(by=None, now=self.now)
        self.link.hang_up(How.ABORT)
        self.outbox.drain()
        self.seeks()

    def leaves(self, within: float = 5.0, to: Broker | None = None) -> None:
        """The session shall leave its broker."""
        assert self.link.broker is not None
        self.hears(inputs.Leave(self.link.broker, within, to))

    def is_taken(self) -> None:
        """The broker that it shall go to accepts it. What was asked for until then is forgotten."""
        self.outbox.drain()
        self.link.next_answered(said_welcome(b"1.2"), self.now)
        self.search._move(self.now)

    # What is expected

    def effects(self) -> list[Effect]:
        """All that was asked for since the last look."""
        return self.outbox.drain()

    def asked(self) -> list[str]:
        """The brokers that were asked for since the last look; everything else is forgotten."""
        return [str(each.broker) for each in self.effects() if isinstance(each, Open)]

    def is_over(self, message: str, detail: str) -> None:
        """The search ends with the next refusal, and the session with it, for this reason."""
        with pytest.raises(StompError) as failure:
            self.refuses()
        assert (failure.value.message, failure.value.detail) == (message, detail)
        assert isinstance(self.link.state, Ended)
        assert self.link.until == inf


def started(over: Upstream | None = None, **settings: Any) -> Scene:
    """A session that is on the first broker."""
    play = Scene(over, **settings)
    play.seeks()
    play.finds()
    return play
