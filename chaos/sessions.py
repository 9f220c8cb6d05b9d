"""The sessions of a run: producers, producers in transactions, and consumers in each mode of acknowledgement."""

import asyncio
import time
from collections.abc import Mapping
from random import Random
from typing import Final

from chaos.account import Account, Message
from chaos.client import Connection, Frame, Lost

VERSIONS: Final = ("1.0", "1.1", "1.2")
MODES: Final = ("auto", "client", "client-individual")


class Session:
    """A client that comes back when it loses its connection against its will, which is booked."""

    def __init__(self, name: str, version: str, queue: str, account: Account, chance: Random) -> None:
        self.name = name
        self.queue = queue
        self._version = version
        self._account = account
        self._chance = chance
        self._stopping = False

    def stop(self) -> None:
        """Ask it to finish what it is at."""
        self._stopping = True

    async def run(self, port: int) -> None:
        """Work until stopped."""
        over = False
        while not over:
            connection = Connection(self._version)
            try:
                await connection.open(port)
                await self._work(connection)
                over = self._stopping
            except Lost as lost:
                self._account.disconnects.append(f"{self.name}: {lost}")
                over = self._stopping
                await asyncio.sleep(0.1)
            finally:
                if self._version != "1.0":
                    self._account.silence = max(self._account.silence, connection.quiet)
                await connection.close()

    async def _work(self, connection: Connection) -> None:
        raise NotImplementedError

    async def _leave(self, connection: Connection) -> None:
        """DISCONNECT and wait for its receipt; what comes before it is not looked at."""
        connection.write("DISCONNECT", {"receipt": "bye"})
        while not _is_receipt(await connection.frame(), "bye"):
            pass

    async def _pause(self, longest: float) -> None:
        await asyncio.sleep(self._chance.uniform(0, longest))


class Producer(Session):
    """Sends a few messages, waits for their receipts, and so on."""

    _number = 0

    async def _work(self, connection: Connection) -> None:
        while not self._stopping:
            asked = {}
            for _ in range(self._chance.randint(1, 10)):
                message = self._send(connection, {"receipt": str(self._number)})
                asked[str(message.number)] = message, time.monotonic()
            await connection.drain()
            while asked:
                frame = await connection.frame()
                told = frame.headers.get("receipt-id", "")
                if frame.command != "RECEIPT" or told not in asked:
                    if frame.command == "RECEIPT":
                        self._account.receipts_twice += 1
                    raise Lost(_words(frame))
                message, since = asked.pop(told)
                self._account.confirm(message, self.queue, time.monotonic() - since)
            await self._pause(0.4)
        await self._leave(connection)

    def _send(self, connection: Connection, headers: Mapping[str, str]) -> Message:
        message = Message(self.name, self._number)
        self._number += 1
        self._account.sent += 1
        connection.write("SEND", {"destination": self.queue, "persistent": "true", **headers}, message.body)
        return message


class Transactor(Producer):
    """Sends in transactions, some of which it aborts. Only a COMMIT may end in an ERROR: its outcome is unknown."""

    async def _work(self, connection: Connection) -> None:
        while not self._stopping:
            transaction = {"transaction": f"t{self._number}"}
            connection.write("BEGIN", transaction)
            messages = []
            for _ in range(self._chance.randint(1, 5)):
                messages.append(self._send(connection, transaction))
                await connection.drain()
                await self._pause(0.2)
            verb = "ABORT" if self._chance.random() < 0.2 else "COMMIT"
            since = time.monotonic()
            connection.write(verb, {**transaction, "receipt": f"r{self._number}"})
            frame = await connection.frame()
            if verb == "COMMIT" and frame.command == "ERROR":
                self._account.unknown += 1
                return
            if not _is_receipt(frame, f"r{self._number}"):
                raise Lost(_words(frame))
            if verb == "ABORT":
                self._account.aborted.update(messages)
            else:
                self._account.committed += 1
                for message in messages:
                    self._account.confirm(message, self.queue, time.monotonic() - since)
            await self._pause(0.4)
        await self._leave(connection)


class Consumer(Session):
    """Takes messages in one mode of acknowledgement."""

    def __init__(
        self, name: str, version: str, queue: str, account: Account, chance: Random, mode: str
    ) -> None:
        super().__init__(name, version, queue, account, chance)
        self._mode = mode

    async def _work(self, connection: Connection) -> None:
        connection.write("SUBSCRIBE", {"id": "1", "destination": self.queue, "ack": self._mode})
        owed: list[Frame] = []
        enough = self._chance.randint(1, 8)
        while not self._stopping:
            try:
                frame = await asyncio.wait_for(connection.frame(), 0.2)
            except TimeoutError:
                enough = 0
            else:
                if frame.command != "MESSAGE":
                    raise Lost(_words(frame))
                self._account.received[Message.of(frame.body)] += 1
                owed.append(frame)
            if len(owed) >= enough:
                self._acknowledge(connection, owed)
                await connection.drain()
                enough = self._chance.randint(1, 8)
        self._acknowledge(connection, owed)
        await self._leave(connection)

    def _acknowledge(self, connection: Connection, owed: list[Frame]) -> None:
        """Acknowledge all that is owed: by its last message, or one by one in any order."""
        if self._mode == "client":
            del owed[:-1]
        elif self._mode == "auto":
            owed.clear()
        self._chance.shuffle(owed)
        for message in owed:
            headers = message.headers
            if self._version == "1.2":
                connection.write("ACK", {"id": headers["ack"]})
            elif self._version == "1.1":
                connection.write(
                    "ACK", {"message-id": headers["message-id"], "subscription": headers["subscription"]}
                )
            else:
                connection.write("ACK", {"message-id": headers["message-id"]})
        owed.clear()


def crew(count: int, seed: int, account: Account) -> list[Session]:
    """So many sessions: half of them consumers, each with a queue of its own, the others producers for these."""
    consumers = max(1, count // 2)
    queues = [f"/queue/chaos-{seed}-{number}" for number in range(consumers)]
    account.careless = frozenset(queue for number, queue in enumerate(queues) if _mode(number) == "auto")
    made: list[Session] = [
        Consumer(
            f"consumer-{number}",
            VERSIONS[(number // len(MODES)) % len(VERSIONS)],
            queue,
            account,
            Random(f"{seed}/consumer/{number}"),
            _mode(number),
        )
        for number, queue in enumerate(queues)
    ]
    for number in range(max(1, count - consumers)):
        kind = Transactor if number % 4 == 3 else Producer
        made.append(
            kind(
                f"producer-{number}",
                VERSIONS[number % len(VERSIONS)],
                queues[number % consumers],
                account,
                Random(f"{seed}/producer/{number}"),
            )
        )
    return made


def _mode(number: int) -> str:
    return MODES[number % len(MODES)]


def _is_receipt(frame: Frame, id: str) -> bool:
    """Whether it is this receipt. Raises `Lost` for an ERROR."""
    if frame.command == "ERROR":
        raise Lost(_words(frame))
    return frame.command == "RECEIPT" and frame.headers.get("receipt-id") == id


def _words(frame: Frame) -> str:
    return f"{frame.command}: {frame.headers.get('message', frame.headers)}"
