"""The users file: `name:hash:group,group` in each line, with Argon2's hash. A user without a hash needs a certificate
or a token. Verifying a passcode is slow on purpose, so call `verify` in a thread. If `known` returns True, the slow
check is not needed.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from hmac import compare_digest
from typing import Final, NamedTuple, Self

from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import InvalidHashError, VerifyMismatchError

from stomprelay.auth.lines import entries, is_name

MOST_MEMORY: Final = 1024 * 1024
"""The most memory for comparing one passcode, in KiB. It must be a whole number of GiB."""
MOST_PASSES: Final = 64
"""The most passes over the memory for one comparison."""
MOST_LANES: Final = 64
"""The most threads for one comparison."""
_SALT: Final = 8
_DIGEST: Final = 16
"""The least number of bytes of a salt (`_SALT`) and of a hash (`_DIGEST`)."""
_LEAST_MEMORY: Final = 8
"""The least memory for each thread, in KiB."""
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+")


class User(NamedTuple):
    """A user: the hash of the passcode ("" if there is none), and the groups."""

    hash: str
    groups: frozenset[str]

    def __repr__(self) -> str:
        """Return the text without the hash."""
        return f"User({sorted(self.groups)})"


def read_groups(text: str) -> frozenset[str]:
    """Return the groups in a text, with commas between them. Raises `ValueError`."""
    found = frozenset(each.strip() for each in text.split(",")) if text.strip() else frozenset[str]()
    if not all(map(is_name, found)) or any(":" in each for each in found):
        raise ValueError("has a group without a name, or with a colon in it")
    return found


def make_hash(passcode: bytes) -> str:
    """Return the hash of a passcode, for the users file."""
    return PasswordHasher().hash(passcode)


@dataclass(frozen=True)
class Users:
    """The users of a file, by name."""

    entries: Mapping[str, User] = field(repr=False)
    _right: dict[str, bytes] = field(default_factory=dict, repr=False, compare=False)
    _key: bytes = field(default_factory=lambda: os.urandom(32), repr=False, compare=False)

    @classmethod
    def read(cls, content: bytes, mode: int = 0o600) -> Self:
        """Return the users in the content of a file. Raises `ValueError`, which gives the line's number."""
        return cls(entries(content, mode, _user))

    def __contains__(self, name: str | None) -> bool:
        return name in self.entries

    def groups(self, name: str) -> frozenset[str]:
        """Return the groups of a user; an unknown user has no groups."""
        user = self.entries.get(name)
        return frozenset() if user is None else user.groups

    def known(self, name: str | None, passcode: bytes) -> bool:
        """Return whether `verify` has accepted this passcode of the user before. This method is fast."""
        right = None if name is None else self._right.get(name)
        return right is not None and compare_digest(right, self._digest(passcode))

    def verify(self, name: str | None, passcode: bytes) -> bool:
        """Return whether this is the user's passcode. Call this method in a thread. An unknown name takes as long as a
        known name. Raises `VerificationError` if there is not enough memory.
        """
        user = None if name is None else self.entries.get(name)
        real = user is not None and bool(user.hash)
        some = next((each.hash for each in self.entries.values() if each.hash), "")
        spelled = user.hash if user is not None and real else some
        try:
            fits = bool(spelled) and PasswordHasher().verify(spelled, passcode)
        except VerifyMismatchError:
            return False
        if fits and real and name is not None:
            self._right[name] = self._digest(passcode)
        return fits and real

    def _digest(self, passcode: bytes) -> bytes:
        return blake2b(passcode, key=self._key).digest()


def _user(spelled: str, groups: str) -> User:
    if spelled:
        _check(spelled)
    return User(spelled, read_groups(groups))


def _check(spelled: str) -> None:
    """Raise `ValueError` if a text is no valid hash, or if comparing it would take too much memory or time."""
    try:
        costs = extract_parameters(spelled)
    except InvalidHashError:
        raise ValueError("has no Argon2 hash in its second field: write it by stomprelay passwd") from None
    if costs.memory_cost > MOST_MEMORY or costs.time_cost > MOST_PASSES or costs.parallelism > MOST_LANES:
        raise ValueError(
            f"has a hash that takes more than {MOST_MEMORY >> 20} GiB, {MOST_PASSES} passes, or {MOST_LANES} threads"
        )
    parts = spelled.split("$")[-2:]
    if (
        not all(map(_BASE64.fullmatch, parts))
        or costs.salt_len < _SALT
        or costs.hash_len < _DIGEST
        or costs.time_cost < 1
        or costs.parallelism < 1
        or costs.memory_cost < _LEAST_MEMORY * costs.parallelism
    ):
        raise ValueError("has a hash that is damaged: write it anew by stomprelay passwd")
