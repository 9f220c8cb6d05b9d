"""What a worker is told when it starts: which configuration, which of how many it is, and what it inherits."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Self

from stomprelay import config
from stomprelay.config import Config
from stomprelay.config.endpoint import quoted

_PRIVATE: Final = "600"


class Source(NamedTuple):
    """Where a configuration is from, so that another process reads the same, whatever becomes of the file: its path and
    its text, if there is one, and the options over it. Relative paths start in `folder`.
    """

    path: str | None
    text: str
    options: Mapping[str, Any]
    folder: str

    @classmethod
    def of(cls, path: str | None, options: Mapping[str, Any]) -> Self:
        """Return the source of a command line, with the file as it is now. Raises `ConfigError`."""
        return cls(path, "" if path is None else config.read_text(path), options, os.getcwd())

    def read(self) -> Config:
        """Return the configuration. Raises `ConfigError`."""
        if self.path is None:
            return config.default(**self.options)
        return config.overridden(config.load(self.path, self.text), **self.options, source=self.path)


class Plan(NamedTuple):
    """What worker `number` is told: `sockets` are the descriptors of the listeners by name, `admin` the path of the
    UNIX socket where it is asked, `loads` that of the file of `Loads`, `paused` the addresses of the brokers that are
    out of service, `reactor` the module of the parent's reactor; `draining`: new clients are refused.
    """

    number: int
    source: Source
    sockets: Mapping[str, int]
    admin: str
    loads: str
    paused: Sequence[str]
    reactor: str
    draining: bool = False

    def spell(self) -> bytes:
        """Return it as a line, for the worker's standard input."""
        return json.dumps(self).encode("ascii") + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Self:
        """Return the plan in a line. Raises `ValueError` or `TypeError`."""
        number, source, *rest = json.loads(line)
        return cls(number, Source(*source), *rest)

    def read(self) -> Config:
        """Return the worker's share of the configuration, with an admin endpoint of its own. Raises `ConfigError`."""
        share = config.share(self.source.read(), self.number)
        admin = f"unix:{quoted(self.admin)}:mode={_PRIVATE}:lockfile=0"
        own = replace(share, admin=admin, admin_hosts=(), admin_token=None, admin_tls=None)
        return replace(own, metrics=None)
