"""How frames of one dialect are spelled in another, many at once, by tables made from the dialects. Values that need
more are left out: their frames are examined one by one.
"""

from typing import TYPE_CHECKING, Final

from stomprelay.wire.decoder import compiled
from stomprelay.wire.dialect import PROTOCOL_HEADERS, Dialect
from stomprelay.wire.errors import FrameError
from stomprelay.wire.run import Run

if TYPE_CHECKING:
    from stomprelay.wire._respell import Speller

Table = list[bytes | None]

_OCTETS: Final = [bytes([octet]) for octet in range(256)]


_COMPILED: Final = compiled("stomprelay.wire._respell")
SPELLER: "Final[type[Speller] | None]" = None if _COMPILED is None else _COMPILED.Speller
"""What writes many frames anew; None where it was not built, or nothing compiled is wanted."""


class Spelling:
    """How frames of `source` are spelled for `target`. `alike`: both have the same escapes, except that of CR."""

    def __init__(self, source: Dialect, target: Dialect, *, alike: bool) -> None:
        self._source = source
        self._target = target
        escapes: Table | None = None
        if alike:
            octets: Table = [None if each == b"\r" else each for each in _OCTETS]
            escapes = [None if each in b"\\\r" else b"\\" + each for each in _OCTETS]
            escapes[ord("r")] = None
        else:
            octets = [self._becomes(each) for each in _OCTETS]
            if source.reads:
                escapes = [self._becomes(b"\\" + each) for each in _OCTETS]
        self._speller = None
        if SPELLER is not None:
            self._speller = SPELLER(octets, escapes, source.padded, tuple(PROTOCOL_HEADERS))

    def _becomes(self, spelled: bytes) -> bytes | None:
        """Return what a byte or an escape of a value becomes; None if it needs a look."""
        try:
            value = self._source.decode(b"", b"." + spelled)[1:]
        except FrameError:
            return None
        if b"\r" in value + spelled or not self._target.speakable(value):
            return None
        return self._target.encode(value)

    def respell(
        self, run: Run, drop: tuple[bytes, ...] = (), names: tuple[bytes, ...] = (), values: bytes = b""
    ) -> bool:
        """Have the run go out in the target's spelling, without `drop` and with headers of these names and `values` in
        front. Return whether that can be.
        """
        if run.plain and not drop and not names:
            return True
        if self._speller is None or run.parts is None:
            return False
        made = self._speller.frames(run.data, run.start, run.parts, drop, names, values)
        if made is None:
            return False
        run.replace(*made)
        return True

    def values(self, text: bytes) -> bytes | None:
        """Return raw values, each with an LF behind it, in the target's spelling; None where each needs a look."""
        if self._speller is None or (self._source.padded and b" " in text):
            return None
        spelled = self._speller.values(text)
        return None if spelled is None or not self._target.spells_once(spelled) else spelled
