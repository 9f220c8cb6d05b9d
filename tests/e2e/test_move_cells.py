"""Clients of one product at real brokers of another one: each cell of the tables of `docs/move.md`."""

import contextlib
import itertools
import re
import select
import socket
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stomprelay.relay.model.features import ACTIVEMQ, ARTEMIS, RABBITMQ
from tests.e2e import pairs
from tests.e2e.child import PATIENCE, wait_until
from tests.e2e.ports import free_port
from tests.e2e.proxy import Proxy
from tests.e2e.raw import Connection, body, end_of_frame, headers
from tests.e2e.relay import listening, relay

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.ci]

PLACES = {
    ACTIVEMQ: ("activemq", "activemq_6"),
    ARTEMIS: ("artemis", "artemis as shipped"),
    RABBITMQ: ("rabbitmq",),
}
"""By product: the brokers that are tried."""
_COMMANDS = (b"SEND", b"SUBSCRIBE", b"UNSUBSCRIBE", b"ACK", b"NACK")
_ROUTING = ("destination-type:", "subscription-type:")
_numbers = itertools.count(1)


class Refused(Exception):
    """An ERROR came."""


class Otherwise(Exception):
    """A client sees something else than at home."""


def see(found: object, wanted: object = True) -> None:
    """Raise `Otherwise` unless a client sees what it would see at home."""
    if found != wanted:
        raise Otherwise(f"{found!r}, not {wanted!r}")


def decoded(line: str) -> str:
    """Return a header line of STOMP 1.2 without escapes."""
    return line.replace("\\c", ":").replace("\\n", "\n").replace("\\\\", "\\")


def frames(data: bytes) -> Iterator[tuple[bytes, list[str], bytes]]:
    """Yield command, decoded header lines and body of the frames that a map may change."""
    while end := end_of_frame(data := data.lstrip(b"\r\n")):
        frame, data = data[:end], data[end:]
        command, *lines = frame.partition(b"\n\n")[0].decode().split("\n")
        if command.encode() in _COMMANDS:
            yield command.encode(), [decoded(each) for each in lines], body(frame)


class Client(Connection):
    """A client of STOMP 1.2 that is logged in. An ERROR raises `Refused`. `written`: what it has said."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.written = b""
        self._messages: deque[bytes] = deque()

    def say(self, command: str, *lines: str, body: bytes = b"") -> None:
        """Write a frame with these header lines, decoded."""
        named = [each.partition(":") for each in lines]
        head = "".join(f"{name}:{value.replace(':', chr(92) + 'c')}\n" for name, _, value in named)
        length = f"content-length:{len(body)}\n" if b"\0" in body else ""
        data = f"{command}\n{head}{length}\n".encode() + body + b"\0"
        self.written += data
        self.write(data)

    def ask_later(self, command: str, *lines: str, body: bytes = b"") -> bytes:
        """Write a frame that asks for a receipt, and return the receipt."""
        receipt = f"r{next(_numbers)}"
        self.say(command, *lines, f"receipt:{receipt}", body=body)
        return receipt.encode()

    def ask(self, command: str, *lines: str, body: bytes = b"") -> None:
        """Write a frame and wait for its receipt."""
        wanted = self.ask_later(command, *lines, body=body)
        assert self.receipt() == wanted

    def send(self, place: str, text: bytes, *lines: str) -> None:
        """SEND, and wait for the receipt."""
        self.ask("SEND", f"destination:{place}", *lines, body=text)

    def subscribe(self, place: str, *lines: str, id: str = "1") -> None:
        """SUBSCRIBE, and wait for the receipt."""
        self.ask("SUBSCRIBE", f"id:{id}", f"destination:{place}", *lines)

    def settle(self, message: bytes, *lines: str, command: str = "ACK") -> None:
        """ACK or NACK, and wait for the receipt."""
        self.ask(command, f"id:{decoded(headers(message)[b'ack'].decode())}", *lines)

    def receipt(self) -> bytes:
        """Return the next receipt."""
        while not (frame := self.frame()).startswith(b"RECEIPT\n"):
            assert frame.startswith(b"MESSAGE\n"), frame
            self._messages.append(frame)
        return headers(frame)[b"receipt-id"]

    def message(self) -> bytes:
        """Return the next MESSAGE."""
        return self._messages.popleft() if self._messages else self.frame()

    def read(self) -> bytes:
        """Return the body of the next MESSAGE."""
        return body(self.message())

    def frame(self) -> bytes:
        """Return the next frame. Raises `Refused`."""
        frame = super().frame()
        if frame.startswith(b"ERROR\n"):
            raise Refused(frame.decode())
        return frame

    @property
    def ready(self) -> bool:
        """Whether a MESSAGE is there."""
        return bool(self._messages) or end_of_frame(self._buffer.lstrip(b"\r\n")) > 0


def who_reads(*clients: Client) -> int:
    """Wait until a client can read a MESSAGE, and return its number."""
    while True:
        for number, client in enumerate(clients):
            if client.ready:
                return number
        found, _, _ = select.select([each.socket for each in clients], [], [], clients[0].socket.gettimeout())
        if not found:
            raise TimeoutError
        for client in clients:
            if client.socket in found:
                client._more()


class Scene:
    """Clients of a product at a broker of another one: all names of places are of this scene alone. `patience`: how
    many seconds something may take.
    """

    def __init__(self, clients: str, broker: str, port: int, direct: int, patience: float) -> None:
        self.clients = clients
        self.broker = broker
        self._port = port
        self._direct = direct
        self._patience = patience
        self.own = f"e2e{uuid.uuid4().hex[:8]}"
        self._made: list[Client] = []

    @property
    def written(self) -> bytes:
        """What the clients have said."""
        return b"".join(each.written for each in self._made)

    def client(self, *lines: str, passcode: str = "guest") -> Client:
        """Return a new client. `lines`: more lines of its CONNECT."""
        client = Client.to(self._port)
        client.socket.settimeout(self._patience)
        self._made.append(client)
        host = [] if any(each.startswith("host:") for each in lines) else ["host:/"]
        head = "\n".join(["accept-version:1.2", "login:guest", f"passcode:{passcode}", *host, *lines])
        client.write(f"CONNECT\n{head}\n\n\0".encode())
        try:
            assert client.frame().startswith(b"CONNECTED\n")
        except Refused:
            client.close()
            raise
        return client

    def leave(self, *clients: Client) -> None:
        """DISCONNECT, in order; without clients, all of them."""
        for client in clients or self._made:
            if client.socket.fileno() >= 0:
                client.ask("DISCONNECT")
                client.close()

    @contextlib.contextmanager
    def direct(self) -> Iterator[Client]:
        """A client at the broker itself."""
        with Client.to(self._direct) as client:
            assert client.connect().startswith(b"CONNECTED\n")
            yield client

    def name(self, text: str) -> str:
        """Return a name of this scene."""
        return f"{self.own}.{text}"

    def queue(self, text: str) -> str:
        return f"/queue/{self.own}.{text}"

    def topic(self, text: str) -> str:
        return f"/topic/{self.own}.{text}"

    def of(self, activemq: str, artemis: str, rabbitmq: str) -> str:
        """Return what clients of this product say."""
        return {ACTIVEMQ: activemq, ARTEMIS: artemis, RABBITMQ: rabbitmq}[self.clients]


# Places


def slash(s: Scene) -> None:
    """A queue with a slash keeps messages; a MESSAGE has its name as the client wrote it."""
    place = s.queue(s.of("a/b", "a/b", "a%2Fb"))
    client = s.client()
    client.send(place, b"kept")
    client.subscribe(place)
    see(headers(client.message())[b"destination"], place.encode())


def plain(s: Scene) -> None:
    """For ActiveMQ and RabbitMQ it is a queue, which keeps what comes; for Artemis each subscriber reads all."""
    place, one, other = s.name("orders"), s.client(), s.client()
    if s.clients == ARTEMIS:
        one.subscribe(place)
        other.subscribe(place)
        for number in range(2):
            one.send(place, b"%d" % number)
        see([one.read(), other.read()], [b"0", b"0"])
        return
    one.send(place, b"kept")
    other.subscribe(place)
    see(other.read(), b"kept")


def other_prefix(s: Scene) -> None:
    """For ActiveMQ it is a queue, which keeps what comes; for Artemis a topic, for RabbitMQ nothing."""
    place, client = f"/other/{s.name('x')}", s.client()
    with _ended(client, s.clients == RABBITMQ):
        client.send(place, b"kept")
        client.subscribe(place)
        client.send(place, b"read")
        see(client.read(), b"read" if s.clients == ARTEMIS else b"kept")


def reserved(s: Scene) -> None:
    """A queue with such a name keeps messages."""
    place, client = f"/queue/amq.{s.name('x')}", s.client()
    client.send(place, b"kept")
    client.subscribe(place)
    see(client.read(), b"kept")


def rest(s: Scene) -> None:
    """The pattern takes the topic itself and all below it."""
    client = s.client()
    client.subscribe(s.topic(s.of("a.>", "a.#", "a.#")))
    places = [s.topic(each) for each in ("b", "a", "a.x", "a.x.y")]
    for place in places:
        client.send(place, b"1")
    see([headers(client.message())[b"destination"].decode() for _ in range(3)], places[1:])


def word(s: Scene) -> None:
    """The pattern takes one word."""
    client = s.client()
    client.subscribe(s.topic("a.*"))
    for place in ("a", "a.x.y", "a.x"):
        client.send(s.topic(place), place.encode())
    see(client.read(), b"a.x")


def all_topics(s: Scene) -> None:
    """The pattern takes each topic."""
    client = s.client()
    client.subscribe(s.of("/topic/>", "", "/topic/#"))
    client.send(s.topic("x.y"), s.own.encode())
    see(client.read(), s.own.encode())


def queue_wildcards(s: Scene) -> None:
    """One consumer takes from several queues."""
    client = s.client()
    client.subscribe(s.queue(s.of("a.>", "a.#", "")))
    client.subscribe(s.queue("end"), id="2")
    client.send(s.queue("a.x"), b"taken")
    client.send(s.queue("end"), b"end")
    see(client.read(), b"taken")


def composite(s: Scene) -> None:
    """A SEND to two queues comes to both."""
    client = s.client()
    client.send(f"{s.queue('a')},{s.queue('b')}", b"both")
    client.send(s.queue("b"), b"end")
    client.subscribe(s.queue("b"))
    see(client.read(), b"both")


def options(s: Scene) -> None:
    """They are no part of the name."""
    client = s.client()
    client.subscribe(f"{s.queue('a')}?consumer.exclusive=true")
    client.send(s.queue("a"), b"1")
    client.subscribe(s.queue("end"), id="2")
    client.send(s.queue("end"), b"end")
    see(client.read(), b"1")


def shared(s: Scene) -> None:
    """Two workers share the messages of a topic, and read what came while they were away."""
    name = f"VirtualTopic.{s.own}.T"
    topic, lines = f"/topic/{name}", list[str]()
    queue = s.of(f"/queue/Consumer.A.{name}", f"{topic}::Consumer.A.{name}", topic)
    if s.clients == RABBITMQ:
        lines = [f"x-queue-name:Consumer.A.{name}", "durable:true", "auto-delete:false"]
    one, other, sender = s.client(), s.client(), s.client()
    one.subscribe(queue, *lines)
    other.subscribe(queue, *lines)
    for number in range(4):
        sender.send(topic, b"%d" % number)
    found = []
    for _ in range(4):
        reader = (one, other)[who_reads(one, other)]
        found.append((reader, body(message := reader.message())))
        if s.clients == ACTIVEMQ:
            see(headers(message)[b"destination"], queue.encode())
    see(sorted(text for _, text in found), [b"0", b"1", b"2", b"3"])
    see({reader for reader, _ in found}, {one, other})
    s.leave(one, other)
    sender.send(topic, b"away")
    one = s.client()
    one.subscribe(queue, *lines)
    see(one.read(), b"away")


def exchanges(s: Scene) -> None:
    """An exchange gives to whoever has bound to it."""
    client = s.client()
    client.subscribe(f"/exchange/amq.topic/{s.name('a')}")
    client.send(s.topic("a"), b"1")
    client.subscribe(s.queue("end"), id="2")
    client.send(s.queue("end"), b"end")
    see(client.read(), b"1")


def existing(s: Scene) -> None:
    """A SEND that does not make the queue comes to it."""
    client = s.client()
    client.subscribe(s.queue("a"))
    client.send(f"/amq{s.queue('a')}", b"1")
    client.send(s.queue("a"), b"end")
    see(client.read(), b"1")


def requests(s: Scene) -> None:
    """Two clients with the same name for replies read their own; a late reply troubles nobody."""
    _requests(s, "/temp-queue/me")


def topic_requests(s: Scene) -> None:
    """The same with a temporary topic."""
    _requests(s, "/temp-topic/me")


def _requests(s: Scene, own: str) -> None:
    worker, askers = s.client(), [s.client(), s.client()]
    worker.subscribe(s.queue("work"))
    for number, client in enumerate(askers):
        if s.clients != RABBITMQ:
            client.subscribe(own, id="replies")
        client.send(s.queue("work"), b"%d" % number, f"reply-to:{own}")
    asked = [worker.message(), worker.message()]
    places = [decoded(headers(each)[b"reply-to"].decode()) for each in asked]
    for message, place in zip(reversed(asked), reversed(places), strict=True):
        worker.send(place, b"for " + body(message))
    for number, client in enumerate(askers):
        reply = client.message()
        see(body(reply), b"for %d" % number)
        if s.clients != RABBITMQ:
            see(headers(reply)[b"destination"], own.encode())
    s.leave(askers[0])
    worker.send(places[0], b"late")
    worker.send(places[1], b"in time")
    see(askers[1].read(), b"in time")


def advisories(s: Scene) -> None:
    """The subscription is made."""
    s.client().subscribe("/topic/ActiveMQ.Advisory.Connection")


def reply_to(s: Scene) -> None:
    """A worker reads the name that the client wrote, and can answer there."""
    replies = s.queue(s.of("a/b", "a/b", "a%2Fb"))
    worker, client = s.client(), s.client()
    worker.subscribe(s.queue("work"))
    client.subscribe(replies)
    client.send(s.queue("work"), b"1", f"reply-to:{replies}")
    place = decoded(headers(worker.message())[b"reply-to"].decode())
    see(place, replies)
    worker.send(place, b"reply")
    see(client.read(), b"reply")


def foreign_replies(s: Scene) -> None:
    """It comes as it was sent."""
    client = s.client()
    client.subscribe(s.queue("work"))
    client.send(s.queue("work"), b"1", "reply-to:https://a.example/b")
    see(decoded(headers(client.message())[b"reply-to"].decode()), "https://a.example/b")


# Messages


def expiry(s: Scene) -> None:
    """What has expired does not come; what has not comes with the client's header."""
    client, place = s.client(), s.queue("q")
    now = int(time.time() * 1000)
    client.send(place, b"old", s.of(f"expires:{now + 50}", f"expires:{now + 50}", "expiration:50"))
    wait_until(lambda: time.time() * 1000 > now + 200)
    now = int(time.time() * 1000)
    client.send(place, b"new", s.of(f"expires:{now + 60_000}", f"expires:{now + 60_000}", "expiration:60000"))
    client.subscribe(place)
    message = client.message()
    see(body(message), b"new")
    name, wanted = (b"expiration", 60_000) if s.clients == RABBITMQ else (b"expires", now + 60_000)
    see(abs(int(headers(message)[name]) - wanted) < 5_000)


def expired(s: Scene) -> None:
    """The next one comes."""
    client, place = s.client(), s.queue("q")
    client.subscribe(place)
    client.send(place, b"old", "expires:1000")
    client.send(place, b"new")
    see(client.read(), b"new")


def persistent(s: Scene) -> None:
    """A MESSAGE says it."""
    client = s.client()
    # Artemis often closes without a RECEIPT of DISCONNECT when it settles a persistent message by itself.
    client.subscribe(s.queue("q"), "ack:client-individual")
    client.send(s.queue("q"), b"1", "persistent:true")
    message = client.message()
    see(headers(message)[b"persistent"], b"true")
    client.settle(message)


def priority(s: Scene) -> None:
    """A MESSAGE says it; for clients of Artemis it also counts."""
    client = s.client()
    client.send(s.queue("q"), b"low", "priority:1")
    client.send(s.queue("q"), b"high", "priority:9")
    client.subscribe(s.queue("q"))
    messages = [client.message(), client.message()]
    see(sorted(headers(each)[b"priority"] for each in messages), [b"1", b"9"])
    if s.clients == ARTEMIS:
        see(body(messages[0]), b"high")


def timestamp(s: Scene) -> None:
    """The sender's comes back; at Artemis it is the broker's."""
    client = s.client()
    client.subscribe(s.queue("q"))
    client.send(s.queue("q"), b"1", *([] if s.clients == ARTEMIS else ["timestamp:5"]))
    found = headers(client.message()).get(b"timestamp", b"0")
    see(abs(int(found) - time.time() * 1000) < 5000 if s.clients == ARTEMIS else found == b"5")


def other_headers(s: Scene) -> None:
    """They come as they were sent."""
    client, lines = s.client(), ["correlation-id:c", "type:t", "foo:bar"]
    client.subscribe(s.queue("q"))
    client.send(s.queue("q"), b"1", *lines)
    found = headers(client.message())
    see([f"{name}:{found[name.encode()].decode()}" for name in ("correlation-id", "type", "foo")], lines)


def unsaid(s: Scene) -> None:
    """Of these headers a MESSAGE has those that it has at home; more do not matter to clients of RabbitMQ."""
    client, names = s.client(), ["expires", "persistent", "priority", "redelivered", "timestamp"]
    client.subscribe(s.queue("q"))
    client.send(s.queue("q"), b"1")
    found = headers(client.message())
    if s.clients == RABBITMQ:
        see((found.get(b"redelivered"), found.get(b"content-length")), (b"false", b"1"))
        return
    home = {"expires", "priority", "timestamp"} if s.clients == ACTIVEMQ else {*names}
    see({each for each in names if each.encode() in found}, home)


def asked(s: Scene) -> None:
    """A MESSAGE has its sender's receipt, except at ActiveMQ."""
    client = s.client()
    client.subscribe(s.queue("q"))
    client.send(s.queue("q"), b"1")
    see(b"receipt" in headers(client.message()), s.clients != ACTIVEMQ)


def raw_colons(s: Scene) -> None:
    """They come as they were sent, except at Artemis."""
    client, place = s.client(), s.queue("q")
    client.subscribe(place)
    wire = f"SEND\ndestination:{place}\nat:http://a\n\n1\0".encode()
    client.written += wire
    client.write(wire)
    found = decoded(headers(client.message())[b"at"].decode())
    see(found, "http//a" if s.clients == ARTEMIS else "http://a")


def transformations(s: Scene) -> None:
    """The message comes."""
    client = s.client()
    client.subscribe(s.queue("q"))
    client.send(s.queue("q"), b"{}", "transformation:jms-map-json")
    client.read()


def large_body(s: Scene) -> None:
    """It comes as it was sent."""
    client, text = s.client(), b"\0" + bytes(range(256)) * 4096
    client.subscribe(s.queue("q"))
    client.send(s.queue("q"), text)
    see(client.read() == text)


def delays(s: Scene) -> None:
    """It comes behind one that was sent later."""
    client = s.client()
    client.subscribe(s.queue("q"))
    client.send(s.queue("q"), b"later", "AMQ_SCHEDULED_DELAY:200")
    client.send(s.queue("q"), b"now")
    see([client.read(), client.read()], [b"now", b"later"])


def scheduled(s: Scene) -> None:
    """It comes behind one that was sent later."""
    client = s.client()
    client.subscribe(s.queue("q"))
    client.send(s.queue("q"), b"later", f"AMQ_SCHEDULED_TIME:{int(time.time() * 1000) + 500}")
    client.send(s.queue("q"), b"now")
    see([client.read(), client.read()], [b"now", b"later"])


def schedules(s: Scene) -> None:
    """It comes twice."""
    client = s.client()
    client.subscribe(s.queue("q"))
    client.send(s.queue("q"), b"1", "AMQ_SCHEDULED_REPEAT:1", "AMQ_SCHEDULED_PERIOD:10")
    see(client.read(), b"1")
    client.send(s.queue("q"), b"end")
    see(client.read(), b"1")


def groups(s: Scene) -> None:
    """One consumer gets all of a group."""
    workers = [s.client(), s.client()]
    for worker in workers:
        worker.subscribe(s.queue("q"))
    for _ in range(4):
        workers[0].send(s.queue("q"), b"1", "JMSXGroupID:g")
    readers = set()
    for _ in range(4):
        readers.add(reader := who_reads(*workers))
        workers[reader].read()
    see(len(readers), 1)


def selectors(s: Scene) -> None:
    """Only what fits comes, and text is compared as a number."""
    client = s.client()
    client.subscribe(
        s.topic("t"), s.of("selector:price > 10", "selector:convert_string_expressions:price > 10", "")
    )
    for price in (9, 100):
        client.send(s.topic("t"), b"%d" % price, f"price:{price}")
    see(client.read(), b"100")


def selected(s: Scene) -> None:
    """Only what fits comes."""
    client = s.client()
    converts = "selector:convert_string_expressions:"
    client.subscribe(s.queue("q"), s.of("selector:JMSPriority > 5", f"{converts}AMQPriority > 5", ""))
    for number in (1, 9):
        client.send(s.queue("q"), b"%d" % number, f"priority:{number}")
    see(client.read(), b"9")


def hyphens(s: Scene) -> None:
    """Only what fits comes."""
    s.client().subscribe(s.queue("q"), "selector:hyphenated_props:a-b = 'c'")


def prefetch(s: Scene) -> None:
    """A consumer that has one gets no second one: another consumer gets it."""
    one, other, place = s.client(), s.client(), s.queue("q")
    for number in range(3):
        one.send(place, b"%d" % number + b" " * 1500)
    words = s.of("activemq.prefetchSize:1", "consumer-window-size:1024", "prefetch-count:1")
    one.subscribe(place, "ack:client-individual", words)
    first = one.message()
    other.subscribe(place, "ack:client-individual", words)
    see(who_reads(one, other), 1)
    other.settle(other.message())
    see(who_reads(one, other), 1)
    one.settle(first)


def durable(s: Scene) -> None:
    """What came while the client was away comes when it is back; its words are those of each product."""
    sender = s.client()
    lines = _durable(s)
    for text in (b"here", b"away"):
        client = s.client(*s.of(f"client-id:{s.own}", f"client-id:{s.own}", "").split())
        client.subscribe(s.topic("t"), *lines)
        if text == b"here":
            sender.send(s.topic("t"), text)
        see(client.read(), text)
        s.leave(client)
        if text == b"here":
            sender.send(s.topic("t"), b"away")


def durable_end(s: Scene) -> None:
    """When the client has ended it, nothing is kept; what another one sends meanwhile is not delivered."""
    connect = s.of(f"client-id:{s.own}", f"client-id:{s.own}", "").split()
    lines, client, sender = _durable(s), s.client(*connect), s.client()
    client.subscribe(s.topic("t"), *lines)
    if s.clients == ACTIVEMQ:
        client.ask("UNSUBSCRIBE", "id:1")
    client.ask("UNSUBSCRIBE", "id:1", *lines)
    s.leave(client)
    sender.send(s.topic("t"), b"away")
    client = s.client(*connect)
    client.subscribe(s.topic("t"), *lines)
    sender.send(s.topic("t"), b"back")
    see(client.read(), b"back")


def durable_end_later(s: Scene) -> None:
    """It is not there for the next consumer."""
    connect, lines, sender = f"client-id:{s.own}", _durable(s), s.client()
    client = s.client(connect)
    client.subscribe(s.topic("t"), *lines)
    s.leave(client)
    client = s.client(connect)
    client.ask("UNSUBSCRIBE", "id:1", *lines)
    s.leave(client)
    sender.send(s.topic("t"), b"away")
    client = s.client(connect)
    client.subscribe(s.topic("t"), *lines)
    sender.send(s.topic("t"), b"back")
    see(client.read(), b"back")


def durable_queue(s: Scene) -> None:
    """At ActiveMQ it is answered by an ERROR."""
    client = s.client(*s.of(f"client-id:{s.own}", f"client-id:{s.own}", "").split())
    with _ended(client, s.clients == ACTIVEMQ):
        client.subscribe(s.queue("q"), *_durable(s))
        client.send(s.queue("q"), b"1")
        see(client.read(), b"1")


def durable_twice(s: Scene) -> None:
    """At ActiveMQ it is answered by an ERROR."""
    client, lines = s.client(f"client-id:{s.own}"), _durable(s)
    client.subscribe(s.topic("t"), *lines)
    with _ended(client, s.clients == ACTIVEMQ):
        client.subscribe(s.topic("t"), *lines, id="2")


def _durable(s: Scene) -> list[str]:
    """The lines of a durable subscription."""
    return s.of(
        "activemq.subscriptionName:s", "durable-subscription-name:s", "durable:true auto-delete:false"
    ).split()


def user(s: Scene) -> None:
    """It comes as it was sent."""
    client = s.client()
    client.subscribe(s.queue("q"))
    client.send(s.queue("q"), b"1", "user-id:guest")
    see(headers(client.message()).get(b"user-id"), b"guest")


# Consumers


def no_local(s: Scene) -> None:
    """The client reads what another one sent, and not its own."""
    client, other = s.client(), s.client()
    client.subscribe(s.topic("t"), s.of("activemq.noLocal:true", "no-local:true", ""))
    client.send(s.topic("t"), b"own")
    other.send(s.topic("t"), b"other")
    see(client.read(), b"other")


def consumer_priority(s: Scene) -> None:
    """The consumer with priority gets all, or nearly all: now and then ActiveMQ gives another one the first message."""
    workers = [s.client(), s.client()]
    workers[0].subscribe(s.queue("q"))
    workers[1].subscribe(s.queue("q"), s.of("activemq.priority:10", "", "x-priority:10"))
    found = []
    for _ in range(8):
        workers[0].send(s.queue("q"), b"1")
        found.append(who_reads(*workers))
        workers[found[-1]].read()
    see(sum(found) >= 7)


def exclusive(s: Scene) -> None:
    """The first consumer gets all."""
    workers = [s.client(), s.client()]
    for worker in workers:
        worker.subscribe(s.queue("q"), "activemq.exclusive:true")
    for _ in range(4):
        workers[0].send(s.queue("q"), b"1")
        see(who_reads(*workers), 0)
        workers[0].read()


def browsers(s: Scene) -> None:
    """What was looked at stays."""
    client = s.client()
    client.send(s.queue("q"), b"1")
    client.subscribe(s.queue("q"), "browser:true")
    see(client.read(), b"1")
    client.ask("UNSUBSCRIBE", "id:1")
    client.send(s.queue("q"), b"2")
    client.subscribe(s.queue("q"), id="2")
    see(client.read(), b"1")


def retroactive(s: Scene) -> None:
    """A subscription that asks for it is made."""
    client = s.client()
    client.subscribe(s.topic("t"), "activemq.retroactive:true")
    client.send(s.topic("t"), b"1")
    see(client.read(), b"1")


def arguments(s: Scene) -> None:
    """A queue with an argument is made."""
    client = s.client()
    client.send(s.queue("q"), b"1", "x-max-length:5")
    client.subscribe(s.queue("q"), "x-max-length:5")
    see(client.read(), b"1")


def quorum(s: Scene) -> None:
    """The queue is one, so RabbitMQ refuses to take it for a classic one; a MESSAGE says nothing of it."""
    client, place = s.client(), s.queue("q")
    lines = ["x-queue-type:quorum"] if s.clients == RABBITMQ else []
    client.send(place, b"1", *lines)
    client.subscribe(place, *lines)
    message = client.message()
    with s.direct() as other, contextlib.suppress(Refused):
        other.subscribe(place)
        raise Otherwise("the queue is not a quorum queue")
    see(b"x-queue-type" in headers(message), bool(lines))


# ACK, NACK and transactions


def _nacked(s: Scene, *sent: str) -> tuple[Client, str]:
    """A NACK of a message, with the next one behind it."""
    client, place = s.client(), s.queue("q")
    client.subscribe(place, "ack:client-individual")
    client.send(place, b"bad", *sent)
    message = client.message()
    client.settle(message, *s.of("", "", "requeue:false").split(), command="NACK")
    client.send(place, b"next")
    return client, place


def nack_dead(s: Scene) -> None:
    """It is put aside, and the next one comes."""
    with s.direct() as reader:
        reader.subscribe("/queue/dead" if s.broker == RABBITMQ else "/queue/ActiveMQ.DLQ")
        client, place = _nacked(s, "persistent:true")
        see(client.read(), b"next")
        found = reader.message()
        origin = b"x-first-death-queue" if s.broker == RABBITMQ else b"original-destination"
        see((body(found), headers(found)[origin].decode().removeprefix("/queue/")), (b"bad", place[7:]))


def nack_back(s: Scene) -> None:
    """It comes again, and says so."""
    client, place = s.client(), s.queue("q")
    client.subscribe(place, "ack:client-individual")
    client.send(place, b"bad")
    client.settle(client.message(), command="NACK")
    client.send(place, b"next")
    again = client.message()
    see((body(again), headers(again)[b"redelivered"]), (b"bad", b"true"))


def nack_gone(s: Scene) -> None:
    """It does not come again, also not to a later client."""
    client, place = _nacked(s)
    client.settle(client.message())
    s.leave(client)
    client = s.client()
    client.subscribe(place)
    client.send(place, b"last")
    see(client.read(), b"last")


def nack_several(s: Scene) -> None:
    """A NACK of the second message is also one of the first."""
    client, place = s.client(), s.queue("q")
    client.subscribe(place, "ack:client")
    client.send(place, b"1")
    client.send(place, b"2")
    client.read()
    client.settle(client.message(), command="NACK")
    s.leave(client)
    client = s.client()
    client.subscribe(place)
    client.send(place, b"last")
    see(client.read(), b"last")


def prefetch_in_transaction(s: Scene) -> None:
    """At ActiveMQ the next message comes to the consumer, at RabbitMQ to another one."""
    one, other, place = s.client(), s.client(), s.queue("q")
    words = s.of("activemq.prefetchSize:1", "", "prefetch-count:1")
    one.send(place, b"1")
    one.send(place, b"2")
    one.subscribe(place, "ack:client-individual", words)
    one.ask("BEGIN", "transaction:t")
    one.settle(one.message(), "transaction:t")
    other.subscribe(place, words)
    see(who_reads(one, other), int(s.clients == RABBITMQ))


def ack_in_transaction(s: Scene) -> None:
    """After ABORT the message comes to the next consumer, except at Artemis."""
    client, place = s.client(), s.queue("q")
    client.send(place, b"1")
    client.subscribe(place, "ack:client-individual")
    client.ask("BEGIN", "transaction:t")
    client.settle(client.message(), "transaction:t")
    client.ask("ABORT", "transaction:t")
    s.leave(client)
    client = s.client()
    client.subscribe(place)
    client.send(place, b"2")
    see(client.read(), b"2" if s.clients == ARTEMIS else b"1")


def transaction(s: Scene) -> None:
    """What was committed comes, what was aborted does not."""
    client, place = s.client(), s.queue("q")
    client.subscribe(place)
    for end in ("ABORT", "COMMIT"):
        client.ask("BEGIN", "transaction:t")
        client.say("SEND", f"destination:{place}", "transaction:t", body=end.encode())
        client.ask(end, "transaction:t")
    see(client.read(), b"COMMIT")


def receipt_in_transaction(s: Scene) -> None:
    """At RabbitMQ it comes after that of COMMIT, elsewhere before."""
    client = s.client()
    client.ask("BEGIN", "transaction:t")
    sent = client.ask_later("SEND", f"destination:{s.queue('q')}", "transaction:t")
    committed = client.ask_later("COMMIT", "transaction:t")
    found = [client.receipt(), client.receipt()]
    see(found == [committed, sent], s.clients == RABBITMQ)


def cumulative(s: Scene) -> None:
    """An ACK settles the earlier messages, and not the later ones."""
    client, place = s.client(), s.queue("q")
    client.subscribe(place, "ack:client")
    for number in range(3):
        client.send(place, b"%d" % number)
    messages = [client.message() for _ in range(3)]
    client.settle(messages[1])
    s.leave(client)
    client = s.client()
    client.subscribe(place)
    see(client.read(), b"2")


def cumulative_several(s: Scene) -> None:
    """At RabbitMQ an ACK settles what other subscriptions got before, elsewhere not."""
    client, places = s.client(), [s.queue("a"), s.queue("b")]
    for number, place in enumerate(places):
        client.subscribe(place, "ack:client", id=str(number))
        client.send(place, b"%d" % number)
        message = client.message()
    client.settle(message)
    s.leave(client)
    client = s.client()
    client.subscribe(places[0])
    client.send(places[0], b"next")
    see(client.read(), b"next" if s.clients == RABBITMQ else b"0")


def redelivered(s: Scene) -> None:
    """Messages that were not acknowledged come again, and say so; at Artemis it is enough if the first does."""
    client, place = s.client(), s.queue("q")
    client.send(place, b"1")
    client.send(place, b"2")
    client.subscribe(place, "ack:client-individual")
    see([client.read(), client.read()], [b"1", b"2"])
    s.leave(client)
    client = s.client()
    client.subscribe(place)
    found = [client.message(), client.message()]
    see([*map(body, found)], [b"1", b"2"])
    for message in found[: 1 if s.clients == ARTEMIS else None]:
        see(headers(message).get(b"redelivered"), b"true")


# CONNECT


def host(s: Scene) -> None:
    """A client of RabbitMQ names a virtual host that is there; others may say anything."""
    with _ended(None, s.clients == RABBITMQ):
        s.client("host:anything")


def passcode(s: Scene) -> None:
    """It is answered by an ERROR."""
    with pytest.raises(Refused):
        s.client(passcode="wrong")


def same_client(s: Scene) -> None:
    """At ActiveMQ it is answered by an ERROR."""
    s.client(f"client-id:{s.own}")
    with _ended(None, s.clients == ACTIVEMQ):
        s.client(f"client-id:{s.own}")


def same_id(s: Scene) -> None:
    """At ActiveMQ there are two subscriptions, elsewhere it is answered by an ERROR."""
    client = s.client()
    client.subscribe(s.queue("a"))
    with _ended(client, s.clients != ACTIVEMQ):
        client.subscribe(s.queue("b"))


def other_mode(s: Scene) -> None:
    """At RabbitMQ it is answered by an ERROR."""
    client = s.client()
    with _ended(client, s.clients == RABBITMQ):
        client.subscribe(s.queue("q"), "ack:other")


def begin_twice(s: Scene) -> None:
    """Except at RabbitMQ it is answered by an ERROR."""
    client = s.client()
    client.ask("BEGIN", "transaction:t")
    with _ended(client, s.clients != RABBITMQ):
        client.ask("BEGIN", "transaction:t")


def no_id(s: Scene) -> None:
    """At ActiveMQ it is answered by an ERROR."""
    client = s.client()
    with _ended(client, s.clients == ACTIVEMQ):
        client.ask("SUBSCRIBE", f"destination:{s.queue('q')}")


def errors(s: Scene) -> None:
    """At ActiveMQ the ERROR for a frame with a receipt names it."""
    client = s.client()
    try:
        client.ask("SUBSCRIBE", "id:1", "destination:")
    except Refused as error:
        client.close()
        see("receipt-id" in str(error), s.clients == ACTIVEMQ)


@contextlib.contextmanager
def _ended(client: Client | None, ends: bool) -> Iterator[None]:
    """An ERROR comes within if it `ends`; the client is closed then."""
    try:
        yield
    except Refused:
        if not ends:
            raise
        if client is not None:
            client.close()
    else:
        see(ends, False)


_SCENES: tuple[Callable[[Scene], None], ...] = (
    *(other_prefix, reserved, topic_requests, advisories, expired, unsaid, asked, raw_colons),
    *(transformations, nack_several, prefetch_in_transaction, same_id, no_id, errors, durable_queue, options),
    durable_end_later,
    *(selected, hyphens, scheduled, same_client, durable_twice, other_mode, begin_twice),
    *(slash, plain, rest, word, all_topics, queue_wildcards, composite, shared, exchanges, existing),
    *(
        requests,
        reply_to,
        foreign_replies,
        expiry,
        persistent,
        priority,
        timestamp,
        other_headers,
        large_body,
        delays,
    ),
    *(schedules, groups, selectors, prefetch, durable, durable_end, user, no_local, consumer_priority),
    *(exclusive, browsers, retroactive, arguments, quorum, nack_dead, nack_back, nack_gone),
    *(ack_in_transaction, transaction, receipt_in_transaction, cumulative, cumulative_several, redelivered),
    *(host, passcode),
)
SCENES = {each.__name__: each for each in _SCENES}
"""The scenes by the names that rows have."""


class Ways:
    """A relay to a broker, with a listener for each product of clients and each setting that a cell names."""

    def __init__(self, ports: dict[tuple[str, str], int], proxy: Proxy, direct: int) -> None:
        self._ports = ports
        self._proxy = proxy
        self._direct = direct

    def play(
        self,
        scene: Callable[[Scene], None],
        clients: str,
        broker: str,
        setting: str,
        patience: float = PATIENCE,
    ) -> tuple[str, str]:
        """Play a scene to its end, and return what clients have said and what the broker has read: the header lines of
        the frames that a map may change, without what names this scene. Raises `Refused` or `Otherwise`.
        """
        played = Scene(clients, broker, self._ports[clients, setting], self._direct, patience)
        start = len(self._proxy.said)
        try:
            scene(played)
            played.leave()
        finally:
            for each in played._made:
                each.close()
        read = b"".join(map(bytes, self._proxy.said[start:]))
        return _shown(played.written, played.own), _shown(read, played.own)

    def judged(
        self,
        scene: Callable[[Scene], None],
        clients: str,
        broker: str,
        setting: str = "",
        patience: float = PATIENCE,
    ) -> tuple[str, str, str]:
        """Play a scene. Return an empty word, what clients have said and what the broker has read; or `REFUSED` or
        `OTHERWISE`, and why.
        """
        try:
            return "", *self.play(scene, clients, broker, setting, patience)
        except Refused as error:
            return pairs.REFUSED, str(error), ""
        except Otherwise as error:
            return pairs.OTHERWISE, str(error), ""
        except TimeoutError:
            if patience == PATIENCE:
                raise
            return pairs.OTHERWISE, "nothing came", ""


def _shown(data: bytes, own: str) -> str:
    found = sorted((command.decode(), *sorted(lines)) for command, lines, _ in frames(data))
    return "\n".join("\n".join(each) for each in found).replace(f"{own}.", "")


def settings(cell: str) -> str:
    """Return the setting of a cell: what was chosen, or what is to be ignored."""
    word, _, text = cell.partition(":")
    found = pairs.quoted(text)
    if word == pairs.REFUSED and found:
        return f"map.ignore = {found!r}".replace("'", '"')
    return "\n".join(found) if word == pairs.CHOSEN else ""


@contextlib.contextmanager
def ways(directory: Path, broker: str, port: int) -> Iterator[Ways]:
    """Run a relay to a broker of a product, at this port of it."""
    asked = {
        (clients, setting): free_port()
        for clients, product in pairs.PAIRS
        if product == broker
        for setting in ("", *{settings(row.cell(clients, broker)) for row in pairs.ROWS})
    } | {("", setting): free_port() for setting in ("", "map.route = false") if broker == ARTEMIS}
    with Proxy(port, record=True) as proxy:
        config = "".join(
            f"{listening(port, f'l{number}', f'upstream = {chr(34)}u{number}{chr(34)}')}"
            f'[upstream.u{number}]\nuri = "tcp://127.0.0.1:{proxy.port}"\nprofile = "{broker}"\n'
            + (f'map.clients = "{clients}"\n' if clients else "")
            + f"{setting}\n"
            for number, ((clients, setting), port) in enumerate(asked.items())
        )
        with relay(directory, config, [*asked.values()]):
            yield Ways(asked, proxy, port)


@pytest.fixture(scope="module")
def way(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, str], Ways]]:
    """Find the relay to a broker, which is started with the first cell."""
    with contextlib.ExitStack() as stack:
        made: dict[str, Ways] = {}

        def find(product: str, place: str) -> Ways:
            if place not in made:
                broker = request.getfixturevalue(place.partition(" ")[0])
                port = broker.shipped_port if "shipped" in place else broker.port
                directory = tmp_path_factory.mktemp("ways")
                made[place] = stack.enter_context(ways(directory, product, port))
            return made[place]

        yield find


CELLS = [
    pytest.param(row, clients, broker, place, id=f"{row.scene}-{clients}-{place.replace(' ', '-')}")
    for clients, broker in pairs.PAIRS
    for place in PLACES[broker]
    for row in pairs.ROWS
    if row.scene
    and row.cell(clients, broker) != pairs.NONE
    and pairs.BY_DOCUMENTS not in row.cell(clients, broker)
]


@pytest.mark.parametrize(("row", "clients", "broker", "place"), CELLS)
def test_a_cell(
    way: Callable[[str, str], Ways], row: pairs.Row, clients: str, broker: str, place: str
) -> None:
    """What a client sees, and what the broker reads, is what the cell says."""
    found, scene, cell = way(broker, place), SCENES[row.scene], row.cell(clients, broker)
    verdict, text = row.verdict(clients, broker), cell.partition(":")[2]
    word, said, read = found.judged(scene, clients, broker)
    if verdict == pairs.CHOSEN:
        assert word
        assert found.judged(scene, clients, broker, settings(cell))[0] == ""
        return
    if word:
        assert word == verdict, said
        if features := pairs.quoted(text if word == pairs.REFUSED else ""):
            assert re.search(f"message:{features[0][:6]}.* not possible at this broker", said)
            word, said, _ = found.judged(scene, clients, broker, settings(cell), patience=0.5)
            assert word != pairs.REFUSED or "not possible at this broker" not in said
        return
    for words in row.said(clients):
        assert words in said
    for line in [] if "-type:" in text else _ROUTING:
        read = re.sub(rf"\n{line}.*", "", read)
    assert (pairs.SAME if said == read else pairs.MAPPED) == verdict, f"{said}\n\n{read}"
    if verdict == pairs.MAPPED:
        for words in pairs.quoted(text) or row.said(broker):
            assert words in read


@pytest.mark.parametrize("place", PLACES[ARTEMIS])
def test_routing_without_a_move(way: Callable[[str, str], Ways], place: str) -> None:
    """Two workers on a queue of Artemis get each message once, and a SEND without a consumer is kept; without `route`
    Artemis as shipped gives each message to both.
    """

    def routed(s: Scene) -> None:
        one, other, queue = s.client(), s.client(), s.queue("q")
        one.send(queue, b"0")
        one.subscribe(queue)
        see(one.read(), b"0")
        other.subscribe(queue)
        for number in range(4):
            one.send(queue, b"%d" % number)
        see(sorted((one, other)[who_reads(one, other)].read() for _ in range(4)), [b"0", b"1", b"2", b"3"])

    def doubled(s: Scene) -> None:
        one, other = s.client(), s.client()
        one.send(s.queue("q"), b"lost")
        for client in (one, other):
            client.subscribe(s.queue("q"))
        one.send(s.queue("q"), b"1")
        see([one.read(), other.read()], [b"1", b"1"])

    found = way(ARTEMIS, place)
    _, read = found.play(routed, "", ARTEMIS, "")
    assert "destination-type:ANYCAST" in read
    found.play(doubled if "shipped" in place else routed, "", ARTEMIS, "map.route = false")


def test_the_page_has_the_cells() -> None:
    """docs/move.md has the tables as they were played: `python -m tests.e2e.pairs` writes them."""
    page = pairs.PAGE.read_text(encoding="utf-8")
    assert pairs.written(page) == page
    assert {row.scene for row in pairs.ROWS} - {""} == set(SCENES)
