"""Who issues tokens, in these tests, and the users of a file: keys, tokens of any kind, hashes that are made once."""

import base64
import json
from typing import Any

import jwt
from argon2 import PasswordHasher
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

NOW = 1_800_000_000.0
"""The time, in seconds since 1970."""
ISSUER = ec.generate_private_key(ec.SECP256R1())
"""Signs tokens."""
STRANGER = ec.generate_private_key(ec.SECP256R1())
"""Signs tokens that nobody asked for."""
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""Makes hashes that cost little to compare."""
USERS = (
    f"# people\nalice:{CHEAP.hash('secret')}:staff,admins\nbob:{CHEAP.hash('geheim')}:\ncarol::auditors\n"
).encode()


def public_pem(key: Any = ISSUER) -> bytes:
    """The public key of a private one, in PEM."""
    return bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def claims(**changed: Any) -> dict[str, Any]:
    """The claims of a good token, with others in their place; None: it is not there."""
    good = {"sub": "alice", "aud": "stomprelay", "exp": NOW + 60, "groups": ["staff"], **changed}
    return {name: value for name, value in good.items() if value is not None}


def token(key: Any = ISSUER, algorithm: str = "ES256", headers: Any = None, **changed: Any) -> bytes:
    """A token, signed."""
    return jwt.encode(claims(**changed), key, algorithm, headers).encode()


def part(value: object) -> bytes:
    """One part of a token: JSON, or bytes, in base64url."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=")
