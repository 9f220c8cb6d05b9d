"""A history, arranged for the rules of the judge: what each client did and read on each of its connections, and what
each broker did, by message.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, Final

from sim.history import Arrival, Event, History, What
from sim.plan import CHANGES, PLAIN, Scene

OF_CLIENTS: Final = (What.CONNECTED, What.SENT, What.READ, What.ENDED)
LOST: Final = b"what has no receipt may be lost"  # says the relay if it does not know that all was delivered


@dataclass(eq=False)
class Sent:
    """A SEND of a client. `number`: its place among all that took effect, by COMMIT for those in a transaction, None
    where it took no effect. `confirmed`: when the client read its RECEIPT, or that of its COMMIT. `known`: by the
    connection of a broker that took it, when the relay had read what says so: a RECEIPT behind it, or its own
    (failover.md, "What the client did when the broker died").
    """

    stay: "Stay"
    event: Event
    body: bytes
    destination: bytes
    transaction: bytes | None
    receipt: bytes | None
    number: int | None
    confirmed: float | None = None
    known: dict[tuple[str, int], float] = field(default_factory=dict)

    def __str__(self) -> str:
        return shown(self.body)


@dataclass(eq=False)
class Stay:
    """One connection of a client, as the events tell it.

    asked, receipts   what it sent, and the first RECEIPT that it read, by the name of the RECEIPT
    strange           in words: RECEIPTs that it must not read
    subscribed        destination and mode, by the subscription
    unsubscribed      its UNSUBSCRIBE, by the subscription
    over, inside      COMMIT or ABORT, and what it acknowledged, by the transaction
    acks              its ACKs, with what each acknowledged
    faulty, odd       it sent what nobody knows (when), or what makes some brokers close the connection
    left, orderly     when it sent DISCONNECT, and whether it has the RECEIPT
    halved, silent    when it closed its sending direction, or fell silent
    """

    client: str
    number: int
    began: float
    sent: list[Event] = field(default_factory=list)
    sends: list[Sent] = field(default_factory=list)
    asked: dict[bytes, Event] = field(default_factory=dict)
    receipts: dict[bytes, Event] = field(default_factory=dict)
    strange: list[str] = field(default_factory=list)
    errors: list[Event] = field(default_factory=list)
    read: list[Event] = field(default_factory=list)
    subscribed: dict[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    unsubscribed: dict[bytes, Event] = field(default_factory=dict)
    over: dict[bytes, Event] = field(default_factory=dict)
    acked: list[Event] = field(default_factory=list)
    inside: dict[bytes, list[Event]] = field(default_factory=lambda: defaultdict(list))
    acks: list[tuple[Event, list[Event]]] = field(default_factory=list)
    connected: Event | None = None
    ended: Event | None = None
    orderly: bool = False
    odd: bool = False
    faulty: float = inf
    left: float = inf
    halved: float = inf
    silent: float = inf

    @property
    def end(self) -> float:
        """Return when its connection ended."""
        return inf if self.ended is None else self.ended.at

    @property
    def size(self) -> int:
        """Return about how many bytes it sent."""
        return sum(100 + len(each.body) for each in self.sent)

    @property
    def messages(self) -> list[Event]:
        """Return the MESSAGEs that it read."""
        return [each for each in self.read if each.command == b"MESSAGE"]

    @property
    def unknown(self) -> Event | None:
        """Return the ERROR for a frame that nobody knows."""
        first = [each for each in self.errors[:1] if each.headers.get(b"message") == b"unknown command"]
        return first[0] if first else None

    @property
    def told(self) -> Event | None:
        """Return that ERROR if it does not say that something may be lost."""
        return None if self.unknown is None or LOST in self.unknown.body else self.unknown

    def __str__(self) -> str:
        return f"{self.client}.{self.number}"


@dataclass(eq=False)
class Case:
    """A history, arranged for the rules: events by their kind, stays of clients, and what each broker did, by body.

    came     when the relay had read a frame, by the frame's `id`
    since    when a broker answered CONNECTED, by the connection
    until    when a connection was over for the relay
    receipts the RECEIPTs that it read on a connection to a broker
    serving  the connections that the relay opened for one of a client's
    """

    history: History
    scene: Scene
    seen: bool
    rough: tuple[str, ...]
    counters: dict[str, int]
    of: dict[What, list[Event]] = field(default_factory=lambda: defaultdict(list))
    stays: dict[tuple[str, int], Stay] = field(default_factory=dict)
    took: dict[bytes, list[Event]] = field(default_factory=lambda: defaultdict(list))
    gave: dict[bytes, list[Event]] = field(default_factory=lambda: defaultdict(list))
    forgot: dict[bytes, list[Event]] = field(default_factory=lambda: defaultdict(list))
    versions: dict[tuple[str, int], bytes] = field(default_factory=dict)
    acked: set[tuple[bytes, bytes]] = field(default_factory=set)
    came: dict[int, float] = field(default_factory=dict)
    since: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(lambda: inf))
    until: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(lambda: inf))
    receipts: dict[tuple[str, int], list[Arrival]] = field(default_factory=lambda: defaultdict(list))
    serving: dict[tuple[str, int], list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    astray: list[Event] = field(default_factory=list)
    calm: float = inf

    @property
    def fates(self) -> list[Event]:
        """Return what happened to brokers, relays and connections."""
        return self.of[What.FATE]

    @cached_property
    def least(self) -> dict[str, Any]:
        """Return the settings; of numbers that a configuration changed the smallest."""
        least, reads = dict(self.scene.settings), [each.detail.split()[3:] for each in self.fates]
        for name, value in [pair for each in CHANGES if [*each] in reads for pair in each.items()]:
            if isinstance(value, int | float):
                least[name] = min(least.get(name) or inf, value)
        return least

    @cached_property
    def goes(self) -> bool:
        """Return whether a broker answered CONNECT, and served nobody."""
        return any(each.detail in ("goes", "refuses", "serves nobody") for each in self.fates)

    @cached_property
    def exact(self) -> bool:
        """Return whether nobody waits for what no rule counts: tokens, memory, a slow network or small buffers, a
        RabbitMQ that confirms one SEND after the other, and the growing pauses before a broker is asked that goes at
        once, or that there are no descriptors to ask (configuration.md, `frames`, `memory`, `resend_buffer`;
        failover.md, "How long it takes").
        """
        late = self.least["buffer"] < 1 << 20 and any(each.late for each, _ in self.scene.brokers.values())
        return self.lag < 0.1 and self.prompt and not late

    @cached_property
    def lag(self) -> float:
        """Return about how many seconds a full buffer needs in the network."""
        return float(self.scene.weather[2] * PLAIN["size"] / self.least["size"])

    @cached_property
    def prompt(self) -> bool:
        """Return whether nobody waits for tokens, memory, or growing pauses."""
        least = self.least
        goes = self.goes or any(each.chokes for each in self.scene.clients.values())
        grows = (goes or self.counters.get("connects_prevented")) and least["longest_delay"] > 1.0
        return not (least["frames"] or least["memory"] < 1 << 30 or grows or self.scene.tight)

    @property
    def patience(self) -> float:
        """Return how long a SEND that a broker does not confirm may be kept; infinity where nobody looks so soon."""
        limit = float(self.scene.settings.get("confirm_timeout", inf))
        return 2 * limit if limit < 60.0 else inf

    def within(self, seconds: float) -> float:
        """Return so many seconds if times are exact, else many, in which all is done all the same; with a pause more
        (failover.md, "How long it takes") where a broker serves nobody, or does not answer DISCONNECT.
        """
        if self.exact:
            return seconds
        tokens = len(self.of[What.SENT]) / (self.least["frames"] or inf)
        goes = self.goes or any(each.detail == "closes at DISCONNECT" for each in self.fates)
        pause: float = self.least["longest_delay"] * goes
        return max(seconds, 40.0) + tokens + pause

    def read(self, event: Event) -> float:
        """Return when the relay had read the frame of an event; at once, if nobody knows."""
        return self.came.get(id(event.frame), inf) if self.came else event.at

    def erred(self, stay: Stay, since: float, until: float) -> bool:
        """Return whether a broker sent an ERROR that names no receipt on a connection for this one of a client."""
        links = self.serving[stay.client, stay.number]
        found: list[Event | Arrival] = [each for link in links for each in self.history.arrived[link]]
        found = [each for each in (*stay.errors, *found) if each.command == b"ERROR"]
        return any(since <= each.at <= until for each in found if b"receipt-id" not in each.headers)

    def kept(self, send: Sent) -> bool:
        """Return whether the relay keeps a SEND until it is confirmed, or asks for a receipt of a transaction."""
        marked = send.receipt is not None or send.transaction is not None
        over = self.scene.routed and send.destination.startswith(b"/queue/c")
        return marked or (self.scene.confirm and (over or self.scene.kind != "plain"))

    @property
    def sends(self) -> list[Sent]:
        """Return all SENDs, of one stay after the other."""
        return [each for stay in self.stays.values() for each in stay.sends]


def without_copies(history: History) -> Iterator[Event]:
    """Yield the events except those at brokers that only had copies of a message: no rule is about copies of a move."""
    copied: dict[tuple[str, bytes], bool] = {}
    for event in history:
        if event.what is What.TOOK and event.frame is not None:
            copy = b"-shadow-" in event.headers.get(b"relay-copy", b"")
            copied[event.who, event.body] = copy and copied.get((event.who, event.body), True)
    for event in history:
        if event.what in OF_CLIENTS or not copied.get((event.who, event.body), False):
            yield event


def arranged(history: History) -> Case:
    """Return a history, arranged for the rules."""
    facts = history.facts
    seen, rough = facts.get("brokers_seen", True), tuple(facts.get("rough", ()))
    case = Case(history, facts["scene"], seen, rough, facts.get("counters") or {})
    bodies = {What.TOOK: case.took, What.GAVE: case.gave, What.FORGOT: case.forgot}
    before = None
    for event in without_copies(history) if case.scene.moving else history:
        case.of[event.what].append(event)
        key, copy = (event.who, event.session), (event.who.encode(), event.body)
        stay = case.stays.get(key)
        begins = event.what in OF_CLIENTS and not event.detail[:1].isdigit()
        if stay is None and begins and event.who not in rough:
            stay = case.stays[key] = Stay(*key, event.at)
        if event.what in bodies:
            bodies[event.what][event.body].append(event)
        match event.what:
            case What.ACKED:
                case.acked.add((event.headers.get(b"from", b""), event.body))
            case What.SETTLED:
                at_once = before is not None and before.what is What.GAVE  # the subscription wants no ACKs
                if not at_once and copy not in case.acked:
                    case.astray.append(event)
            case What.CALM:
                case.calm = min(case.calm, event.at)
            case What.CONNECTED if event.detail:
                case.versions[key], case.since[key] = event.detail.encode(), event.at
        if stay is not None:
            _stayed(stay, event)
        before = event
    _read_by_relay(case)
    if not case.seen:
        _infer(case)
    return case


def _read_by_relay(case: Case) -> None:
    """Fill in what the relay had read, and since when it knew of each SEND that a broker has it."""
    history, sends = case.history, {each.body: each for each in case.sends}
    products = {name: product for name, (product, _) in case.scene.brokers.items()}
    farewells = {name: [message for message, _ in product.goodbyes] for name, product in products.items()}
    for key, arrived in history.arrived.items():
        if arrived and arrived[-1].frame is None:
            # or an ERROR before it, by which the relay gave the connection up
            error = [each.at for each in arrived[-2:-1] if each.command == b"ERROR"]
            case.until[key] = min([arrived[-1].at, *error])
        for each in arrived:
            case.came[id(each.frame)] = each.at
            # failover.md, "Fan-out": the relay leaves a broker that sends an ERROR, and a group at the second one; an
            # ERROR for a frame that all groups must have ends the session
            asked = b"receipt-id" in each.headers and not case.scene.settings["all"]
            goes_on = asked or each.headers.get(b"message") in farewells.get(key[0], ())
            leaves = case.scene.kind == "fanout" and not goes_on
            if each.command == b"ERROR" and (leaves or each.at == case.until[key]):
                break
            if each.command == b"RECEIPT":
                case.receipts[key].append(each)
    for key, owner in history.owners.items():
        case.serving[owner].append(key)
    places: Counter[tuple[str, int]] = Counter()
    for took in case.of[What.TOOK]:
        key = took.who, took.session
        places[key] += 1
        if (send := sends.get(took.body)) is not None:
            own = took.headers.get(b"receipt")
            alone = case.scene.brokers[took.who][0].late and case.kept(send)
            for each in case.receipts[key]:
                if each.headers[b"receipt-id"] == own or (each.behind >= places[key] and not alone):
                    send.known[key] = min(each.at, send.known.get(key, inf))


def _infer(case: Case) -> None:
    """Fill in what brokers took whose own events are absent."""
    stays = case.stays.values()
    for each in stays:  # what came before is read
        case.until[each.client, each.number] = inf if each.orderly else each.end - 0.5
    forgetful = {place for stay in stays for place, mode in stay.subscribed.values() if mode == b"auto"}
    for event in [each for stay in stays for each in stay.messages] + case.of[What.KEPT]:
        case.took[event.body].append(event)
    for send in case.sends:
        if send.number is not None and (topic(send.destination) or send.destination in forgetful):
            case.took[send.body].append(send.event)


def _stayed(stay: Stay, event: Event) -> None:
    """Add an event to a stay."""
    match event.what:
        case What.SENT:
            _sent(stay, event)
        case What.READ:
            _read(stay, event)
        case What.ACKED:
            stay.acked.append(event)
        case What.ENDED:
            stay.ended = event
        case What.FATE if event.detail.startswith("half"):
            stay.halved = event.at
        case What.FATE if event.detail == "falls silent":
            stay.silent = event.at


def _sent(stay: Stay, event: Event) -> None:
    headers = event.headers
    receipt, transaction = headers.get(b"receipt"), headers.get(b"transaction")
    place = headers.get(b"destination", b"")
    name = headers.get(b"id", place)
    stay.sent.append(event)
    if receipt is not None:
        stay.asked[receipt] = event
    match event.command:
        case b"NONSENSE":
            stay.faulty = event.at
        case b"SEND":
            number = len(stay.sends) if transaction is None else None
            stay.sends.append(Sent(stay, event, event.body, place, transaction, receipt, number))
            stay.odd = stay.odd or b"priority" in headers
        case b"SUBSCRIBE":
            stay.subscribed[name] = place, headers.get(b"ack", b"auto")
            stay.unsubscribed.pop(name, None)
        case b"UNSUBSCRIBE":
            stay.unsubscribed[name] = event
        case b"ACK" | b"NACK" if transaction is not None:
            stay.inside[transaction] += stay.acked
            stay.acks.append((event, stay.acked))
        case b"ACK":
            stay.acks.append((event, stay.acked))
        case b"COMMIT" | b"ABORT" if transaction is not None:
            stay.over[transaction] = event
            for each in stay.sends:
                if each.transaction == transaction and event.command == b"COMMIT":
                    each.number = len(stay.sends)
        case b"DISCONNECT":
            stay.left = min(stay.left, event.at)
    stay.acked = []


def _read(stay: Stay, event: Event) -> None:
    stay.read.append(event)
    if (event.command == b"CONNECTED") is (stay.connected is not None) and event.command != b"ERROR":
        stay.strange.append(f"{event.frame}, {'twice' if stay.connected else 'before CONNECTED'}")
    if event.command == b"CONNECTED":
        stay.connected = event
    elif event.command == b"ERROR":
        stay.errors.append(event)
    elif event.command == b"RECEIPT":
        name = event.headers.get(b"receipt-id", b"")
        asked = stay.asked.get(name)
        if asked is None or name in stay.receipts:
            stay.strange.append(f"{event.frame}, {'twice' if name in stay.receipts else 'unasked'}")
            return
        stay.receipts[name] = event
        transaction = asked.headers.get(b"transaction")
        for each in stay.sends:
            own = each.receipt == name and each.transaction is None
            if own or (asked.command == b"COMMIT" and each.transaction == transaction):
                each.confirmed = event.at
        stay.orderly = stay.orderly or asked.command == b"DISCONNECT"


def shown(body: bytes) -> str:
    """Return the name of a message, for a finding."""
    return body[:20].decode(errors="replace").rstrip(".")


def topic(destination: bytes) -> bool:
    """Return whether a destination is a topic, which keeps nothing."""
    return destination.startswith(b"/topic/")
