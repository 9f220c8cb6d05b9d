"""Who a client is, as the relay found out, and not as the client says."""

from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import Final, NamedTuple

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


@dataclass(frozen=True, slots=True)
class Claim:
    """What a client says of itself in its CONNECT, in the bytes that it sent; None where it says nothing. No repr shows
    the passcode.
    """

    login: bytes | None
    passcode: bytes | None = field(default=None, repr=False)


class Ground(Enum):
    """Why a client is not let in, as the log and the journal have it: it says nothing that could be compared; what it
    is known by is wrong; nobody knows, because who decides could not be asked, or not in time.
    """

    MISSING = "missing"
    CERTIFICATE = "certificate"
    TOKEN = "token"
    PASSCODE = "passcode"
    SERVICE = "service"
    UNCHECKED = "unchecked"


class Refusal(NamedTuple):
    """That a client is not let in, and why; `text` is a line for the log. The client is shown none of it, and it has no
    secret in it, nor a word that the client chose.
    """

    ground: Ground
    text: str
