"""Everything that is configured: a TOML file, the command line over it, and defaults under both."""

import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypeVar

from stomprelay.broker.bounds import Bounds
from stomprelay.config import endpoint
from stomprelay.config.address import MEMORY, broker
from stomprelay.config.listener import read as read_listener
from stomprelay.config.listener import server as read_server
from stomprelay.config.table import ConfigError, Table
from stomprelay.config.upstream import broker as read_broker
from stomprelay.config.upstream import read as read_upstream
from stomprelay.config.values import count, headers, seconds
from stomprelay.relay.listener import Listener
from stomprelay.relay.upstream import Upstream

T = TypeVar("T")

KEYS: Final = ("admin", "listener", "upstream", "broker")
DEFAULT: Final = "default"
"""The name of a listener or an upstream that no file names."""

COMMAND_LINE: Final = "command line"
"""What an error names in place of a file."""

_READERS: Final[dict[type, Callable[[object], float]]] = {int: count, float: seconds}
_BOUNDS: Final = {"headers": headers}


@dataclass(frozen=True)
class Config:
    """What runs: the listeners (each with its upstream), the admin endpoint if there is one, and the bounds of the
    embedded broker. Nothing in it needs checking again but the endpoints and the TLS files.
    """

    listeners: tuple[Listener, ...]
    admin: str | None = None
    broker: Bounds = field(default=Bounds())


def load(path: str) -> Config:
    """The configuration in a TOML file. Raises `ConfigError` with the one line to show."""
    try:
        with open(path, "rb") as stream:
            values = tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: is not UTF-8, and so not TOML") from None
    except ValueError as error:
        raise ConfigError(f"{path}: is not TOML: {error}") from None
    return _read(Table(path, os.path.dirname(os.path.abspath(path)), values))


def default(
    listen: Sequence[str] = (),
    upstream: str | None = None,
    admin: str | None = None,
) -> Config:
    """The configuration without a file, as `overridden` makes it of the command line: the embedded broker on
    port 61613 of the loopback interface, where nothing else is said.
    """
    return overridden(_read(Table(COMMAND_LINE, "", {})), listen, upstream, admin)


def overridden(
    config: Config,
    listen: Sequence[str] = (),
    upstream: str | None = None,
    admin: str | None = None,
) -> Config:
    """The configuration with what the command line says, which wins.

    With `listen` the relay listens on these endpoints and on no other, each with the settings of the file's first
    listener. With `upstream` every listener goes to that address, with the other settings of its own upstream.
    Raises `ConfigError`.
    """
    listeners = config.listeners
    if listen:
        listeners = tuple(_relistened(listeners[0], listen))
    if upstream is not None:
        broker = _said("--upstream", read_broker, upstream)
        moved = {each.upstream.name: replace(each.upstream, broker=broker) for each in listeners}
        listeners = tuple(replace(each, upstream=moved[each.upstream.name]) for each in listeners)
    if admin is not None:
        admin = _said("--admin", read_server, admin)
    else:
        admin = config.admin
    _apart(COMMAND_LINE, listeners, admin)
    return replace(config, listeners=listeners, admin=admin)


def _said(option: str, read: Callable[[object], T], value: object) -> T:
    try:
        return read(value)
    except ValueError as error:
        raise ConfigError(f"{COMMAND_LINE}: {option}: {error}") from None


def _relistened(model: Listener, listen: Sequence[str]) -> Iterator[Listener]:
    for number, place in enumerate(listen, 1):
        where = _said("--listen", read_server, place)
        if model.tls is not None and endpoint.server(where).own_tls:
            raise ConfigError(
                f"{COMMAND_LINE}: --listen: {where} brings TLS of its own, and listener.{model.name}.tls does too"
            )
        yield replace(model, name=model.name if number == 1 else f"{model.name}-{number}", endpoint=where)


def _read(table: Table) -> Config:
    table.only(KEYS)
    upstreams = {each.name: read_upstream(each) for each in table.tables("upstream")}
    if len(upstreams) > 1:
        fallback = None
    else:
        fallback = next(iter(upstreams.values()), Upstream(DEFAULT, broker(MEMORY)))
    tables = table.tables("listener") or [table.table("listener").table(DEFAULT)]
    listeners = tuple(read_listener(each, upstreams, fallback) for each in tables)
    admin = table.get("admin", read_server)
    _apart(table.source, listeners, admin)
    return Config(listeners, admin, _bounds(table.table("broker")))


def _bounds(table: Table) -> Bounds:
    """Each field of `Bounds` is a key of its name, and its default tells what it may be."""
    defaults = asdict(Bounds())
    table.only(defaults)
    values: dict[str, Any] = {
        key: table.get(key, _BOUNDS.get(key, _READERS[type(value)]), value) for key, value in defaults.items()
    }
    return Bounds(**values)


def _apart(source: str, listeners: Iterable[Listener], admin: str | None) -> None:
    """Raise when two would listen in one place; port 0 is another one each time."""
    taken: dict[str, str] = {}
    places = [(f"listener.{each.name}.endpoint", each.endpoint) for each in listeners]
    if admin is not None:
        places.append(("admin", admin))
    for key, place in places:
        first = taken.setdefault(place, key)
        if first != key and endpoint.server(place).arguments.get("port") != "0":
            raise ConfigError(f'{source}: {key}: "{place}" is taken by {first}')
