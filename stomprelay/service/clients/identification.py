"""Finds out the user of a new client: by its certificate, its token, its passcode, or by an HTTP service. Slow checks
run in threads. The number of waiting clients is bounded, and only the client itself waits.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import InitVar, dataclass
from functools import partial
from typing import Any, Final

from cryptography.x509.oid import NameOID
from OpenSSL.crypto import X509
from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredSemaphore
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

from stomprelay.auth.attempts import FREE, FailedAttempts
from stomprelay.auth.lines import is_name
from stomprelay.auth.settings import AuthSettings, Method, login
from stomprelay.relay.inputs import Identified, Unknown, Unwanted
from stomprelay.relay.model.rules import Claim, Ground, Identity, Refusal
from stomprelay.service.connection.relay_driver import RelayDriver
from stomprelay.service.connection.runtime import Runtime
from stomprelay.service.log import logger
from stomprelay.service.state import network
from stomprelay.wire.errors import StompError

THREADS: Final = 2
"""The number of passcodes that are compared at a time: each needs a processor, and some 64 MiB."""
WAITING: Final = 1000

Turn = Callable[[], Awaitable[Refusal | None]]
"""Waits until a slow check may begin. Returns None then, or the reason why the client is no longer checked."""

_log: Final = logger()

_CROWDED: Final = Refusal(Ground.UNCHECKED, "too many clients wait until it is found out who they are")
_LEFT: Final = Refusal(Ground.UNCHECKED, "it left while it waited")
_SLOWED: Final = Refusal(Ground.UNCHECKED, "too many of its address were not let in")
_GONE: Final = Refusal(Ground.UNCHECKED, "its listener's auth is not configured any more")
_FAILED: Final = Refusal(Ground.UNCHECKED, "the relay failed; see its log")
_NO_TOKEN: Final = Refusal(Ground.TOKEN, "it is no token")
_NOTHING: Final = Refusal(Ground.MISSING, "it has nothing by which it could be known")
_WRONG: Final = Refusal(Ground.PASSCODE, "no such user, or another passcode")


@dataclass(eq=False, repr=False)
class Identification(Service):
    """Finds out the users of clients, by `auths`. `clock`: nanoseconds since 1970. `admit` returns the ERROR for a user
    who has too many sessions, else None.
    """

    _runtime: Runtime
    auths: InitVar[Iterable[AuthSettings]]
    _reactor: Any
    _clock: Callable[[], int]
    _admit: Callable[[RelayDriver, str], StompError | None]
    _threads: ThreadPool | None = None
    _waiting: int = 0

    def __post_init__(self, auths: Iterable[AuthSettings]) -> None:
        self._attempts = FailedAttempts()
        self._free = DeferredSemaphore(THREADS)
        self._auths: dict[str, AuthSettings] = {}
        self._services: dict[str, Any] = {}
        self.change(auths)

    def change(self, auths: Iterable[AuthSettings]) -> None:
        """Use these settings from now on."""
        before, self._auths = self._auths, {each.name: each for each in auths}
        for name, each in self._auths.items():
            known = before.get(name)
            if known is not None and known.service == each.service:
                continue
            self._leave(name)
            if each.service is not None:
                # The HTTP client is loaded only if it is needed.
                from stomprelay.service.clients.auth_service import AuthServiceClient

                self._services[name] = AuthServiceClient(each.service, self._reactor, self._runtime.seconds)
        for name in [each for each in self._services if each not in self._auths]:
            self._leave(name)

    def _leave(self, name: str) -> None:
        service = self._services.pop(name, None)
        if service is not None:
            _ = service.close()

    def stopService(self) -> Deferred[None] | None:
        """Close the connections to services, and end each thread after its present comparison."""
        super().stopService()
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.stop()
        for name in [*self._services]:
            self._leave(name)
        return None

    def ask(self, driver: RelayDriver, claim: Claim) -> None:
        """Find out the user of a session's client, which sent these claims, and give the driver `Identified`,
        `Unwanted` or `Unknown`, possibly at once. A connected client that shows a new token does not wait for other
        clients.
        """
        if driver.relay.session is not None:
            found = self._renewed(driver, claim)
            if isinstance(found, Identity):
                driver.handle(Identified(found))
            else:
                driver.handle(Unknown(found))
            return
        if self._waiting >= WAITING:
            driver.handle(Unknown(_CROWDED))
            return
        self._waiting += 1
        done = Deferred.fromCoroutine(self._answer(driver, claim))
        _ = done.addErrback(self._failed, driver)

    def _failed(self, failure: Any, driver: RelayDriver) -> None:
        if self._runtime.repeats.passes("who a client is"):
            _log.failure("it could not be found out who a client is", failure)
        driver.handle(Unknown(_FAILED))

    async def _answer(self, driver: RelayDriver, claim: Claim) -> None:
        address = network(driver.address) or ""
        try:
            found = await self._slowed(driver, claim, address)
        finally:
            self._waiting -= 1
        if isinstance(found, Identity):
            if driver.relay.over:
                return
            excess = self._admit(driver, found.user)
            if excess is None:
                driver.handle(Identified(found))
            else:
                driver.handle(Unwanted(excess))
        else:
            if found.ground is not Ground.UNCHECKED:
                self._attempts.failed(address, self._runtime.seconds())
            driver.handle(Unknown(found))

    def _renewed(self, driver: RelayDriver, claim: Claim) -> Identity | Refusal:
        auth = self._auths.get(driver.relay.listener.auth or "")
        if auth is None:
            return _GONE
        certificate = self._certificate(driver)
        return self._at_once(auth, claim, certificate, auth.method(claim, certificate)) or _NO_TOKEN

    async def _slowed(self, driver: RelayDriver, claim: Claim, address: str) -> Identity | Refusal:
        wait = self._attempts.wait(address, self._runtime.seconds())
        if wait is None:
            return _SLOWED
        if wait:
            await deferLater(self._reactor, wait)
            if driver.relay.over:
                return _LEFT
        auth = self._auths.get(driver.relay.listener.auth or "")
        if auth is None:
            return _GONE
        before = self._attempts.failures(address, self._runtime.seconds())
        return await self._found(auth, driver, claim, partial(self._turn, driver, address, before))

    async def _turn(self, driver: RelayDriver, address: str, before: float) -> Refusal | None:
        """Return why a client that waited is not checked: the client has left, or its address has failed too often
        meanwhile. Return None if the client is to be checked.
        """
        await deferLater(self._reactor, 0)  # else the checks of waiting clients would be nested calls
        if driver.relay.over:
            return _LEFT
        failures = self._attempts.failures(address, self._runtime.seconds())
        return _SLOWED if failures > before + FREE else None

    async def _found(
        self, auth: AuthSettings, driver: RelayDriver, claim: Claim, turn: Turn
    ) -> Identity | Refusal:
        certificate = self._certificate(driver)
        method = auth.method(claim, certificate)
        match method:
            case Method.PASSCODE:
                return await self._by_passcode(auth, claim, certificate, turn)
            case Method.SERVICE:
                return await self._by_service(auth, driver, claim, certificate, turn)
        known = self._at_once(auth, claim, certificate, method)
        if known is None and auth.certificates and not certificate:
            return Refusal(Ground.CERTIFICATE, "it has shown no certificate that names somebody")
        return known or _NOTHING

    def _at_once(
        self, auth: AuthSettings, claim: Claim, certificate: str, method: Method | None
    ) -> Identity | Refusal | None:
        """Return the result of a method that needs no waiting; None for the other methods."""
        if method is Method.CERTIFICATE:
            return auth.identity(certificate, frozenset(), certificate)
        return self._by_token(auth, claim, certificate) if method is Method.TOKEN else None

    def _certificate(self, driver: RelayDriver) -> str:
        protocol = self._runtime.protocols.get(driver.relay.client)
        shown = None if protocol is None else protocol.certificate
        return "" if shown is None else common_name(shown)

    def _by_token(self, auth: AuthSettings, claim: Claim, certificate: str) -> Identity | Refusal:
        from stomprelay.auth.tokens import BadToken

        assert auth.tokens is not None
        assert claim.passcode is not None
        wall = self._clock() / 1e9
        try:
            bearer = auth.tokens.read(claim.passcode, wall)
        except BadToken as error:
            return Refusal(Ground.TOKEN, str(error))
        until = self._runtime.seconds() + bearer.until - wall
        return auth.identity(bearer.user, bearer.groups, certificate, until)

    async def _by_passcode(
        self, auth: AuthSettings, claim: Claim, certificate: str, turn: Turn
    ) -> Identity | Refusal:
        users, name, passcode = auth.users, login(claim), claim.passcode or b""
        assert users is not None
        right = users.known(name, passcode)
        if not right:
            await self._free.acquire()
            try:
                refusal = await turn()
                if refusal is not None:
                    return refusal
                if self._threads is None:
                    self._threads = ThreadPool(0, THREADS, "passcodes")
                    self._threads.start()
                right = users.known(name, passcode) or await deferToThreadPool(
                    self._reactor, self._threads, users.verify, name, passcode
                )
            finally:
                self._free.release()
        if not right:
            return _WRONG
        return auth.identity(name or "", frozenset(), certificate)

    async def _by_service(
        self, auth: AuthSettings, driver: RelayDriver, claim: Claim, certificate: str, turn: Turn
    ) -> Identity | Refusal:
        listener = driver.relay.listener.name
        address = getattr(driver.address, "host", None)
        answer = await self._services[auth.name].ask(claim, certificate, address, listener, turn)
        if isinstance(answer, Refusal):
            return answer
        return auth.identity(answer.user, answer.groups, certificate)


def common_name(certificate: X509) -> str:
    """Return the name in a certificate: the common name (CN) of its subject; "" if there is none, or several."""
    try:
        found = certificate.to_cryptography().subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:
        return ""
    names = [each.value for each in found if isinstance(each.value, str)]
    return names[0] if len(names) == 1 and is_name(names[0]) else ""
