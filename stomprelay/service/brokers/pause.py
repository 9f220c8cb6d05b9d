"""Takes brokers out of service and back, as pgbouncer does: clients get heart-beats meanwhile, and no ERROR.

A paused broker gets no new session. Its sessions end their transactions and acknowledge their messages, and move to
another broker of their group, at the latest when their time is over. If there is no other broker, they wait until one
is resumed. Sessions of a plain address cannot leave it, and stay.
"""

from collections.abc import Iterable, Mapping

from stomprelay.config.change import LeftBroker
from stomprelay.journal.schema import JournalEvent
from stomprelay.relay.inputs import Leave, Reconsidered
from stomprelay.relay.model.group import Broker
from stomprelay.service.brokers.brokers import ConfiguredBroker
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.journal.journal import Journal
from stomprelay.service.log import logger

_log = logger()


class Pauses:
    """Pauses and resumes brokers, and moves or wakes the sessions. `sessions` is a live collection of these. Each pause
    and resume is recorded in the journal, if there is one.
    """

    def __init__(self, sessions: Iterable[RelayDriver], journal: Journal | None = None) -> None:
        self._sessions = sessions
        self._journal = journal

    def pause(self, brokers: Iterable[ConfiguredBroker], within: float | None = None) -> None:
        """Take these brokers out of service. Their sessions get `within` seconds to leave, also those that were asked
        before; None is the `drain_timeout` of each upstream.

        Returns at once: a broker is free when it has no sessions left.
        """
        brokers = tuple(brokers)
        for each in brokers:
            if not each.broker.health.paused:
                each.broker.health.pause()
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
        """Ask sessions to leave these brokers within so many seconds each; `anew`: also those that were asked
        before.
        """
        for session in tuple(self._sessions):
            leaving = {
                link.broker for link in session.relay.links if anew or not link.moving or link.may_stay
            }
            for broker in leaving:
                if broker is not None and broker in seconds:
                    session.handle(Leave(broker, seconds[broker]))

    def remove(self, left: Iterable[LeftBroker]) -> None:
        """Ask the sessions of brokers that are no longer in any group to leave them. Sessions that wait for a broker
        try the present ones at once.
        """
        seconds = {each.broker: each.upstream.drain_timeout for each in left}
        for broker in seconds:
            broker.health.pause()
        self._leave(seconds, anew=False)
        self._wake()

    def resume(self, brokers: Iterable[ConfiguredBroker]) -> None:
        """Take these brokers into service again. Sessions that wait for one try at once."""
        resumed = False
        for each in brokers:
            if each.broker.health.paused:
                each.broker.health.resume()
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
