"""Who a client is, as the relay found out, and not as the client says."""

from dataclasses import dataclass
from math import inf
from typing import Final

from stomprelay.session.handshake import Credentials


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a client is. `user` is "" where nobody asked; `groups` are those of the user; `certificate` is the name in
    the client's certificate, "" without one. `credentials` are what its brokers are told in place of its own; None: its
    own. `until` is when its session ends at the latest, in seconds of the clock of `now`.
    """

    user: str = ""
    groups: frozenset[str] = frozenset()
    certificate: str = ""
    credentials: Credentials | None = None
    until: float = inf


ANYBODY: Final = Identity()
"""A client of a listener that asks nobody: its brokers decide whether it may come in."""
