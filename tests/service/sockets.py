"""Services that listen on real sockets of the loopback interface."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from twisted.application.service import IService
from twisted.internet import reactor as real_reactor
from twisted.internet.defer import maybeDeferred

from stomprelay.service.network.endpoints import ListeningService
from tests.service.talker import PATIENCE, Talker, connect

reactor: Any = real_reactor

ANY_PORT = "tcp:0:interface=127.0.0.1"


def port_of(entrance: Any) -> int:
    """The port that an entrance listens on."""
    assert isinstance(entrance, ListeningService)
    listening: Any = entrance._waitingForPort
    port: int = listening.result.getHost().port
    return port


async def call(entrance: Any) -> Talker:
    """A client that came in by an entrance."""
    return await connect(f"tcp:host=127.0.0.1:port={port_of(entrance)}")


async def stopped(service: IService) -> None:
    """Stop a service, and wait until it has stopped."""
    await maybeDeferred(service.stopService).addTimeout(PATIENCE, reactor)


@asynccontextmanager
async def running(service: IService) -> AsyncIterator[None]:
    """Start a service, and stop it when the block ends."""
    service.privilegedStartService()
    service.startService()
    try:
        yield
    finally:
        await stopped(service)
