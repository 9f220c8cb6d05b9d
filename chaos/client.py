"""STOMP for the sessions of a run: a connection of their own, which shares nothing with the relay's."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from tests.e2e import raw

BEATS: Final = 500
"""Milliseconds of the heart-beats that sessions of 1.1 and 1.2 send and want."""


@dataclass(frozen=True)
class Frame:
    """A frame; header values as they are on the wire, of repeated ones the first."""

    command: str
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def of(cls, wire: bytes) -> Self:
        """Read a whole frame."""
        values = {name.decode(): value.decode() for name, value in raw.headers(wire).items()}
        return cls(wire.partition(b"\n")[0].decode(), values, raw.body(wire))


class Lost(Exception):
    """The connection is gone."""


class Connection:
    """One session with the relay. `quiet`: the longest time in seconds in which nothing came, not even a beat."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.quiet = 0.0
        self._frames: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, port: int) -> None:
        """Connect to 127.0.0.1 and log in. Raises `Lost` when that is refused."""
        try:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError as error:
            raise Lost(str(error)) from None
        self._last = time.monotonic()
        headers = {"accept-version": self.version, "host": "/", "login": "guest", "passcode": "guest"}
        if self.version == "1.0":
            del headers["accept-version"]
        else:
            headers["heart-beat"] = f"{BEATS},{BEATS}"
        self._tasks.append(asyncio.create_task(self._read()))
        self.write("CONNECT", headers)
        answer = await self.frame()
        if answer.command != "CONNECTED":
            raise Lost(f"{answer.command}: {answer.headers.get('message')}")
        self._last, self.quiet = time.monotonic(), 0.0  # beats begin here
        if self.version != "1.0":
            self._tasks.append(asyncio.create_task(self._beat()))

    def write(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Write a frame; call `drain` now and then."""
        lines = [command, *(f"{name}:{value}" for name, value in headers.items())]
        self._writer.write("\n".join(lines).encode() + b"\n\n" + body + b"\0")

    async def drain(self) -> None:
        """Wait until what was written is no longer much. Raises `Lost`."""
        try:
            await self._writer.drain()
        except OSError as error:
            raise Lost(str(error)) from None

    async def frame(self) -> Frame:
        """The next frame. Raises `Lost` at the end of the connection."""
        frame = await self._frames.get()
        if frame is None:
            raise Lost("the connection ended")
        return frame

    async def close(self) -> None:
        """End the connection, without a word."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if hasattr(self, "_writer"):
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()

    async def _read(self) -> None:
        waiting = b""
        try:
            while data := await self._reader.read(65536):
                now = time.monotonic()
                self.quiet, self._last = max(self.quiet, now - self._last), now
                waiting = (waiting + data).lstrip(b"\r\n")
                while end := raw.end_of_frame(waiting):
                    self._frames.put_nowait(Frame.of(waiting[:end]))
                    waiting = waiting[end:].lstrip(b"\r\n")
        except OSError:
            pass
        finally:
            self._frames.put_nowait(None)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEATS / 1000 / 2)
            self._writer.write(b"\n")
