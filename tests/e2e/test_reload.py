"""A configuration that is read anew while clients work: none of them notices, whatever it says."""

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import brokers
from tests.e2e.certificates import Authority, Credentials
from tests.e2e.crowd import Crowd
from tests.e2e.ports import free_port
from tests.e2e.raw import Connection
from tests.e2e.relay import Relay, listening, relay

pytestmark = pytest.mark.e2e

CLIENTS = 200
TIMES = 20


def door(name: str, port: int, more: str = "") -> str:
    """A listener."""
    return listening(port, name, f'upstream = "main"\n{more}')


def upstream(*ports: int, more: str = "") -> str:
    """Brokers in this order."""
    places = ",".join(f"tcp://127.0.0.1:{port}" for port in ports)
    return f'[upstream.main]\nuri = "failover:({places})?randomize=false"\n{more}\n'


@pytest.mark.ci
@pytest.mark.parametrize("workers", [1, 2])
def test_again_and_again_under_load(tmp_path: Path, queue: str, workers: int) -> None:
    """Limits, levels, listeners and brokers change, and change back; no client is refused, cut off or kept waiting."""
    first, second, third = free_port(), free_port(), free_port()
    with brokers.memory(tmp_path) as there:

        def text(number: int) -> str:
            level = "debug" if number % 2 else "info"
            extra = door("extra", third) if number % 2 else ""
            size = f"limits.body = {100000 + number}"
            more = f"connect_timeout = {5 + number}"
            head = f'workers = {workers}\nlog_level = "{level}"\n'
            doors = door("one", first, size) + door("two", second) + extra
            return head + doors + upstream(there.port, more=more)

        with (
            relay(tmp_path, text(0), [first, second]) as running,
            Crowd([first, second], CLIENTS, queue, echo=True) as crowd,
        ):
            crowd.goes_on()
            for number in range(1, TIMES + 1):
                line = running.reload(text(number))
                assert "changed: log_level" in line
                assert f"listener.extra {'added' if number % 2 else 'removed'}" in line
                with contextlib.closing(Connection.to(first)) as late:
                    assert late.connect().startswith(b"CONNECTED\n")
            crowd.goes_on()
        assert not crowd.failed
        assert crowd.sent > CLIENTS
        print(
            f"{workers} process(es), {TIMES} reloads: {crowd.sent} SENDs of {CLIENTS} clients, each came back"
        )
        assert "ERROR" not in running.log


@pytest.fixture
def serving(tmp_path: Path, authority: Authority) -> Iterator[tuple[Relay, int, Credentials]]:
    """A relay with TLS, and its certificate."""
    port = free_port()
    own = authority.issue("rotated")
    with relay(tmp_path, secured(port, own), [port]) as running:
        yield running, port, own


def secured(port: int, own: Credentials, key: str = "key") -> str:
    """A listener with TLS, before the embedded broker."""
    return f"""
[listener.main]
endpoint = "tcp:{port}:interface=127.0.0.1"
[listener.main.tls]
certificate = "{own.certificate}"
{key} = "{own.key}"
"""


def certificate(port: int, trust: ssl.SSLContext) -> bytes:
    """The certificate that a new client is shown."""
    with contextlib.closing(Connection.to(port, trust)) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        shown = client.socket.getpeercert(binary_form=True)
        assert shown is not None
        return shown


@pytest.mark.ci
def test_a_certificate_that_is_replaced(
    serving: tuple[Relay, int, Credentials], authority: Authority
) -> None:
    """New clients are shown the new one, without any word to the relay; a pair that does not match is not taken, and
    who is connected stays so.
    """
    running, port, own = serving
    trust = ssl.create_default_context(cafile=str(authority.file))
    with contextlib.closing(Connection.to(port, trust)) as old:
        assert old.connect().startswith(b"CONNECTED\n")
        before = certificate(port, trust)
        fresh = authority.issue("fresh")
        key = own.key.read_bytes()
        own.key.write_bytes(b"half of a")
        running.wait_for_log(r"listener\.main\.tls\.key: .*; what was loaded before stays in use")
        assert certificate(port, trust) == before
        own.key.write_bytes(key)
        running.wait_for_log(r"listener\.main\.tls: the files changed; new connections have them")
        assert certificate(port, trust) == before
        start = len(running.log)
        own.certificate.write_bytes(fresh.certificate.read_bytes())
        own.key.write_bytes(fresh.key.read_bytes())
        running.wait_for_log("new connections have them", start)
        assert certificate(port, trust) != before
        assert "stays in use" not in running.log[start:]
        old.write(b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0")
        assert old.frame().startswith(b"RECEIPT\n")
