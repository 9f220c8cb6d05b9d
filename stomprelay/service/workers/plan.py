"""What a worker gets when it starts: the configuration, its number, the number of workers, and what it inherits."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Self

from stomprelay import config
from stomprelay.config import Config
from stomprelay.config.change import Source
from stomprelay.config.endpoint import quoted
from stomprelay.service.network.passing import Passed

_PRIVATE: Final = "600"


class Plan(NamedTuple):
    """The plan of worker `number`: listeners' sockets by name, paths of its admin socket and of `Loads`, addresses of
    paused brokers, the reactor's module, and whether new clients are refused.
    """

    number: int
    source: Source
    sockets: Mapping[str, int]
    admin: str
    loads: str
    paused: Sequence[str]
    reactor: str
    draining: bool = False

    def spell(self) -> dict[str, Any]:
        """Return the plan as bytes, to be passed with its sockets."""
        return {"plan": self._replace(sockets={})}

    @classmethod
    def parse(cls, passed: Passed) -> Self:
        """Return the plan in a message, whose sockets stay the caller's. Raises `LookupError`, `ValueError` or
        `TypeError`.
        """
        number, source, _, *rest = passed.said["plan"]
        sockets = {name: each.fileno() for name, each in passed.sockets.items()}
        return cls(number, Source(*source), sockets, *rest)

    def read(self) -> Config:
        """Return the worker's share of the configuration, with its own admin endpoint. Raises `ConfigError`."""
        share = config.share(self.source.read(), self.number)
        admin = f"unix:{quoted(self.admin)}:mode={_PRIVATE}:lockfile=0"
        own = replace(share, admin=admin, admin_hosts=(), admin_token=None, admin_tls=None)
        return replace(own, metrics=None)
