"""The parent's HTTP requests to a worker: for its snapshot, sessions, frames and readiness, and to pause and resume
brokers, end sessions, and refuse new clients.
"""

import json
from io import BytesIO
from typing import Any, Final
from urllib.parse import quote

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.web.client import Agent, FileBodyProducer, readBody
from twisted.web.http import NOT_FOUND, OK, SERVICE_UNAVAILABLE
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer

from stomprelay.journal.tail import TailAnswer, TailRequest
from stomprelay.service.admin import sessions
from stomprelay.service.admin.condition import Condition
from stomprelay.service.admin.condition import parse as parse_condition
from stomprelay.service.admin.readiness import parse as parse_readiness
from stomprelay.service.admin.sessions import SessionList, SessionQuery
from stomprelay.service.admin.site import CONDITION, READY, STATE, STATE_WHOLE
from stomprelay.service.admin.snapshot import Snapshot, parse

WITHIN: Final = 5.0

_JSON: Final = Headers({b"content-type": [b"application/json"]})


class NoAnswer(Exception):
    """A worker refused a request, or its response is not valid."""


@implementer(IAgentEndpointFactory)
class _Place:
    """Leads to the UNIX socket of a worker, whatever the URL."""

    def __init__(self, reactor: Any, path: str) -> None:
        self._reactor = reactor
        self._path = path

    def endpointForURI(self, uri: object) -> UNIXClientEndpoint:
        """Return the endpoint to connect to."""
        return UNIXClientEndpoint(self._reactor, self._path, WITHIN)


class WorkerAdmin:
    """The admin endpoint of a worker, a UNIX socket. Deferreds fail without a valid answer in time."""

    def __init__(self, reactor: Any, path: str) -> None:
        self._reactor = reactor
        self._agent: Any = Agent.usingEndpointFactory(reactor, _Place(reactor, path))

    def snapshot(self, *, whole: bool) -> Deferred[Snapshot]:
        """Return the worker's snapshot."""
        return self._asked("GET", STATE_WHOLE if whole else STATE).addCallback(lambda said: parse(said[1]))

    def condition(self) -> Deferred[Condition]:
        """Return the worker's state in a few words."""
        return self._asked("GET", CONDITION).addCallback(lambda said: parse_condition(said[1]))

    def obstacles(self) -> Deferred[list[str]]:
        """Return the reasons why the worker is not ready for clients."""
        asked = self._asked("GET", READY, None, (OK, SERVICE_UNAVAILABLE))
        return asked.addCallback(lambda said: parse_readiness(said[1]))

    def sessions(self, query: SessionQuery) -> Deferred[SessionList]:
        """Return the worker's sessions that match a query."""
        asked = self._asked("GET", f"/sessions?{query.spell()}")
        return asked.addCallback(lambda said: sessions.parse(said[1]))

    def kill(self, name: str) -> Deferred[bool]:
        """Make the worker end a session; return whether it has one of this name."""
        asked = self._asked("POST", f"/sessions/{quote(name, safe='')}/kill", {}, (OK, NOT_FOUND))
        return asked.addCallback(lambda said: said[0] == OK)

    def drain(self, draining: bool) -> Deferred[object]:
        """Make the worker refuse new clients, or accept them again."""
        return self._asked("POST", "/drain" if draining else "/drain/cancel", {})

    def tail(self, request: TailRequest) -> Deferred[TailAnswer | str]:
        """Return the worker's frames since the last such request, or why there are none."""
        asked = self._asked("POST", "/tail", request._asdict(), (OK, SERVICE_UNAVAILABLE))

        def read(said: tuple[int, bytes]) -> TailAnswer | str:
            status, values = said[0], json.loads(said[1])
            return TailAnswer.parse(values) if status == OK else str(values["error"])

        return asked.addCallback(read)

    def pause(self, broker: str, within: float | None = None) -> Deferred[object]:
        """Make the worker take a broker out of service."""
        said = {"broker": broker} if within is None else {"broker": broker, "within": within}
        return self._asked("POST", "/brokers/pause", said)

    def resume(self, broker: str) -> Deferred[object]:
        """Make the worker take a broker into service again."""
        return self._asked("POST", "/brokers/resume", {"broker": broker})

    def _asked(
        self, method: str, path: str, said: object = None, statuses: tuple[int, ...] = (OK,)
    ) -> Deferred[Any]:
        """Return status and body of the response. The Deferred fails with `NoAnswer` for any other status."""
        answer = self._read(method, path, said, statuses)
        return Deferred.fromCoroutine(answer).addTimeout(WITHIN, self._reactor)

    async def _read(self, method: str, path: str, said: object, statuses: tuple[int, ...]) -> Any:
        body = None if said is None else FileBodyProducer(BytesIO(json.dumps(said).encode("ascii")))
        url = f"http://localhost{path}".encode("ascii")
        response = await self._agent.request(method.encode("ascii"), url, _JSON, body)
        text = await readBody(response)
        if response.code not in statuses:
            raise NoAnswer(f"{method} {path}: status {response.code}")
        return response.code, text
