"""One listening socket for several processes: all workers accept from it. Unlike with `SO_REUSEPORT`, no waiting client
is lost when a worker dies. A worker with more sessions lets other workers accept first: see `workers.loads`.
"""

import os
import socket
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, cast

from twisted.internet import tcp, unix
from twisted.internet.interfaces import IProtocolFactory
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.lockfile import FilesystemLock

from stomprelay.config.address import server

_NO_PATH: Final = b"\0"
"""Replaces the path of a UNIX socket. Twisted does not remove this path or change its mode."""


REST: Final = 0.005
"""Seconds for which a worker leaves new clients to workers with fewer sessions."""
ACCEPTED: Final = 16


class Inherited(NamedTuple):
    """What a worker gets from its parent: the listeners' sockets by name, `room` and `kept` of its `Loads`, and `tell`
    for its notices (see `Notify`).
    """

    sockets: Mapping[str, int]
    room: Callable[[int], int]
    kept: Callable[[int, int], tuple[int, int]]
    tell: Callable[[Sequence[str]], None] | None = None


def share(port: tcp.Port) -> int:
    """Return the port's descriptor, which may be given to other processes. From now on, closing the port does not shut
    down the socket, which other processes use.
    """
    port._shouldShutdown = False
    return int(port.fileno())


def give_up(port: tcp.Port) -> None:
    """Stop accepting on a port. Its path, if any, is left to the process that owns it now."""
    port.stopReading()
    if isinstance(port, unix.Port):
        port._bindPath = _NO_PATH
        port.lockFile = None


def pace(port: tcp.Port, accept: Callable[[], None], room: Callable[[], int] | None) -> None:
    """Let a port `accept` at most `ACCEPTED` clients in a turn, and only as many as there is `room` for. If `room`
    returns 0, the port leaves clients to other processes for `REST` seconds, then accepts one client. If `room` returns
    a negative number, the port stops accepting.
    """
    reactor = cast(Any, port.reactor)
    rested = False

    def paced() -> None:
        wanted = ACCEPTED if room is None else room() or int(rested)
        if wanted > 0:
            port.numberAccepts = min(wanted, ACCEPTED)
            accept()
            return
        port.stopReading()
        if not wanted:
            reactor.callLater(REST, resume)

    def resume() -> None:
        nonlocal rested
        if port.connected and not port.disconnecting:
            rested = True
            port.startReading()
            # Called after the reactor has checked the sockets once.
            reactor.callLater(0, forget)

    def forget() -> None:
        nonlocal rested
        rested = False

    port.doRead = partial(paced)  # type: ignore[method-assign]


class _Bound(socket.socket):
    """A socket that is already bound."""

    def bind(self, _: Any) -> None:
        """Do nothing."""


class InheritedPort(unix.Port):
    """Accepts clients of a UNIX socket that listens already. The path is not changed until `keep` is called."""

    def __init__(
        self,
        own: socket.socket,
        factory: IProtocolFactory,
        backlog: int,
        reactor: Any,
        path: str | None = None,
        mode: int = 0o666,
        *,
        lock: bool = False,
    ) -> None:
        super().__init__(_NO_PATH, factory, backlog, mode, reactor)
        self._own = own
        share(self)
        self._path = None if path is None else os.fsencode(path)
        self._lock = lock

    def createInternetSocket(self) -> socket.socket:
        """Return the socket on which the port listens."""
        return _Bound(fileno=self._own.detach())

    def keep(self) -> None:
        """Own the path from now on, instead of the process that opened it: the path is removed when this port ends."""
        path = self._path
        try:
            if path is None or not stat.S_ISSOCK(os.lstat(path).st_mode):
                return
        except OSError:
            return  # the path was removed
        os.chmod(path, self.mode)
        self._bindPath = path
        if self._lock:
            # This replaces the lock of the other process in one step, so that there is always a lock.
            name = path + b".lock"
            mine = name + b".%d" % os.getpid()
            os.symlink(str(os.getpid()), mine)
            os.replace(mine, name)
            lock = self.lockFile = FilesystemLock(name)
            lock.locked = True


class InheritedSocket:
    """Acts as a reactor for one server endpoint: whatever address the endpoint asks for, it gets this socket. It can
    listen only once. The endpoint adds TLS or the PROXY protocol as usual.
    """

    def __init__(self, reactor: Any, descriptor: int) -> None:
        self._reactor = reactor
        self._descriptor = descriptor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def listenTCP(
        self, port: int, factory: IProtocolFactory, backlog: int = 50, interface: str = ""
    ) -> tcp.Port:
        """Accept clients of the socket."""
        inherited = self._opened()
        if inherited.family == socket.AF_UNIX:
            local = InheritedPort(inherited, factory, backlog, self._reactor)
            local.startListening()
            return local
        with inherited:
            adopted: tcp.Port = self._reactor.adoptStreamPort(inherited.fileno(), inherited.family, factory)
        return adopted

    def listenSSL(
        self,
        port: int,
        factory: IProtocolFactory,
        contextFactory: Any,
        backlog: int = 50,
        interface: str = "",
    ) -> tcp.Port:
        """Accept clients of the socket, with TLS."""
        return self.listenTCP(port, TLSMemoryBIOFactory(contextFactory, False, factory), backlog)

    def listenUNIX(
        self,
        address: str,
        factory: IProtocolFactory,
        backlog: int = 50,
        mode: int = 0o666,
        wantPID: int = 0,
    ) -> tcp.Port:
        """Accept clients of the socket. The path belongs to the other process until `keep`."""
        local = InheritedPort(
            self._opened(), factory, backlog, self._reactor, address, mode, lock=bool(wantPID)
        )
        local.startListening()
        return local

    def _opened(self) -> socket.socket:
        opened = socket.socket(fileno=self._descriptor)
        opened.setblocking(False)
        return opened


def inherited(description: str) -> str:
    """Return the endpoint string to use with an `InheritedSocket`. `systemd:` becomes `tcp:`, because systemd's number
    of the socket is not valid in this process.
    """
    prefix = "haproxy:" if description.lower().startswith("haproxy:") else ""
    return f"{prefix}tcp:0" if server(description).kind == "systemd" else description
