"""Files with one entry a line, its fields separated by colons: users and their passcodes, users and their logins.

Lines that are empty or begin with # are nothing. What is wrong is told by the number of its line, and never with what
stands in it, which may be a secret.
"""

from collections.abc import Iterator
from typing import Final

from stomprelay.session.handshake import Credentials

LONGEST: Final = 4 * 1024 * 1024
"""Bytes of such a file."""
LONGEST_NAME: Final = 255
"""Characters of the name of a user or a group."""
OTHERS: Final = 0o006
"""The bits of a file's mode that let everybody read or write it."""


def is_name(text: str) -> bool:
    """Whether this may be the name of a user or a group: in one line, with nothing that is not seen."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable() and text.strip() == text


def is_user(name: str) -> bool:
    """Whether a line of the users file may begin with this name."""
    return is_name(name) and ":" not in name and not name.startswith("#")


def wrong(number: int, text: str) -> ValueError:
    """Return the error about a line, for the caller to raise."""
    return ValueError(f"line {number} {text}")


def fields(content: bytes, count: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line that has an entry, and its `count` fields; the last one may have colons in it.
    Raises `ValueError`, by its line, for one that has fewer, or is not UTF-8.
    """
    for number, line in enumerate(content.split(b"\n"), 1):
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise wrong(number, "is not UTF-8") from None
        if not text.strip() or text.startswith("#"):
            continue
        found = text.split(":", count - 1)
        if len(found) < count:
            raise wrong(number, f"has {len(found)} fields in place of {count}")
        yield number, found


def private(mode: int) -> None:
    """Raise `ValueError` for the mode of a file that every user of the machine may read or write."""
    if mode & OTHERS:
        raise ValueError(f"every user may read or write it, for its mode is {mode & 0o7777:o}: chmod 600 it")


def read_logins(content: bytes, mode: int = 0o600) -> dict[str, Credentials]:
    """Return what brokers are told for each user, from the content of a file with `user:login:passcode` in each line;
    without a passcode none is sent. Raises `ValueError`, which names the line.
    """
    private(mode)
    found: dict[str, Credentials] = {}
    for number, (name, login, passcode) in fields(content, 3):
        if not is_user(name):
            raise wrong(number, "does not begin with a name")
        if name in found:
            raise wrong(number, "is about a user who has a line already")
        if not is_name(login):
            raise wrong(number, "has no login in its second field")
        if not passcode.isprintable():
            raise wrong(number, "has control characters in its passcode")
        found[name] = Credentials(login.encode(), passcode.encode() if passcode else None)
    return found
