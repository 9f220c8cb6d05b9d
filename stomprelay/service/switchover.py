"""Taking brokers out of service and back, as pgbouncer does: clients see silence and heart-beats, no more.

A broker that is paused gets no new session. Those that it has are held, finish what they are at, and go to another
broker of their group as soon as nothing is open, at the latest when their time is over. Where there is no other
they wait until a broker is resumed. Sessions of a plain address cannot leave it, and stay.
"""

from collections.abc import Callable, Iterable

from twisted.logger import Logger

from stomprelay.journal.schema import JournalEvent
from stomprelay.service.perform import Stage
from stomprelay.service.relaying import Relaying
from stomprelay.service.roster import Entry

_log = Logger("stomprelay")


class Switchover:
    """Pauses and resumes the brokers of a service, whose sessions `sessions` names; `stage` knows of its journal."""

    def __init__(self, sessions: Callable[[], Iterable[Relaying]], stage: Stage | None = None) -> None:
        self._sessions = sessions
        self._stage = stage

    def pause(self, entries: Iterable[Entry], within: float | None = None) -> None:
        """Take these brokers out of service. Their sessions may take so many seconds to leave, also those that were
        told already; None is what each upstream has for its `drain_timeout`.

        It returns at once: a broker is free when its sessions are gone.
        """
        entries = tuple(entries)
        for entry in entries:
            if not entry.broker.health.paused:
                entry.broker.health.paused = True
                _log.info(
                    "upstream {upstream}: broker {broker} is paused, its sessions ({count}) {what}",
                    upstream=entry.upstream.name,
                    broker=entry.broker,
                    count=entry.broker.health.sessions,
                    what="stay, for it has no other" if entry.group.reconnect is None else "leave it",
                )
                self._record(JournalEvent.PAUSED, entry)
        within_by_broker = {entry.broker: _time(entry, within) for entry in entries}
        for session in tuple(self._sessions()):
            leaving = {link.broker for link in session.relay.links if within is not None or not link.moving}
            for broker in leaving:
                if broker in within_by_broker:
                    session.move(broker, within_by_broker[broker])

    def resume(self, entries: Iterable[Entry]) -> None:
        """Take these brokers into service again. Whoever waits for one tries at once."""
        resumed = False
        for entry in entries:
            if entry.broker.health.paused:
                entry.broker.health.paused = False
                resumed = True
                _log.info(
                    "upstream {upstream}: broker {broker} is resumed",
                    upstream=entry.upstream.name,
                    broker=entry.broker,
                )
                self._record(JournalEvent.RESUMED, entry)
        if resumed:
            for session in tuple(self._sessions()):
                session.reconsider()

    def _record(self, event: JournalEvent, entry: Entry) -> None:
        journal = None if self._stage is None else self._stage.journal
        if journal is not None:
            upstream, broker = entry.upstream.name, str(entry.broker)
            facts = {"upstream": upstream, "broker": broker}
            journal.happened(event, f"{event.value}: {broker}", facts, upstream, broker)


def _time(entry: Entry, within: float | None) -> float:
    return entry.upstream.drain_timeout if within is None else within
