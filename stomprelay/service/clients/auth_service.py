"""Asks an HTTP service whether a client may connect: a POST of JSON for each client. Only a 200 with JSON that names
the user accepts the client. A few connections to the service are kept open.
"""

import json
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from io import BytesIO
from typing import Any, Final, NamedTuple

from twisted.internet.defer import CancelledError, Deferred, DeferredSemaphore
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import (
    Agent,
    FileBodyProducer,
    HTTPConnectionPool,
    ResponseDone,
    ResponseNeverReceived,
)
from twisted.web.http_headers import Headers

from stomprelay.auth.lines import is_name
from stomprelay.auth.settings import AuthService
from stomprelay.relay.model.rules import Claim, Ground, Refusal
from stomprelay.service.connection.failures import spell

AT_ONCE: Final = 16
LONGEST: Final = 64 * 1024
IDLE: Final = 15
"""Seconds for which an unused connection is kept open."""
_HEADERS: Final = Headers({"Content-Type": ["application/json"], "Accept": ["application/json"]})


class Answer(NamedTuple):
    """The user that the service accepts, and the user's groups."""

    user: str
    groups: frozenset[str]


class _Body(Protocol):
    """Collects the body of an answer. `done` fires with the body, or with None for a long or incomplete body."""

    def __init__(self) -> None:
        self.done: Deferred[bytes | None] = Deferred(lambda _: self._give_up())
        self._content = bytearray()

    def dataReceived(self, data: bytes) -> None:
        """Add a part of the body."""
        self._content += data
        if len(self._content) > LONGEST:
            self._give_up()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Fire `done`: the body is complete, or the connection broke."""
        if not self.done.called:
            self.done.callback(bytes(self._content) if reason.check(ResponseDone) else None)

    def _give_up(self) -> None:
        if not self.done.called:
            self.done.callback(None)
        if self.transport is not None:
            self.transport.loseConnection()


class AuthServiceClient:
    """Asks one service. `seconds` is a monotonic clock; call `close` at the end."""

    def __init__(self, settings: AuthService, reactor: Any, seconds: Callable[[], float]) -> None:
        self._settings = settings
        self._reactor = reactor
        self._seconds = seconds
        pool = self._pool = HTTPConnectionPool(reactor)
        pool.maxPersistentPerHost = AT_ONCE
        pool.cachedConnectionTimeout = IDLE
        self._agent = Agent(reactor, connectTimeout=settings.timeout, pool=pool)
        self._free = DeferredSemaphore(AT_ONCE)
        self._key = os.urandom(32)
        self._known: OrderedDict[bytes, tuple[float, Answer]] = OrderedDict()

    def close(self) -> Deferred[Any]:
        """Close the connections that are kept open."""
        closed: Deferred[Any] = self._pool.closeCachedConnections()
        return closed

    async def ask(
        self,
        claim: Claim,
        certificate: str,
        address: str | None,
        listener: str,
        turn: Callable[[], Awaitable[Refusal | None]],
    ) -> Answer | Refusal:
        """Return the service's answer about a client, or a `Refusal`. `turn` is called when a connection is free. If
        `turn` returns a `Refusal`, the service is not asked, and this `Refusal` is returned.
        """
        try:
            said = {
                "login": None if claim.login is None else claim.login.decode(),
                "passcode": None if claim.passcode is None else claim.passcode.decode(),
            }
        except UnicodeDecodeError:
            return Refusal(Ground.PASSCODE, "its login or passcode is not UTF-8")
        more = {"certificate": certificate or None, "address": address, "listener": listener}
        body = json.dumps({**said, **more}).encode()
        digest = blake2b(body, key=self._key).digest()
        known = self._remembered(digest)
        if known is not None:
            return known
        await self._free.acquire()
        try:
            refusal = await turn()
            if refusal is not None:
                return refusal
            known = self._remembered(digest)  # the same question may have been answered meanwhile
            if known is not None:
                return known
            asked = Deferred.fromCoroutine(self._exchange(body))
            found = await asked.addTimeout(self._settings.timeout, self._reactor).addErrback(_unanswered)
            if isinstance(found, Answer) and self._settings.cache:
                if len(self._known) >= self._settings.cache_entries:
                    self._known.popitem(last=False)
                self._known[digest] = (self._seconds() + self._settings.cache, found)
            return found
        finally:
            self._free.release()

    def _remembered(self, digest: bytes) -> Answer | None:
        until, found = self._known.get(digest, (0.0, None))
        if found is not None and self._seconds() >= until:
            del self._known[digest]
            return None
        return found

    async def _exchange(self, body: bytes) -> Answer | Refusal:
        try:
            response = await self._request(body)
        except ResponseNeverReceived as error:
            if any(each.check(CancelledError) for each in error.reasons):
                raise CancelledError from error  # the time-out has cancelled it
            response = await self._request(body)  # the kept connection was closed meanwhile
        found = _Body()
        response.deliverBody(found)
        content = await found.done
        if response.code in (401, 403):
            return Refusal(Ground.SERVICE, "the service does not let it in")
        if response.code != 200:
            return Refusal(Ground.UNCHECKED, f"the service answered with status {response.code}")
        return _answer(content)

    def _request(self, body: bytes) -> Deferred[Any]:
        url = self._settings.url.encode("ascii")
        request: Deferred[Any] = self._agent.request(b"POST", url, _HEADERS, FileBodyProducer(BytesIO(body)))
        return request


def _unanswered(failure: Failure) -> Refusal:
    return Refusal(Ground.UNCHECKED, f"the service could not be asked: {spell(failure)}")


def _answer(content: bytes | None) -> Answer | Refusal:
    wrong = Refusal(
        Ground.UNCHECKED, f"the service answered with what is not JSON of {LONGEST} bytes at most"
    )
    try:
        found = None if content is None else json.loads(content)
    except (ValueError, RecursionError):
        return wrong
    if not isinstance(found, dict):
        return wrong
    user, groups = found.get("user"), found.get("groups", [])
    if not isinstance(user, str) or not is_name(user):
        return Refusal(Ground.UNCHECKED, 'the service answered without a "user"')
    if not isinstance(groups, list) or not all(isinstance(each, str) and is_name(each) for each in groups):
        return Refusal(Ground.UNCHECKED, 'the service answered with "groups" that are no list of names')
    return Answer(user, frozenset(groups))
