"""Who a client is, as the relay found out; not what the client claims."""

from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Final, NamedTuple

from stomprelay.session.handshake import Credentials


@dataclass(frozen=True, slots=True)
class Identity:
    """A client. `user` is "" where nobody asked; `certificate` is its certificate's name or "". `credentials`: what
    brokers are told in place of its own; None: its own. `until`: when its session ends at the latest, in seconds.
    """

    user: str = ""
    groups: frozenset[str] = frozenset()
    certificate: str = ""
    credentials: Credentials | None = None
    until: float = inf


ANYBODY: Final = Identity()
"""A client of a listener that asks nobody: its brokers decide whether it may come in."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a client claims in CONNECT, in its own bytes, or None. No repr shows the passcode."""

    login: bytes | None
    passcode: bytes | None = field(default=None, repr=False)


class Ground(Enum):
    """Why a client is refused, for log and journal: no claim, a wrong one, or no decision in time."""

    MISSING = "missing"
    CERTIFICATE = "certificate"
    TOKEN = "token"
    PASSCODE = "passcode"
    SERVICE = "service"
    UNCHECKED = "unchecked"


class Refusal(NamedTuple):
    """A refusal and its reason; `text` is for the log, without a secret or a word of the client's."""

    ground: Ground
    text: str
