"""Twisted's own port forwarder as a process: `python -m bench.forward LISTEN:TARGET ...`, all on 127.0.0.1."""

import sys
from typing import cast

from twisted.internet.protocol import ServerFactory
from twisted.protocols.portforward import ProxyFactory


def main(pairs: list[str]) -> None:
    """Forward each port to its target until ended."""
    from twisted.internet import reactor

    for pair in pairs:
        port, target = map(int, pair.split(":"))
        # Twisted's types want a ServerFactory, of which its own proxy is none.
        factory = cast("ServerFactory", ProxyFactory("127.0.0.1", target))
        reactor.listenTCP(port, factory, interface="127.0.0.1")
    reactor.run()


if __name__ == "__main__":
    main(sys.argv[1:])
