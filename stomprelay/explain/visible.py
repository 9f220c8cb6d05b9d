"""Octets as text that can be shown on a terminal."""

import re
from typing import Final

_PASSCODE: Final = re.compile(rb"^(passcode:)[^\r\n]*", re.MULTILINE)
_SURROGATES: Final = range(0xDC80, 0xDD00)
_DELETE: Final = 0x7F


def visible(data: bytes) -> str:
    """The octets as UTF-8 text in which only LF ends a line: control characters in caret notation (NUL is `^@`, CR
    is `^M`), octets that are not UTF-8 as `<ff>`. Escapes stay as they are on the wire.
    """
    return "".join(map(_shown, data.decode("utf-8", "surrogateescape")))


def _shown(character: str) -> str:
    code = ord(character)
    if character == "\n" or character.isprintable():
        return character
    if code in _SURROGATES:
        return f"<{code - 0xDC00:02x}>"
    return "^" + chr(code ^ 0x40) if code <= _DELETE else f"<U+{code:04X}>"


def without_passcode(head: bytes) -> bytes:
    """The head of a CONNECT with its passcode masked."""
    return _PASSCODE.sub(rb"\1********", head)
