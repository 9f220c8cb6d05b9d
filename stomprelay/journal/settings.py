"""The settings of the journal. The configuration imports only this module of the journal."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

NOTHING: Final = 0
"""For `bodies`: nothing of a body is recorded."""
ALL: Final = 1 << 40
"""For `bodies`: all of a body is recorded, however many bytes it has."""
_TOKENS: Final = ("token", "access-token", "auth-token", "x-auth-token", "api-key", "x-api-key", "secret")
SECRETS: Final = ("passcode", "password", "authorization", "proxy-authorization", *_TOKENS)
"""For `redact`: the headers whose values are not recorded unless the configuration says otherwise."""


@dataclass(frozen=True)
class BodyRule:
    """If a frame's destination matches the glob `destination`, at most `bodies` bytes of its body are recorded."""

    destination: str
    bodies: int


class WhenFull(Enum):
    """What happens to records when the queue is full."""

    DROP = "drop"
    """Records are left out and counted; the relay continues."""
    BLOCK = "block"
    """The relay does not read from clients and brokers until there is room."""


@dataclass(frozen=True)
class JournalSettings:
    """Where the relay writes its journal, and how. Without a `directory` it writes no journal.

    Times are in seconds, sizes in bytes. `relay` is the name of this relay; None means the machine's name. A segment
    ends when it has `segment_size` bytes or is `segment_age` old. `queue` limits the bytes that wait to be written.
    Bytes in memory are written to the file every `flush_interval`, and synced to disk every `sync_interval`. If
    `sync_interval` is 0, bytes are synced to disk when a segment ends. Closed segments are kept for `retain_age`, and
    as many as fit into `retain_size`; None means no limit. `bodies`, `rules` and `redact` are those of
    `capture.Capture`.
    """

    directory: str | None = None
    relay: str | None = None
    segment_size: int = 67_108_864
    segment_age: float = 60.0
    queue: int = 67_108_864
    when_full: WhenFull = WhenFull.DROP
    flush_interval: float = 0.2
    sync_interval: float = 1.0
    bodies: int = NOTHING
    redact: tuple[str, ...] = SECRETS
    retain_age: float | None = None
    retain_size: int | None = None
    rules: tuple[BodyRule, ...] = ()
