"""STOMP as the simulator's own clients and brokers read and write it, frame by frame. It shares no code with the relay,
so a mistake of the relay's decoder or encoder shows.
"""

import re
from typing import Final, NamedTuple

Pairs = list[tuple[bytes, bytes]]

_PLAIN: Final = frozenset({b"CONNECT", b"STOMP", b"CONNECTED"})
"""Commands whose headers are not escaped, in any version."""
_SIGNS: Final = {
    b"1.0": {},
    b"1.1": {b"\\": b"\\\\", b"\n": b"\\n", b":": b"\\c"},
    b"1.2": {b"\\": b"\\\\", b"\n": b"\\n", b":": b"\\c", b"\r": b"\\r"},
}


_BLANK: Final = re.compile(rb"\n\r?\n")
_ESCAPE: Final = re.compile(rb"\\.?", re.DOTALL)


class Malformed(Exception):
    """Bytes that are no STOMP of the version that was agreed on."""


class Frame(NamedTuple):
    """A frame. Of headers with one name the first one counts."""

    command: bytes
    headers: dict[bytes, bytes]
    body: bytes = b""

    def __str__(self) -> str:
        shown = [f"{_text(name)}:{_text(value)}" for name, value in self.headers.items()]
        return " ".join([_text(self.command), *shown, _text(self.body)[:40]]).rstrip()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def escaped(text: bytes, version: bytes) -> bytes:
    """Return a header's name or value as this version writes it."""
    if version == b"1.0":
        return text
    return b"".join([_SIGNS[version].get(text[at : at + 1], text[at : at + 1]) for at in range(len(text))])


def unescaped(text: bytes, version: bytes, lenient: bool = False) -> bytes:
    """Return what a header's name or value means in this version. Raises `Malformed`, if not `lenient`."""
    if b"\\" not in text or version == b"1.0":
        return text
    signs = {written: sign for sign, written in _SIGNS[version].items()}
    found = set(_ESCAPE.findall(text))
    if not (lenient or found <= signs.keys()):
        raise Malformed(f"no escape of {version.decode()}: {text!r}")
    return _ESCAPE.sub(lambda each: signs.get(each[0], each[0]), text)


def write(version: bytes, command: bytes, headers: Pairs, body: bytes = b"") -> bytes:
    """Return a frame's bytes."""
    head = b"".join([b"%b:%b\n" % each for each in headers])
    signs = len(head) - len(head.translate(None, b"\\\n:\r"))
    if signs > 2 * len(headers) and command not in _PLAIN:
        head = b"".join(
            [b"%b:%b\n" % (escaped(name, version), escaped(value, version)) for name, value in headers]
        )
    return b"%b\n%b\n%b\0" % (command, head, body)


class Reader:
    """Makes frames of a stream. `version` may change between two frames, and `escapes`, the version whose escapes are
    used. Undefined escapes in names are kept, as ActiveMQ does; a `lenient` reader keeps those in values, too, and
    leaves out lines that are no headers.
    """

    def __init__(self, version: bytes = b"1.2", lenient: bool = False) -> None:
        self.version = version
        self.escapes: bytes | None = None
        self.lenient = lenient
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._data += data

    def next(self) -> Frame | None:
        """Return the next whole frame; None if there is none yet. Raises `Malformed`."""
        data = self._data
        data[:] = data.lstrip(b"\n\r")
        blank = _BLANK.search(data)
        if blank is None:
            if len(data) > 1 << 16:
                raise Malformed("a head without an end")
            return None
        head, after = bytes(data[: blank.start()]), blank.end()
        command, *lines = head.split(b"\n")
        if self.version == b"1.2" or command in _PLAIN or command.endswith(b"\r"):
            command, lines = command.removesuffix(b"\r"), [line.removesuffix(b"\r") for line in lines]
        headers: dict[bytes, bytes] = {}
        plain = command in _PLAIN
        escapes = None if plain or b"\\" not in head else self.escapes or self.version
        strips = self.version == b"1.0" and not plain
        for line in lines:
            name, sign, value = line.partition(b":")
            if not sign or not name:
                if self.lenient:
                    continue
                raise Malformed(f"no header: {line!r}")
            value = value.lstrip(b" ") if strips else value
            if escapes is not None:
                name, value = unescaped(name, escapes, True), unescaped(value, escapes, self.lenient)
            headers.setdefault(name, value)
        length = headers.get(b"content-length")
        if length is None:
            stop = data.find(b"\0", after)
        else:
            stop = after + int(length)
            if len(data) > stop and data[stop]:
                raise Malformed("no NUL behind a body")
            stop = stop if len(data) > stop else -1
        if stop < 0:
            return None
        body = bytes(data[after:stop])
        del data[: stop + 1]
        return Frame(command, headers, body)
