"""`python -m demo move`: a move from one broker to another, phase by phase, while clients work.

shop                1.2  an order many times a second                     -> /queue/shop/orders
picker-1, picker-2  1.1, 1.2; compete for orders, acknowledge each
ticker              1.2  prices                                           -> /topic/prices.wheat
desk                1.1  shows prices, by a wildcard where the broker has them
labels              1.2  a label now and then                             -> /queue/shop/labels
printer             1.1  comes when all is over: its labels wait at the old broker until they are drained

Nothing is counted but what came: at the clients by what each message says, at the brokers by a proxy before each.
"""

import argparse
import base64
import hashlib
import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from demo.clients import QUIET, Client, Producer, Subscription
from stomprelay.pipeline.report import plot
from stomprelay.pipeline.report.findings import Span
from stomprelay.pipeline.report.page import environment
from tests.e2e import brokers
from tests.e2e.certificates import Authority
from tests.e2e.proxy import Proxy
from tests.e2e.relay import Relay, served, stomprelay

SECONDS: Final = 10.0
"""With the brokers and the commands it is less than a minute."""
ORDERS: Final = "/queue/shop/orders"
PRICES: Final = "/topic/prices.wheat"
LABELS: Final = "/queue/shop/labels"
PHASES: Final = ("off", "shadow", "both", "new", "done")
PRODUCTS: Final = {"activemq": "ActiveMQ", "rabbitmq": "RabbitMQ"}
SEND, MESSAGE, COPY = b"SEND\n", b"MESSAGE\n", b"-shadow-"

_UPSTREAM: Final = (
    'uri = "failover:(tcp://127.0.0.1:{})"\nlogin = "guest"\npasscode = "guest"\nconfirm = true\n'
)
_MAP: Final = 'host = "/"\n[upstream.new.map]\nclients = "activemq"\n'
_MOVE: Final = '[move.shop]\nprefix = "/"\nto = "new"\n'


class Party(Client):
    """Notes what it says and hears, and acknowledges each message of a queue."""

    def __init__(self, name: str, version: str, port: int, destination: str) -> None:
        self.said: list[str] = []
        self.heard: list[str] = []
        self.destination = destination
        super().__init__(name, version, port, seed=1)

    def listen(self, destination: str) -> None:
        """Subscribe."""
        self.read(Subscription(destination, "auto" if "/topic/" in destination else "client-individual"))

    def say(self, number: int) -> None:
        """Send the message of this number, and ask for its receipt."""
        said = f"{self.name} {number}"
        self.said.append(said)
        self.send(self.destination, said, receipt=said, persistent="true")

    def on_receipt(self, frame: Any) -> None:
        """A message was confirmed, or the goodbye."""
        self.counts["confirmed"] += frame.headers["receipt-id"].startswith(f"{self.name} ")

    def on_message(self, frame: Any) -> None:
        """A message came."""
        super().on_message(frame)
        self.heard.append(json.loads(frame.body))
        if "/queue/" in self.destination:
            self.acknowledge(frame)


class Meter(threading.Thread):
    """Looks at the proxies four times a second, as a context: `seen` has when, and how many frames had passed."""

    def __init__(self, *proxies: Proxy) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[int, list[int]]] = []
        self._proxies = proxies
        self._over = threading.Event()

    def __enter__(self) -> "Meter":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        """Look, and once more at the end."""
        over = False
        while not over:
            over = self._over.wait(0.25)
            self.seen.append((_now(), [count for each in self._proxies for count in _counts(each)]))

    def columns(self, span: Span) -> list[list[int]]:
        """Return what passed in each bin: SENDs to OLD, to NEW, copies to NEW; MESSAGEs of OLD, of NEW."""
        found = [[0] * span.bins for _ in range(6)]
        for (_, before), (at, after) in pairwise([(0, [0] * 6), *self.seen]):
            for column, had, has in zip(found, before, after, strict=True):
                column[span.index(at)] += has - had
        return [found[each] for each in (0, 3, 4, 2, 5)]


def _counts(proxy: Proxy) -> list[int]:
    """Return how many SENDs, copies beside them, and MESSAGEs, without copies, have passed."""
    said, answered = [*proxy.said], [*proxy.answered]
    sends, copies = (sum(each.count(what) for each in said) for what in (SEND, COPY))
    return [sends - copies, copies, sum(each.count(MESSAGE) - each.count(COPY) for each in answered)]


class Course:
    """What an operator does, and what came of it. `phases`: each with its begin. `log`: what was printed."""

    def __init__(self, running: Relay, wildcards: bool) -> None:
        self.running = running
        self.phases: list[tuple[str, int]] = [("off", _now())]
        self.log: list[str] = []
        port = running.port
        self.pickers = [Party(f"picker-{n}", f"1.{n}", port, ORDERS) for n in (1, 2)]
        self.desk = Party("desk", "1.1", port, PRICES)
        for each in self.pickers:
            each.listen(ORDERS)
        self.desk.listen("/topic/prices.>" if wildcards else PRICES)
        self.senders = [
            Party(name, "1.2", port, to)
            for name, to in (("shop", ORDERS), ("ticker", PRICES), ("labels", LABELS))
        ]
        self.readers = [*self.pickers, self.desk]
        self.producers = [
            Producer(each, rate, lambda client, number: client.say(number))
            for each, rate in zip(self.senders, (40, 25, 4), strict=True)
        ]

    @property
    def parties(self) -> list[Party]:
        """All clients."""
        return [*self.senders, *self.readers]

    def say(self, text: str) -> None:
        """Print it, and keep it for the page."""
        self.log.append(text)
        print(text, flush=True)

    def operator(self, *words: str) -> None:
        """Run `stomprelay move`. Raises `RuntimeError` with its words when it fails."""
        self.say(f"$ stomprelay move {' '.join(words)}")
        where = ["-c", str(self.running.file)] if words[0] == "drain" else ["--admin", self.running.admin.url]
        found = stomprelay("move", *words, *where)
        if found.returncode:
            raise RuntimeError(found.stderr)
        self.say(found.stdout.rstrip())

    def state(self) -> dict[str, Any]:
        """Return what the relay says of the move."""
        [move] = self.running.admin.told("/moves")["moves"]
        return dict(move)

    def followed(self) -> bool:
        """Tell whether all sessions have followed to the phase."""
        move = self.state()
        if move["stopped"] or move["staying"]:
            raise RuntimeError(f"the move cannot go on: {move}")
        return bool(move["followed"] == move["sessions"])

    def rest(self) -> None:
        """Wait until nobody hears anything more."""
        before = -1
        while (now := sum(len(each.heard) for each in self.readers)) != before:
            before = now
            time.sleep(QUIET)

    def play(self, seconds: float) -> None:
        """Go through the phases in so many seconds; drain; let the printer read its labels."""
        for producer in self.producers:
            producer.start()
        for phase in PHASES:
            if phase != "off":
                self.operator("next", "shop")
                self.phases.append((phase, int(self.state()["since"] * 1_000_000)))
            self.running.wait_until(self.followed)
            time.sleep(seconds / len(PHASES))
            self.operator("status")
        for producer in self.producers:
            producer.stop()
        self.rest()
        self.phases.append(("drain", _now()))
        self.operator("drain", "--from", "main", "--to", "new", "--idle", "1", ORDERS, LABELS)
        printer = Party("printer", "1.1", self.running.port, LABELS)
        self.readers.append(printer)
        printer.listen(LABELS)
        self.rest()

    def accounts(self) -> dict[str, Counter[str]]:
        """Return by destination what was sent, confirmed, delivered, delivered twice, and lost."""
        found = {}
        for sender in self.senders:
            heard = Counter(
                each
                for reader in self.readers
                if reader.destination == sender.destination
                for each in reader.heard
            )
            found[sender.destination] = Counter(
                sent=len(sender.said),
                confirmed=sender.counts["confirmed"],
                delivered=len(heard.keys() & {*sender.said}),
                twice=heard.total() - len(heard),
                lost=len({*sender.said} - heard.keys()),
            )
        return found


@contextmanager
def pair(directory: Path, *, embedded: bool) -> Iterator[tuple[brokers.Broker, brokers.Broker]]:
    """Run ActiveMQ and RabbitMQ, or two embedded brokers, where one of them is not installed or `embedded`."""
    with ExitStack() as stack:
        try:
            if embedded:
                raise brokers.Absent("as asked")
            authority = Authority(directory, "demo")
            old, new = (
                stack.enter_context(brokers.INSTALLED[name](directory / name, authority.issue(name)))
                for name in PRODUCTS
            )
        except brokers.Absent as absent:
            print(f"two embedded brokers take the place of ActiveMQ and RabbitMQ: {absent}", flush=True)
            for name in ("old", "new"):
                (directory / name).mkdir()
            old, new = (stack.enter_context(brokers.memory(directory / name)) for name in ("old", "new"))
        yield old, new


def page(course: Course, meter: Meter, names: Sequence[str], connects: int) -> str:
    """Return the page."""
    ended = meter.seen[-1][0]
    span = Span.over(course.phases[0][1], ended)
    turns = [(name, since, until) for (name, since), (_, until) in pairwise([*course.phases, ("", ended)])]
    script = resources.files("stomprelay.pipeline.report").joinpath("report.js").read_text(encoding="utf-8")
    source = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    return environment().from_string(source).render(
        accounts=course.accounts(),
        bands=[plot.TimeBand(since, until, "phase", "a phase begins", name) for name, since, until in turns],
        columns=meter.columns(span),
        connects=connects,
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        labels=[],
        log="\n".join(course.log),
        names=names,
        parties=course.parties,
        script=Markup(script),
        span=span,
        titles={"phases": "Phases", "traffic": "Messages", "accounts": "What became of them", "log": "Commands"},
        turns=turns,
        Bar=plot.TimeBand,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Run it; the last line says where the page lies. Answers the exit status: 1 if something was lost or twice."""
    parser = argparse.ArgumentParser(prog="python -m demo move", description="A move between two brokers.")
    add = parser.add_argument
    add("--seconds", type=float, default=SECONDS, help=f"how long the phases last, at least ({SECONDS:g})")
    add("--directory", type=Path, default=Path("build/demo-move"), help="where everything goes")
    add("--embedded", action="store_true", help="embedded brokers, whatever is installed")
    asked = parser.parse_args(arguments)
    directory = asked.directory.resolve()
    shutil.rmtree(directory / "brokers", ignore_errors=True)
    (directory / "brokers").mkdir(parents=True)
    for name in ("moves.json", "move.html"):
        (directory / name).unlink(missing_ok=True)
    print("two brokers and a relay start", flush=True)
    with ExitStack() as stack:
        both = stack.enter_context(pair(directory / "brokers", embedded=asked.embedded))
        real = both[1].name in PRODUCTS
        names = [*PRODUCTS.values()] if real else ["one embedded broker", "another"]
        proxies = [stack.enter_context(Proxy(each.port, record=True)) for each in both]
        upstreams = "[upstream.new]\n".join(_UPSTREAM.format(each.port) for each in proxies)
        upstreams += (_MAP if real else "") + _MOVE
        more = f'moves_file = "{directory / "moves.json"}"'
        running = stack.enter_context(served(directory, upstreams, more=more))
        meter = stack.enter_context(Meter(*proxies))
        course = Course(running, wildcards=real)
        course.play(asked.seconds)
        connects = running.admin.counted("sessions_connected")
        for each in course.parties:
            each.leave()
    accounts = course.accounts()
    for name, account in accounts.items():
        course.say(f"{name:20} " + ", ".join(f"{what} {number}" for what, number in account.items()))
    course.say(f"{len(course.parties)} clients connected {connects} times")
    (directory / "move.html").write_text(page(course, meter, names, connects), encoding="utf-8")
    print(directory / "move.html")
    return int(any(each["lost"] or each["twice"] for each in accounts.values()))


def _now() -> int:
    return time.time_ns() // 1000
