"""One listening socket for several processes: the parent opens it, and each worker accepts from it.

With one socket, rather than one a process on the same port (`SO_REUSEPORT`), a worker that dies takes nobody with it
who was not accepted yet, and a new client goes to a worker that has time for it.
"""

import socket
from typing import Any, Final

from twisted.internet import tcp, unix
from twisted.internet.interfaces import IProtocolFactory
from twisted.protocols.tls import TLSMemoryBIOFactory

from stomprelay.config.endpoint import server

_NO_PATH: Final = b"\0"
"""In place of the path of a UNIX socket: one that Twisted neither removes nor changes the mode of."""


def hold(port: tcp.Port) -> int:
    """Let a port that listens accept nobody, and have its end close no other process's; return its descriptor, which
    workers inherit.
    """
    port.stopReading()
    port._shouldShutdown = False
    descriptor: int = port.fileno()
    return descriptor


class InheritedSocket:
    """A reactor that listens, once, on a socket which listens already, whatever it is asked to listen on; in all else
    it is `reactor`. An endpoint that is made with it brings what is around the socket (TLS, the PROXY protocol) as
    ever.
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
        inherited = socket.socket(fileno=self._descriptor)
        inherited.setblocking(False)
        if inherited.family == socket.AF_UNIX:
            local = unix.Port(_NO_PATH, factory, backlog, reactor=self._reactor)
            local._preexistingSocket = inherited
            local._shouldShutdown = False
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
        """Accept clients of the socket; its path, and who may connect, are the parent's to look after."""
        return self.listenTCP(0, factory, backlog)


def inherited(description: str) -> str:
    """Return an endpoint string that can be parsed where it is to listen on an `InheritedSocket`: what systemd handed
    to the parent has no number here.
    """
    prefix = "haproxy:" if description.lower().startswith("haproxy:") else ""
    return f"{prefix}tcp:0" if server(description).kind == "systemd" else description
