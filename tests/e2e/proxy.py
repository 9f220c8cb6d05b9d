"""A TCP proxy in front of a broker, to do to its connections what networks do."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self, TypeVar

from tests.e2e.ports import free_port

T = TypeVar("T")

_PIECE = 65536


class Proxy:
    """Forwards octets between a port of its own and a broker's, in a thread of its own.

    Every method returns when it has been done. A client of a broker that is not there is reset, as is one that comes
    while the broker is cut off. `said`: what the broker has read, by connection, if the proxy is to `record` it;
    `answered`: what it has written.
    """

    def __init__(self, broker: int, *, record: bool = False) -> None:
        self.port = free_port()
        self.said: list[bytearray] = []
        self.answered: list[bytearray] = []
        self._record = record
        self._broker = broker
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._cut = False
        self._mute = False
        self._muted: set[asyncio.StreamWriter] = set()
        self._flapping: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._sockets: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", self.port), self._loop
        ).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def connections(self) -> int:
        """How many connections there are now."""
        return self._soon(lambda: len(self._tasks))

    def reset(self) -> None:
        """Reset every connection, on both sides."""
        self._soon(self._reset)

    def cut(self) -> None:
        """Cut the broker off, as if it were killed: reset every connection, and new ones too."""
        self._soon(self._cut_off)

    def swallow(self) -> None:
        """Be a black hole: whatever is sent is never answered, and connections are accepted as before."""
        self._soon(self._flowing.clear)

    def mute(self) -> None:
        """Accept connections and read what is sent, old ones included, and answer nothing."""
        self._soon(self._fall_mute)

    def flap(self, period: float) -> None:
        """Cut the broker off and forward again, each for so many seconds, in turns."""
        self._soon(lambda: self._flap(period))

    def flow(self) -> None:
        """Forward again. What a black hole has held back goes on, as when a network is whole again; of what was
        sent to one that was mute nothing is left, so that its connections are reset.
        """
        self._soon(self._flow)

    def _soon(self, do: Callable[[], T]) -> T:
        async def done() -> T:
            return do()

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result()

    def _cut_off(self) -> None:
        self._cut = True
        self._reset()

    def _fall_mute(self) -> None:
        self._mute = True
        self._muted.update(self._sockets)

    def _flap(self, period: float) -> None:
        async def flapping() -> None:
            while True:
                self._cut_off()
                await asyncio.sleep(period)
                self._cut = False
                await asyncio.sleep(period)

        self._flapping = self._loop.create_task(flapping())

    def _flow(self) -> None:
        if self._flapping is not None:
            self._flapping.cancel()
            self._flapping = None
        for writer in self._muted & self._sockets:
            _abort(writer)
        self._muted.clear()
        self._mute = self._cut = False
        self._flowing.set()

    def _reset(self) -> None:
        for writer in self._sockets:
            _abort(writer)

    async def _close(self) -> None:
        self._server.close()
        self._flow()
        self._reset()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._forward(reader, writer)
        except asyncio.CancelledError:
            pass  # the proxy ends
        finally:
            self._tasks.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        self._sockets.add(writer)
        try:
            await self._flowing.wait()
            if self._cut:
                return
            if self._mute:
                self._muted.add(writer)
                while await reader.read(_PIECE):
                    pass
                return
            there_reader, there = await asyncio.open_connection("127.0.0.1", self._broker)
            writers.append(there)
            self._sockets.add(there)
            said = answered = None
            if self._record:
                said, answered = bytearray(), bytearray()
                self.said.append(said)
                self.answered.append(answered)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(reader, there, said))
                both.create_task(self._pump(there_reader, writer, answered))
            for each in writers:
                each.close()
                await each.wait_closed()
        except* OSError:
            pass  # the broker is not there, or either side broke off: so does the other, below
        finally:
            for each in writers:
                self._sockets.discard(each)
                _abort(each)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: bytearray | None = None
    ) -> None:
        """Forward one direction up to its end, and add it to `record`."""
        while data := await reader.read(_PIECE):
            await self._flowing.wait()
            if writer in self._muted:
                continue
            if record is not None:
                record += data
            writer.write(data)
            await writer.drain()
        await self._flowing.wait()
        writer.write_eof()


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close at once; the peer gets a reset unless both directions have ended in order."""
    sock: socket.socket = writer.get_extra_info("socket")
    if not writer.transport.is_closing():
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
