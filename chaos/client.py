"""STOMP for the sessions of a run: a codec and a connection of their own, which share nothing with the relay's."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

BEATS: Final = 500
"""Milliseconds of the heart-beats that sessions of 1.1 and 1.2 send and want."""

_ESCAPES: Final = {"1.1": (("\\", "\\\\"), ("\n", "\\n"), (":", "\\c"))}
_ESCAPES_1_2: Final = (*_ESCAPES["1.1"], ("\r", "\\r"))


@dataclass(frozen=True)
class Frame:
    """A frame; header values as text, of repeated ones the first."""

    command: str
    headers: Mapping[str, str]
    body: bytes = b""


class Lost(Exception):
    """The connection is gone."""


class Codec:
    """Writes and reads frames of one version."""

    def __init__(self, version: str) -> None:
        self._escapes = {"1.0": (), "1.1": _ESCAPES["1.1"], "1.2": _ESCAPES_1_2}[version]
        self._buffer = b""

    def encode(self, frame: Frame) -> bytes:
        """The octets of a frame."""
        plain = frame.command in {"CONNECT", "CONNECTED"}
        lines = [frame.command]
        for name, value in frame.headers.items():
            lines.append(f"{name}:{value}" if plain else f"{self._escaped(name)}:{self._escaped(value)}")
        if frame.body:
            lines.append(f"content-length:{len(frame.body)}")
        return "\n".join(lines).encode() + b"\n\n" + frame.body + b"\0"

    def decode(self, data: bytes) -> list[Frame]:
        """The frames that are complete with these octets."""
        self._buffer += data
        frames: list[Frame] = []
        while True:
            self._buffer = self._buffer.lstrip(b"\r\n")
            head, blank, rest = self._buffer.partition(b"\n\n")
            if not blank:
                return frames
            command, *lines = head.decode().split("\n")
            headers: dict[str, str] = {}
            for line in lines:
                name, _, value = line.partition(":")
                headers.setdefault(self._unescaped(name), self._unescaped(value))
            end = int(headers["content-length"]) if "content-length" in headers else rest.find(b"\0")
            if not 0 <= end < len(rest):
                return frames
            if rest[end]:
                raise ValueError(f"no NUL where {head!r} ends")
            frames.append(Frame(command, headers, rest[:end]))
            self._buffer = rest[end + 1 :]

    def _escaped(self, text: str) -> str:
        for plain, escape in self._escapes:
            text = text.replace(plain, escape)
        return text

    def _unescaped(self, text: str) -> str:
        if "\\" not in text or not self._escapes:
            return text
        meant = {escape: plain for plain, escape in self._escapes}
        pieces, at = [], 0
        while at < len(text):
            size = 2 if text[at] == "\\" else 1
            piece = text[at : at + size]
            pieces.append(meant[piece] if size == 2 else piece)
            at += size
        return "".join(pieces)


class Connection:
    """One session with the relay. `quiet`: the longest time in seconds in which nothing came, not even a beat."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.quiet = 0.0
        self._codec = Codec(version)
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
        self._writer.write(self._codec.encode(Frame(command, headers, body)))

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
        try:
            while data := await self._reader.read(65536):
                now = time.monotonic()
                self.quiet, self._last = max(self.quiet, now - self._last), now
                for frame in self._codec.decode(data):
                    self._frames.put_nowait(frame)
        except OSError:
            pass
        finally:
            self._frames.put_nowait(None)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEATS / 1000 / 2)
            self._writer.write(b"\n")
