"""What must hold of a history, one function for each rule. Each yields what it found, in words; `judge` asks
all of them.

The same rules hold for worlds of the simulator and for runs with real brokers, whose own events may be absent.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from sim.history import Event, History, What
from sim.stomp import Frame
from stomprelay.relay.model.listener import LossPolicy

RESENT: Final = b"relay-resent"


class Finding(NamedTuple):
    """Something that must not be. `rule` is the name of the rule that it breaks."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


@dataclass(eq=False)
class Sent:
    """A SEND of a client. `number`: its place among all that took effect, by COMMIT for those in a transaction, None
    where it took no effect. `confirmed`: when the client read its RECEIPT, or that of its COMMIT.
    """

    event: Event
    body: bytes
    destination: bytes
    transaction: bytes | None
    number: int | None = None
    receipt: bytes | None = None
    confirmed: float | None = None


@dataclass(eq=False)
class Stay:
    """One connection of a client, as the events tell it."""

    client: str
    number: int
    sends: list[Sent] = field(default_factory=list)
    asked: dict[bytes, Event] = field(default_factory=dict)
    receipts: dict[bytes, Event] = field(default_factory=dict)
    errors: list[Event] = field(default_factory=list)
    read: list[Event] = field(default_factory=list)
    subscribed: dict[bytes, bytes] = field(default_factory=dict)
    unsubscribed: dict[bytes, bytes | None] = field(default_factory=dict)
    commits: dict[bytes, Event] = field(default_factory=dict)
    acked: tuple[bytes, bytes] = (b"", b"")
    inside: dict[bytes, list[tuple[bytes, bytes]]] = field(default_factory=lambda: defaultdict(list))
    connected: Event | None = None
    ended: Event | None = None
    orderly: bool = False

    @property
    def name(self) -> str:
        """Return the name by which findings call it."""
        return f"{self.client}.{self.number}"


@dataclass(eq=False)
class Case:
    """A history, arranged for the rules: stays of clients, and what each broker did, by body."""

    history: History
    stays: dict[tuple[str, int], Stay] = field(default_factory=dict)
    took: dict[bytes, list[Event]] = field(default_factory=lambda: defaultdict(list))
    gave: dict[bytes, list[Event]] = field(default_factory=lambda: defaultdict(list))
    forgot: dict[bytes, list[Event]] = field(default_factory=lambda: defaultdict(list))
    fates: list[Event] = field(default_factory=list)
    wrongs: list[Event] = field(default_factory=list)
    twofold: list[tuple[Stay, Event]] = field(default_factory=list)
    versions: dict[tuple[str, int], bytes] = field(default_factory=dict)
    acked: set[tuple[bytes, bytes]] = field(default_factory=set)
    astray: list[Event] = field(default_factory=list)
    settled: dict[tuple[bytes, bytes], float] = field(default_factory=dict)

    @property
    def sends(self) -> Iterator[tuple[Stay, Sent]]:
        """Yield all SENDs with their stays."""
        for stay in self.stays.values():
            for each in stay.sends:
                yield stay, each

    def holds(self, body: bytes, by: float | None = None) -> bool:
        """Whether a broker took a message (before `by`) and did not forget it."""
        for each in self.took.get(body, ()):
            if by is not None and each.at > by:
                continue
            later = [one for one in self.forgot.get(body, ()) if one.who == each.who and one.at >= each.at]
            if not later:
                return True
        return False


def arranged(history: History) -> Case:
    """Return a history, arranged for the rules."""
    case = Case(history)
    rough = history.facts.get("rough", ())
    before = None
    for event in history:
        given = before is not None and before.what is What.GAVE  # to a subscription that wants no ACKs
        before = event
        match event.what:
            case What.ACKED | What.SETTLED:
                _settled(case, event, given)
            case What.CONNECTED if event.detail:
                case.versions[event.who, event.session] = event.detail.encode()
            case What.TOOK:
                case.took[event.frame.body].append(event)  # type: ignore[union-attr]
            case What.GAVE:
                case.gave[event.frame.body].append(event)  # type: ignore[union-attr]
            case What.FORGOT:
                case.forgot[event.detail.encode()].append(event)
            case What.FATE:
                case.fates.append(event)
            case What.WRONG:
                case.wrongs.append(event)
            case What.SENT | What.READ | What.ENDED | What.CONNECTED if event.who not in rough:
                stay = case.stays.setdefault((event.who, event.session), Stay(event.who, event.session))
                if event.what is What.SENT:
                    _sent(stay, event, _given(event))
                elif event.what is What.READ:
                    _read(case, stay, event, _given(event))
                elif event.what is What.ENDED:
                    stay.ended = event
    return case


def _settled(case: Case, event: Event, at_once: bool) -> None:
    if event.what is What.ACKED:
        copy = _given(event).headers.get(b"from", b""), _given(event).body
        case.acked.add(copy)
        if (event.who, event.session) in case.stays:
            case.stays[event.who, event.session].acked = copy
        return
    copy = event.who.encode(), event.detail.encode()
    case.settled.setdefault(copy, event.at)
    if not at_once and copy not in case.acked:
        case.astray.append(event)


def _given(event: Event) -> Frame:
    assert event.frame is not None
    return event.frame


def _sent(stay: Stay, event: Event, frame: Frame) -> None:
    headers = frame.headers
    receipt, transaction = headers.get(b"receipt"), headers.get(b"transaction")
    if receipt is not None:
        stay.asked[receipt] = event
    match frame.command:
        case b"SEND":
            made = Sent(event, frame.body, headers[b"destination"], transaction, None, receipt)
            made.number = len(stay.sends) if transaction is None else None
            stay.sends.append(made)
        case b"SUBSCRIBE":
            name = headers.get(b"id", headers[b"destination"])
            stay.subscribed[name] = headers[b"destination"]
            stay.unsubscribed.pop(name, None)
        case b"UNSUBSCRIBE":
            stay.unsubscribed[headers.get(b"id") or headers[b"destination"]] = receipt
        case b"ACK" if transaction is not None:
            stay.inside[transaction].append(stay.acked)
        case b"COMMIT" if transaction is not None:
            stay.commits[transaction] = event
            at = len(stay.sends)
            for each in stay.sends:
                if each.transaction == transaction:
                    each.number = at


def _read(case: Case, stay: Stay, event: Event, frame: Frame) -> None:
    stay.read.append(event)
    match frame.command:
        case b"CONNECTED":
            stay.connected = event
        case b"ERROR":
            stay.errors.append(event)
        case b"RECEIPT":
            name = frame.headers.get(b"receipt-id", b"")
            if name in stay.receipts:
                case.twofold.append((stay, event))
            stay.receipts[name] = event
            asked = stay.asked.get(name)
            if asked is None:
                return
            what = _given(asked)
            transaction = what.headers.get(b"transaction")
            for each in stay.sends:
                own = each.receipt == name and each.transaction is None
                if own or (what.command == b"COMMIT" and each.transaction == transaction):
                    each.confirmed = event.at
            stay.orderly = stay.orderly or what.command == b"DISCONNECT"


# The rules


def nothing_is_wrong(case: Case) -> Iterator[str]:
    """Nobody saw something at once that must not be: bytes that cannot be read, an exception, no answer in calm
    weather, something that is left at the end.
    """
    scene = case.history.facts["scene"]
    excused: tuple[str, ...] = UNKNOWN if scene.mood or case.history.facts.get("rough") else ()
    for event in case.wrongs:
        if not event.detail.startswith(excused) and not (scene.mood and "in calm weather" in event.detail):
            yield f"{event.at:.3f} {event.who}: {event.detail}"


UNKNOWN: Final = ("an ACK names nothing that waits", "the relay wrote what the broker cannot read: KeyError")
"""How begins what is no fault of the relay, if a client or a broker says what it should not."""


def a_receipt_comes_once(case: Case) -> Iterator[str]:
    """A client reads a RECEIPT once for each that it asked for, and none that it did not ask for."""
    for stay, event in case.twofold:
        yield f"{stay.name} read twice: {event.frame}"
    for stay in case.stays.values():
        for name in stay.receipts:
            if name not in stay.asked:
                yield f"{stay.name} read RECEIPT {name.decode()}, and did not ask for it"


def a_receipt_is_true(case: Case) -> Iterator[str]:
    """What a client has a RECEIPT for was taken by a broker before, and no broker lost it that had confirmed it."""
    scene = case.history.facts["scene"]
    for stay, send in case.sends:
        if send.confirmed is None or send.number is None:
            continue
        early = send.transaction is not None and not (scene.confirm and scene.kind != "plain")
        if not early and not case.holds(send.body, send.confirmed):
            yield f"{stay.name} has a RECEIPT for {send.body[:20].decode()}, which no broker has"


def no_error_and_receipt(case: Case) -> Iterator[str]:
    """A frame gets a RECEIPT or an ERROR that names it, not both."""
    for stay in case.stays.values():
        for event in stay.errors:
            name = _given(event).headers.get(b"receipt-id")
            if name is not None and name in stay.receipts:
                yield f"{stay.name} read ERROR and RECEIPT for {name.decode()}"


def nothing_uncommitted_is_taken(case: Case) -> Iterator[str]:
    """What is in a transaction that the client did not commit is taken by no broker."""
    for stay, send in case.sends:
        if send.number is None and case.took.get(send.body):
            yield f"{stay.name}: {send.body[:20].decode()} was taken, and never committed"


def order_is_kept(case: Case) -> Iterator[str]:
    """A broker takes what one client sends to one destination in the client's order, copies included."""
    places: dict[bytes, tuple[Stay, Sent]] = {each.body: (stay, each) for stay, each in case.sends}
    last: dict[tuple[str, str, bytes], int] = {}
    seen: set[tuple[str, bytes]] = set()
    lost = {(event.who, body) for body, found in case.forgot.items() for event in found}
    for event in case.history:
        if event.what is not What.TOOK:
            continue
        body = _given(event).body
        stay, send = places.get(body, (None, None))
        if stay is None or send is None or send.number is None or (event.who, body) in seen:
            continue
        seen.add((event.who, body))
        key = (event.who, stay.name, send.destination)
        if send.number < last.get(key, -1) and (event.who, body) not in lost:
            yield f"{event.who} took {body[:20].decode()} of {stay.name} too late"
        last[key] = max(send.number, last.get(key, -1))


def a_copy_is_marked(case: Case) -> Iterator[str]:
    """Of two copies of a message at least one is marked as sent again."""
    fanout = case.history.facts["scene"].kind == "fanout"
    known = {send.body for _, send in case.sends}
    for body, found in case.took.items():
        if body not in known:
            continue  # of a rough client: its bodies are no names
        groups: dict[str, list[Event]] = defaultdict(list)
        for event in found:
            groups[event.who if fanout else ""].append(event)
        for each in groups.values():
            if len(each) > 1 and not any(RESENT in _given(event).headers for event in each):
                yield f"{body[:20].decode()} was taken {len(each)} times, without a mark"


def only_what_was_subscribed(case: Case) -> Iterator[str]:
    """A client reads a MESSAGE only for a subscription of its own, from that destination, and as a broker gave it."""
    scene = case.history.facts["scene"]
    for stay in case.stays.values():
        read: Counter[bytes] = Counter()
        for event in stay.read:
            frame = _given(event)
            if frame.command != b"MESSAGE":
                continue
            read[frame.body] += 1
            place = frame.headers.get(b"destination", b"")
            name = frame.headers.get(b"subscription", place)
            if stay.subscribed.get(name) != place and place not in stay.subscribed.values():
                yield f"{stay.name} read {frame}, and is not subscribed to it"
            receipt = stay.unsubscribed.get(name)
            answered = stay.receipts.get(receipt) if receipt is not None else None
            if answered is not None and answered.at < event.at and scene.kind != "fanout":
                yield f"{stay.name} read {frame} after the RECEIPT of its UNSUBSCRIBE"
        for body, count in read.items():
            gave = len(case.gave.get(body, ()))
            if count > gave:
                text = body[:20].decode(errors="replace")
                yield f"{stay.name} read {text} {count} times, which brokers gave {gave} times"


def values_arrive(case: Case) -> Iterator[str]:
    """A header's value is read as it was sent, but for what a version on the way cannot express; and nobody reads what
    is the relay's own.
    """
    sent = {each.body: (stay, each) for stay, each in case.sends}
    for body, (stay, send) in sent.items():
        for event in case.took.get(body, ()):
            if not _same(case, stay, event, _given(send.event), _given(event)):
                yield f"{event.who} took {event.frame}, and {stay.name} sent {send.event.frame}"
    for stay in case.stays.values():
        for event in stay.read:
            frame = _given(event)
            if b"relay-trace" in frame.headers:
                yield f"{stay.name} read {frame}"
            gave = case.gave.get(frame.body, ()) if frame.body in sent and frame.command == b"MESSAGE" else ()
            if gave and not any(_same(case, stay, each, _given(each), frame) for each in gave):
                yield f"{stay.name} read {frame}, which no broker gave"


def _same(case: Case, stay: Stay, event: Event, sent: Frame, read: Frame) -> bool:
    """Whether the odd headers of a frame are those that were sent, but for the losses of `docs/translation.md`. Between
    equal versions bytes pass unchanged, even if the product has escapes of its own.
    """
    version = case.versions.get((event.who, event.session), b"1.0")
    own = b"1.0" if stay.connected is None else _given(stay.connected).headers.get(b"version", b"1.0")
    escapes = dict(case.history.facts["scene"].brokers[event.who][0].escapes)
    if own == version and version in escapes:
        return True
    target = escapes.get(version, (version,))[0] if event.what is What.TOOK else own
    bare = own != version and target != b"1.2"  # a CR at the end would be the line's
    for name, value in sent.headers.items():
        if name not in read.headers and {*name} & {*b":\n"} and b"1.0" in (own, version):
            continue
        both = [value, read.headers.get(name, b"")]
        if b"1.0" in (own, version):
            both = [each.replace(b"\n", b" ").replace(b"%0A", b" ").lstrip(b" ") for each in both]
        if own != b"1.2" or version != b"1.2":
            both = [each.removesuffix(b"%0D").rstrip(b" \r") for each in both]
        ends = bare and read.headers.get(name, b"").endswith(b"\r")
        if name.startswith(b"x") and (ends or both[0] != both[1]):
            return False
    return True


def a_message_has_one_trace(case: Case) -> Iterator[str]:
    """A message has one trace at all brokers, however often it is sent, and shares it with no other."""
    owners: dict[bytes, bytes] = {}
    for _, send in case.sends:
        found = {_given(event).headers.get(b"relay-trace", b"") for event in case.took.get(send.body, ())}
        shared = [owners.setdefault(each, send.body) != send.body for each in found if each]
        if len(found) > 1 or any(shared):
            yield f"{send.body[:20]!r} has the traces {sorted(found)}, or shares one"


def an_ack_is_for_its_message(case: Case) -> Iterator[str]:
    """A broker removes a message only if a client acknowledged it: a copy that this broker delivered."""
    scene = case.history.facts["scene"]
    calm = sum(event.who in scene.brokers for event in case.fates) == len(scene.brokers)
    told_apart = calm or {each.version for each in scene.clients.values()} == {b"1.2"}
    for event in () if case.history.facts.get("rough") else case.astray:
        product, _ = scene.brokers[event.who]
        if not product.across and (told_apart or not product.counts):
            yield f"{event.at:.3f} {event.who} removed {event.detail[:20]}, which no client had acknowledged"


def a_commit_settles(case: Case) -> Iterator[str]:
    """What was acknowledged in a transaction is removed when the client has the RECEIPT of its COMMIT."""
    brokers = case.history.facts["scene"].brokers
    for stay in case.stays.values():
        for name, commit in stay.commits.items():
            receipt = stay.receipts.get(_given(commit).headers.get(b"receipt", b""))
            for who, body in stay.inside[name] if receipt is not None else ():
                known = who.decode() in brokers and not brokers[who.decode()][0].counts
                if known and receipt is not None and case.settled.get((who, body), inf) > receipt.at:
                    yield f"{stay.name} has a RECEIPT for {name.decode()}, and {who.decode()} has {body[:20]!r}"


def nothing_is_lost_quietly(case: Case) -> Iterator[str]:
    """What a client sent is taken by a broker, unless the client was told, left early, or it is counted as possibly
    lost.
    """
    scene = case.history.facts["scene"]
    missing = []
    for stay, send in case.sends:
        if send.number is None or case.took.get(send.body) or stay.errors:
            continue
        stayed = stay.ended is None or stay.orderly
        if not stayed:
            continue
        if scene.confirm and scene.kind == "failover":
            yield f"{stay.name}: no broker took {send.body[:20].decode()}, and nobody was told"
        missing.append(send)
    counted = case.history.facts.get("counters", {}).get("possibly_lost", 0)
    if len(missing) > counted:
        names = " ".join([each.body[:20].decode() for each in missing])
        yield f"{len(missing)} SENDs were taken by no broker, {counted} are counted as possibly lost: {names}"


def deliveries_keep_their_order(case: Case) -> Iterator[str]:
    """A client reads what one connection to a broker gave in the broker's order."""
    for stay in case.stays.values():
        last: dict[tuple[str, int], float] = {}
        for event in stay.read:
            frame = _given(event)
            given = case.gave.get(frame.body, ()) if frame.command == b"MESSAGE" else ()
            for one in given if len(given) == 1 else ():
                if one.at < last.get((one.who, one.session), 0.0):
                    yield f"{stay.name} read {frame.body[:20].decode()} too late"
                last[one.who, one.session] = one.at


def counters_fit(case: Case) -> Iterator[str]:
    """The relay counts what clients and brokers have seen: at least what they read, at most what they sent."""
    stays = list(case.stays.values())
    counters = {} if case.history.facts.get("rough") else case.history.facts.get("counters", {})
    sent = [event for event in case.history if event.what is What.SENT]
    connected = sum(stay.connected is not None for stay in stays)
    marked = sum(RESENT in _given(event).headers for found in case.took.values() for event in found)
    scene = case.history.facts["scene"]
    copies = len(scene.brokers) if scene.kind == "fanout" else 1  # each group misses what it was to have
    bounds = {
        "sessions_opened": (connected, len(stays)),
        "sessions_connected": (connected, len(stays)),
        "client_frames": (sum(map(len, [stay.receipts for stay in stays])), len(sent)),
        "broker_frames": (sum(_given(e).command == b"MESSAGE" for stay in stays for e in stay.read), inf),
        "clients_vanished": (0, sum(not stay.orderly for stay in stays)),
        "frames_resent": (marked, inf),
        "possibly_lost": (0, copies * sum(len(stay.sends) for stay in stays)),
    }
    for name, (least, most) in bounds.items():
        if name in counters and not least <= counters[name] <= most:
            yield f"{name} is {counters[name]}, and not from {least} to {most}"


def nobody_is_disturbed(case: Case) -> Iterator[str]:
    """In front of several brokers a client gets no ERROR and keeps its connection, but where the documents say so."""
    scene = case.history.facts["scene"]
    cut = {event.who for event in case.fates if event.who in scene.clients}
    for stay in case.stays.values():
        if stay.ended is not None and stay.ended.detail != "left" and stay.client not in cut:
            left = any(_given(event).command == b"DISCONNECT" for event in stay.asked.values())
            if not stay.errors and not left and scene.kind != "plain" and not half_closed(case, stay):
                yield f"{stay.name} was disconnected without an ERROR"
        for event in stay.errors:
            text = _given(event).headers.get(b"message", b"")
            left = any(_given(each).command == b"DISCONNECT" for each in stay.asked.values())
            refused = scene.loss is LossPolicy.REJECT and text.startswith(b"a header cannot be said")
            unknown = stay.commits and text.startswith(b"the quorum cannot be reached")
            late = (
                refused
                or unknown
                or scene.tight
                or (text.startswith(LATE) and (left or half_closed(case, stay)))
            )
            if scene.kind != "plain" and not late and not text.startswith(ALLOWED) and not across(case):
                yield f"{stay.name} read {event.frame}"


ALLOWED: Final = (
    b"NACK cannot be said to the broker",
    b"the outcome of a transaction is unknown",
    b"the transaction cannot be committed",
    b"a transaction cannot span upstreams",
)
"""How the messages of ERRORs begin that a broker's death, or a broker of an older version, may cause."""

LATE: Final = b"connection to the broker was lost"
"""How the message of the ERROR begins that a client reads when it leaves and brokers do not answer in time."""


def across(case: Case) -> bool:
    """Whether a broker acknowledges across subscriptions, so that a client's own ACKs may be one too many there."""
    return any(product.across for product, _ in case.history.facts["scene"].brokers.values())


def half_closed(case: Case, stay: Stay) -> bool:
    """Whether the client had closed its sending direction."""
    return any(
        event.what is What.FATE and event.who == stay.client and event.detail.startswith("half")
        for event in case.fates
    )


RULES: Final[tuple[Callable[[Case], Iterator[str]], ...]] = (
    nothing_is_wrong,
    a_receipt_comes_once,
    a_receipt_is_true,
    no_error_and_receipt,
    nothing_uncommitted_is_taken,
    order_is_kept,
    a_copy_is_marked,
    only_what_was_subscribed,
    values_arrive,
    a_message_has_one_trace,
    an_ack_is_for_its_message,
    a_commit_settles,
    nothing_is_lost_quietly,
    nobody_is_disturbed,
    deliveries_keep_their_order,
    counters_fit,
)


def judge(history: History) -> list[Finding]:
    """Return what is wrong in a history, by all rules."""
    case = arranged(history)
    rules = RULES[:1] if history.facts["scene"].mood else RULES
    return [Finding(rule.__name__, text) for rule in rules for text in rule(case)]
