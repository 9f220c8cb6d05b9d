"""Clients that connect and do not go on: each door gives them a time."""

from pathlib import Path

import pytest
import pytest_twisted

from stomprelay.config import Config
from stomprelay.service.relay import RelayService
from tests.e2e.certificates import Authority
from tests.service.certificates import serving
from tests.service.harness import listener
from tests.service.sockets import ANY_PORT, connect, port_of, reactor, running, until

HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 32
"""The beginning of a TLS handshake."""


@pytest.mark.parametrize(
    ("endpoint", "secured", "said"),
    [
        (ANY_PORT, False, b""),
        (ANY_PORT, False, b"CONNECT\n"),
        (ANY_PORT, False, b"\n" * 9),
        (ANY_PORT, True, b""),
        (ANY_PORT, True, HELLO[:3]),
        (ANY_PORT, True, HELLO),
        (f"haproxy:{ANY_PORT}", False, b""),
        (f"haproxy:{ANY_PORT}", False, b"PROXY TCP4 192.0.2.1"),
        (f"haproxy:{ANY_PORT}", False, b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nCONN"),
        (f"haproxy:{ANY_PORT}", True, b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + HELLO),
    ],
)
@pytest_twisted.ensureDeferred
async def test_a_client_that_does_not_go_on(
    tmp_path: Path, endpoint: str, secured: bool, said: bytes
) -> None:
    """Before or in the PROXY header, the handshake, CONNECT: `connect_timeout` is for all, then `linger`."""
    tls = serving(Authority(tmp_path, "Authority").issue("Broker", ("localhost",))) if secured else None
    door = listener(endpoint=endpoint, connect_timeout=0.1, linger=0.1, tls=tls)
    service = RelayService(Config((door,)), reactor)
    async with running(service):
        client = await connect(f"tcp:127.0.0.1:{port_of(service._listening.getServiceNamed('public'))}")
        client.transport.write(said)
        await until(lambda: service.state.runtime.sockets)
        await until(lambda: not service.state.runtime.sockets)
        assert not len(service.state.sessions)
        assert service.state.runtime.closing == 0
        client.transport.abortConnection()
        await client.gone()


@pytest_twisted.ensureDeferred
async def test_a_proxy_header_without_end() -> None:
    """It is not kept for longer than it may be."""
    service = RelayService(Config((listener(endpoint=f"haproxy:{ANY_PORT}"),)), reactor)
    async with running(service):
        client = await connect(f"tcp:127.0.0.1:{port_of(service._listening.getServiceNamed('public'))}")
        client.transport.write(b"PROXY TCP4 " + b"1" * 100_000)
        await client.gone()
        await until(lambda: not service.state.runtime.sockets)
