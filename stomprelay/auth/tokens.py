"""Tokens (JWT, RFC 7519), used as passcodes: their user, their audience, and their expiry. The module also has the
keys that verify tokens: public keys or certificates in PEM, or a JWKS. Each key is valid only for the algorithms of
its own kind. So a public key is never used as the secret of an HMAC, and `none` is no algorithm.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate
from jwt import PyJWK
from jwt.exceptions import PyJWKError, PyJWTError

from stomprelay.auth.lines import is_name

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_HMAC: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Algorithm -> the least number of bytes that its secret must have, by RFC 7518."""
ALGORITHMS: Final = (*_RSA, *_CURVES.values(), "EdDSA", *_HMAC)
SHORTEST: Final = 2048
"""An RSA key must have at least this number of bits."""
MOST: Final = 32
"""The largest number of keys in a file."""

_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----\n?", re.DOTALL)
_ENOUGH: Final = {"RSA": "RS256", "oct": "HS256", "OKP": "EdDSA"}
"""Kind of key -> the algorithm for which PyJWT makes the key; the key is the same for all algorithms of the kind."""


class Key(NamedTuple):
    """A key: its `name` in a JWKS or None, the `algorithms` for which it is valid, and the key itself."""

    name: str | None
    algorithms: frozenset[str]
    material: Any

    def __repr__(self) -> str:
        """Return the text without the key, which may be a secret."""
        return f"Key({self.name!r}, {sorted(self.algorithms)})"


def read_keys(content: bytes) -> tuple[Key, ...]:
    """Return the keys in the content of a file. Raises `ValueError`, whose text shows no part of a key."""
    found = _pem(content) if b"-----BEGIN " in content else _jwks(content)
    if not found:
        raise ValueError("has no key that could verify a token")
    if len(found) > MOST:
        raise ValueError(f"has {len(found)} keys, and may have {MOST}")
    return tuple(found)


def _pem(content: bytes) -> list[Key]:
    found = []
    for number, block in enumerate(_BLOCK.finditer(content), 1):
        kind = block[1].decode()
        if "PRIVATE" in kind:
            raise ValueError("holds a private key, which belongs to who issues tokens: give the public one")
        try:
            if kind == "CERTIFICATE":
                material: Any = load_pem_x509_certificate(block[0]).public_key()
            else:
                material = load_pem_public_key(block[0])
        except (ValueError, UnsupportedAlgorithm):
            raise ValueError(f"part {number} ({kind}) is no public key and no certificate") from None
        found.append(Key(None, _good_for(material), material))
    return found


def _jwks(content: bytes) -> list[Key]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError("is neither PEM nor a JWKS") from None
    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ValueError('is no JWKS: it has no list of "keys"')
    return [key for number, each in enumerate(listed, 1) if (key := _jwk(number, each)) is not None]


def _jwk(number: int, values: dict[str, Any]) -> Key | None:
    """Return a key of a JWKS; None if the key is for another purpose or of an unknown kind, as RFC 7517 requires."""
    kind, name, only = values.get("kty"), values.get("kid"), values.get("alg")
    if kind not in (*_ENOUGH, "EC") or values.get("use", "sig") != "sig":
        return None
    if kind != "oct" and "d" in values:
        raise ValueError(f"key {number} is a private key, which belongs to who issues tokens")
    if not all(each is None or isinstance(each, str) for each in (name, only)):
        raise ValueError(f"key {number} has a kid or an alg that is no text")
    try:
        material = PyJWK(values, _ENOUGH.get(kind)).key
    except (PyJWTError, PyJWKError, ValueError, TypeError, AttributeError, KeyError):
        raise ValueError(f"key {number} cannot be read") from None
    good = _good_for(material)
    return Key(name, good if only is None else good & {only}, material)


def _good_for(material: Any) -> frozenset[str]:
    match material:
        case rsa.RSAPublicKey():
            if material.key_size < SHORTEST:
                raise ValueError(f"has an RSA key of {material.key_size} bits; at least {SHORTEST} are safe")
            return frozenset(_RSA)
        case ec.EllipticCurvePublicKey():
            return frozenset(filter(None, [_CURVES.get(material.curve.name)]))
        case ed25519.Ed25519PublicKey() | ed448.Ed448PublicKey():
            return frozenset(["EdDSA"])
        case bytes():
            good = frozenset(name for name, size in _HMAC.items() if len(material) >= size)
            if not good:
                raise ValueError(
                    f"has a secret of less than {min(_HMAC.values())} bytes, which could be guessed"
                )
            return good
    return frozenset()


# Tokens

LONGEST: Final = 16 * 1024
"""The largest size of a token in bytes."""
MOST_GROUPS: Final = 1000
_LAST: Final = 2.0**40
"""The largest time that is accepted, in seconds since 1970."""


class Bearer(NamedTuple):
    """What a token says: its user, the user's groups, and its expiry in seconds since 1970."""

    user: str
    groups: frozenset[str]
    until: float


class BadToken(Exception):
    """The token is not valid. The text gives the reason, without any part of the token."""


@dataclass(frozen=True)
class Tokens:
    """Verifies tokens. A token must be signed by one of the `keys` with one of the `algorithms`, and must name one of
    the names in `audience`. If `issuer` is set, the token must be from this issuer. `user`, `groups`: names of claims;
    a dot leads into an object. `leeway`: seconds.
    """

    keys: tuple[Key, ...] = field(repr=False)
    algorithms: tuple[str, ...]
    audience: tuple[str, ...]
    issuer: str | None = None
    leeway: float = 10.0
    user: str = "sub"
    groups: str = "groups"

    def read(self, token: bytes, wall: float) -> Bearer:
        """Return what a token says. `wall`: the time in seconds since 1970. Raises `BadToken`."""
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
        """Return the claims of a token that one of the keys has signed. Raises `BadToken` for any other token."""
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
                        "verify_exp": False,  # `read` checks the time by the caller's clock
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
    """Return the value of a claim, or the value at a path through objects; None if there is no such value."""
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
