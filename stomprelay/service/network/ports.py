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

    def __init__(self, services: Sequence[ListeningService] = ()) -> None:
        super().__init__()
        for each in services:
            each.setServiceParent(self)

    def change(self, wanted: Sequence[ListeningService]) -> "PortChange":
        """Return how it comes to listen as these would, which do not yet: a socket whose endpoint stays is kept."""
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
        return PortChange(self, kept, opened, tuple(there.values()))

    def exchange(
        self,
        kept: Sequence[tuple[ListeningService, ListeningService]],
        opened: Sequence[ListeningService],
        closed: Sequence[ListeningService],
    ) -> Deferred[None]:
        """Have services become others, add some that listen, and close some. The Deferred fires when they are."""
        ended = [maybeDeferred(each.disownServiceParent).addErrback(_failed) for each in closed]
        for running, other in kept:
            running.become(other)
        self.namedServices = {each.name: each for each in self.services}
        for each in opened:
            each.setServiceParent(self)
        return DeferredList(ended).addCallback(lambda _: None)


def _failed(failure: Failure) -> None:
    _log.failure("an endpoint could not be closed", failure)


class PortChange:
    """What becomes of `Ports`: call `open`, and then either `commit` or `abandon`, in one turn of the reactor, so that
    nobody is accepted before it is certain.
    """

    def __init__(
        self,
        ports: Ports,
        kept: Sequence[tuple[ListeningService, ListeningService]],
        opened: Sequence[ListeningService],
        closed: Sequence[ListeningService],
    ) -> None:
        self.opened: Final = tuple(opened)
        self._ports = ports
        self._kept = kept
        self._closed = closed

    def open(self) -> None:
        """Listen on the endpoints that are new, if the others are listened on. Raises `CannotStart` where one cannot be
        listened on; call `abandon` then.
        """
        if self._ports.running:
            for each in self.opened:
                each.listen()

    def abandon(self) -> None:
        """Listen on no new endpoint: nothing has changed."""
        for each in self.opened:
            if each.listening:
                _ = maybeDeferred(each.stopService).addErrback(_failed)

    def commit(self) -> Deferred[None]:
        """Serve clients as it was wanted. The Deferred fires when the endpoints that are gone are closed."""
        return self._ports.exchange(self._kept, self.opened, self._closed)
