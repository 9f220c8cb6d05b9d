"""The reactor of a relay: Twisted's epoll reactor, which reads pipes without detour.

Twisted calls every connection through `log.callWithLogger`, which makes a context for its log lines, and then through
two more functions. For a few bytes that takes as long as passing them on. A `Pipe` logs nothing, so it is called at
once. All else is as Twisted does it.
"""

from select import EPOLLIN

from twisted.internet.epollreactor import EPollReactor
from twisted.internet.main import installReactor
from twisted.python import log

from stomprelay.service.connection.pipes import PIPE


class RelayReactor(EPollReactor):
    """An epoll reactor that calls the `Pipe` of a connection directly.

    This relies on three attributes of Twisted's (`_poller`, `_selectables`, `_doReadOrWrite`) and on the method
    `_disconnectSelectable`; the tests hold Twisted to them.
    """

    def doPoll(self, timeout: float | None) -> None:
        """Wait for at most so many seconds, None for ever, and let every descriptor do what it can do then."""
        selectables = self._selectables
        for descriptor, event in self._poller.poll(-1 if timeout is None else timeout, len(selectables)):
            selectable = selectables.get(descriptor)
            if selectable is None:
                continue  # another one closed it in this turn
            if event == EPOLLIN and type(read := getattr(selectable, "doRead", None)) is PIPE:
                end: BaseException | None
                try:
                    end = read()
                except BaseException as error:
                    log.callWithLogger(selectable, log.err)
                    end = error
                if end is not None:
                    log.callWithLogger(selectable, self._disconnectSelectable, selectable, end, True)
            else:
                log.callWithLogger(selectable, self._doReadOrWrite, selectable, descriptor, event)

    doIteration = doPoll


def install() -> None:
    """Make it the reactor of this process. Raises `ReactorAlreadyInstalledError` where there is one."""
    installReactor(RelayReactor())
