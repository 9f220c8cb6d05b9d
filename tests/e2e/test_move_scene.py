"""Twenty clients of five libraries and three versions work, while they are moved from product to product and back.

They are written for ActiveMQ. Each move's NEW is the next one's OLD: when it is done, the relay's configuration is
reloaded with NEW as the listener's upstream, and with the next move. Names of places are those of `Scene.place`.

shop, shop-2               send orders; `picker-1` to `picker-4` compete for them, each with another library
ticker                     sends prices; `board` reads all by a wildcard, `wheat` one topic, `best` by a selector
saver                      has a durable subscription to prices, and is away at each step of the move
asker, caller              send requests, with a temporary queue for the answers, and with a queue; `teller` answers
booker                     sends bookings in transactions, of which it aborts each third; `ledger` reads them
claimer                    sends claims; `judge` refuses each fifth by NACK
herald                     sends notices with priorities that expire, some at once; `crier` reads them
printer                    sends bodies of 1 MB; `binder` reads them
labels                     sends labels that nobody reads until all is over: they are drained from broker to broker
"""

import contextlib
import itertools
import json
import re
import socket
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.e2e.brokers import Broker
from tests.e2e.child import PATIENCE, wait_until
from tests.e2e.clients.client import Client, Frame
from tests.e2e.clients.libraries import Connect, libraries
from tests.e2e.facts import NET_STOMP, PHP_STOMP, STOMP_GEM, STOMP_PY, STOMPEST, LibraryFacts
from tests.e2e.load import descents, drain
from tests.e2e.ports import free_port
from tests.e2e.relay import Admin, Relay, listening, relay, stomprelay
from tests.e2e.talker import Talker

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.broker,
    # Libraries leave sockets open when their connection is refused or lost.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ORDERS: Final = ("next", "next", "next", "back", "next", "next", "back", "next")
"""From `off` to `done`, and back from `new` and from `done`."""
END: Final = b"end"
UNKNOWN: Final = "the outcome of a transaction is unknown"
MEGABYTE: Final = 1_000_000
QUEUES: Final = ("orders", "requests", "answers", "bookings", "claims", "notices", "sheets", "labels")
MARKS: Final = {"redelivered:true", "relay-resent:true", "again:true"}
"""One of two copies says that there may be another; the last mark is the client's own. So does a copy of the phase
`shadow`, by its header `relay-copy`.
"""
FORGETFUL: Final = {"activemq", "artemis"}
"""Brokers that forget what they had delivered when they are killed, and deliver it again without a mark."""
UPSTREAM: Final = """
[upstream.{name}]
uri = "failover:(tcp://127.0.0.1:{port})"
host = "/"
login = "guest"
passcode = "guest"
confirm = true
{more}
"""
MAP: Final = """
[upstream.{name}.map]
clients = "activemq"
ignore = ["selectors"]
nack = {{ artemis = "discard", rabbitmq = "dead-letter" }}
message_size = 1024
headers = [{added}]
"""
ADDED: Final = """\
{{ on = ["SEND", "SUBSCRIBE"], destination = "{claims}", header = "{name}", add = "{value}", product = "rabbitmq" }}"""


class Party(threading.Thread):
    """A client. `count`: what it has achieved. `heard`: the messages that it got. `connected`: how often it connected.
    `troubles`: what must not happen. `planned`: how often it meant to connect again. `unknown`: how often a broker was
    killed between COMMIT and its RECEIPT; then the session ends, as nobody knows what the broker did.
    """

    def __init__(
        self,
        scene: "Scene",
        name: str,
        library: LibraryFacts,
        version: str,
        more: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.scene = scene
        self.library = library
        self.version = version
        self.count = 0
        self.early: list[Frame] = []
        self.heard: list[Frame] = []
        self.connected = 0
        self.planned = 0
        self.unknown = 0
        self.troubles: list[str] = []
        self.over = threading.Event()
        self.client: Client
        self._more = more
        self._connection = scene.find(library)
        scene.parties.append(self)

    def run(self) -> None:
        """Work until it is over; connect again where the relay was killed, and nowhere else."""
        while True:
            era = self.scene.killed
            try:
                self._connect()
                self.work()
                self.client.disconnect()
                return
            except Exception as error:
                why = str(error)
                with contextlib.suppress(Exception):  # an ERROR that it has not read yet
                    if hasattr(self.client, "patience"):
                        self.client.patience = 1.0
                        why += str(self.client.receive())
                with contextlib.suppress(Exception):  # whatever state it is in
                    self.client.drop()
                if era == self.scene.killed:
                    time.sleep(1)  # it may be known later that the relay is dead
                if UNKNOWN in why:
                    self.unknown += 1
                elif era == self.scene.killed:
                    self.troubles.append(f"{self.name}: {type(error).__name__}: {error}")
                    return

    def _connect(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            while not _listens(self.scene.port):
                assert time.monotonic() < deadline
                time.sleep(0.1)
            self.client = self._connection()
            if self._more:
                self.client.more = self._more  # type: ignore[attr-defined]
            try:
                answer = self.client.connect(self.scene.port, self.version, "guest", "guest")
                assert answer.command == "CONNECTED", answer
                break
            except Exception:
                with contextlib.suppress(Exception):  # whatever state it is in
                    self.client.drop()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        self.connected += 1
        self.early.clear()

    def work(self) -> None:
        raise NotImplementedError

    def achieved(self) -> None:
        self.count += 1

    def frame(self, command: str) -> Frame:
        """Return the next frame, which must be this."""
        frame = self.early.pop(0) if self.early else self.client.receive()
        if frame.command != command:
            raise AssertionError(
                f"{frame.command} {dict(frame.headers)} {frame.body[:200]!r} for a {command}"
            )
        return frame

    def confirmed(self, receipt: str) -> None:
        """Wait for a receipt."""
        found = self.frame("RECEIPT").headers["receipt-id"]
        assert found == receipt, f"{found} for {receipt}"


class Sender(Party):
    """Sends one message after the other, each with a receipt. `sent`, `done`: all numbers, and the confirmed ones."""

    def __init__(
        self,
        scene: "Scene",
        name: str,
        library: LibraryFacts,
        version: str,
        place: str,
        headers: Callable[[int], Mapping[str, str]] = lambda number: {},
        *,
        size: int = 0,
        pause: float = 0.05,
    ) -> None:
        super().__init__(scene, name, library, version)
        self.place = place
        self.headers = headers
        self.done: set[bytes] = set()
        self.sent = 0
        self._size = size
        self._pause = pause
        self._again = ""

    def work(self) -> None:
        while not self.over.wait(self._pause):
            body = f"{self.name}:{self.sent}".encode()
            headers = {**self.headers(self.sent), "persistent": "true", "x-wrote": self.place}
            if self._again:
                headers["again"] = "true"
            self._again = "true"
            receipt = f"{self.name}-{self.sent}"
            self.client.send(self.place, body.ljust(self._size, b"\0"), {**headers, "receipt": receipt})
            self.confirmed(receipt)
            self.done.add(body)
            self._again = ""
            self.sent += 1
            self.achieved()


class Booker(Party):
    """Sends three messages in each transaction. `done`: those that were committed; `aborted`: those that were not."""

    def __init__(self, scene: "Scene", name: str, library: LibraryFacts, version: str, place: str) -> None:
        super().__init__(scene, name, library, version)
        self.place = place
        self.done: set[bytes] = set()
        self.aborted: set[bytes] = set()

    def work(self) -> None:
        for number in itertools.count(self.count + 1000 * self.connected):
            if self.over.wait(0.1):
                return
            name = f"t-{number}"
            bodies = [f"{self.name}:{3 * number + part}".encode() for part in range(3)]
            self.client.begin(name, {})
            for body in bodies:
                self.client.send(self.place, body, {"transaction": name, "persistent": "true"})
            if number % 3:
                self.client.commit(name, {"receipt": name})
            else:
                self.aborted |= {*bodies}
                self.client.abort(name, {"receipt": name})
            self.confirmed(name)
            self.done |= {*bodies} if number % 3 else set()
            self.achieved()


class Reader(Party):
    """Reads a place, and acknowledges each message; each `refused`-th it refuses. `named`: the client-id.
    `late`: how many ms after its end the latest message came.
    """

    def __init__(
        self,
        scene: "Scene",
        name: str,
        library: LibraryFacts,
        version: str,
        place: str,
        ack: str = "client-individual",
        *,
        refused: int = 0,
        headers: Mapping[str, str] | None = None,
        named: str = "",
    ) -> None:
        super().__init__(scene, name, library, version, {"client-id": named} if named else {})
        self.place = place
        self.subscribed = False
        self.late = 0.0
        self.nacked: set[bytes] = set()
        self._ack = ack
        self._refused = refused
        self._headers = headers or {}

    def work(self) -> None:
        self.subscribe()
        while (frame := self.frame("MESSAGE")).body != END:
            self.heard.append(self._noted(frame))
            self.late = max(self.late, time.time() * 1000 - float(frame.headers.get("x-until", "inf")))
            self.took(frame)
            self.achieved()
        if self._ack != "auto":
            self.client.ack(frame, {})

    def _noted(self, frame: Frame) -> Frame:
        """Return the frame with notes who got it, and when."""
        return replace(frame, headers={**frame.headers, "by": self.name, "came": time.strftime("%X")})

    def subscribe(self) -> None:
        """Subscribe, and wait for the receipt."""
        headers = {"id": "1", "ack": self._ack, **self._headers}
        if self.library.takes_receipts_itself:
            self.client.subscribe(self.place, headers)
        else:
            self.client.subscribe(self.place, {**headers, "receipt": "subscribed"})
            while (frame := self.client.receive()).command == "MESSAGE":
                self.early.append(frame)
            assert frame.command == "RECEIPT", frame
        self.subscribed = True

    def took(self, frame: Frame) -> None:
        """Do what is to be done with a message."""
        if self._refused and not number_of(frame.body) % self._refused:
            self.nacked.add(frame.body)
            self.client.nack(frame, {})
        elif self._ack != "auto":
            self.client.ack(frame, {})


class Saver(Reader):
    """A durable subscriber that is there while `Scene.here` is set."""

    ended = False

    def run(self) -> None:
        while not self.over.is_set():
            self.scene.here.wait()
            super().run()
            if self.troubles or (self.heard and self.ended):
                return
            self.planned += 1

    def work(self) -> None:
        self.subscribe()
        while self.scene.here.is_set():
            frame = self.frame("MESSAGE")
            if frame.body == END:
                self.ended = True
                self.client.ack(frame, {})
                return
            self.heard.append(self._noted(frame))
            self.took(frame)
            self.achieved()


class Teller(Reader):
    """Answers requests. `gone`: how many answers came too late, because a temporary queue ends with the connection to
    the broker that made it, and a kill of either side ends that.
    """

    gone = 0

    def frame(self, command: str) -> Frame:
        while True:
            try:
                return super().frame(command)
            except AssertionError as error:
                if not re.search("temp-queue://.* does not exist", str(error)):
                    raise
                self.gone += 1

    def took(self, frame: Frame) -> None:
        number = frame.headers["correlation-id"]
        self.client.send(frame.headers["reply-to"], b"answer to " + frame.body, {"correlation-id": number})
        super().took(frame)


class Asker(Party):
    """Asks, and waits for the answer. `repeated`: requests that it had to ask again, because no answer came."""

    def __init__(
        self, scene: "Scene", name: str, library: LibraryFacts, version: str, place: str, answers: str
    ) -> None:
        super().__init__(scene, name, library, version)
        self.place = place
        self.answers = answers
        self.repeated = 0

    def work(self) -> None:
        ack = "auto"
        self.client.subscribe(self.answers, {"id": "1", "ack": ack})
        if hasattr(self.client, "patience"):
            self.client.patience = 5.0
        while not self.over.wait(0.1):
            number = str(self.count)
            body = f"{self.name}:{number}".encode()
            headers = {"reply-to": self.answers, "correlation-id": number, "persistent": "true"}
            self.client.send(self.place, body, headers)
            while True:
                try:
                    frame = self.frame("MESSAGE")
                except TimeoutError:
                    self.repeated += 1
                    break
                self.heard.append(frame)
                if frame.headers["correlation-id"] == number:
                    self.achieved()
                    break


def _listens(port: int) -> bool:
    """Tell whether a relay is there: libraries do not like it if there is none."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def number_of(body: bytes) -> int:
    """Return a message's number in its producer's order."""
    return int(body.rstrip(b"\0").partition(b":")[2])


def product(frame: Frame) -> str:
    """Return the product of the broker that sent a message: its ids have a form of their own."""
    id = frame.headers["message-id"]
    return "activemq" if id.startswith("ID:") else "rabbitmq" if id.startswith("T_") else "artemis"


class Scene:
    """The clients before a relay. `killed`: how often the relay was. `here`: durable subscribers are to be there."""

    def __init__(
        self, directory: Path, find: Callable[[LibraryFacts], Connect], way: Sequence[Broker]
    ) -> None:
        self.find = find
        self.way = way
        self.port, self.admin = free_port(), Admin(free_port())
        self.parties: list[Party] = []
        self.killed = 0
        self.here = threading.Event()
        self.here.set()
        self.own = f"scene-{uuid.uuid4().hex[:8]}"
        self.log: list[str] = []
        self._directory = directory
        self._stack = contextlib.ExitStack()
        self._leg = 0
        for broker in way:
            if broker.name == "rabbitmq":  # what goes to a queue that is not there is dropped
                with Talker.at(broker.port) as talker:
                    talker.send(f"/queue/{self.own}.dead", b"made")
        self.running = self._begin()
        self._people()

    def place(self, name: str) -> str:
        """Return a queue of this scene, as clients spell it."""
        between = (
            "." if name == "claims" else "/"
        )  # RabbitMQ knows no slash in the name of a queue that is there
        return f"/queue/{self.own}{between}{name}"

    def topic(self, name: str) -> str:
        return f"/topic/{self.own}.{name}"

    def say(self, text: str) -> None:
        """Print a line of what happens."""
        print(f"{time.strftime('%X')} {text}", flush=True)
        self.log.append(text)

    # The clients

    def _people(self) -> None:
        orders, prices = self.place("orders"), self.topic("prices.wheat")
        self.orders = [
            Sender(self, "shop", STOMP_PY, "1.2", orders),
            Sender(self, "shop-2", STOMP_GEM, "1.1", orders),
        ]
        self.pickers = [
            Reader(self, "picker-1", STOMP_GEM, "1.2", orders),
            Reader(self, "picker-2", NET_STOMP, "1.0", orders, "client"),
            Reader(self, "picker-3", STOMPEST, "1.1", orders, "client"),
            Reader(self, "picker-4", PHP_STOMP, "1.0", orders, "client"),
        ]
        self.ticker = Sender(self, "ticker", STOMPEST, "1.2", prices, _price)
        self.board = Reader(self, "board", STOMP_PY, "1.1", self.topic("prices.>"), "auto")
        self.wheat = Reader(self, "wheat", NET_STOMP, "1.0", prices, "auto")
        self.best = Reader(self, "best", STOMPEST, "1.1", prices, "auto", headers={"selector": "grade = 'a'"})
        durable = {"activemq.subscriptionName": "prices"}
        self.saver = Saver(self, "saver", STOMP_PY, "1.2", prices, headers=durable, named=f"{self.own}-saver")
        requests = self.place("requests")
        self.askers = [
            Asker(self, "asker", STOMP_PY, "1.2", requests, "/temp-queue/answers"),
            Asker(self, "caller", STOMP_PY, "1.0", requests, self.place("answers")),
        ]
        self.teller = Teller(self, "teller", STOMP_GEM, "1.2", requests)
        self.booker = Booker(self, "booker", STOMP_PY, "1.1", self.place("bookings"))
        self.ledger = Reader(self, "ledger", STOMPEST, "1.2", self.place("bookings"), "client")
        self.claimer = Sender(self, "claimer", STOMP_GEM, "1.1", self.place("claims"))
        self.judge = Reader(self, "judge", STOMP_PY, "1.2", self.place("claims"), refused=5)
        self.herald = Sender(self, "herald", STOMP_PY, "1.2", self.place("notices"), _notice)
        self.crier = Reader(self, "crier", NET_STOMP, "1.0", self.place("notices"), "client")
        self.printer = Sender(
            self, "printer", STOMPEST, "1.1", self.place("sheets"), size=MEGABYTE, pause=0.5
        )
        self.binder = Reader(self, "binder", STOMP_GEM, "1.2", self.place("sheets"), "client")
        self.labels = Sender(self, "labels", STOMP_PY, "1.2", self.place("labels"), pause=0.2)

    # The relay

    def _config(self) -> str:
        dead = [
            ADDED.format(claims=self.place("claims"), name=f"x-dead-letter-{name}", value=value)
            for name, value in (("exchange", ""), ("routing-key", f"{self.own}.dead"))
        ]
        upstreams = [
            UPSTREAM.format(
                name=each.name,
                port=each.port,
                more=MAP.format(name=each.name, added=", ".join(dead)),
            )
            for each in dict.fromkeys(self.way)
        ]
        old, *new = self.way[self._leg : self._leg + 2]
        moves = [f'[move.leg-{self._leg}]\nprefix = "/"\nto = "{each.name}"\n' for each in new]
        return "\n".join(
            [
                f'admin = "tcp:{self.admin.port}:interface=127.0.0.1"',
                f'moves_file = "{self._directory / "moves.json"}"',
                listening(self.port, more=f'upstream = "{old.name}"'),
                *upstreams,
                *moves,
            ]
        )

    def _begin(self) -> Relay:
        ports = [self.port, self.admin.port]
        return self._stack.enter_context(relay(self._directory, self._config(), ports))

    def next_leg(self) -> None:
        """NEW becomes the listener's upstream: the configuration is reloaded with the next move, if there is one."""
        self._leg += 1
        line = self.running.reload(self._config())
        assert "not reloaded" not in line, line

    def start(self) -> None:
        """All clients begin."""
        readers = [each for each in self.parties if isinstance(each, Reader)]
        for parties in (readers, [each for each in self.parties if each not in readers]):
            for each in parties:
                each.start()
            wait_until(
                lambda: all(each.subscribed for each in readers),
                lambda: str([each.troubles for each in readers]),
            )
        self.all_flow()

    def close(self) -> None:
        """End what still runs."""
        for each in self.parties:
            each.over.set()
        self._stack.close()

    def kill_relay(self) -> None:
        """SIGKILL, and another relay at the same ports."""
        self.say("    SIGKILL: the relay")
        self.killed += 1
        self.running.kill()
        self.running = self._begin()

    def kill(self, broker: Broker) -> None:
        """SIGKILL, and the same broker again."""
        self.say(f"    SIGKILL: {broker.name}")
        broker.kill()
        broker.start()
        broker.wait_until_up()

    def status(self) -> dict[str, Any]:
        [move] = self.admin.told("/moves")["moves"]
        return dict(move)

    def order(self, order: str) -> None:
        """An operator gives an order, while durable subscribers are away, and all follow."""
        name = f"leg-{self._leg}"
        self.here.clear()
        time.sleep(0.3)
        self.operator("move", order, name, "--admin", self.admin.url)
        self.here.set()
        wait_until(self.followed, lambda: f"{self.status()}")
        move = self.status()
        self.say(
            f"  {name} is {move['phase']}: "
            + ", ".join(f"{each} {move[each]}" for each in _SHOWN if move[each])
        )
        self.all_flow()

    def begin_anew(self) -> None:
        """An operator begins the phase anew, if it was stopped because NEW was dead: that outlives the relay."""
        move = self.status()
        if move["stopped"]:
            self.say(f"    stopped: {move['stopped']}")
            for words in (("back", move["name"]), ("to", move["name"], move["phase"])):
                self.operator("move", *words, "--admin", self.admin.url)

    def operator(self, *words: str) -> str:
        found = stomprelay(*words)
        assert found.returncode == 0, f"{words}: {found.stdout}{found.stderr}"
        return found.stdout

    def followed(self) -> bool:
        move = self.status()
        self.check()
        assert not move["stopped"], move
        return bool(move["followed"] == move["sessions"] >= len(self.parties))

    def check(self) -> None:
        """No client had any trouble."""
        troubles = [trouble for party in self.parties for trouble in party.troubles]
        assert not troubles, troubles

    def all_flow(self, more: int = 3) -> None:
        """Each client achieves more."""
        goals = {each: each.count + more for each in self.parties}

        def reached() -> bool:
            self.check()
            return all(each.count >= goal for each, goal in goals.items())

        wait_until(
            reached, lambda: f"still: {[each.name for each, goal in goals.items() if each.count < goal]}"
        )

    def drain(self, idle: str = "1") -> None:
        """What waits at OLD goes to NEW."""
        old, new = self.way[self._leg : self._leg + 2]
        found = self.operator(
            *("move", "drain", "-c", str(self.running.file), "--from", old.name, "--to", new.name),
            *("--idle", idle, "--json", *[self.place(each) for each in QUEUES]),
        )
        told = json.loads(found.strip().splitlines()[-1])
        self.say(f"  drained {told['moved']} messages from {old.name} to {new.name}")

    # The account

    def left_old(self) -> None:
        """Wait until all sessions have left OLD."""
        wait_until(
            lambda: (
                [each["sessions"] > 0 for each in self.admin.told("/brokers")["brokers"]].count(True) == 1
            ),
            lambda: self.admin.get("/brokers"),
        )
        self.all_flow()

    def end(self) -> None:
        """End the senders, then the readers, when they have all that waits."""
        senders = [each for each in self.parties if not isinstance(each, Reader)]
        for each in senders:
            each.over.set()
        for each in senders:
            each.join(PATIENCE)
            assert not each.is_alive(), f"{each.name} goes on"
        late = Reader(self, "late", STOMP_PY, "1.2", self.place("labels"), "client")
        late.start()
        self.late = late
        readers = [each for each in self.parties if isinstance(each, Reader)]
        before: list[int] = []
        while before != (now := [len(each.heard) for each in readers]):
            before = now
            time.sleep(2)
        with Talker.at(self.port) as talker:
            for each in readers:
                each.over.set()
                if "/queue/" in each.place:
                    talker.send(each.place, END)
            talker.send(self.ticker.place, END, grade="a")
            talker.leave()
        for each in readers:
            each.join(PATIENCE)
        self.check()
        assert not [each.name for each in readers if each.is_alive()]


_SHOWN: Final = ("sessions", "followed", "waiting", "staying", "older", "copied", "failed")


def _price(number: int) -> dict[str, str]:
    return {"grade": "ab"[number % 2], "number": str(number)}


def _notice(number: int) -> dict[str, str]:
    """Each tenth expires at once, the others in ten minutes."""
    life = 1 if number % 10 == 9 else 600_000
    until = str(int(time.time() * 1000) + life)
    return {"priority": str(number % 10), "expires": until, "x-until": until}


def _marked(frame: Frame) -> bool:
    said = {f"{name}:{value}" for name, value in frame.headers.items()}
    return "relay-copy" in frame.headers or not said.isdisjoint(MARKS)


class Account:
    """What became of the messages of one place."""

    def __init__(self, name: str, done: set[bytes], heard: Sequence[Frame]) -> None:
        self.name = name
        self.done = done
        self.heard = heard
        self.bodies = [each.body.rstrip(b"\0") for each in heard]
        self.lost = done - {*self.bodies}
        marked = {body for body, each in zip(self.bodies, heard, strict=True) if _marked(each)}
        seen: set[bytes] = set()
        self.marked: list[Frame] = []
        self.unmarked: list[Frame] = []
        for body, each in zip(self.bodies, heard, strict=True):
            if body in seen:
                (self.marked if body in marked else self.unmarked).append(each)
            seen.add(body)
        self.disorder = descents(self.bodies)

    def __str__(self) -> str:
        by = Counter(map(product, self.heard))
        return (
            f"{self.name:9} confirmed {len(self.done)}, delivered {len({*self.bodies})}, lost {len(self.lost)}, "
            f"again {len(self.marked)} marked and {len(self.unmarked)} not, overtaken {self.disorder}; "
            + ", ".join(f"{each} {count}" for each, count in sorted(by.items()))
        )


def at_broker(broker: Broker, place: str) -> str:
    """Return a queue as this broker spells it."""
    if broker.name != "rabbitmq":
        return place
    made = "/amq/queue/" if place.endswith(".claims") else "/queue/"  # it has arguments
    return made + quote(place.removeprefix("/queue/"), safe="").replace(
        "%2F", "/" if "amq" in made else "%2F"
    )


def accounts(scene: Scene) -> dict[str, Account]:
    """Add up what was confirmed, and what came."""
    alive = {each for each in scene.herald.done if number_of(each) % 10 != 9}
    prices, bookings = scene.ticker, scene.booker

    def heard(*readers: Party) -> list[Frame]:
        return [frame for each in readers for frame in each.heard]

    found = [
        Account("orders", scene.orders[0].done | scene.orders[1].done, heard(*scene.pickers)),
        Account("saver", prices.done, heard(scene.saver)),
        Account("board", prices.done, heard(scene.board)),
        Account("wheat", prices.done, heard(scene.wheat)),
        Account("best", {each for each in prices.done if not number_of(each) % 2}, heard(scene.best)),
        Account("bookings", bookings.done, heard(scene.ledger)),
        Account("claims", scene.claimer.done, heard(scene.judge)),
        Account("notices", alive, heard(scene.crier)),
        Account("sheets", scene.printer.done, heard(scene.binder)),
        Account("labels", scene.labels.done, heard(scene.late)),
    ]
    for each in found:
        scene.say(str(each))
        for frame in each.unmarked[:5]:
            same = [other for other in each.heard if other.body == frame.body]
            scene.say(f"  not marked: {[dict(other.headers) for other in same]}")
    asked = [(each.name, each.count, each.repeated) for each in scene.askers]
    scene.say(
        "asked     "
        + ", ".join(f"{name}: {count} answered, {again} repeated" for name, count, again in asked)
    )
    connects = Counter(each.connected - each.planned - each.unknown for each in scene.parties)
    scene.say(
        f"connected {dict(connects)} times; the relay was killed {scene.killed} times; "
        f"{sum(each.unknown for each in scene.parties)} COMMITs with unknown outcome"
    )
    return {each.name: each for each in found}


def spellings(scene: Scene) -> None:
    """What came is named as it was sent."""
    for each in scene.parties:
        if isinstance(each, Reader) and "/queue/" in each.place:
            assert {frame.headers["destination"] for frame in each.heard} == {each.place}, each.name
        for frame in each.heard:
            wrote = frame.headers.get("x-wrote")
            assert wrote in (None, frame.headers["destination"]), frame
    assert {frame.headers["destination"] for frame in scene.askers[0].heard} == {"/temp-queue/answers"}
    assert {frame.headers["destination"] for frame in scene.askers[1].heard} == {scene.place("answers")}
    replies = {frame.headers["reply-to"] for frame in scene.teller.heard}
    assert scene.place("answers") in replies
    for frame in scene.crier.heard:
        assert int(frame.headers["priority"]) == number_of(frame.body) % 10, frame
        until, wished = (int(frame.headers[name]) for name in ("expires", "x-until"))
        assert 0 <= until - wished < 60_000, frame  # RabbitMQ tells durations, which begin anew
    scene.say(f"expiry    the last one came {scene.crier.late:.0f} ms after its end")
    assert scene.crier.late < 5_000


def wholes(scene: Scene) -> None:
    """Transactions came whole or not at all; those that were aborted did not."""
    came: dict[int, set[bytes]] = {}
    for frame in scene.ledger.heard:
        came.setdefault(number_of(frame.body) // 3, set()).add(frame.body)
    torn = {number: parts for number, parts in came.items() if len(parts) != 3}
    assert not torn, torn
    aborted = scene.booker.aborted & {frame.body for frame in scene.ledger.heard}
    assert not aborted, aborted


def refusals(scene: Scene) -> None:
    """What was refused is in the dead letters of its broker; at Artemis it is gone."""
    dead = set()
    for broker in dict.fromkeys(scene.way):
        if broker.name.startswith("activemq"):
            found = drain(broker.port, "/queue/ActiveMQ.DLQ")
        elif broker.name == "rabbitmq":
            found = drain(broker.port, f"/queue/{scene.own}.dead")
        else:
            continue
        dead |= {each for each in found if each.startswith(b"claimer:")}
    refused = {frame.body for frame in scene.judge.heard if product(frame) != "artemis"} & scene.judge.nacked
    scene.say(
        f"refused   {len(scene.judge.nacked)}, in dead letters {len(dead)}, missing there {len(refused - dead)}"
    )
    assert dead <= scene.judge.nacked, dead - scene.judge.nacked
    assert refused <= dead or scene.killed, refused - dead


def left_behind(scene: Scene) -> dict[str, int]:
    """Take what is left at the brokers."""
    left = {}
    for broker in dict.fromkeys(scene.way):
        for name in QUEUES:
            found = [each for each in drain(broker.port, at_broker(broker, scene.place(name))) if each != END]
            if found:
                left[f"{broker.name} {name}"] = len(found)
                scene.say(f"left      {broker.name} {name}: {found[:5]}")
    return left


def selected(scene: Scene) -> None:
    """A selector holds where the broker has them."""
    wrong = [
        frame for frame in scene.best.heard if frame.headers["grade"] != "a" and product(frame) != "rabbitmq"
    ]
    assert not wrong, wrong


THERE: Final = ("activemq", "artemis", "rabbitmq", "activemq_6")


@pytest.fixture(params=[THERE, pytest.param(THERE[::-1], marks=pytest.mark.long)], ids=["there", "back"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """The clients, at the first broker of the way."""
    way = [request.getfixturevalue(name) for name in request.param]
    for broker in way:
        broker.heal()
    with contextlib.ExitStack() as stack:
        for broker in way:
            stack.callback(broker.heal)

        def find(facts: LibraryFacts) -> Connect:
            """Each client has a process of its own, where its library is in another language."""
            return stack.enter_context(libraries())(facts)

        found = Scene(tmp_path, find, way)
        stack.callback(found.close)
        found.start()
        yield found


def travel(
    scene: Scene, orders: Sequence[str], meanwhile: Callable[[Broker, Broker], None]
) -> dict[str, Account]:
    """Go the whole way, with these orders from each broker to the next one; do something in each phase. Then end, and
    judge what holds in any case.
    """
    for leg, (old, new) in enumerate(itertools.pairwise(scene.way)):
        if leg:
            scene.next_leg()
        scene.say(f"from {old.name} to {new.name}")
        for order in orders:
            scene.order(order)
            meanwhile(old, new)
        scene.drain()
    scene.next_leg()
    scene.left_old()
    scene.end()
    found = accounts(scene)
    left = left_behind(scene)
    spellings(scene)
    wholes(scene)
    refusals(scene)
    assert not left
    return found


@pytest.mark.long
def test_from_product_to_product(scene: Scene) -> None:
    """Nobody is killed: each message comes once, each request is answered, and each client stays connected."""
    found = travel(scene, ORDERS, lambda old, new: None)
    selected(scene)
    for each in found.values():
        assert not each.lost, (each.name, each.lost)
        assert not each.unmarked, each.name
    assert not any(each.repeated for each in scene.askers)
    assert not scene.teller.gone
    assert all(each.connected == 1 + each.planned for each in scene.parties)


@pytest.mark.long
def test_kills(scene: Scene) -> None:
    """The relay and either broker die in each phase. A topic's messages are kept for durable subscribers alone."""

    def die(*brokers: Broker) -> None:
        for broker in brokers:
            scene.kill(broker)
            scene.all_flow()
        scene.kill_relay()
        scene.begin_anew()
        wait_until(scene.followed, lambda: f"{scene.status()}")
        scene.all_flow()

    found = travel(scene, ("next",) * 4, die)
    for each in found.values():
        assert not each.lost or each.name in ("board", "wheat", "best"), (each.name, each.lost)
        assert {product(frame) for frame in each.unmarked} <= FORGETFUL, each.name
    assert all(each.connected <= 1 + each.planned + each.unknown + scene.killed for each in scene.parties)
