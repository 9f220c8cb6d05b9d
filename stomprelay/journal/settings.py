"""The settings of the journal, in a module of their own because the configuration imports nothing else of it."""

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
    """How many bytes of a body are kept of frames with such a destination, a glob."""

    destination: str
    bodies: int


class WhenFull(Enum):
    """What happens to records when the queue is full."""

    DROP = "drop"
    """They are left out and counted; the relay goes on."""
    BLOCK = "block"
    """Clients and brokers are not read from until there is room."""


@dataclass(frozen=True)
class JournalSettings:
    """Where the relay writes its journal, and how. Without a `directory` it writes none.

    Times are in seconds, sizes in bytes. `relay` is the name of this relay; None means the machine's. A segment ends
    when it has `segment_size` bytes or is `segment_age` old. `queue` bounds what waits to be written. What is in
    memory is written to the file every `flush_interval`, and synced to the disk every `sync_interval`; 0 means when a
    segment ends. Closed segments are kept for `retain_age`, and as many as fit `retain_size`; None means no bound.
    `bodies`, `rules` and `redact` are those of `capture.Capture`.
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
