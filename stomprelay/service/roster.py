"""All brokers of a service: each where it stands, how it is, and by which words it is meant."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from stomprelay.config.endpoint import client
from stomprelay.relay.model.group import Broker, Group
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream

ALL: Final = "*"
"""The word for every broker."""


class Entry(NamedTuple):
    """A broker in its group, of its upstream."""

    upstream: Upstream
    group: Group
    broker: Broker

    def state(self, now: float) -> str:
        """How it is: `paused` by an operator, `out` for a while after failures, `up`, `down`, or `unknown`."""
        health = self.broker.health
        if health.paused:
            return "paused"
        if health.out(now):
            return "out"
        if health.up is None:
            return "unknown"
        return "up" if health.up else "down"


def place(broker: Broker) -> str | None:
    """Its host and port as people write them; None for a broker without."""
    try:
        arguments = client(broker.endpoint).arguments
    except ValueError:
        return None
    host, port = arguments.get("host"), arguments.get("port")
    if not host or not port:
        return None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Roster:
    """Every broker of every upstream that listeners lead to, in the order of the configuration.

    One address may stand in it several times: in several upstreams, or in several groups of one.
    """

    def __init__(self, listeners: Iterable[Listener]) -> None:
        upstreams = {id(each): each for listener in listeners for each in listener.upstreams()}
        self.upstreams = tuple(upstreams.values())
        self.entries = tuple(
            Entry(upstream, group, broker)
            for upstream in self.upstreams
            for group in upstream.groups
            for broker in group.brokers
        )

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def named(self, word: str) -> tuple[Entry, ...]:
        """Those that a word means: a broker's address as it is configured, its `host:port`, or `*` for all."""
        return tuple(entry for entry in self.entries if word in (ALL, entry.broker.uri, place(entry.broker)))
