"""Who talks in the demo: a small shop, whose programs use stomp.py, each in another version of STOMP.

shop      1.2  an order many times a second, with receipts           -> /queue/orders
billing   1.1  takes orders, acknowledges each, sends an invoice     -> /queue/invoices
archive   1.0  takes invoices
ticker    1.2  prices                                                -> /topic/prices
desk-1, desk-2 (1.1, 1.2)  show prices
labels    1.2  a label now and then                                  -> /queue/labels
printer   1.1  acknowledges labels until it is out of paper: a stuck consumer
"""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import stomp

VERSIONS: Final[Mapping[str, Any]] = {
    "1.0": stomp.Connection10,
    "1.1": stomp.Connection11,
    "1.2": stomp.Connection12,
}
ORDERS: Final = "/queue/orders"
INVOICES: Final = "/queue/invoices"
PRICES: Final = "/topic/prices"
LABELS: Final = "/queue/labels"
PAPER: Final = 12
"""Labels that the printer has paper for."""
QUIET: Final = 0.5
"""Seconds without a message after which all have what there is for them."""
GOODBYE: Final = 10.0
"""Seconds that the relay may take to answer DISCONNECT."""


class Subscription(NamedTuple):
    """What a client reads, and how it acknowledges."""

    destination: str
    ack: str = "auto"


class Client(stomp.ConnectionListener):  # type: ignore[misc]
    """One program of the shop. `counts`: what it `sent` and `received`, and `errors` that it was told of."""

    def __init__(self, name: str, version: str, port: int, seed: int) -> None:
        self.name = name
        self.counts: Counter[str] = Counter()
        self.chance = random.Random(seed)
        self._named = version != "1.0"
        self._gone = threading.Event()
        beats = {"heartbeats": (2000, 2000)} if self._named else {}
        self.connection = VERSIONS[version]([("127.0.0.1", port)], reconnect_attempts_max=1, **beats)
        self.connection.set_listener("", self)
        self.connection.connect("demo", "secret", wait=True, headers={"client-id": name})

    def read(self, subscription: Subscription) -> None:
        """Subscribe."""
        self.connection.subscribe(subscription.destination, id="0", ack=subscription.ack)

    def send(self, destination: str, value: object, **headers: str) -> None:
        """Send a value as JSON."""
        self.connection.send(destination, json.dumps(value), content_type="application/json", **headers)
        self.counts["sent"] += 1

    def acknowledge(self, frame: Any) -> None:
        """Say that a message was dealt with, as the version has it."""
        headers = frame.headers
        if "ack" in headers:
            self.connection.ack(headers["ack"])
        elif self._named:
            self.connection.ack(headers["message-id"], headers["subscription"])
        else:
            self.connection.ack(headers["message-id"])

    def leave(self) -> None:
        """Say goodbye, and wait until the relay has closed the connection. Raises `TimeoutError`."""
        self.connection.disconnect()
        if not self._gone.wait(GOODBYE):
            raise TimeoutError(f"{self.name} waits in vain for the end of its session")

    def on_disconnected(self) -> None:
        """The connection is closed."""
        self._gone.set()

    def on_message(self, frame: Any) -> None:
        """A message came."""
        self.counts["received"] += 1

    def on_error(self, frame: Any) -> None:
        """The relay or a broker complained."""
        self.counts["errors"] += 1


class Billing(Client):
    """Turns orders into invoices; one order in fifty it cannot read, and refuses."""

    def on_message(self, frame: Any) -> None:
        """An order."""
        super().on_message(frame)
        order = json.loads(frame.body)
        if order["number"] % 50 == 49 and "redelivered" not in frame.headers:
            self.connection.nack(frame.headers["message-id"], frame.headers["subscription"])
            return
        self.send(INVOICES, {"order": order["number"], "total": order["items"] * 9.5})
        self.acknowledge(frame)


class Printer(Client):
    """Acknowledges as many labels as it has paper."""

    def on_message(self, frame: Any) -> None:
        """A label."""
        super().on_message(frame)
        if self.counts["received"] <= PAPER:
            self.acknowledge(frame)


class Producer(threading.Thread):
    """Sends `rate` messages a second, more at some times than at others, until `stop`."""

    def __init__(self, client: Client, rate: float, send: Callable[[Client, int], None]) -> None:
        super().__init__(name=client.name, daemon=True)
        self._client = client
        self._rate = rate
        self._send = send
        self._over = threading.Event()
        self.failure: Exception | None = None

    def run(self) -> None:
        """Send until it is stopped, or cannot."""
        number = 0
        chance = self._client.chance
        while not self._over.wait(chance.expovariate(self._rate)):
            try:
                self._send(self._client, number)
            except Exception as error:
                self.failure = error
                return
            number += 1

    def stop(self) -> None:
        """Send no more. Raises what kept it from sending."""
        self._over.set()
        self.join()
        if self.failure is not None:
            raise self.failure


def order(client: Client, number: int) -> None:
    """An order of the shop's, with a receipt."""
    client.send(ORDERS, {"number": number, "items": client.chance.randint(1, 9)}, receipt=f"order-{number}")


def price(client: Client, number: int) -> None:
    """A price."""
    client.send(PRICES, {"number": number, "price": round(client.chance.gauss(100, 5), 2)})


def label(client: Client, number: int) -> None:
    """A label for a parcel."""
    client.send(LABELS, {"number": number, "to": "somebody"})


class Crew:
    """All of them, at work from the start."""

    def __init__(self, port: int, seed: int = 1) -> None:
        billing = Billing("billing", "1.1", port, seed)
        archive = Client("archive", "1.0", port, seed)
        desks = [Client("desk-1", "1.1", port, seed), Client("desk-2", "1.2", port, seed)]
        printer = Printer("printer", "1.1", port, seed)
        billing.read(Subscription(ORDERS, "client-individual"))
        archive.read(Subscription(INVOICES))
        for desk in desks:
            desk.read(Subscription(PRICES))
        printer.read(Subscription(LABELS, "client-individual"))
        shop, ticker, labels = (
            Client(name, "1.2", port, seed + number)
            for number, name in enumerate(("shop", "ticker", "labels"))
        )
        self.clients = [archive, billing, *desks, printer, shop, ticker, labels]
        self._producers = [Producer(shop, 40, order), Producer(ticker, 25, price), Producer(labels, 2, label)]
        for producer in self._producers:
            producer.start()

    def rest(self) -> None:
        """Producers end; consumers read on until nothing comes. Raises what went wrong with one of them."""
        for producer in self._producers:
            producer.stop()
        before = -1
        while (now := sum(counts.total() for counts in self.counts.values())) != before:
            before = now
            time.sleep(QUIET)

    def leave(self) -> None:
        """All say goodbye, those first whom nobody waits for."""
        for client in reversed(self.clients):
            client.leave()

    @property
    def counts(self) -> dict[str, Counter[str]]:
        """What each one counted."""
        return {client.name: client.counts for client in self.clients}
