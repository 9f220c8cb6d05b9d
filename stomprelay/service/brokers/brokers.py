"""All brokers of a relay: where each is configured, its state, and the names by which an operator can choose it."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from stomprelay.config.address import host_and_port
from stomprelay.relay.model.group import Broker, Group
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream

ALL: Final = "*"
UP: Final = "up"


class ConfiguredBroker(NamedTuple):
    """A broker with its group and its upstream."""

    upstream: Upstream
    group: Group
    broker: Broker

    def state(self, now: float) -> str:
        """Return the state: `paused`, `out` (for a while after failures), `up`, `down` or `unknown`."""
        health = self.broker.health
        if health.paused:
            return "paused"
        if health.out(now):
            return "out"
        if health.up is None:
            return "unknown"
        return UP if health.up else "down"


class Brokers:
    """Every broker of the listeners' upstreams, in the configuration's order. One address may be here several times."""

    def __init__(self, listeners: Iterable[Listener]) -> None:
        self.change(listeners)

    def change(self, listeners: Iterable[Listener]) -> None:
        """Use the brokers of these listeners. The caller tells all that keep something for each broker."""
        upstreams = {id(each): each for listener in listeners for each in listener.upstreams()}
        self.upstreams = tuple(upstreams.values())
        self.configured = tuple(
            ConfiguredBroker(upstream, group, broker)
            for upstream in self.upstreams
            for group in upstream.groups
            for broker in group.brokers
        )

    def __iter__(self) -> Iterator[ConfiguredBroker]:
        return iter(self.configured)

    def find(self, word: str) -> tuple[ConfiguredBroker, ...]:
        """Return the brokers with this address, with this `host:port`, or all for `*`."""
        return tuple(each for each in self if word in (ALL, each.broker.uri, host_and_port(each.broker)))
