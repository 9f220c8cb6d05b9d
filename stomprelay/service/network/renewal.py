"""Certificates that change while they are used: their files are looked at, and loaded anew."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.task import LoopingCall

from stomprelay.service.log import logger
from stomprelay.service.network.tls import Stamps, TLSConnections, Unusable

_log: Final = logger()

EVERY: Final = 2.0
"""Seconds between two looks. A change must be the same at two looks: certificate and key are replaced one after the
other.
"""


class CertificateWatch(Service):
    """Loads changed files of TLS connections, together, while the service runs. If they cannot be used the old ones
    stay. Each change is logged once.
    """

    def __init__(self, reactor: Any) -> None:
        self._watched: Mapping[str, Sequence[TLSConnections]] = {}
        self._seen: dict[str, tuple[Stamps, ...]] = {}
        loop = self._loop = LoopingCall(self.look)
        loop.clock = reactor

    def watch(self, connections: Mapping[str, Sequence[TLSConnections]]) -> None:
        """Look at the files of these from now on, and of no others. Their names are tables of the configuration."""
        self._watched = {name: each for name, each in connections.items() if any(one.paths for one in each)}
        self._seen.clear()
        self._run()

    def startService(self) -> None:
        """Begin, if there is a file to look at."""
        super().startService()
        self._run()

    def stopService(self) -> None:
        """Look no more."""
        super().stopService()
        self._run()

    def _run(self) -> None:
        wanted = bool(self.running and self._watched)
        if wanted and not self._loop.running:
            _ = self._loop.start(EVERY, now=False)
        elif not wanted and self._loop.running:
            self._loop.stop()

    def look(self) -> None:
        """Look at all files once."""
        for name, connections in self._watched.items():
            stamps = tuple(each.stamps() for each in connections)
            if stamps == tuple(each.loaded for each in connections):
                self._seen.pop(name, None)
            elif self._seen.get(name) == stamps:
                del self._seen[name]
                _renew(name, connections)
            else:
                self._seen[name] = stamps


def _renew(name: str, connections: Sequence[TLSConnections]) -> None:
    problem: Unusable | None = None
    for each in connections:
        try:
            each.renew()
        except Unusable as error:
            problem = error
    if problem is None:
        _log.info("{name}: the files changed; new connections have them", name=name)
    else:
        _log.warn("{name}.{problem}; what was loaded before stays in use", name=name, problem=str(problem))
