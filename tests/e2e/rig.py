"""A relay between clients and a broker of which a test plays every byte."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.raw import GOODBYE, Connection, ScriptedBroker, body, close_all, headers
from tests.e2e.relay import Relay, served

CONNECT = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
CONNECTED = b"CONNECTED\nversion:1.2\nsession:s1\nserver:scripted\n\n\0"
MESSAGE = b"MESSAGE\nsubscription:1\nmessage-id:m1\ndestination:/queue/a\ncontent-length:5\n\nhello\0"
SEND = b"SEND\ndestination:/queue/a\ncontent-length:5\n\nhello\0"


@dataclass(frozen=True)
class Rig:
    """A relay between clients and a broker that the test plays."""

    relay: Relay
    broker: ScriptedBroker
    port: int

    def session(self, version: str = "1.2") -> tuple[Connection, Connection]:
        """Open a session and return its two ends: the client's and the broker's."""
        client = Connection.to(self.port)
        client.write(b"CONNECT\naccept-version:%s\nhost:/\n\n\0" % version.encode())
        broker = self.broker.accept()
        broker.connected(version)
        assert client.frame().startswith(b"CONNECTED\n")
        return client, broker


@contextmanager
def run_rig(directory: Path) -> Iterator[Rig]:
    """Run a relay in front of a scripted broker."""
    with ScriptedBroker() as broker:
        upstream = f'uri = "{broker.uri}"\nconnect_timeout = 600'
        with served(directory, upstream) as running:
            yield Rig(running, broker, running.port)


@contextmanager
def undisturbed(rig: Rig) -> Iterator[None]:
    """Check around a test that a bystander's session lives on and that nothing of the test stays open."""
    while rig.broker.waiting():  # left over by a test that failed
        rig.broker.accept().close()
    client, broker = rig.session()
    before = rig.relay.descriptors()
    yield
    close_all(but=(client, broker))
    rig.relay.wait_until(lambda: rig.relay.descriptors() == before)
    exchange(client, broker)
    client.close()
    assert broker.rest() == GOODBYE
    broker.close()


def exchange(client: Connection, broker: Connection) -> None:
    """Pass a frame in each direction."""
    client.write(SEND)
    assert body(broker.frame()) == b"hello"
    broker.write(MESSAGE)
    assert client.frame() == MESSAGE


def error(client: Connection) -> bytes:
    """Read an ERROR that says something and the end of the connection behind it."""
    frame = client.frame()
    assert frame.startswith(b"ERROR\n"), frame
    assert headers(frame)[b"message"]
    assert client.rest().strip() == b""
    client.close()
    return frame
