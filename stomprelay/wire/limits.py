"""What one leg takes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one leg takes: header lines a frame, bytes a header line, bytes a body.

    An unfinished head or body over its limit is refused before it is kept. The defaults are those of
    `config/stomprelay.toml`.
    """

    headers: int = 128
    header_line: int = 10240
    body: int = 16 * 1024 * 1024
