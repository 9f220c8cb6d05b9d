"""What the scripts ask of every client library, whatever its language."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class ConnectionLost(Exception):
    """The library reports that the connection is gone."""


@dataclass(frozen=True)
class Frame:
    """A frame as the library gave it to its user: header names and values are text that it decoded."""

    command: str
    headers: Mapping[str, str]
    body: bytes
    original: Any = field(default=None, compare=False, repr=False)
    """The library's own object for this frame; `ack` and `nack` need it."""


class Client(Protocol):
    """One connection made by a client library. Requests raise what the library raises; waits are bounded."""

    def connect(self, port: int, version: str, login: str, passcode: str) -> Frame:
        """Connect to 127.0.0.1 offering one version and return the answer: CONNECTED or ERROR."""

    def send(self, destination: str, body: bytes, headers: Mapping[str, str]) -> None: ...

    def subscribe(self, destination: str, headers: Mapping[str, str]) -> None:
        """Subscribe; `headers` holds `id` (absent only in 1.0), `ack` and perhaps `receipt`."""

    def unsubscribe(self, destination: str, headers: Mapping[str, str]) -> None:
        """Unsubscribe by the `id` of `headers`, or by destination where it has none."""

    def ack(self, message: Frame, headers: Mapping[str, str]) -> None:
        """Acknowledge `message` the way the library does it in the version of this connection."""

    def nack(self, message: Frame, headers: Mapping[str, str]) -> None: ...

    def begin(self, transaction: str, headers: Mapping[str, str]) -> None: ...

    def commit(self, transaction: str, headers: Mapping[str, str]) -> None: ...

    def abort(self, transaction: str, headers: Mapping[str, str]) -> None: ...

    def receive(self) -> Frame:
        """Return the next MESSAGE, RECEIPT or ERROR; raise `ConnectionLost` at the end of the connection."""

    def disconnect(self) -> None:
        """End the connection with DISCONNECT, the way the library does it."""

    def drop(self) -> None:
        """End the TCP connection without a DISCONNECT, as a crash would."""
