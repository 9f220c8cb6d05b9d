"""The whole configuration, from a TOML file, the command line, and defaults. The command line overrides the file."""

import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, TypeVar

from stomprelay.auth.settings import AuthSettings
from stomprelay.broker.message import Bounds
from stomprelay.config.address import MEMORY, Authority, server, server_endpoint
from stomprelay.config.admin import KEYS as ADMIN
from stomprelay.config.admin import AdminAccess, check
from stomprelay.config.admin import read as read_admin
from stomprelay.config.auth import check as check_auth
from stomprelay.config.auth import read as read_auth
from stomprelay.config.listener import read as read_listener
from stomprelay.config.listener import read_move, read_route, read_rule, routed, ruled
from stomprelay.config.settings import SETTINGS
from stomprelay.config.table import ConfigError, ConfigTable
from stomprelay.config.upstream import location as read_location
from stomprelay.config.upstream import moved, places
from stomprelay.config.upstream import read as read_upstream
from stomprelay.config.uri import locate
from stomprelay.config.values import LEVELS, choice, shown, text
from stomprelay.config.values import workers as read_workers
from stomprelay.journal.settings import BodyRule, JournalSettings
from stomprelay.relay.model.listener import Listener, Route, ServerTLS
from stomprelay.relay.model.move import Move
from stomprelay.relay.model.upstream import Upstream

T = TypeVar("T")
V = TypeVar("V")

DEFAULT: Final = "default"

LONGEST: Final = 1024 * 1024
BODIES: Final = 4
"""The memory for all clients must have room for at least this number of bodies of the largest size. Memory counts as
short when three quarters of it are used.
"""
COMMAND_LINE: Final = "command line"


class Option(NamedTuple):
    """An option of the command line: its letter or None, the name of its value in the help, and its meaning."""

    letter: str | None
    value: str
    meaning: str


OPTIONS: Final[Mapping[str, Option]] = {
    "listen": Option("l", "ENDPOINT", "Where clients connect, e.g. tcp:61613. May be given several times."),
    "upstream": Option(
        "u",
        "URI",
        "Where to relay to: tcp://host:port, ssl://host:port, failover:(tcp://a,tcp://b), fanout:(...), memory:",
    ),
    "admin": Option(
        None,
        "ENDPOINT",
        "Endpoint for health, metrics and the dashboard, e.g. tcp:61680:interface=127.0.0.1",
    ),
    "journal": Option(None, "DIR", "Folder for a journal of the frames that pass."),
    "workers": Option(None, "N", "How many processes serve the clients; best: one for each core."),
    "log_level": Option(None, "LEVEL", f"How much is logged: {', '.join(LEVELS)}."),
}
"""The options of the command line, which replace values of the file. The names are those of `overridden`'s arguments;
the command line has dashes in them in place of underscores.
"""


@dataclass(frozen=True)
class Config:
    """All settings, checked, by the names of their keys; `config/stomprelay.toml` explains the keys. It is not checked
    whether endpoints, TLS files and the journal's directory can be used. For `admin`, `metrics`, `handover` and
    `admin_token` None means that there is none. For `clients` None means as many clients as the process has file
    descriptors for. For `memory` None means half of the machine's memory. `tables`: the tables of the file.
    """

    listeners: tuple[Listener, ...]
    admin: str | None = None
    broker: Bounds = field(default=Bounds())
    journal: JournalSettings = field(default=JournalSettings())
    admin_hosts: tuple[Authority, ...] = ()
    clients: int | None = None
    stop_timeout: float = 20.0
    log_level: str = "info"
    fast_path: bool = True
    workers: int = 1
    metrics: str | None = None
    admin_token: bytes | None = field(default=None, repr=False)
    admin_tls: ServerTLS | None = None
    handover: str | None = None
    admin_console: bool = False
    auths: tuple[AuthSettings, ...] = ()
    memory: int | None = None
    worker_timeout: float = 30.0
    moves_file: str | None = None
    tables: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def upstreams(self) -> tuple[Upstream, ...]:
        """Return the upstreams of the listeners and of their routes, each once."""
        ways: list[Listener | Route] = []
        for each in self.listeners:
            ways += (each, *each.routes)
        return tuple({id(each.upstream): each.upstream for each in ways}.values())

    @property
    def moves(self) -> dict[str, Move]:
        """The moves of the listeners, by name."""
        return {move.name: move for each in self.listeners for move in each.moves}

    @property
    def watched(self) -> bool:
        """Whether there is an endpoint for figures: `admin` or `metrics`."""
        return self.admin is not None or self.metrics is not None


NOTHING: Final = Config(())
"""The configuration for the time when no relay runs yet."""


def load(path: str, text: str | None = None, running: Config = NOTHING) -> Config:
    """Return the configuration in a TOML file. `text`: the file's content, if it was already read. If a listener or an
    upstream is unchanged, the object of `running` is used again. Raises `ConfigError` with a text of one line.
    """
    return _read(_table(path, read_text(path) if text is None else text), running)


def load_admin(path: str) -> AdminAccess:
    """Return the access to the admin endpoint in a TOML file; nothing else is checked. Raises `ConfigError`."""
    return read_admin(_table(path, read_text(path)))


def load_upstreams(path: str) -> dict[str, Upstream]:
    """Return all upstreams in a TOML file by name, also those that nothing leads to; nothing else is checked. Raises
    `ConfigError`.
    """
    return _read_upstreams(_table(path, read_text(path)), NOTHING)


def upstream_at(name: str, uri: str) -> Upstream:
    """Return an upstream at this URI, with defaults for all other settings. Raises `ValueError`."""
    return moved(Upstream(name, ()), read_location(uri))


def _table(path: str, text: str) -> ConfigTable:
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"{path}: is not TOML: {' '.join(str(error).split())}") from None
    return ConfigTable(path, os.path.dirname(os.path.abspath(path)), values)


def read_text(path: str) -> str:
    """Return the text of a file. Raises `ConfigError`."""
    try:
        with open(path, "rb") as stream:
            content = stream.read(LONGEST + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # NUL in the path
        raise ConfigError(f"{shown(path)}: cannot be read: {error}") from None
    if len(content) > LONGEST:
        raise ConfigError(f"{path}: is longer than {LONGEST} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}: is not UTF-8, and so not TOML (at line {line})") from None


def default() -> Config:
    """Return the configuration without a file: the embedded broker on port 61613 of the loopback interface."""
    return _read(ConfigTable(COMMAND_LINE, "", {}))


def overridden(
    config: Config,
    listen: Sequence[str] = (),
    upstream: str | None = None,
    admin: str | None = None,
    journal: str | None = None,
    workers: str | None = None,
    log_level: str | None = None,
    source: str = COMMAND_LINE,
) -> Config:
    """Return the configuration, overridden by the command line. `listen`: endpoints that replace all listeners; each
    gets the settings of the first listener. `upstream`: the new address of each listener's own upstream, also for
    routes to this upstream. `journal`: the journal's folder. `source`: the file, to be named in errors that no option
    caused. Raises `ConfigError`.
    """
    listeners = config.listeners
    if listen:
        listeners = tuple(_relistened(listeners[0], listen))
    if upstream is not None:
        listeners = _moved(listeners, upstream)
    if admin is not None:
        admin = _option("--admin", server_endpoint, admin)
        access = AdminAccess(admin, config.admin_token, config.admin_tls, config.admin_console)
        check(COMMAND_LINE, "--admin", access)
    else:
        admin = config.admin
    if listen or admin != config.admin:
        _distinct(COMMAND_LINE, listeners, admin, config.metrics)
    if config.auths:
        check_auth(source, listeners, config.auths)
    kept = config.journal
    if journal is not None:
        kept = replace(kept, directory=os.path.abspath(_option("--journal", text, journal)))
    number = config.workers if workers is None else _option("--workers", read_workers, _number(workers))
    level = config.log_level
    if log_level is not None:
        level = _option("--log-level", choice(LEVELS), log_level)
    made = replace(config, listeners=listeners, admin=admin, journal=kept, workers=number, log_level=level)
    if number > 1:
        sharable(source, made)
    return made


def share(config: Config, number: int) -> Config:
    """Return the configuration of worker `number`, counted from 1. Limits for all clients are divided among the
    workers. Only the first worker removes old segments.
    """

    def part(clients: int | None) -> int | None:
        return None if clients is None else (clients + config.workers - number) // config.workers

    def listener(whole: Listener) -> Listener:
        rates = replace(whole.rates, listener=whole.rates.listener.share(config.workers))
        return replace(whole, clients=part(whole.clients), rates=rates)

    kept = config.journal if number == 1 else replace(config.journal, retain_age=None, retain_size=None)
    return replace(
        config,
        listeners=tuple(listener(each) for each in config.listeners),
        clients=part(config.clients),
        journal=kept,
    )


def sharable(source: str, config: Config) -> None:
    """Raise `ConfigError` if the configuration has something that several workers cannot share."""
    for upstream in config.upstreams:
        if any(broker.endpoint == MEMORY for broker in upstream.brokers):
            raise ConfigError(
                f"{source}: workers: {config.workers} processes cannot share the embedded broker, to which "
                f'upstream.{upstream.name}.uri leads ("{MEMORY}")'
            )
    limits = [("limits.clients", config.clients)]
    limits += [(f"listener.{each.name}.limits.clients", each.clients) for each in config.listeners]
    for key, clients in limits:
        if clients is not None and clients < config.workers:
            raise ConfigError(f"{source}: {key}: must be at least 1 for each of {config.workers} workers")
    if config.admin_console:
        raise ConfigError(
            f"{source}: admin_console: the console needs workers = 1: what serves admin has no sessions beside workers"
        )


def _number(text: str) -> object:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def _option(option: str, read: Callable[[V], T], value: V) -> T:
    """Return the result of `read` for the value of an option. Raises `ConfigError` with the option's name."""
    try:
        return read(value)
    except ValueError as error:
        raise ConfigError(f"{COMMAND_LINE}: {option}: {error}") from None


def _moved(listeners: Sequence[Listener], uri: str) -> tuple[Listener, ...]:
    there: dict[str, Upstream] = {}
    for each in listeners:
        if each.upstream.name not in there:
            place = _option("--upstream", read_location, uri)
            there[each.upstream.name] = _option("--upstream", partial(moved, each.upstream), place)
    return led_to(there, listeners)


def led_to(upstreams: Mapping[str, Upstream], listeners: Iterable[Listener]) -> tuple[Listener, ...]:
    """Return the listeners with other upstreams, also in their routes. `upstreams` has the new upstreams by name."""
    return tuple(
        replace(
            each,
            upstream=upstreams[each.upstream.name],
            routes=tuple(
                replace(route, upstream=upstreams.get(route.upstream.name, route.upstream))
                for route in each.routes
            ),
        )
        for each in listeners
    )


def _relistened(model: Listener, listen: Sequence[str]) -> Iterator[Listener]:
    for number, place in enumerate(listen, 1):
        where = _option("--listen", server_endpoint, place)
        if model.tls is not None and server(where).own_tls:
            raise ConfigError(
                f"{COMMAND_LINE}: --listen: {where} brings TLS of its own, and listener.{model.name}.tls does too"
            )
        yield replace(model, name=model.name if number == 1 else f"{model.name}-{number}", endpoint=where)


def _read(table: ConfigTable, running: Config = NOTHING) -> Config:
    found = table.read(SETTINGS[""])
    listeners, auths = _read_sessions(table, running)
    if not table.values.keys().isdisjoint(ADMIN):
        admin = read_admin(table)
        check(table.source, "admin", admin)
        found |= {"admin_token": admin.token, "admin_tls": admin.tls}
    if "move" in table and "moves_file" not in found:
        raise ConfigError(f"{table.source}: moves_file: is missing: the file that keeps how far each move is")
    _distinct(table.source, listeners, found.get("admin"), found.get("metrics"))
    journal = read_journal(table.table("journal")) if "journal" in table else JournalSettings()
    if "passcode" not in journal.redact and any(each.renew for each in auths):
        # Clients send new tokens in frames, and no token may be recorded.
        journal = replace(journal, redact=(*journal.redact, "passcode"))
    limits = table.read_inner("limits", SETTINGS["limits"])
    if "memory" in limits:
        # A frame of a client must fit while the memory for all clients is short.
        memory, body = limits["memory"], max(each.limits.body for each in listeners)
        if memory < BODIES * body:
            raise ConfigError(
                f"{table.source}: limits.memory: must be at least {BODIES * body}, not {memory}: "
                f"a body may have {body} bytes"
            )
    return Config(
        listeners,
        auths=auths,
        broker=Bounds(**table.read_inner("broker", SETTINGS["broker"])),
        journal=journal,
        tables=table.values,
        **found,
        **limits,
    )


_SESSIONS: Final = ("upstream", "listener", "auth", "route", "move", "rule")
"""Tables that decide how sessions are served."""


def _read_sessions(
    table: ConfigTable, running: Config
) -> tuple[tuple[Listener, ...], tuple[AuthSettings, ...]]:
    """Return the listeners with their upstreams, routes, moves and rules. Also return the settings of all
    `[auth.NAME]`. Reads each file that a table names.
    """
    try:
        texts = [repr([tables.get(key) for key in _SESSIONS]) for tables in (table.values, running.tables)]
    except (RecursionError, ValueError):  # deeply nested by dots, or a huge number: an error is raised later
        running, texts = NOTHING, ["", ""]
    if running.listeners and texts[0] == texts[1] and "auth" not in table and "passcode_file" not in texts[0]:
        return running.listeners, ()
    upstreams = _read_upstreams(table, running)
    if len(upstreams) > 1:
        fallback = None
    else:
        fallback = next(iter(upstreams.values()), None) or Upstream(
            DEFAULT, locate(MEMORY).groups(DEFAULT, None)
        )
    auths = {each.name: read_auth(each) for each in table.tables("auth")}
    tables = table.tables("listener") or [table.table("listener").table(DEFAULT)]
    kept = (
        _kept_listeners(tables, upstreams, fallback, running)
        if _OF_LISTENERS.isdisjoint(table.values)
        else {}
    )
    listeners = tuple(
        [kept.get(each.name) or read_listener(each, upstreams, fallback, auths) for each in tables]
    )
    names = {each.name: each for each in listeners}
    routes = [read_route(each, upstreams, names) for each in table.array("route")]
    routes += [read_move(each, upstreams, names) for each in table.tables("move")]
    if routes:
        listeners = tuple([routed(each, routes) for each in listeners])
    if "rule" in table:
        rules = [read_rule(each, names) for each in table.array("rule")]
        listeners = tuple([ruled(each, rules) for each in listeners])
    if auths:
        check_auth(table.source, listeners, auths.values())
    return listeners, tuple(auths.values())


def _read_upstreams(table: ConfigTable, running: Config) -> dict[str, Upstream]:
    """Return the upstreams by name. If a table is unchanged, its upstream is the running one."""
    known = {each.name: each for each in running.upstreams}
    said: Any = running.tables.get("upstream", {})
    found: dict[str, Upstream] = {}
    for each in table.tables("upstream"):
        name = each.name
        there, before = known.get(name), said.get(name)
        if there is None:
            found[name] = read_upstream(each)
        elif repr(each.values) == repr(before) and "passcode_file" not in each.values:
            found[name] = there
        else:
            found[name] = read_upstream(each, there if places(each.values) == places(before) else None)
    return found


_OF_LISTENERS: Final = frozenset({"auth", "route", "move", "rule"})
"""Tables that change listeners, in addition to the listeners' own tables."""


def _kept_listeners(
    tables: Iterable[ConfigTable],
    upstreams: Mapping[str, Upstream],
    fallback: Upstream | None,
    running: Config,
) -> dict[str, Listener]:
    """Return a dict with the running listeners whose tables are unchanged. Each listener has its new upstream."""
    said: Any = running.tables.get("listener", {})
    if not _OF_LISTENERS.isdisjoint(running.tables):
        return {}
    known = {each.name: each for each in running.listeners}
    found: dict[str, Listener] = {}
    for each in tables:
        name, named = each.name, each.values.get("upstream")
        upstream = fallback if named is None else upstreams.get(str(named))
        there = known.get(name)
        if there is not None and upstream is not None and repr(each.values) == repr(said.get(name)):
            found[name] = there if there.upstream is upstream else replace(there, upstream=upstream)
    return found


def read_journal(table: ConfigTable) -> JournalSettings:
    """Return the journal's settings in a table. Raises `ConfigError`."""
    rules = [BodyRule(**each.read(SETTINGS["journal.capture[N]"])) for each in table.array("capture")]
    return JournalSettings(**table.read(SETTINGS["journal"]), rules=tuple(rules))


def _distinct(source: str, listeners: Iterable[Listener], admin: str | None, metrics: str | None) -> None:
    """Raise `ConfigError` if two of the listeners, `admin` and `metrics` have the same endpoint. Several endpoints may
    have port 0, because each of them gets its own port.
    """
    taken: dict[str, str] = {}
    places = [(f"listener.{each.name}.endpoint", each.endpoint) for each in listeners]
    places += [(key, place) for key, place in (("admin", admin), ("metrics", metrics)) if place is not None]
    for key, place in places:
        first = taken.setdefault(place, key)
        if first != key and server(place).arguments.get("port") != "0":
            raise ConfigError(f'{source}: {key}: "{place}" is taken by {first}')
