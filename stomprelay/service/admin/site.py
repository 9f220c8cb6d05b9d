"""Probes, metrics, the dashboard, the list of sessions, and requests to pause brokers, to end sessions, and to begin
phases of moves, over HTTP.

There are two endpoints: `metrics` has probes and metrics, which change nothing; `admin` has everything.
docs/operating.md lists the paths. If `admin` has a token, each request except the probes has to send it; without a
token every client may do everything. A POST about brokers is answered with the page `/brokers`, a POST about draining
with the page `/drain`, a POST about moves with the page `/moves`.
"""

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote

from twisted.internet.defer import Deferred
from twisted.web.server import Site

from stomprelay.config import Config
from stomprelay.config.address import Authority
from stomprelay.config.admin import AdminAccess, guarded
from stomprelay.journal.tail import TailAnswer, TailRequest
from stomprelay.relay.model.move import BACK, NEXT, MoveRow, NotNow, Phase
from stomprelay.service.admin.condition import Condition, OwnRelay
from stomprelay.service.admin.console import FILES as CONSOLE_FILES
from stomprelay.service.admin.console import LISTENERS, OPEN, SOCKET, Accept, Console
from stomprelay.service.admin.pages import (
    FILES,
    JSON,
    Action,
    AdminPages,
    Answer,
    Asked,
    Hosts,
    Page,
    Response,
    SharedPage,
    Token,
    Upgrade,
    file,
    refusal,
)
from stomprelay.service.admin.server import AdminSite
from stomprelay.service.admin.sessions import BadRequest, SessionList, SessionQuery
from stomprelay.service.admin.snapshot import Snapshot, overview
from stomprelay.service.brokers import ConfiguredBroker
from stomprelay.service.network.endpoints import BadEndpoint, ListeningService, listening_service
from stomprelay.service.process import NotReloaded, Reloads
from stomprelay.service.state import RelayState

T = TypeVar("T")

LONGEST: Final = 86400.0
"""The longest time, in seconds, that a request may give sessions to leave a broker."""
_KILL: Final = re.compile(rb"/sessions/([^/]+)/kill")
_SAID: Final = ("uri", "upstream", "group", "state", "sessions", "moving", "staying", "stays")


def _request(body: bytes, *, timed: bool) -> tuple[str, float | None]:
    """Return the broker and the `within` of a JSON body. Raises `BadRequest`. `timed`: `within` is allowed."""
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        raise BadRequest('the body must be JSON such as {"broker": "*"}') from None
    if not isinstance(values, dict):
        raise BadRequest('the body must be an object such as {"broker": "*"}')
    known = ("broker", "within") if timed else ("broker",)
    for key in values:
        if key not in known:
            raise BadRequest(f"there is no {json.dumps(key)} here; there is {' and '.join(known)}")
    broker = values.get("broker")
    if not isinstance(broker, str):
        raise BadRequest('"broker" must be the address of a broker, its host:port, or "*" for all')
    if "within" not in values:
        return broker, None
    within = values["within"]
    if isinstance(within, bool) or not isinstance(within, int | float) or not 0 <= within <= LONGEST:
        raise BadRequest(f'"within" must be seconds, from 0 to {LONGEST:g}')
    return broker, float(within)


def _brokers(taken: Snapshot) -> str:
    """Return all brokers with their states, as JSON text."""
    rows = [
        {**{name: getattr(each, name) for name in _SAID}, "waiting": each.tally.waiting}
        for each in taken.brokers
    ]
    return json.dumps({"brokers": rows}) + "\n"


def _order(body: bytes) -> tuple[str, str]:
    """Return the move and the order of a JSON body. Raises `BadRequest`."""
    try:
        values = json.loads(body)
        name, order = values.pop("move"), values.pop("phase")
    except (ValueError, RecursionError, LookupError, AttributeError):
        raise BadRequest('the body must be JSON such as {"move": "orders", "phase": "next"}') from None
    orders = (NEXT, BACK, *(each.value for each in Phase))
    if values or not isinstance(name, str) or order not in orders:
        raise BadRequest(f'the body has "move" and "phase", which is one of {", ".join(orders)}')
    return name, order


def _moves(rows: Iterable[MoveRow]) -> Response:
    return Response(json.dumps({"moves": [row.shown for row in rows]}) + "\n", JSON)


class _Shown(Protocol):
    """The relay that the pages show: `OwnRelay`, or the `Crew` of several processes, whose answers are Deferreds."""

    state: RelayState
    reloads: Reloads | None

    def snapshot(self, *, whole: bool) -> Snapshot | Deferred[Snapshot]: ...
    def condition(self) -> Condition | Deferred[Condition]: ...
    def obstacles(self) -> list[str] | Deferred[list[str]]: ...
    def pause(self, found: tuple[ConfiguredBroker, ...], within: float | None) -> Deferred[None] | None: ...
    def resume(self, found: tuple[ConfiguredBroker, ...]) -> Deferred[None] | None: ...
    def sessions(self, query: SessionQuery) -> Deferred[SessionList]: ...
    def drain(self, draining: bool) -> Deferred[None] | None: ...
    def kill(self, name: str) -> Deferred[bool] | bool: ...
    def moves(self) -> Deferred[tuple[MoveRow, ...]] | tuple[MoveRow, ...]: ...
    def move(self, name: str, phase: Phase) -> Deferred[None] | None: ...
    def tail(self, request: TailRequest) -> Deferred[TailAnswer]: ...


def _health(found: Condition) -> Response:
    if found.stopping:
        return Response("stopping\n", status=503)
    if found.workers and not found.serving:
        return Response("no worker serves\n", status=503)
    if found.stuck:
        return Response(f"reading has stopped: the journal {found.journal}\n", status=503)
    trouble = []
    if found.serving < found.workers:
        trouble.append(f"{found.serving} of {found.workers} workers serve")
    if found.journal:
        trouble.append(f"the journal {found.journal}")
    if found.draining:
        trouble.append("new clients are refused")
    return Response(f"ok, but {', and '.join(trouble)}\n" if trouble else "ok\n")


def _readiness(found: list[str]) -> Response:
    answer = {"ready": False, "reasons": found} if found else {"ready": True}
    return Response(json.dumps(answer) + "\n", JSON, 503 if found else 200)


def _draining(found: Condition) -> Response:
    return Response(json.dumps({"draining": found.draining, "sessions": found.sessions}) + "\n", JSON)


def _later(made: T | Deferred[T], page: Callable[[T], Answer]) -> Answer:
    """Return the page for a value; if the value is a Deferred, return a Deferred of the page."""
    return made.addCallback(page) if isinstance(made, Deferred) else page(made)


def _page(relay: _Shown, made: Callable[[Snapshot], str], *, whole: bool) -> Page:
    return lambda _: _later(relay.snapshot(whole=whole), lambda taken: Response(made(taken), JSON))


def _watching(relay: _Shown) -> dict[bytes, Page]:
    return {
        b"/livez": lambda _: Response(json.dumps({"live": True}) + "\n", JSON),
        b"/readyz": lambda _: _later(relay.obstacles(), _readiness),
        b"/healthz": lambda _: _later(relay.condition(), _health),
        b"/metrics": lambda asked: _metrics(relay, asked.accept),
    }


def _metrics(relay: _Shown, accept: str) -> Answer:
    # Loaded at the first request: most processes, for example workers, never get such a request.
    from stomprelay.service.admin.metrics import chosen, metrics

    form = chosen(accept)

    def page(taken: Snapshot) -> Answer:
        return _later(relay.obstacles(), lambda found: Response(metrics(taken, not found, form), form.kind))

    return _later(relay.snapshot(whole=False), page)


class _Orders:
    """The actions of POSTs. A POST about brokers is answered with the page `listed`, a POST about draining with the
    page `drained`. `bodies`: bodies of messages may be shown.
    """

    def __init__(self, relay: _Shown, listed: Page, drained: Page, *, bodies: bool) -> None:
        self._relay = relay
        self._listed = listed
        self._drained = drained
        self._bodies = bodies

        self.actions: dict[bytes, Action] = {
            b"/brokers/pause": partial(self._brokers, relay.pause, timed=True),
            b"/brokers/resume": partial(self._brokers, lambda found, _: relay.resume(found), timed=False),
            b"/drain": _plain(partial(self._drain, draining=True)),
            b"/drain/cancel": _plain(partial(self._drain, draining=False)),
            b"/moves": self._move,
            b"/tail": self._tail,
            b"/reload": _plain(self._reload),
        }

    def find(self, path: bytes) -> Action | None:
        """Return the action of a path, or None. The path for ending a session contains the session's name."""
        killed = _KILL.fullmatch(path)
        return self.actions.get(path) if killed is None else _plain(partial(self._kill, unquote(killed[1])))

    def _kill(self, name: str) -> Answer:
        missing = refusal(404, f"there is no session {json.dumps(name)}")
        killed = Response(json.dumps({"killed": name}) + "\n", JSON)
        return _later(self._relay.kill(name), lambda found: killed if found else missing)

    def _brokers(
        self,
        order: Callable[[tuple[ConfiguredBroker, ...], float | None], Deferred[None] | None],
        body: bytes,
        *,
        timed: bool,
    ) -> Answer:
        broker, within = _request(body, timed=timed)
        found = self._relay.state.brokers.find(broker)
        if not found:
            return refusal(404, f"there is no broker {json.dumps(broker)}")
        return _later(order(found, within), lambda _: self._listed(Asked()))

    def _drain(self, *, draining: bool) -> Answer:
        return _later(self._relay.drain(draining), lambda _: self._drained(Asked()))

    def _move(self, body: bytes) -> Answer:
        name, order = _order(body)

        def begin(rows: Iterable[MoveRow]) -> Answer:
            row = next((each for each in rows if each.name == name), None)
            if row is None:
                return refusal(404, f"there is no move {json.dumps(name)}")
            try:
                done = self._relay.move(name, row.chosen(order))
            except NotNow as error:
                return refusal(409, str(error))
            return _later(done, lambda _: _later(self._relay.moves(), _moves))

        return _later(self._relay.moves(), begin)

    def _tail(self, body: bytes) -> Answer:
        try:
            request = TailRequest.parse(body)
        except ValueError as error:
            return refusal(400, str(error))
        for name in request.listeners:
            if name not in self._relay.state.sessions.listeners:
                return refusal(404, f"there is no listener {json.dumps(name)}")
        if request.bodies and not self._bodies:
            return refusal(
                403,
                "bodies are shown only where admin asks for something: set admin_token_file, or admin_tls with "
                "require_client_certificate = true, or let it listen on a UNIX socket with mode=600",
            )
        return self._relay.tail(request).addCallback(lambda found: Response(found.spell(), JSON))

    def _reload(self) -> Answer:
        if self._relay.reloads is None:
            return refusal(409, "this process reads no configuration anew")
        done = self._relay.reloads.reload()
        return done.addCallbacks(
            lambda found: Response(json.dumps(found._asdict()) + "\n", JSON),
            lambda failure: (
                refusal(409, failure.getErrorMessage()) if failure.check(NotReloaded) else failure
            ),
        )


def _plain(do: Callable[[], Answer]) -> Action:
    """Return the action for a POST whose body must be empty or `{}`."""
    return lambda body: do() if body.strip() in (b"", b"{}") else refusal(400, "the body must be {}")


def _sessions(relay: _Shown, asked: Asked) -> Answer:
    query = SessionQuery.read(asked.arguments)
    return relay.sessions(query).addCallback(lambda found: Response(found.spell(), JSON))


def metrics_site(shown: _Shown | RelayState, reactor: Any, hosts: Iterable[Authority] = ()) -> Site:
    """Return the HTTP server's factory for `metrics`: probes and metrics. `hosts` are additional host names."""
    relay = _relay(shown)
    pages = AdminPages(_watching(relay), lambda _: None, Hosts(hosts), None, relay.state.runtime.repeats)
    return AdminSite("metrics", pages, reactor)


def _relay(shown: _Shown | RelayState) -> _Shown:
    return OwnRelay(shown) if isinstance(shown, RelayState) else shown


def site(
    shown: _Shown | RelayState,
    reactor: Any,
    hosts: Iterable[Authority] = (),
    token: bytes | None = None,
    *,
    guarded: bool = False,
    console: Accept | None = None,
) -> Site:
    """Return the HTTP server's factory for `admin`, with additional host names and the token. `guarded`: bodies of
    messages may be shown. `console` begins the sessions of the console, for the relay of this process.
    """
    relay = _relay(shown)
    listed = _page(relay, _brokers, whole=True)

    def drained(_: Asked) -> Answer:
        return _later(relay.condition(), _draining)

    orders = _Orders(relay, listed, drained, bodies=guarded)

    def shown_now(taken: Snapshot) -> str:
        return overview(taken, [path.decode() for path in orders.actions])

    pages: dict[bytes, Page] = {
        **{path: file(name, kind) for path, (name, kind) in FILES.items()},
        b"/overview": SharedPage(_page(relay, shown_now, whole=False), reactor.seconds),
        b"/brokers": listed,
        b"/sessions": partial(_sessions, relay),
        b"/drain": drained,
        b"/moves": lambda _: _later(relay.moves(), _moves),
        **_watching(relay),
    }
    upgrades: dict[bytes, Upgrade] = {}
    opened = None
    if console is not None:
        assert isinstance(shown, RelayState)
        opened = Console(shown, console, reactor.seconds)
        pages.update((path, file(name, kind)) for path, (name, kind) in CONSOLE_FILES.items())
        pages[LISTENERS] = opened.listeners
        orders.actions[OPEN] = opened.open
        upgrades[SOCKET] = opened.connect
    secret = None if token is None else Token(token)
    repeats = relay.state.runtime.repeats
    served = AdminPages(pages, orders.find, Hosts(hosts), secret, repeats, upgrades)
    return AdminSite("admin", served, reactor, None if opened is None else opened.end)


def admin_services(
    config: Config,
    shown: _Shown | RelayState,
    reactor: Any,
    accept: Accept | None = None,
) -> list[ListeningService]:
    """Return the services that listen on the endpoints `admin` and `metrics`. `accept` begins the sessions of a
    console. Raises `BadEndpoint`, which names the key.
    """
    made = []
    for name, place, tls in (("admin", config.admin, config.admin_tls), ("metrics", config.metrics, None)):
        if place is None:
            continue
        if name == "admin":
            access = AdminAccess(place, config.admin_token, tls)
            console = accept if config.admin_console else None
            pages = site(
                shown,
                reactor,
                config.admin_hosts,
                config.admin_token,
                guarded=guarded(access),
                console=console,
            )
        else:
            pages = metrics_site(shown, reactor, config.admin_hosts)
        try:
            made.append(listening_service(reactor, name, place, pages, tls))
        except BadEndpoint as error:
            said = str(error)
            raise BadEndpoint(f"admin_{said}" if said.startswith("tls.") else f"{name}: {said}") from error
    return made
