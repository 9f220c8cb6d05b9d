"""Every wire case three ways: whole, octet by octet, and with something before or behind it."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2, Dialect
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import BROKER_COMMANDS, CLIENT_COMMANDS, CONNECTED, OPENING

ANY: Final = OPENING | CLIENT_COMMANDS | {CONNECTED} | BROKER_COMMANDS
"""Every command, so that a test may speak of the wire alone."""

LIMITS: Final = Limits()

_TAILS: Final = (b"\n", b"\r\n\n", b"\0\n\0", b"\nS", b"\r\nSEND\nfoo")


class Seen(NamedTuple):
    """A frame as values, for it does not outlive its chunk."""

    command: bytes
    head_lines: bytes
    payload: bytes
    crlf: bool
    plain: bool

    @classmethod
    def of(cls, frame: Frame) -> "Seen":
        """The frame's parts, which add up to what was on the wire."""
        eol = b"\r\n" if frame.crlf else b"\n"
        parts = frame.command + eol + frame.head_lines, frame.payload + b"\0"
        wire = frame.wire.removesuffix(b"\n")
        assert wire in {parts[0] + b"\n" + parts[1], parts[0] + b"\r\n" + parts[1]}
        return cls(frame.command, frame.head_lines, frame.payload, frame.crlf, frame.plain)


class Outcome(NamedTuple):
    """What came of a stream: its frames, what ended it, and how much waits for its rest."""

    frames: list[Seen]
    error: StompError | None
    buffered: int


def run(
    chunks: Iterable[bytes],
    dialect: Dialect = V1_2,
    commands: frozenset[bytes] = ANY,
    limits: Limits = LIMITS,
) -> Outcome:
    """Feed chunks to a new decoder, up to the first error."""
    decoder = Decoder(dialect, commands, limits)
    frames: list[Seen] = []
    try:
        for chunk in chunks:
            decoder.feed(chunk)
            frames.extend(map(Seen.of, decoder.frames()))
    except StompError as error:
        return Outcome(frames, error, decoder.buffered)
    return Outcome(frames, None, decoder.buffered)


def octets(wire: bytes) -> list[bytes]:
    """The most chunks that a stream can be cut into."""
    return [wire[at : at + 1] for at in range(len(wire))]


def decode(
    wire: bytes, dialect: Dialect = V1_2, commands: frozenset[bytes] = ANY, limits: Limits = LIMITS
) -> list[Seen]:
    """The frames of a stream of whole frames: the same whole, octet by octet and with trailing octets."""
    whole = run([wire], dialect, commands, limits)
    assert whole.error is None, f"{whole.error!r}: {whole.error.detail}"
    assert whole.buffered == 0
    assert run(octets(wire), dialect, commands, limits) == whole
    if commands:
        for tail in _TAILS:
            followed = run([wire + tail], dialect, commands | {b"SEND"}, limits)
            assert followed.frames == whole.frames
            assert followed.error is None
            assert followed.buffered == len(tail.lstrip(b"\r\n\0"))
    return whole.frames


def refuse(
    wire: bytes, dialect: Dialect = V1_2, commands: frozenset[bytes] = ANY, limits: Limits = LIMITS
) -> StompError:
    """The error of a stream without one good frame: the same whole, octet by octet, behind a good frame and with
    trailing octets.
    """
    whole = run([wire], dialect, commands, limits)
    assert whole.error is not None, f"it was taken: {whole.frames}, {whole.buffered} octets wait"
    assert whole.frames == []
    good = b"%b\n\n\0" % min(commands, default=b"")
    others = [
        run(octets(wire), dialect, commands, limits),
        run([wire + b"\n\0\n"], dialect, commands, limits),
    ]
    if commands:
        behind = run([good + wire], dialect, commands, limits)
        assert len(behind.frames) == 1
        others.append(behind)
        others.append(run(octets(good + wire), dialect, commands, limits))
    for other in others:
        assert (type(other.error), str(other.error)) == (type(whole.error), str(whole.error))
    return whole.error
