"""What the parent asks a worker for: its snapshot, and that brokers are paused and resumed, over HTTP."""

import json
from collections.abc import Callable
from io import BytesIO
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.web.client import Agent, FileBodyProducer, readBody
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from stomprelay.service.admin.readiness import parse as parse_readiness
from stomprelay.service.admin.site import READY, STATE, STATE_WHOLE
from stomprelay.service.admin.snapshot import Snapshot, parse

WITHIN: Final = 5.0
"""Seconds that a worker has for its response."""

_JSON: Final = Headers({b"content-type": [b"application/json"]})


class NoAnswer(Exception):
    """A worker refused a request, or its response is not one."""


class _Quiet(UNIXClientEndpoint):
    """A UNIX socket whose connections are not worth a line in the log."""

    def connect(self, protocolFactory: Any) -> Any:
        """Connect."""
        protocolFactory.noisy = False
        return super().connect(protocolFactory)


@implementer(IAgentEndpointFactory)
class _Place:
    """The UNIX socket of a worker, whatever the URL."""

    def __init__(self, reactor: Any, path: str) -> None:
        self._reactor = reactor
        self._path = path

    def endpointForURI(self, uri: object) -> UNIXClientEndpoint:
        """Return where to connect to."""
        return _Quiet(self._reactor, self._path, WITHIN)


class WorkerAdmin:
    """The admin endpoint of a worker, a UNIX socket. Each Deferred fails where the worker does not answer in time, or
    as it should.
    """

    def __init__(self, reactor: Any, path: str) -> None:
        self._reactor = reactor
        self._agent: Any = Agent.usingEndpointFactory(reactor, _Place(reactor, path))

    def snapshot(self, *, whole: bool) -> Deferred[Snapshot]:
        """Return the worker's snapshot."""
        return self._asked(self._read("GET", STATE_WHOLE if whole else STATE, parse))

    def obstacles(self) -> Deferred[list[str]]:
        """Return why the worker is not to be sent clients."""
        return self._asked(self._read("GET", READY, parse_readiness, None, 200, 503))

    def pause(self, broker: str, within: float | None = None) -> Deferred[object]:
        """Have it take a broker out of service."""
        said = {"broker": broker} if within is None else {"broker": broker, "within": within}
        return self._asked(self._read("POST", "/brokers/pause", None, said))

    def resume(self, broker: str) -> Deferred[object]:
        """Have it take a broker into service again."""
        return self._asked(self._read("POST", "/brokers/resume", None, {"broker": broker}))

    def _asked(self, answer: Any) -> Deferred[Any]:
        return Deferred.fromCoroutine(answer).addTimeout(WITHIN, self._reactor)

    async def _read(
        self,
        method: str,
        path: str,
        read: Callable[[bytes], object] | None,
        said: object = None,
        *statuses: int,
    ) -> Any:
        body = None if said is None else FileBodyProducer(BytesIO(json.dumps(said).encode("ascii")))
        url = f"http://localhost{path}".encode("ascii")
        response = await self._agent.request(method.encode("ascii"), url, _JSON, body)
        text = await readBody(response)
        if response.code not in (statuses or (200,)):
            raise NoAnswer(f"{method} {path}: status {response.code}")
        return None if read is None else read(text)
