"""All brokers of a relay: where each is configured, its state, the names by which an operator can choose it, and how
brokers are taken out of service and back.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from stomprelay.config.address import host_and_port
from stomprelay.config.change import LeftBroker
from stomprelay.journal.schema import JournalEvent
from stomprelay.relay.inputs import Leave, Reconsidered
from stomprelay.relay.model.group import Broker, Group
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.journal.journal import Journal
from stomprelay.service.log import logger

_log: Final = logger()

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


class Pauses:
    """Takes brokers out of service and back. Clients get heart-beats meanwhile, and no ERROR: sessions finish and move
    to another broker of their group, or wait until one is resumed; those of a plain address stay. The journal records
    each pause and resume.
    """

    def __init__(self, sessions: Iterable[RelayDriver], journal: Journal | None = None) -> None:
        self._sessions = sessions
        self._journal = journal

    def pause(self, brokers: Iterable[ConfiguredBroker], within: float | None = None) -> None:
        """Take brokers out of service, and return at once. Their sessions leave within `within` seconds, including
        those asked earlier; None: the upstream's `drain_timeout`.
        """
        brokers = tuple(brokers)
        for each in brokers:
            if not each.broker.health.paused:
                each.broker.health.paused = True
                _log.info(
                    "upstream {upstream}: broker {broker} is paused, its sessions ({count}) {what}",
                    upstream=each.upstream.name,
                    broker=each.broker,
                    count=each.broker.health.sessions,
                    what="stay, for it has no other" if each.group.reconnect is None else "leave it",
                )
                self._record(JournalEvent.PAUSED, each)
        seconds = {each.broker: each.upstream.drain_timeout if within is None else within for each in brokers}
        self._leave(seconds, anew=within is not None)

    def _leave(self, seconds: Mapping[Broker, float], *, anew: bool) -> None:
        """Ask sessions to leave brokers within so many seconds each; `anew`: also sessions that were asked before."""
        for session in tuple(self._sessions):
            leaving = {
                link.broker
                for link in session.relay.links
                if anew or link.moving is None or link.moving.may_stay
            }
            for broker in leaving:
                if broker is not None and broker in seconds:
                    session.handle(Leave(broker, seconds[broker]))

    def remove(self, left: Iterable[LeftBroker]) -> None:
        """Ask the sessions of removed brokers to leave. Sessions that wait for a broker try the others at once."""
        seconds = {each.broker: each.upstream.drain_timeout for each in left}
        for broker in seconds:
            broker.health.paused = True
        self._leave(seconds, anew=False)
        self._wake()

    def resume(self, brokers: Iterable[ConfiguredBroker]) -> None:
        """Take these brokers into service again. Sessions that wait for one try at once."""
        resumed = False
        for each in brokers:
            if each.broker.health.paused:
                each.broker.health.paused = False
                resumed = True
                _log.info(
                    "upstream {upstream}: broker {broker} is resumed",
                    upstream=each.upstream.name,
                    broker=each.broker,
                )
                self._record(JournalEvent.RESUMED, each)
        if resumed:
            self._wake()

    def _wake(self) -> None:
        for session in tuple(self._sessions):
            session.handle(Reconsidered())

    def _record(self, event: JournalEvent, what: ConfiguredBroker) -> None:
        if self._journal is not None:
            upstream, broker = what.upstream.name, str(what.broker)
            facts = {"upstream": upstream, "broker": broker}
            self._journal.happened(event, f"{event.value}: {broker}", facts, upstream, broker)
