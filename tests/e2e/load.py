"""Clients of foreign libraries that go on and on, each in a thread, and the account of what they were told.

A message is `NAME:NUMBER` in a producer's own order. Producers ask for a receipt of every SEND; what was confirmed
must be received by somebody. Consumers end at the message `END`.
"""

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.e2e.child import PATIENCE
from tests.e2e.clients.client import Client, Frame
from tests.e2e.raw import Connection, body

END = b"end"

_drains = itertools.count(1)


class Worker(threading.Thread):
    """A client in a thread of its own; `count` is what it has achieved, `troubles` what must never happen to it."""

    def __init__(self, name: str, client: Client, port: int, version: str) -> None:
        super().__init__(name=name, daemon=True)
        self.client = client
        self.count = 0
        self.troubles: list[str] = []
        self.longest = 0.0
        """The longest time in seconds between two achievements."""
        self._port = port
        self._version = version
        self._last = 0.0
        self._news = threading.Condition()

    def run(self) -> None:
        """Work from CONNECT to DISCONNECT, or to the first trouble."""
        try:
            connected = self.client.connect(self._port, self._version, "guest", "guest")
            if connected.command != "CONNECTED":
                raise AssertionError(connected)
            self._last = time.monotonic()
            self._work()
            self.client.disconnect()
        except Exception as error:
            self.troubles.append(f"{self.name}: {error!r}")
            with contextlib.suppress(Exception):  # whatever state it is in
                self.client.drop()
        finally:
            with self._news:
                self._news.notify_all()

    def wait_for_more(self, more: int) -> None:
        """Wait until it has achieved so many more than now."""
        with self._news:
            goal = self.count + more
            came = self._news.wait_for(lambda: self.count >= goal or not self.is_alive(), PATIENCE)
        assert not self.troubles, self.troubles
        assert came, f"{self.name}: {goal - self.count} of {more} did not come"
        assert self.count >= goal, f"{self.name}: {goal - self.count} of {more} did not come"

    def ends(self) -> None:
        """Wait until it has disconnected."""
        self.join(PATIENCE)
        assert not self.is_alive(), f"{self.name} goes on: {self.count}"
        assert not self.troubles, self.troubles

    def _work(self) -> None:
        raise NotImplementedError

    def _achieved(self) -> None:
        now = time.monotonic()
        with self._news:
            self.count += 1
            self.longest, self._last = max(self.longest, now - self._last), now
            self._news.notify_all()


class Producer(Worker):
    """Sends `window` messages, waits for their receipts, rests for `pause` seconds, and so on."""

    def __init__(
        self,
        name: str,
        client: Client,
        port: int,
        version: str,
        destination: str,
        window: int = 10,
        pause: float = 0.05,
    ) -> None:
        super().__init__(name, client, port, version)
        self.destination = destination
        self.sent = 0
        self.receipts: list[int] = []
        self._window = window
        self._pause = pause
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Send no more; the receipts that are owed are waited for."""
        self._stopped.set()
        self.ends()

    def _work(self) -> None:
        while not self._stopped.wait(self._pause):
            owed = set()
            for _ in range(self._window):
                headers = {"persistent": "true", "receipt": str(self.sent)}
                self.client.send(self.destination, f"{self.name}:{self.sent}".encode(), headers)
                owed.add(self.sent)
                self.sent += 1
            while owed:
                number = int(_only(self.client.receive(), "RECEIPT").headers["receipt-id"])
                owed.remove(number)  # nobody else's receipt, and none twice
                self.receipts.append(number)
                self._achieved()


class Consumer(Worker):
    """Takes messages and acknowledges each `every`-th of them in the mode `ack`."""

    def __init__(
        self,
        name: str,
        client: Client,
        port: int,
        version: str,
        destination: str,
        ack: str = "client-individual",
        every: int = 1,
    ) -> None:
        super().__init__(name, client, port, version)
        self.destination = destination
        self.bodies: list[bytes] = []
        self._ack = ack
        self._every = every

    def _work(self) -> None:
        self.client.subscribe(self.destination, {"id": "1", "ack": self._ack})
        while True:
            message = _only(self.client.receive(), "MESSAGE")
            self.bodies.append(message.body)
            last = message.body == END
            if self._ack != "auto" and (last or len(self.bodies) % self._every == 0):
                self.client.ack(message, {})
            if last:
                self.bodies.pop()
                return
            self._achieved()


def _only(frame: Frame, command: str) -> Frame:
    if frame.command != command:
        raise AssertionError(f"{frame} in place of a {command}")
    return frame


def end(port: int, destination: str) -> None:
    """Send the message that ends consumers."""
    with Connection.to(port) as client:
        assert client.connect().startswith(b"CONNECTED\n")
        client.write(_send(destination, END))
        assert client.frame().startswith(b"RECEIPT\n")


def drain(port: int, destination: str, due: int = 0, again: set[bytes] | None = None) -> list[bytes]:
    """Take what a queue of a broker holds, without what ends consumers; wait for `due` messages, if need be. What was
    given to somebody before is put into `again`, too.

    A broker may need a moment to put into the queue what a client has committed, or what one that is gone had not
    acknowledged.
    """
    marker = b"drained-%d" % next(_drains)
    found: list[bytes] = []
    with Connection.to(port) as client:
        assert client.connect().startswith(b"CONNECTED\n")
        client.write(_send(destination, marker))
        answer = client.frame()
        assert answer.startswith(b"RECEIPT\n"), answer
        client.write(f"SUBSCRIBE\ndestination:{destination}\nid:1\nack:client\n\n\0".encode())
        last = b""
        while marker not in found or len(found) <= due:
            if (
                found and not len(found) % 500
            ):  # ActiveMQ gives a thousand that nobody has acknowledged, no more
                client.write(b"ACK\n%b\n\n\0" % _named(last))
            last = client.frame()
            found.append(_message(last))
            if again is not None and b"\nredelivered:true\n" in last:
                again.add(found[-1])
        # What comes behind it stays in the queue: with ack:auto RabbitMQ may lose it on the way to who leaves.
        client.write(b"ACK\n%b\nreceipt:taken\n\n\0" % _named(last))
        while not client.frame().startswith(b"RECEIPT\n"):
            pass
        client.write(b"DISCONNECT\nreceipt:bye\n\n\0")
        while not client.frame().startswith(b"RECEIPT\n"):
            pass
    return [each for each in found if each not in (END, marker)]


def _named(message: bytes) -> bytes:
    """Return the header lines by which an ACK names a MESSAGE in any version."""
    lines = message.partition(b"\n\n")[0].split(b"\n")
    names = {b"ack": b"id", b"message-id": b"message-id", b"subscription": b"subscription"}
    headers = dict(line.partition(b":")[::2] for line in lines[1:])
    return b"\n".join(b"%b:%b" % (names[name], headers[name]) for name in names if name in headers)


def _message(frame: bytes) -> bytes:
    assert frame.startswith(b"MESSAGE\n"), frame
    return body(frame)


def _send(destination: str, content: bytes) -> bytes:
    return b"SEND\ndestination:%b\npersistent:true\nreceipt:1\n\n%b\0" % (destination.encode(), content)


@dataclass(frozen=True)
class Account:
    """What became of the messages of one destination."""

    sent: int
    confirmed: frozenset[bytes]
    received: Sequence[bytes]
    longest: float

    @property
    def lost(self) -> frozenset[bytes]:
        """What was confirmed and received by nobody."""
        return self.confirmed - set(self.received)

    @property
    def duplicates(self) -> int:
        """How many were received once more than needed."""
        return len(self.received) - len(set(self.received))

    def __str__(self) -> str:
        return (
            f"sent {self.sent}, confirmed {len(self.confirmed)}, received {len(self.received)}, "
            f"lost {len(self.lost)}, duplicates {self.duplicates}, longest silence {self.longest:.1f} s"
        )


def settle(
    destination: str, ports: Iterable[int], producers: Sequence[Producer], consumers: Sequence[Consumer]
) -> Account:
    """End the clients of a destination in order, drain it at all brokers, and add up.

    Every broker must be well again. What a broker gives back late, because it was frozen when its consumer went,
    is waited for.
    """
    ports = list(ports)
    for producer in producers:
        producer.stop()
        assert producer.receipts
        assert len(producer.receipts) == producer.sent == len(set(producer.receipts))
    for port in ports:
        end(port, destination)
    for consumer in consumers:
        consumer.ends()
    confirmed = frozenset(
        f"{producer.name}:{number}".encode() for producer in producers for number in producer.receipts
    )
    received = [each for consumer in consumers for each in consumer.bodies]
    workers: list[Worker] = [*producers, *consumers]

    def account() -> Account:
        sent, longest = sum(each.sent for each in producers), max(each.longest for each in workers)
        return Account(sent, confirmed, received, longest)

    deadline = time.monotonic() + PATIENCE
    while True:
        left = [drain(port, destination) for port in ports]
        for number, port in enumerate(ports):
            # What came twice because a broker that seemed dead took it too has no place in the order there.
            elsewhere = {
                *received,
                *(each for other in (*left[:number], *left[number + 1 :]) for each in other),
            }
            once = [each for each in left[number] if each not in elsewhere]
            assert not descents(once), f"out of order on {port}: {once}"
        received += [each for one in left for each in one]
        if not account().lost or time.monotonic() > deadline:
            return account()


def descents(bodies: Iterable[bytes]) -> int:
    """Count where the order of some producer's messages breaks, without what comes again."""
    seen: Counter[bytes] = Counter()
    highest: dict[bytes, int] = {}
    broken = 0
    for each in bodies:
        seen[each] += 1
        name, _, number = each.partition(b":")
        if seen[each] == 1:
            broken += int(number) < highest.get(name, -1)
            highest[name] = int(number)
    return broken


def all_flow(workers: Iterable[Worker], more: int = 20) -> None:
    """Wait until each has achieved so many more than now."""
    for worker in workers:
        worker.wait_for_more(more)
