"""The table `[auth.NAME]`: the methods that identify clients, and the login for brokers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Final

from stomprelay.relay.model.rules import Claim, Identity
from stomprelay.session.handshake import Credentials

if TYPE_CHECKING:  # these modules import packages that may not be installed
    from stomprelay.auth.tokens import Tokens
    from stomprelay.auth.users import Users

_TOKEN: Final = re.compile(rb"e[wy][A-Za-z0-9_-]*\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*")


class BrokerLogin(Enum):
    """The login that a broker gets for users who have no line in the file of logins."""

    LOGIN = "login"
    """The login of the upstream."""
    USER = "user"
    """The name of the user as login, without a passcode."""
    CLIENT = "client"
    """The login of the upstream if there is one; otherwise the client's own login."""


class Method(Enum):
    """The method that identified a client."""

    CERTIFICATE = "certificate"
    TOKEN = "token"
    PASSCODE = "passcode"
    SERVICE = "service"


@dataclass(frozen=True)
class AuthService:
    """An HTTP service that identifies clients. `timeout`: the seconds that a request may take. `cache`: for how many
    seconds an answer is kept. `cache_entries`: how many answers are kept.
    """

    url: str
    timeout: float = 3.0
    cache: float = 0.0
    cache_entries: int = 10_000


@dataclass(frozen=True)
class AuthSettings:
    """How clients are identified. A method is used if its field is not None, or `certificates` is True. `logins`: some
    users' logins for brokers. `broker`: the login for all other users. `renew`: the destination for new tokens.
    """

    name: str
    users: "Users | None" = None
    certificates: bool = False
    tokens: "Tokens | None" = None
    service: AuthService | None = None
    broker: BrokerLogin = BrokerLogin.LOGIN
    logins: Mapping[str, Credentials] = field(default_factory=dict, repr=False)
    renew: str | None = None

    def method(self, claim: Claim, certificate: str) -> Method | None:
        """Return the first method for which the client has sent something; None if the client has sent nothing.
        `certificate`: the name in the client's certificate, or "".
        """
        if self.certificates and certificate:
            return Method.CERTIFICATE
        if self.tokens is not None and is_token(claim.passcode):
            return Method.TOKEN
        said = claim.login is not None or claim.passcode is not None
        if self.users is not None and said and (self.service is None or login(claim) in self.users):
            return Method.PASSCODE
        return Method.SERVICE if self.service is not None and said else None

    def identity(
        self, user: str, groups: frozenset[str], certificate: str = "", until: float = inf
    ) -> Identity:
        """Return the identity of this user, with the groups of the users file added, and with the login for brokers."""
        if self.users is not None:
            groups |= self.users.groups(user)
        told = self.logins.get(user)
        if told is None and self.broker is BrokerLogin.USER:
            told = Credentials(user.encode())
        return Identity(user, groups, certificate, told, until)


def is_token(passcode: bytes | None) -> bool:
    """Whether a passcode has the form of a token: three parts in base64url, of which the first is a JSON object."""
    return passcode is not None and _TOKEN.fullmatch(passcode) is not None


def login(claim: Claim) -> str | None:
    """Return the login in the client's CONNECT as text; None if there is none or it is not UTF-8."""
    try:
        return None if claim.login is None else claim.login.decode()
    except UnicodeDecodeError:
        return None
