"""Tokens (JWT, RFC 7519), used as passcodes: their user, their audience, and their expiry."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import jwt

from stomprelay.auth.keys import Key
from stomprelay.auth.lines import is_name

LONGEST: Final = 16 * 1024
"""The largest size of a token in bytes."""
MOST_GROUPS: Final = 1000
_LAST: Final = 2.0**40
"""Seconds since 1970 beyond which a number is no time."""


class Bearer(NamedTuple):
    """The user of a token, and its expiry, in seconds since 1970."""

    user: str
    groups: frozenset[str]
    until: float


class BadToken(Exception):
    """The token is not valid; the text says why, without any part of the token."""


@dataclass(frozen=True)
class Tokens:
    """Verifies tokens: signed by one of the keys and algorithms, for one of the `audience`, by `issuer` if there is
    one. `user`, `groups`: claims, where a dot may lead into an object. `leeway`: seconds.
    """

    keys: tuple[Key, ...] = field(repr=False)
    algorithms: tuple[str, ...]
    audience: tuple[str, ...]
    issuer: str | None = None
    leeway: float = 10.0
    user: str = "sub"
    groups: str = "groups"

    def read(self, token: bytes, wall: float) -> Bearer:
        """Return the user and the expiry of a token. `wall` is the time in seconds since 1970. Raises `BadToken`."""
        if len(token) > LONGEST:
            raise BadToken(f"it is longer than {LONGEST} bytes")
        claims = self._verified(token)
        until = self._time(claims, "exp")
        if until is None:
            raise BadToken("it has no time of expiry (exp)")
        if wall >= until + self.leeway:
            raise BadToken("it has expired")
        begins = self._time(claims, "nbf")
        if begins is not None and wall + self.leeway < begins:
            raise BadToken("it is not valid yet")
        user = _claim(claims, self.user)
        if not isinstance(user, str) or not is_name(user):
            raise BadToken(f"its claim {self.user} is no name")
        return Bearer(user, _groups(_claim(claims, self.groups)), until + self.leeway)

    def _verified(self, token: bytes) -> dict[str, Any]:
        """Return the claims of a token that one of the keys signed."""
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise BadToken("it is no token") from None
        algorithm, name = header.get("alg"), header.get("kid")
        if algorithm not in self.algorithms:
            raise BadToken("it is signed by an algorithm that is not allowed")
        good = [each for each in self.keys if algorithm in each.algorithms]
        named = [each for each in good if each.name is not None and each.name == name]
        for key in named or [each for each in good if name is None or each.name is None]:
            try:
                return jwt.decode(
                    token,
                    key.material,
                    algorithms=[algorithm],
                    audience=self.audience,
                    issuer=self.issuer,
                    options={
                        "require": ["exp", "aud"] if self.issuer is None else ["exp", "aud", "iss"],
                        "verify_exp": False,  # by the caller's clock
                        "verify_nbf": False,
                        "verify_iat": False,
                    },
                )
            except jwt.InvalidSignatureError:
                continue
            except jwt.InvalidAudienceError:
                raise BadToken("it is for somebody else (aud)") from None
            except jwt.InvalidIssuerError:
                raise BadToken("it is from another issuer (iss)") from None
            except jwt.MissingRequiredClaimError as error:
                raise BadToken(f"it has no claim {error.claim}") from None
            except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
                raise BadToken("it is no token") from None
        raise BadToken("none of the keys signed it")

    def _time(self, claims: dict[str, Any], name: str) -> float | None:
        value = claims.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not -_LAST < value < _LAST:
            raise BadToken(f"its claim {name} is no time")
        return float(value)


def _claim(claims: dict[str, Any], name: str) -> object:
    """Return the value of a claim, or the value at a path through objects; None if there is none."""
    if name in claims:
        return claims[name]
    found: object = claims
    for step in name.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(step)
    return found


def _groups(value: object) -> frozenset[str]:
    """Return the groups in a claim: a list of names, or a text with blanks between them. Invalid names are left out."""
    names = value.split(" ") if isinstance(value, str) else value
    if not isinstance(names, list):
        return frozenset()
    found = frozenset(each for each in names if isinstance(each, str) and is_name(each))
    if len(found) > MOST_GROUPS:
        raise BadToken(f"it has more than {MOST_GROUPS} groups")
    return found
