"""A TOML table that knows its place in the file, so that every error names the file and the key."""

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar, cast, overload

T = TypeVar("T")
D = TypeVar("D")

LONGEST_FILE: Final = 65536
"""The largest size in bytes of a file that has one value, such as a passcode."""

_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")


def _spelled(path: Iterable[str | int]) -> str:
    steps = (
        f"[{key}]" if isinstance(key, int) else f".{key if _BARE.fullmatch(key) else json.dumps(key)}"
        for key in path
    )
    return "".join(steps).removeprefix(".")


class ConfigError(Exception):
    """A mistake in a configuration. The caller shows its text: one line that names the file and the key."""


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint for an error's text: the known word that is most like `word`, or all known words."""
    known = list(known)
    folded = {each.lower(): each for each in known}
    close = get_close_matches(word.lower(), folded, n=1)
    if close:
        return f'did you mean "{folded[close[0]]}"?'
    return f"known are {', '.join(known)}" if known else "there is none"


def read_file(path: str, read: Callable[[bytes, int], T], most: int = LONGEST_FILE) -> T:
    """Return the result of `read` for a file's bytes and mode. Raises `ValueError`, whose text begins with the path."""
    try:
        with open(path, "rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            content = stream.read(most + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > most:
        raise ValueError(f"{path} is larger than {most} bytes")
    try:
        return read(content, mode)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


class Takes(Enum):
    """When a changed setting takes effect after a reload."""

    NEW_SESSIONS = "new sessions"
    """New sessions have the new value; sessions that run keep the old value."""
    AT_ONCE = "at once"
    RESTART = "restart"


class Setting(NamedTuple):
    """A key of the configuration. `read` returns its value. If `read` is None, the module of the key's table reads the
    value. `field` is the field that holds the value: "" is the field with the key's name, `part.field` is a field in a
    part of the record, and a tuple names several fields. `path`: the value is a path, relative to the file's folder.
    `required`: the table must have the key. `moving`: the key is only for sessions that survive their broker.
    """

    read: Callable[[object], Any] | None = None
    field: str | tuple[str, ...] = ""
    takes: Takes = Takes.NEW_SESSIONS
    path: bool = False
    required: bool = False
    moving: bool = False


def built(owner: Any, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return these fields as arguments for a record. Fields `part.field` become a changed copy of `owner`'s part."""
    own: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for field, value in found.items():
        part, _, rest = field.partition(".")
        if rest:
            parts.setdefault(part, {})[rest] = value
        else:
            own[part] = value
    for part, inner in parts.items():
        default = getattr(owner, part)
        own[part] = replace(default, **built(default, inner))
    return own


class ConfigTable:
    """A table of a file. `source`: the file's name. `folder`: the folder of relative paths. `values`: the table's keys
    and values. `path`: the keys that lead to the table. `name`: the last of these keys. Either call `read` with the
    rows of all keys, or call `only` and then `get` for each key. All methods raise `ConfigError`.
    """

    def __init__(
        self,
        source: str,
        folder: str,
        values: Mapping[str, object],
        path: tuple[str | int, ...] = (),
    ) -> None:
        self.source = source
        self.folder = folder
        self.values = values
        self._path = path
        self.name = str(path[-1]) if path else ""

    def error(self, key: str | None, text: str) -> ConfigError:
        """Return an error about a key, or about the table itself if `key` is None. The caller raises the error."""
        place = _spelled(self._path if key is None else (*self._path, key))
        return ConfigError(f"{self.source}: {place}: {text}" if place else f"{self.source}: {text}")

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def only(self, known: Iterable[str]) -> None:
        """Raise `ConfigError` if the table has an unknown key."""
        known = list(known)
        for key in self.values:
            if key not in known:
                raise self.error(key, f"unknown key; {nearest(key, known)}")

    @overload
    def get(self, key: str, read: Callable[[object], T]) -> T | None: ...
    @overload
    def get(self, key: str, read: Callable[[object], T], default: D) -> T | D: ...
    def get(self, key: str, read: Callable[[object], T], default: D | None = None) -> T | D | None:
        """Return the result of `read` for the key's value, or the default if the key is absent."""
        if key not in self.values:
            return default
        try:
            return read(self.values[key])
        except ValueError as error:
            raise self.error(key, str(error)) from None

    def read(self, settings: Mapping[str, Setting]) -> dict[str, Any]:
        """Return the values of the keys that are present and have a reader, by field. Raises `ConfigError`."""
        self.only(settings)
        found: dict[str, Any] = {}
        for key, (read, field, _, is_path, required, _) in settings.items():
            if required and key not in self.values:
                raise self.error(key, "is missing")
            if read is not None and key in self.values:
                value: Any = self.path(key, read) if is_path else self.get(key, read)
                if isinstance(field, tuple):
                    found.update(zip(field, value, strict=True))
                else:
                    found[field or key] = value
        return found

    def read_inner(self, key: str, settings: Mapping[str, Setting]) -> dict[str, Any]:
        """Return what `read` returns for the table under a key; an empty dict if the key is absent."""
        return self.table(key).read(settings) if key in self.values else {}

    def required(self, key: str, read: Callable[[object], T]) -> T:
        """Return the result of `read` for the key's value. Raises `ConfigError` if the key is absent."""
        if key not in self.values:
            raise self.error(key, "is missing")
        return cast(T, self.get(key, read))

    def path(self, key: str, read: Callable[[object], str]) -> str | None:
        """Return the path under a key as an absolute path; None without the key. Relative paths begin in `folder`."""
        value = self.get(key, read)
        return None if value is None else os.path.join(self.folder, value)

    def file(
        self,
        key: str,
        name: Callable[[object], str],
        read: Callable[[bytes, int], T],
        most: int = LONGEST_FILE,
    ) -> T | None:
        """Return the result of `read_file` for the path that a key has as its value; None if the key is absent."""
        path = self.path(key, name)
        try:
            return None if path is None else read_file(path, read, most)
        except ValueError as error:
            raise self.error(key, str(error)) from None

    def table(self, key: str) -> "ConfigTable":
        """Return the table under a key; an empty table if the key is absent."""
        values = self.values.get(key, {})
        if not isinstance(values, dict):
            raise self.error(key, "must be a table")
        return ConfigTable(self.source, self.folder, values, (*self._path, key))

    def tables(self, key: str) -> list["ConfigTable"]:
        """Return the tables with names under a key, in the file's order."""
        if key not in self.values:
            return []
        parent = self.table(key)
        found = []
        for name, values in parent.values.items():
            if not _NAME.fullmatch(name):
                raise parent.error(name, "a name is made of letters, digits, dots, dashes and underscores")
            if not isinstance(values, dict):
                raise parent.error(name, f"must be a table, as in [{key}.main]")
            found.append(ConfigTable(self.source, self.folder, values, (*self._path, key, name)))
        return found

    def array(self, key: str) -> list["ConfigTable"]:
        """Return the tables of the array under a key, in the file's order."""
        values = self.values.get(key, [])
        if not isinstance(values, list) or not all(isinstance(each, dict) for each in values):
            raise self.error(key, f"must be tables, each under [[{key}]]")
        return [
            ConfigTable(self.source, self.folder, each, (*self._path, key, number))
            for number, each in enumerate(values, 1)
        ]
