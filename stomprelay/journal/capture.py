"""How much of a frame is recorded: of its body what the rules say, of its head all but what is secret."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import translate
from typing import Final

from stomprelay.wire.dialect import DIALECTS, Dialect
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import DESTINATION, PASSCODE

NOTHING: Final = 0
"""Octets of a body: none."""
ALL: Final = 1 << 40
"""Octets of a body: however many there are."""

MASK: Final = b"***"
"""What stands in place of a value that is secret."""
TRACE: Final = b"relay-trace"
"""The header by which a message is known again behind the broker."""

_KNOWN: Final = 4096


@dataclass(frozen=True)
class Rule:
    """Of frames to or from a destination that is like `destination` (`*` for any characters, `?` for one, `[...]`
    for one out of a set) so many octets of the body are kept.
    """

    destination: str
    bodies: int


def _spelled(names: Iterable[bytes]) -> bytes:
    """Matches the beginning of a header line of these names, up to its value. Blanks around a name, capitals and
    escapes do not hide it.
    """
    every = {spelling for name in names for spelling in (name, *(d.encode(name) for d in DIALECTS.values()))}
    return rb"[ \t]*(?:" + b"|".join(map(re.escape, sorted(every))) + rb")[ \t]*:"


def _secret(names: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(rb"(\n" + _spelled(names) + rb")[^\n]*?(?=\r?\n)", re.IGNORECASE)


_TRACES: Final = re.compile(rb"(?<=\n)" + _spelled([TRACE]) + rb"[^\n]*\n", re.IGNORECASE)


class Capture:
    """What is kept of each frame: `bodies` octets of the body where none of the `rules` says otherwise, of which the
    first that matches counts; the head without the values of the headers in `redact` and the client's passcode.

    `uniform`: it is the same for all frames but a client's first. Then they need not be looked into.
    """

    __slots__ = ("_matches", "_most", "_opening", "_secret", "bodies", "uniform")

    def __init__(self, bodies: int = NOTHING, rules: Iterable[Rule] = (), redact: Iterable[str] = ()) -> None:
        names = [name.encode() for name in redact]
        self.bodies = bodies
        self._opening = _secret([PASSCODE, *names])
        self._secret = _secret(names) if names else None
        self._matches: list[tuple[Callable[[str], object], int]] = [
            (re.compile(translate(rule.destination)).match, rule.bodies) for rule in rules
        ]
        self._most: dict[bytes, int] = {}
        self.uniform = not names and not self._matches

    def head(self, frame: Frame, *, opening: bool = False) -> bytes:
        """The frame's head, from the command to the blank line, without what is secret. `opening`: it is the first
        frame of its leg, where a passcode may be.
        """
        head = frame.memo or frame.data[frame.start : frame.body]
        secret = self._opening if opening else self._secret
        return head if secret is None else secret.sub(rb"\1" + MASK, head)

    def most(self, frame: Frame, dialect: Dialect) -> int:
        """How many octets of the frame's body are kept; `dialect` is that of its leg."""
        if not self._matches:
            return self.bodies
        destination = _destination(frame, dialect)
        most = self._most.get(destination)
        if most is None:
            if len(self._most) >= _KNOWN:
                self._most.clear()
            most = self._most[destination] = self._found(destination)
        return most

    def _found(self, destination: bytes) -> int:
        text = destination.decode("utf-8", "surrogateescape")
        return next((bodies for matches, bodies in self._matches if matches(text)), self.bodies)


def _destination(frame: Frame, dialect: Dialect) -> bytes:
    """As a route would see it; as it stands where it cannot be read."""
    try:
        return frame.header(DESTINATION, dialect) or b""
    except StompError:
        return frame.raw(DESTINATION) or b""


def traced(head: bytes, trace: bytes) -> bytes:
    """The head with the trace that the relay gave the frame, and no other."""
    head = _TRACES.sub(b"", head)
    at = head.index(b"\n") + 1
    end = b"\r\n" if head[:at].endswith(b"\r\n") else b"\n"
    return b"%b%b:%b%b%b" % (head[:at], TRACE, trace, end, head[at:])
