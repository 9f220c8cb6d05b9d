"""Reads files with one entry in each line and colons between its fields. Empty lines and lines that begin with # are
ignored. Errors give the number of a line, never its content.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from stomprelay.session.handshake import Credentials

T = TypeVar("T")

LONGEST: Final = 4 * 1024 * 1024
"""The largest size in bytes of a file with one entry in each line."""
FIELDS: Final = 3
"""The number of fields in a line."""
LONGEST_NAME: Final = 255
"""The largest length of the name of a user or a group, in characters."""
OTHERS: Final = 0o006
"""The bits of a file's mode that allow everybody to read or write it."""


def is_name(text: str) -> bool:
    """Whether a text may be the name of a user or a group: one line, without invisible characters."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable() and text.strip() == text


def is_user(name: str) -> bool:
    """Whether a line of the users file may begin with this name."""
    return is_name(name) and ":" not in name and not name.startswith("#")


def private(mode: int) -> None:
    """Raise `ValueError` if `mode` lets every user of the machine read or write the file."""
    if mode & OTHERS:
        raise ValueError(f"every user may read or write it, for its mode is {mode & 0o7777:o}: chmod 600 it")


def entries(content: bytes, mode: int, read: Callable[[str, str], T]) -> dict[str, T]:
    """Return a dict from each user, the first field, to the result of `read` for the second and third field. The third
    field may contain colons. Raises `ValueError`, which gives the line's number.
    """
    private(mode)
    found: dict[str, T] = {}
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            text = line.removesuffix(b"\r").decode()
            if text.strip() and not text.startswith("#"):
                fields = text.split(":", FIELDS - 1)
                if len(fields) < FIELDS:
                    raise ValueError(f"has {len(fields)} fields in place of {FIELDS}")
                name, second, third = fields
                if not is_user(name):
                    raise ValueError("does not begin with a name")
                if name in found:
                    raise ValueError("is about a user who has a line already")
                found[name] = read(second, third)
        except UnicodeDecodeError:
            raise ValueError(f"line {number} is not UTF-8") from None
        except ValueError as error:
            raise ValueError(f"line {number} {error}") from None
    return found


def read_logins(content: bytes, mode: int = 0o600) -> dict[str, Credentials]:
    """Return users' logins for brokers, from lines `user:login:passcode`. If the passcode is empty, none is sent.
    Raises `ValueError`, which gives the line's number.
    """
    return entries(content, mode, _login)


def _login(login: str, passcode: str) -> Credentials:
    if not is_name(login):
        raise ValueError("has no login in its second field")
    if not passcode.isprintable():
        raise ValueError("has control characters in its passcode")
    return Credentials(login.encode(), passcode.encode() if passcode else None)
