"""Tokens that an issuer signed, tokens that somebody made of them, and the files by which the relay knows users and
keys: a good one is taken, any other one is refused, and nothing else comes of it.
"""

import base64
import hmac
import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fuzz.caller import Finding, raised
from fuzz.framing import spoilt
from stomprelay.auth.lines import read_logins
from stomprelay.auth.settings import is_token
from stomprelay.auth.tokens import BadToken, Bearer, Tokens, read_keys
from stomprelay.auth.users import Users

_NOW: Final = 1_800_000_000.0
_AUDIENCE: Final = "relay"
_CODE: Final = "hush-hush"
_SECRET: Final = b"0123456789abcdef" * 2
_SIGNER: Final = Ed25519PrivateKey.from_private_bytes(b"\7" * 32)
_PUBLIC: Final = _SIGNER.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
_PEM: Final = _SIGNER.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _part(data: bytes) -> bytes:
    """Return bytes in base64url, without its padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=")


_KEYS: Final = {
    "keys": [
        {"kty": "OKP", "crv": "Ed25519", "x": _part(_PUBLIC).decode(), "kid": "one"},
        {"kty": "oct", "k": _part(_SECRET).decode(), "kid": "two"},
    ]
}
_JWKS: Final = json.dumps(_KEYS).encode()
_HASH: Final = "$argon2id$v=19$m=8,t=1,p=1$pQKyqMq2m/4$j4uTYFVo6TY"
_USERS: Final = f"# people\nalice:{_HASH}:staff,admins\nbob::\n".encode()
_TOKENS: Final = Tokens(read_keys(_JWKS), ("EdDSA", "HS256"), (_AUDIENCE,), leeway=0.0)
_LOGINS: Final = f"alice:guest:{_CODE}\nbob:guest:\n".encode()
_GOOD: Final = {"sub": "alice", "aud": _AUDIENCE, "exp": _NOW + 60, "groups": ["staff"]}
_ODD: Final[tuple[Any, ...]] = (
    *(None, True, -1, 0, 1e308, 10**400, "", " ", "alice", "a\nb", _AUDIENCE, [], {}, [[]], [_AUDIENCE, 7]),
    *({"sub": "x"}, [{}] * 50, "x" * 300, float("nan"), _NOW - 60, _NOW + 60),
)


class Forger:
    """Makes tokens, and files, of which `found` gets what must not be."""

    def __init__(self, chance: Random, found: Callable[[Finding], None]) -> None:
        self._chance = chance
        self._found = found
        self._signed: set[bytes] = set()

    def forge(self) -> None:
        """Show some tokens, and read some files."""
        try:
            good = self._issued(_GOOD)
            bearer = self._let_in(good)
            if bearer is None or bearer.user != "alice":
                self._found(Finding("a good token is refused", repr(good)))
            for _ in range(self._chance.randint(1, 6)):
                forged = self._made(good)
                bearer = self._let_in(forged)
                if bearer is not None and forged.rpartition(b".")[0] not in self._signed:
                    self._found(Finding("a token that nobody issued lets in", repr(forged)[:500]))
                if bearer is not None and not bearer.until > _NOW:
                    self._found(Finding("a token that has expired lets in", repr(forged)[:500]))
            self._files()
        except Exception as error:
            self._found(raised("who may come in", error))

    def _let_in(self, token: bytes) -> Bearer | None:
        """Return whom the relay takes for the one that shows a token; None where it refuses."""
        try:
            return _TOKENS.read(token, _NOW) if is_token(token) else None
        except BadToken as error:
            if len(str(error)) > 100:
                self._found(Finding("a refusal says what was shown", str(error)[:500]))
            return None

    # The issuer's

    def _issued(self, claims: dict[str, Any]) -> bytes:
        """Return a token that the issuer signed, by one of its keys."""
        if self._chance.random() < 0.5:
            said = self._said({"alg": "EdDSA", "kid": "one"}, claims)
            signature = _SIGNER.sign(said)
        else:
            said = self._said({"alg": "HS256", "kid": "two"}, claims)
            signature = hmac.digest(_SECRET, said, "sha256")
        self._signed.add(said)
        return said + b"." + _part(signature)

    def _said(self, header: dict[str, Any], claims: object) -> bytes:
        return _part(json.dumps(header).encode()) + b"." + _part(json.dumps(claims).encode())

    # Anybody's

    def _made(self, good: bytes) -> bytes:
        """Return a token with something odd to it: claims, which the issuer may sign as well, key, signature, form."""
        chance = self._chance
        claims = {**_GOOD, chance.choice((*_GOOD, "nbf", "iss", "iat", "crit")): chance.choice(_ODD)}
        signature = good.rpartition(b".")[2]
        match chance.randrange(6):
            case 0:
                return self._issued(claims)
            case 1:  # none, whatever its case; with a signature that was for something else, or without
                header: dict[str, Any] = {
                    "alg": chance.choice(("none", "None", "", None, "HS256", "EdDSA", 7, []))
                }
                return self._said(header, claims) + b"." + chance.choice((b"", signature))
            case 2:  # by the public key, as if it were a secret
                said = self._said({"alg": "HS256", "kid": chance.choice(("one", "two", None))}, _GOOD)
                return said + b"." + _part(hmac.digest(chance.choice((_PEM, _PUBLIC, b"")), said, "sha256"))
            case 3:  # by a key that it brings along
                header = {
                    "alg": "HS256",
                    "jwk": {"kty": "oct", "k": _part(b"x" * 32).decode()},
                    "crit": ["jwk"],
                }
                said = self._said({**header, "kid": chance.choice(_ODD)}, _GOOD)
                return said + b"." + _part(hmac.digest(b"x" * 32, said, "sha256"))
            case 4:  # of parts that are no JSON
                parts = [
                    _part(spoilt(chance, each)) for each in (b'{"alg":"EdDSA"}', json.dumps(_GOOD).encode())
                ]
                return b".".join((*parts, signature))
        return spoilt(chance, good)

    def _files(self) -> None:
        readers = ((read_keys, _JWKS), (read_keys, _PEM), (Users.read, _USERS), (read_logins, _LOGINS))
        for read, content in readers:
            try:
                read(spoilt(self._chance, content))
            except ValueError as error:
                if _CODE in str(error) or "argon2id" in str(error) or len(str(error)) > 200:
                    self._found(Finding("an error shows what stands in a file", str(error)[:500]))
