"""The change from the running configuration to a new one: the source of the new one, the keys that differ, the keys
that need a restart, and the groups and brokers that stay.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

from stomprelay.config import ConfigError, default, load, overridden, read_text
from stomprelay.config.config import NOTHING, Config, led_to, sharable
from stomprelay.config.settings import SETTINGS, held, takes
from stomprelay.config.table import Takes
from stomprelay.relay.model.group import Broker, Group
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.move import Move
from stomprelay.relay.model.upstream import Upstream


class ConfigSource(NamedTuple):
    """Where a configuration comes from: a file's path and text, the options of the command line, and the folder of
    relative paths. Another process can read the same configuration from this source.
    """

    path: str | None
    text: str
    options: Mapping[str, Any]
    folder: str

    @classmethod
    def of(cls, path: str | None, options: Mapping[str, Any]) -> Self:
        """Return the source for a command line: the file as it is now, and the options. Raises `ConfigError`."""
        return cls(path, "" if path is None else read_text(path), options, os.getcwd())

    @contextmanager
    def here(self) -> Iterator[None]:
        """Run the `with` block in the folder of the source. Raises `ConfigError` if the folder is gone."""
        before: str | None = None
        with suppress(OSError):  # the process's folder may have been removed
            before = os.getcwd()
        if before == self.folder:
            yield
            return
        try:
            os.chdir(self.folder)
        except OSError as error:
            raise ConfigError(f"{self.folder}: cannot be entered: {error.strerror}") from None
        try:
            yield
        finally:
            if before is not None:
                os.chdir(before)

    def read(self, running: Config = NOTHING) -> Config:
        """Return the configuration. Its unchanged parts are those of `running`. Raises `ConfigError`."""
        if self.path is None:
            return overridden(default(), **self.options)
        if self.options.get("listen") or self.options.get("upstream"):
            running = NOTHING  # the running listeners are not those of the file
        return overridden(load(self.path, self.text, running), **self.options, source=self.path)

    def again(self) -> Self:
        """Return the source with the file as it is now. Call it within `here`. Raises `ConfigError`."""
        return self if self.path is None else self._replace(text=read_text(self.path))


_FIXED, _FIXED_IN_JOURNAL = (
    [key for key, each in SETTINGS[table].items() if each.takes is Takes.RESTART] for table in ("", "journal")
)
"""The fields whose changes have no effect after the start of the process."""


class Continued(NamedTuple):
    """A `group` that continues, or a new one in its place, with the settings of `like` and these brokers."""

    group: Group
    like: Group
    brokers: tuple[Broker, ...]


@dataclass(frozen=True)
class Change:
    """The change from the running configuration to `config`. `config` has the groups and brokers that stay, and the
    old values of keys that need a restart. Call `apply` when everything in `config` can be used. `left`: brokers that
    are no longer in a group; their sessions have the `drain_timeout` of the upstream to leave them. `changed`: the
    keys that differ. `restart`: the keys that differ and need a restart.
    """

    config: Config
    continued: tuple[Continued, ...]
    left: tuple[tuple[Upstream, Broker], ...]
    changed: tuple[str, ...]
    restart: tuple[str, ...]

    @property
    def brokers(self) -> list[tuple[Upstream, Broker]]:
        """Return the brokers after the change, each with its upstream."""
        then = {id(group): brokers for group, _, brokers in self.continued}
        return [
            (upstream, broker)
            for upstream in self.config.upstreams
            for group in upstream.groups
            for broker in then.get(id(group), group.brokers)
        ]

    def apply(self) -> None:
        """Give each continued group its settings and brokers. From now on sessions choose among these brokers."""
        for group, like, brokers in self.continued:
            group.take(like, brokers)


def change(source: str, running: Config, wanted: Config) -> Change:
    """Return the change from `running` to the configuration `wanted`. Errors name `source`. Raises `ConfigError`."""
    if running.moves and wanted.listeners is not running.listeners:
        wanted = replace(wanted, listeners=tuple(_moving(running.moves, wanted.listeners)))
    changed, restart = _differences(running, wanted)
    config = wanted
    if restart:
        journal = replace(wanted.journal, **{key: getattr(running.journal, key) for key in _FIXED_IN_JOURNAL})
        config = replace(wanted, journal=journal, **{key: getattr(running, key) for key in _FIXED})
    if config.workers > 1:
        sharable(source, config)
    before = {each.name: each for each in running.upstreams}
    upstreams: dict[str, Upstream] = {}
    continued: list[Continued] = []
    for each in () if wanted.listeners is running.listeners else wanted.upstreams:
        upstreams[each.name] = each
        if each.name in before and before[each.name].groups is not each.groups:
            groups = tuple(_groups(before[each.name], each, continued))
            upstreams[each.name] = replace(each, groups=groups)
    if not continued:
        return Change(config, (), (), changed, restart)
    left = tuple(
        (upstreams[name], broker)
        for name, each in before.items()
        for group, _, brokers in continued
        if any(group is one for one in each.groups)
        for broker in group.brokers
        if broker not in brokers
    )
    listeners = led_to(upstreams, config.listeners)
    return Change(replace(config, listeners=listeners), tuple(continued), left, changed, restart)


def _moving(running: Mapping[str, Move], listeners: Iterable[Listener]) -> Iterator[Listener]:
    """Yield the listeners with the running moves, which sessions follow, in place of new ones of the same name."""
    for listener in listeners:
        routes = [
            each if each.move is None else replace(each, move=running.get(each.move.name, each.move))
            for each in listener.routes
        ]
        yield replace(listener, routes=tuple(routes))


def _groups(before: Upstream, after: Upstream, continued: list[Continued]) -> Iterator[Group]:
    """Yield the groups of a changed upstream, and append a `Continued` for each to `continued`. A group continues only
    if the number of groups and `movable` stay the same, because sessions rely on both.
    """
    alike = len(before.groups) == len(after.groups) and before.movable == after.movable
    for number, group in enumerate(after.groups):
        old = before.groups[number] if alike else None
        known = before.brokers if old is None else old.brokers
        brokers = tuple(_known(each, known) for each in group.brokers)
        if old is None or not (after.movable or brokers == old.brokers):
            old = Group(group.name, brokers, group.reconnect, group.policy)
        continued.append(Continued(old, group, brokers))
        yield old


def _known(broker: Broker, known: Iterable[Broker]) -> Broker:
    place = (broker.uri, broker.endpoint, broker.host, broker.tls, broker.path)
    for each in known:
        if (each.uri, each.endpoint, each.host, each.tls, each.path) == place:
            return each
    return broker


# What differs


def _differences(before: Config, after: Config) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return two lists: the keys that differ and need no restart, and the keys that differ and need a restart. Added
    and removed tables and brokers are described in words.
    """
    changed = _keys("", before, after)
    changed += [f"broker.{key}" for key in _keys("broker", before.broker, after.broker)]
    changed += [f"journal.{key}" for key in _keys("journal", before.journal, after.journal)]
    restart = tuple([key for key in changed if takes(key) is Takes.RESTART])
    if before.listeners is not after.listeners:
        changed += _by_name("listener", before.listeners, after.listeners, _listener)
        if before.auths != after.auths:
            changed += _by_name("auth", before.auths, after.auths, partial(_keys, "auth.NAME"))
        if before.upstreams != after.upstreams:
            changed += _by_name("upstream", before.upstreams, after.upstreams, _upstream)
    return tuple([each for each in changed if each not in restart]), restart


def _by_name(kind: str, before: Iterable[Any], after: Iterable[Any], compare: Any) -> list[str]:
    there = {each.name: each for each in before}
    here = {each.name: each for each in after}
    changed: list[str] = []
    for name in dict.fromkeys([*here, *there]):
        old, new = there.get(name), here.get(name)
        if old is None or new is None:
            changed.append(f"{kind}.{name} {'added' if old is None else 'removed'}")
        elif old is not new:
            changed += [f"{kind}.{name}.{key}" for key in compare(old, new)]
    return changed


def _keys(table: str, before: object, after: object) -> list[str]:
    """Return the keys of a table, and of the tables in it, whose values differ in two of its records."""
    there, here = (
        {
            f"{each.table[len(table) :]}.{each.key}".removeprefix("."): each.values
            for each in held(table, record)
        }
        for record in (before, after)
    )
    return [key for key in {**here, **there} if there.get(key) != here.get(key)]


def _listener(before: Listener, after: Listener) -> list[str]:
    found = [key for key in _keys("listener.NAME", before, after) if key not in ("upstream", "rules_default")]
    if before.rules != after.rules:
        found.append("rule")
    if before.upstream.name != after.upstream.name:
        found.append("upstream")
    for kind, moves in (("route", False), ("move", True)):
        if _shown_routes(before, moves=moves) != _shown_routes(after, moves=moves):
            found.append(kind)
    return found


def _shown_routes(listener: Listener, *, moves: bool) -> list[tuple[object, ...]]:
    return [
        (each.match, each.pattern, each.upstream.name, each.move)
        for each in listener.routes
        if (each.move is not None) is moves
    ]


def _upstream(before: Upstream, after: Upstream) -> list[str]:
    found = [key for key in _keys("upstream.NAME", before, after) if key != "policy"]
    if "login" in found:
        logins = {None if each.credentials is None else each.credentials.login for each in (before, after)}
        found[found.index("login")] = "passcode" if len(logins) == 1 else "login"
    if before.groups is after.groups:
        return found
    there, here = (list(dict.fromkeys(map(str, each.brokers))) for each in (before, after))
    came = [f"uri: {each} added" for each in here if each not in there]
    left = [f"uri: {each} removed" for each in there if each not in here]
    policies = [[group.policy for group in each.groups] for each in (before, after)]
    if policies[0] != policies[1]:
        found.append("policy")
    elif not came and not left and "uri" not in found and _shape(before) != _shape(after):
        found.append("uri")
    return [*(key for key in found if key != "uri" or not (came or left)), *came, *left]


def _shape(upstream: Upstream) -> list[object]:
    return [
        (each.reconnect, [(broker.uri, broker.weight) for broker in each.brokers]) for each in upstream.groups
    ]
