"""Many clients that send without end, while something is done to their relay."""

import asyncio
import threading
from collections.abc import Sequence
from itertools import count
from typing import Self

from tests.e2e.child import PATIENCE, wait_until
from tests.e2e.raw import CONNECT
from tests.e2e.talker import Talker

BRIEF = 10
"""Messages of a session, where clients come again."""


class Crowd:
    """Clients in a thread, which SEND all the time, each when it has the RECEIPT of the one before. `confirmed` has
    the bodies by client, `failed` says what went wrong.

    `echo`: each sends to a queue of its own, and its MESSAGE has to come back. `again`: it has a new session after some
    messages, and whenever its session ends, which is no failure, unless it ends twice in a row before CONNECTED.
    """

    def __init__(
        self, ports: Sequence[int], clients: int, queue: str, *, echo: bool = False, again: bool = False
    ) -> None:
        self.confirmed: list[list[bytes]] = [[] for _ in range(clients)]
        self.failed: list[str] = []
        self._ports = ports
        self._queue = queue
        self._echo = echo
        self._again = again
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def sent(self) -> int:
        """How many SENDs were confirmed."""
        return sum(map(len, self.confirmed))

    def goes_on(self) -> None:
        """Wait until each client has two receipts more."""
        before = [len(each) for each in self.confirmed]

        def all_have() -> bool:
            assert not self.failed
            return all(len(each) >= had + 2 for each, had in zip(self.confirmed, before, strict=True))

        wait_until(all_have, lambda: "some clients do not go on")

    async def _all(self) -> None:
        await asyncio.gather(*(self._client(number) for number in range(len(self.confirmed))))

    async def _client(self, number: int) -> None:
        try:
            async with asyncio.timeout(10 * PATIENCE):
                await self._sessions(number)
        except (OSError, EOFError, AssertionError, TimeoutError) as error:
            self.failed.append(f"client {number}: {error!r}")

    async def _sessions(self, number: int) -> None:
        vain = 0
        while not self._stop.is_set():
            port = self._ports[number % len(self._ports)]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(CONNECT)
                assert (await _frame(reader)).startswith(b"CONNECTED\n")
                vain = 0
                await self._send(number, reader, writer)
            except (ConnectionError, EOFError):
                vain += 1
                if not self._again or vain > 1:
                    raise
            finally:
                writer.close()

    async def _send(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        confirmed = self.confirmed[number]
        place = f"{self._queue}.{number}".encode() if self._echo else self._queue.encode()
        if self._echo:
            writer.write(b"SUBSCRIBE\nid:0\ndestination:%b\nack:auto\n\n\0" % place)
        for sent in count():
            if self._stop.is_set() or (self._again and sent == BRIEF):
                break
            body = b"%d:%d" % (number, len(confirmed))
            writer.write(b"SEND\ndestination:%b\nreceipt:%b\n\n%b\0" % (place, body, body))
            expected = {b"RECEIPT", b"MESSAGE"} if self._echo else {b"RECEIPT"}
            while expected:
                command = (await _frame(reader)).partition(b"\n")[0]
                assert command in expected, command
                expected.remove(command)
            confirmed.append(body)
            await asyncio.sleep(0.02)
        writer.write(b"DISCONNECT\nreceipt:bye\n\n\0")
        assert b"receipt-id:bye\n" in await _frame(reader)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """Wait for a frame. An ERROR that the relay is stopping is an end like any other."""
    frame = (await reader.readuntil(b"\0")).lstrip(b"\n")
    if b"the relay is stopping" in frame:
        raise ConnectionAbortedError
    return frame


def taken(port: int, queue: str) -> list[bytes]:
    """Take all messages of a queue of a broker, and return their bodies."""
    found: list[bytes] = []
    with Talker.at(port) as client:
        client.subscribe(queue, "0")
        client.send(queue, b"last")
        while (body := client.bodies(1)) != [b"last"]:
            found += body
        client.leave()
    return found
