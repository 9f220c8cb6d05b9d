"""Probes, metrics, a page for people, who is connected, and requests to pause brokers and end sessions, over HTTP.

Two endpoints may have them: `metrics` the first four of the list, with which nothing can be done; `admin` all. Where
`admin` has a token, each request has to say it but probes, else it is refused with 401; where it has none, whoever can
connect may do all of that. Pages of other sites in a browser of this machine can connect, too: a request is answered
only where its `Host` is ours (see `access`), else with 421.

    GET /livez              200 while the process answers
    GET /readyz             200 while clients may come, else 503 with the reasons, in JSON (see `readiness`)
    GET /healthz            200 while clients are served, 503 while the relay stops, or holds them for a journal that
                            cannot be written
    GET /metrics            all that is counted and measured, in a format of Prometheus's (see `metrics`)
    GET /                   what runs, for people; its scripts and its style beside it (see `overview`)
    GET /overview           what runs, in JSON: what the page asks for once a second
    GET /brokers            the brokers and how they are, in JSON
    POST /brokers/pause     take brokers out of service: {"broker": "host:port", "within": 30}
    POST /brokers/resume    take them into service again: {"broker": "*"}
    GET /sessions           who is connected, in JSON: see `sessions`
    POST /sessions/NAME/kill    end a session: its client gets an ERROR that says so
    GET /drain              whether new clients are refused, and how many sessions there are, in JSON
    POST /drain             refuse new clients from now on
    POST /drain/cancel      let them in again
    GET /console            where `admin_console` is set: STOMP from a browser, and all below it (see `console`)
    POST /tail              what passed since the same was asked for last, see `stomprelay.journal.tail`
    POST /reload            read the configuration anew: what changed, in JSON; else 409 with the reason, and all is as
                            it was

The body of a POST is JSON, and its `content-type` must be so, which no HTML form can send; one that a web page sends is
refused unless the page is ours (see `access`). The response of those about brokers is that of `/brokers`, and of those
about draining that of `/drain`.
"""

import json
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, Protocol, TypeVar

from twisted.internet.defer import Deferred, DeferredLock, fail, succeed
from twisted.web.server import Site

from stomprelay.config import Config
from stomprelay.config.address import Authority
from stomprelay.config.admin import AdminAccess, guarded
from stomprelay.journal.tail import TailAnswer, TailRequest
from stomprelay.service.admin.access import Hosts, Token
from stomprelay.service.admin.condition import Condition, condition, drain, health
from stomprelay.service.admin.condition import spell as spell_condition
from stomprelay.service.admin.console import FILES as CONSOLE_FILES
from stomprelay.service.admin.console import LISTENERS, OPEN, SOCKET, Accept, Console
from stomprelay.service.admin.overview import FILES, file, overview
from stomprelay.service.admin.pages import (
    JSON,
    Action,
    AdminPages,
    Asked,
    Page,
    Response,
    SharedPage,
    refusal,
)
from stomprelay.service.admin.readiness import alive, obstacles
from stomprelay.service.admin.readiness import spell as spell_readiness
from stomprelay.service.admin.requests import BadRequest, BrokerRequest, Unavailable, brokers, parse
from stomprelay.service.admin.server import CONNECTIONS, AdminSite
from stomprelay.service.admin.sessions import SessionList, SessionQuery, list_sessions
from stomprelay.service.admin.snapshot import Snapshot, snapshot, spell
from stomprelay.service.brokers.brokers import Brokers, ConfiguredBroker
from stomprelay.service.connection.repeats import Repeats
from stomprelay.service.journal.tails import TooMany
from stomprelay.service.log import logger
from stomprelay.service.network.endpoints import BadEndpoint, ListeningService, listening_service
from stomprelay.service.reload import NotReloaded, Reloads
from stomprelay.service.state import RelayState

T = TypeVar("T")

READY: Final = "/readyz"
STATE: Final = "/state"
"""The page of a worker that has its snapshot; `STATE_WHOLE` the whole one, `CONDITION` how it is in a few words."""
STATE_WHOLE: Final = "/state/whole"
CONDITION: Final = "/state/condition"

_NO_BODIES: Final = (
    "bodies are shown only where admin asks for something: set admin_token_file, or admin_tls with "
    "require_client_certificate = true, or let it listen on a UNIX socket with mode=600"
)

_log: Final = logger()


class Shown(Protocol):
    """What the pages are about: the relay of this process, or one that has several. What takes its time is returned
    as a Deferred. `repeats` decides which lines are too many for the log, `reloads` reads the configuration anew.
    """

    brokers: Brokers
    repeats: Repeats
    reloads: Reloads | None

    @property
    def listeners(self) -> Collection[str]:
        """The names of its listeners."""

    def snapshot(self, *, whole: bool) -> Snapshot | Deferred[Snapshot]:
        """Return what it is now; for `whole` see `snapshot.snapshot`."""

    def condition(self) -> Condition | Deferred[Condition]:
        """Return how it is, in a few words."""

    def obstacles(self) -> list[str] | Deferred[list[str]]:
        """Return why it is not to be sent clients; see `readiness.obstacles`."""

    def pause(self, found: tuple[ConfiguredBroker, ...], within: float | None) -> Deferred[None] | None:
        """Take these brokers out of service."""

    def resume(self, found: tuple[ConfiguredBroker, ...]) -> Deferred[None] | None:
        """Take these brokers into service again."""

    def sessions(self, query: SessionQuery) -> Deferred[SessionList]:
        """Return the sessions that are asked for. The Deferred fails with `Unavailable` where they cannot be had."""

    def drain(self, draining: bool) -> Deferred[None] | None:
        """Refuse new clients, or let them in again."""

    def kill(self, name: str) -> Deferred[bool] | bool:
        """End the session of this name, and return whether there is one. A Deferred may fail with `Unavailable`."""

    def tail(self, request: TailRequest) -> Deferred[TailAnswer]:
        """Return what passed since the same was asked for last. The Deferred fails with `Unavailable` where too many
        watch.
        """


class OwnRelay:
    """The relay of this process."""

    def __init__(self, state: RelayState) -> None:
        self._state = state
        self.brokers = state.brokers
        self.repeats = state.runtime.repeats
        self.reloads = state.reloads
        self.pause = state.pauses.pause
        self.resume = state.pauses.resume
        self.drain = state.sessions.drain
        self.kill = state.sessions.kill
        self._listing = DeferredLock()

    @property
    def listeners(self) -> Collection[str]:
        """The names of its listeners."""
        return self._state.sessions.listeners

    def snapshot(self, *, whole: bool) -> Snapshot:
        """Return what it is now."""
        return snapshot(self._state, whole=whole)

    def condition(self) -> Condition:
        """Return how it is."""
        return condition(self._state)

    def obstacles(self) -> list[str]:
        """Return why it is not to be sent clients."""
        return obstacles(self._state)

    def sessions(self, query: SessionQuery) -> Deferred[SessionList]:
        """Return the sessions that are asked for, after those who asked before: all together take no longer turns of
        the reactor than one.
        """
        if len(self._listing.waiting) >= CONNECTIONS:
            return fail(Unavailable("too many ask for sessions at a time"))
        return self._listing.run(lambda: Deferred.fromCoroutine(list_sessions(self._state, query)))

    def tail(self, request: TailRequest) -> Deferred[TailAnswer]:
        """Return what passed since the same was asked for last."""
        try:
            return succeed(self._state.tails.ask(request))
        except TooMany as error:
            return fail(Unavailable(str(error)))


def _empty(body: bytes) -> bool:
    """Whether the body of a POST says nothing."""
    return body.strip() in (b"", b"{}")


def _health(found: Condition) -> Response:
    served, text = health(found)
    return Response(text, status=200 if served else 503)


def _readiness(found: list[str]) -> Response:
    return Response(spell_readiness(found), JSON, 503 if found else 200)


def _later(
    made: T | Deferred[T], page: Callable[[T], Response | Deferred[Response]]
) -> Deferred[Response] | Response:
    """Return the page that is made of something, or a Deferred of it where that takes its time."""
    return made.addCallback(page) if isinstance(made, Deferred) else page(made)


def _page(relay: Shown, made: Callable[[Snapshot], str], kind: str, *, whole: bool) -> Page:
    return lambda _: _later(relay.snapshot(whole=whole), lambda taken: Response(made(taken), kind))


def _file(name: str, kind: str) -> Page:
    """Return a file of the page for people as a page."""
    return lambda _: Response(file(name), kind)


def _watching(relay: Shown) -> dict[bytes, Page]:
    """Return the pages for machines that watch a relay."""
    return {
        b"/livez": lambda _: Response(alive(), JSON),
        READY.encode(): lambda _: _later(relay.obstacles(), _readiness),
        b"/healthz": lambda _: _later(relay.condition(), _health),
        b"/metrics": lambda asked: _metrics(relay, asked.accept),
    }


def _metrics(relay: Shown, accept: str) -> Response | Deferred[Response]:
    # Loaded when it is asked for: most processes never are, workers among them.
    from stomprelay.service.admin.metrics import chosen, metrics

    form = chosen(accept)

    def page(taken: Snapshot) -> Response | Deferred[Response]:
        return _later(relay.obstacles(), lambda found: Response(metrics(taken, not found, form), form.kind))

    return _later(relay.snapshot(whole=False), page)


def metrics_site(shown: Shown | RelayState, reactor: Any, hosts: Iterable[Authority] = ()) -> Site:
    """Return the factory of the HTTP server of `metrics`: it has what machines watch, and does nothing. `hosts` are
    names by which it may be asked beside its own.
    """
    relay = _relay(shown)
    pages = AdminPages(_watching(relay), {}, None, Hosts(hosts), None, relay.repeats)
    return AdminSite("metrics", pages, reactor)


def _relay(shown: Shown | RelayState) -> Shown:
    return OwnRelay(shown) if isinstance(shown, RelayState) else shown


def site(
    shown: Shown | RelayState,
    reactor: Any,
    hosts: Iterable[Authority] = (),
    token: bytes | None = None,
    *,
    worker: bool = False,
    guarded: bool = False,
    console: Accept | None = None,
) -> Site:
    """Return the factory of the HTTP server of `admin`, with all pages and actions. `hosts` are names by which it may
    be asked beside its own; `token` has to be said, where there is one. That of a `worker` has its snapshots, too.
    `guarded`: not every user can ask, so bodies of messages may be shown. `console`: it has one, whose
    sessions this begins; only where the relay is that of this process.
    """
    relay = _relay(shown)

    def act(
        body: bytes,
        do: Callable[[tuple[ConfiguredBroker, ...], BrokerRequest], Deferred[None] | None],
        *,
        timed: bool,
    ) -> Response | Deferred[Response]:
        try:
            request = parse(body, timed=timed)
        except BadRequest as error:
            return refusal(400, str(error))
        found = relay.brokers.find(request.broker)
        if not found:
            return refusal(404, f"there is no broker {json.dumps(request.broker)}")
        done = do(found, request)
        return _later(done, lambda _: listed(Asked()))

    def pause(found: tuple[ConfiguredBroker, ...], request: BrokerRequest) -> Deferred[None] | None:
        return relay.pause(found, request.within)

    def resume(found: tuple[ConfiguredBroker, ...], _request: BrokerRequest) -> Deferred[None] | None:
        return relay.resume(found)

    def order_drain(body: bytes, *, draining: bool) -> Response | Deferred[Response]:
        if not _empty(body):
            return refusal(400, "the body must be {}")
        return _later(relay.drain(draining), lambda _: drained(Asked()))

    def kill(name: str, body: bytes) -> Response | Deferred[Response]:
        if not _empty(body):
            return refusal(400, "the body must be {}")
        missing = refusal(404, f"there is no session {json.dumps(name)}")
        killed = Response(json.dumps({"killed": name}) + "\n", JSON)
        return _later(relay.kill(name), lambda found: killed if found else missing)

    def tail(body: bytes) -> Response | Deferred[Response]:
        try:
            request = TailRequest.parse(body)
        except ValueError as error:
            return refusal(400, str(error))
        for name in request.listeners:
            if name not in relay.listeners:
                return refusal(404, f"there is no listener {json.dumps(name)}")
        if request.bodies and not guarded:
            return refusal(403, _NO_BODIES)
        return relay.tail(request).addCallback(lambda found: Response(found.spell(), JSON))

    def reload(body: bytes) -> Response | Deferred[Response]:
        if not _empty(body):
            return refusal(400, "the body must be {}")
        if relay.reloads is None:
            return refusal(409, "this process reads no configuration anew")
        done = relay.reloads.reload()
        return done.addCallbacks(
            lambda found: Response(json.dumps(found._asdict()) + "\n", JSON),
            lambda failure: (
                refusal(409, failure.getErrorMessage()) if failure.check(NotReloaded) else failure
            ),
        )

    def sessions(asked: Asked) -> Response | Deferred[Response]:
        try:
            query = SessionQuery.read(asked.arguments)
        except BadRequest as error:
            return refusal(400, str(error))
        return relay.sessions(query).addCallback(lambda found: Response(found.spell(), JSON))

    listed = _page(relay, brokers, JSON, whole=True)

    def drained(_: Asked) -> Response | Deferred[Response]:
        return _later(relay.condition(), lambda found: Response(drain(found), JSON))

    def shown_now(taken: Snapshot) -> str:
        return overview(taken, [path.decode() for path in actions])

    pages: dict[bytes, Page] = {
        **{path: _file(name, kind) for path, (name, kind) in FILES.items()},
        b"/overview": SharedPage(_page(relay, shown_now, JSON, whole=False), reactor.seconds),
        b"/brokers": listed,
        b"/sessions": sessions,
        b"/drain": drained,
        **_watching(relay),
    }
    if worker:
        pages[STATE.encode()] = _page(relay, spell, JSON, whole=False)
        pages[STATE_WHOLE.encode()] = _page(relay, spell, JSON, whole=True)
        pages[CONDITION.encode()] = lambda _: _later(
            relay.condition(), lambda found: Response(spell_condition(found), JSON)
        )
    actions: dict[bytes, Action] = {
        b"/brokers/pause": lambda body: act(body, pause, timed=True),
        b"/brokers/resume": lambda body: act(body, resume, timed=False),
        b"/drain": lambda body: order_drain(body, draining=True),
        b"/drain/cancel": lambda body: order_drain(body, draining=False),
        b"/tail": tail,
        b"/reload": reload,
    }
    secret = None if token is None else Token(token)
    named = Hosts(hosts)
    if console is None:
        return AdminSite("admin", AdminPages(pages, actions, kill, named, secret, relay.repeats), reactor)
    assert isinstance(shown, RelayState)
    opened = Console(shown, console, reactor.seconds)
    pages.update((path, _file(name, kind)) for path, (name, kind) in CONSOLE_FILES.items())
    pages[LISTENERS] = opened.listeners
    actions[OPEN] = opened.open
    upgrades = {SOCKET: opened.connect}
    served = AdminPages(pages, actions, kill, named, secret, relay.repeats, upgrades)
    return AdminSite("admin", served, reactor, opened.end)


def admin_services(
    config: Config,
    shown: Shown | RelayState,
    reactor: Any,
    accept: Accept | None = None,
    *,
    worker: bool = False,
) -> list[ListeningService]:
    """Return what listens on the endpoints `admin` and `metrics` of a configuration, of which `CONNECTIONS` may be open
    each. `accept` begins the sessions of a console, where the relay is that of this process. Raises `BadEndpoint`,
    which names the key.
    """
    made = []
    if config.admin is not None:
        access = AdminAccess(config.admin, config.admin_token, config.admin_tls)
        pages = site(
            shown,
            reactor,
            config.admin_hosts,
            config.admin_token,
            worker=worker,
            guarded=worker or guarded(access),
            console=accept if config.admin_console else None,
        )
        try:
            made.append(listening_service(reactor, "admin", config.admin, pages, config.admin_tls))
        except BadEndpoint as error:
            said = str(error)
            raise BadEndpoint(f"admin_{said}" if said.startswith("tls.") else f"admin: {said}") from error
    if config.metrics is not None:
        pages = metrics_site(shown, reactor, config.admin_hosts)
        try:
            made.append(listening_service(reactor, "metrics", config.metrics, pages))
        except BadEndpoint as error:
            raise BadEndpoint(f"metrics: {error}") from error
    return made
