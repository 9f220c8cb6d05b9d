"""Several endpoints that are listened on together, and how they change while clients come."""

from collections.abc import Sequence
from typing import Final

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.python.failure import Failure

from stomprelay.service.log import logger
from stomprelay.service.network.endpoints import ListeningService

_log: Final = logger()


class Ports(MultiService):
    """Listens on endpoints, from `startService` on. Its services are added and removed by itself."""

    def __init__(self, services: Sequence[ListeningService]) -> None:
        super().__init__()
        self.opened: list[ListeningService] = []
        self._kept: list[tuple[ListeningService, ListeningService]] = []
        self._closed: list[ListeningService] = []
        for each in services:
            each.setServiceParent(self)

    def prepare(self, wanted: Sequence[ListeningService]) -> None:
        """Find out how to listen as these services would: sockets whose endpoints stay are kept, `opened` are new. Call
        `open`, then `commit` or `abandon`, in the same turn of the reactor.
        """
        there = {(each.description, each.name): each for each in self.services}
        # Port 0 may stand at several: first each has its own.
        kept = [(there.pop(key), each) for each in wanted if (key := (each.description, each.name)) in there]
        opened: list[ListeningService] = []
        for each in wanted:
            if any(each is other for _, other in kept):
                continue
            same = next((key for key in there if key[0] == each.description), None)
            if same is None:
                opened.append(each)
            else:
                kept.append((there.pop(same), each))
        self._kept, self.opened, self._closed = kept, opened, list(there.values())

    def open(self) -> None:
        """Listen on the new endpoints, if the service runs. Raises `CannotStart`; call `abandon` then."""
        if self.running:
            for each in self.opened:
                each.listen()

    def abandon(self) -> None:
        """Listen on no new endpoint: nothing has changed."""
        for each in self.opened:
            if each.listening:
                _ = maybeDeferred(each.stopService).addErrback(_failed)

    def commit(self) -> Deferred[None]:
        """Serve clients as it was wanted. The Deferred fires when the endpoints that are gone are closed."""
        ended = [maybeDeferred(each.disownServiceParent).addErrback(_failed) for each in self._closed]
        for running, other in self._kept:
            running.become(other)
        self.namedServices = {each.name: each for each in self.services}
        for each in self.opened:
            each.setServiceParent(self)
        return DeferredList(ended).addCallback(lambda _: None)


def _failed(failure: Failure) -> None:
    _log.failure("an endpoint could not be closed", failure)
