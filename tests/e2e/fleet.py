"""Several brokers behind one relay: each behind a proxy of ours, so that all that can happen to it can be done."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.brokers import Broker
from tests.e2e.proxy import Proxy
from tests.e2e.relay import Admin, Relay, served


@dataclass(frozen=True)
class Node:
    """A broker and the proxy in front of it; the relay knows only the proxy."""

    broker: Broker
    proxy: Proxy

    @property
    def uri(self) -> str:
        """Its address in the relay's configuration."""
        return f"tcp://127.0.0.1:{self.proxy.port}"

    def heal(self) -> None:
        """Make it well again, whatever was done to it, and wait until it answers."""
        self.proxy.flow()
        self.broker.heal()


@dataclass(frozen=True)
class Fault:
    """Something that happens to a node; `begin_healing` starts its recovery, `Node.heal` waits for it.

    CUT is to the relay what KILL is, and a broker that was cut off is there again at once, with all that it had.
    """

    name: str
    inject: Callable[[Node], None]
    begin_healing: Callable[[Node], None] = lambda node: None


KILL = Fault("SIGKILL", lambda node: node.broker.kill(), lambda node: node.broker.start())
STOP = Fault("polite stop", lambda node: node.broker.stop(), lambda node: node.broker.start())
FREEZE = Fault("SIGSTOP", lambda node: node.broker.freeze(), lambda node: node.broker.thaw())
CUT = Fault("cut off", lambda node: node.proxy.cut(), lambda node: node.proxy.flow())
RESET = Fault("reset", lambda node: node.proxy.reset())
SWALLOW = Fault("black hole", lambda node: node.proxy.swallow(), lambda node: node.proxy.flow())
MUTE = Fault("mute", lambda node: node.proxy.mute(), lambda node: node.proxy.flow())
FLAP = Fault("flapping", lambda node: node.proxy.flap(0.1), lambda node: node.proxy.flow())


@dataclass(frozen=True)
class Fleet:
    """A relay with brokers behind it."""

    relay: Relay
    port: int
    admin: Admin
    nodes: Sequence[Node]

    @property
    def serving(self) -> Node:
        """The node that has most connections."""
        return max(self.nodes, key=lambda node: node.proxy.connections)

    def heal(self) -> None:
        """Make every node well again."""
        for node in self.nodes:
            node.heal()

    def all_up(self) -> bool:
        """Whether the relay takes every broker for well, in each upstream."""
        return all(each["state"] == "up" for each in self.admin.told("/brokers")["brokers"])


@contextlib.contextmanager
def nodes(*brokers: Broker) -> Iterator[list[Node]]:
    """Put a proxy in front of each broker; at the end each is made well again, for the next test."""
    with contextlib.ExitStack() as stack:
        made = [Node(broker, stack.enter_context(Proxy(broker.port))) for broker in brokers]
        for broker in brokers:
            stack.callback(broker.heal)
        for broker in brokers:
            broker.heal()
        yield made


@contextlib.contextmanager
def fleet(directory: Path, members: Sequence[Node], upstream: str, listener: str = "") -> Iterator[Fleet]:
    """Run a relay before these nodes. `upstream` and `listener` are lines of TOML, as in `served`."""
    with served(directory, upstream, listener) as running:
        yield Fleet(running, running.port, running.admin, members)


@contextlib.contextmanager
def surviving(directory: Path, *brokers: Broker) -> Iterator[Fleet]:
    """Run a relay whose sessions survive these brokers, each behind a proxy."""
    with nodes(*brokers) as members, fleet(directory, members, failover(members)) as running:
        yield running


def failover(
    members: Sequence[Node],
    options: str = "randomize=false",
    name: str = "main",
    more: str = "",
) -> str:
    """Return the lines of an upstream that survives its brokers, with short beats and confirmed sending.

    With probes the relay soon knows by itself that a broker is well again. By the sessions alone it would try it
    with one of them first, and where producers and consumers go different ways the consumers get nothing.
    """
    places = ",".join(node.uri for node in members)
    return f"""
uri = "failover:({places})?{options}"
confirm = true
heart_beat = [500, 500]
connect_timeout = 2
{more}
[upstream.{name}.health]
pause = 0.1
longest_pause = 0.2
probe = 0.3
"""
