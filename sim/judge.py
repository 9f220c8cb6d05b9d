"""What must hold of a history, one function for each rule. Each yields what it found, in words; `judge` asks
all of them.

The same rules hold for worlds of the simulator and for runs with real brokers, whose own events are absent
(`facts["brokers_seen"]` is False). There a message counts as taken if a client read it or a broker has it at the
end; what is sent to a topic, or to a queue that somebody reads with `ack:auto`, is assumed to be taken. Rules that need
more are left out (`OF_BROKERS`).
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from sim.brokers import REFUSED
from sim.history import Event, History, What
from sim.stomp import Frame
from stomprelay.relay.model.listener import LossPolicy

LOST: Final = b"what has no receipt may be lost"
"""What an ERROR of the relay says if it does not know that everything before was delivered."""
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
    began: float
    sends: list[Sent] = field(default_factory=list)
    asked: dict[bytes, Event] = field(default_factory=dict)
    receipts: dict[bytes, Event] = field(default_factory=dict)
    errors: list[Event] = field(default_factory=list)
    read: list[Event] = field(default_factory=list)
    subscribed: dict[bytes, bytes] = field(default_factory=dict)
    modes: dict[bytes, bytes] = field(default_factory=dict)
    unsubscribed: dict[bytes, bytes | None] = field(default_factory=dict)
    commits: dict[bytes, Event] = field(default_factory=dict)
    acked: tuple[bytes, bytes] = (b"", b"")
    inside: dict[bytes, list[tuple[bytes, bytes]]] = field(default_factory=lambda: defaultdict(list))
    connected: Event | None = None
    ended: Event | None = None
    orderly: bool = False
    erred: Event | None = None
    acks: list[Event] = field(default_factory=list)

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
    kept: dict[bytes, list[Event]] = field(default_factory=lambda: defaultdict(list))
    met: list[Event] = field(default_factory=list)
    calm: float = inf

    @property
    def seen(self) -> bool:
        """Return whether the brokers' own events are in the history."""
        return bool(self.history.facts.get("brokers_seen", True))

    @property
    def sends(self) -> Iterator[tuple[Stay, Sent]]:
        """Yield all SENDs with their stays."""
        for stay in self.stays.values():
            for each in stay.sends:
                yield stay, each

    def holds(self, body: bytes, by: float | None = None) -> bool:
        """Whether a broker took a message (before `by`) more often than it forgot it."""
        found = self.took.get(body, ())
        taken = Counter(each.who for each in found if by is None or each.at <= by or not self.seen)
        lost = Counter(each.who for each in self.forgot.get(body, ()))
        return any(count > lost[who] for who, count in taken.items())


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
            case What.TOOK | What.GAVE:
                found = case.took if event.what is What.TOOK else case.gave
                found[_given(event).body].append(event)
            case What.FORGOT | What.KEPT:
                found = case.forgot if event.what is What.FORGOT else case.kept
                found[event.detail.encode()].append(event)
            case What.FATE | What.WRONG | What.MET:
                {What.FATE: case.fates, What.WRONG: case.wrongs}.get(event.what, case.met).append(event)
            case What.CALM:
                case.calm = event.at
            case What.SENT | What.READ | What.ENDED | What.CONNECTED if event.who not in rough:
                stay = case.stays.setdefault(
                    (event.who, event.session), Stay(event.who, event.session, event.at)
                )
                if event.what is What.SENT:
                    _sent(stay, event, _given(event))
                elif event.what is What.READ:
                    _read(case, stay, event, _given(event))
                elif event.what is What.ENDED:
                    stay.ended = event
    if not case.seen:
        _infer(case)
    return case


def _infer(case: Case) -> None:
    """Fill in what brokers took whose own events are absent."""
    forgetful = set()
    for stay in case.stays.values():
        for event in stay.read:
            if _given(event).command == b"MESSAGE":
                case.took[_given(event).body].append(event)
        forgetful |= {stay.subscribed[name] for name, mode in stay.modes.items() if mode == b"auto"}
    for body, events in case.kept.items():
        case.took[body] += events
    for _, send in case.sends:
        topic = send.destination.startswith(b"/topic/")
        if send.number is not None and (topic or send.destination in forgetful):
            case.took[send.body].append(send.event)


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
    if frame.command == b"NONSENSE":
        stay.erred = event
        return
    match frame.command:
        case b"SEND":
            made = Sent(event, frame.body, headers[b"destination"], transaction, None, receipt)
            made.number = len(stay.sends) if transaction is None else None
            stay.sends.append(made)
        case b"SUBSCRIBE":
            name = headers.get(b"id", headers[b"destination"])
            stay.subscribed[name] = headers[b"destination"]
            stay.modes[name] = headers.get(b"ack", b"auto")
            stay.unsubscribed.pop(name, None)
        case b"ACK" | b"NACK":
            stay.acks.append(event)
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
    """A broker takes what one client sends to one destination in the client's order, copies included. If its events are
    absent: it keeps in this order what nobody has read and no other broker has.
    """
    places: dict[bytes, tuple[Stay, Sent]] = {each.body: (stay, each) for stay, each in case.sends}
    last: dict[tuple[str, str, bytes], int] = {}
    seen: set[tuple[str, bytes]] = set()
    lost = {(event.who, body) for body, found in case.forgot.items() for event in found}
    for event in case.history:
        if event.what is What.TOOK:
            body = _given(event).body
        elif event.what is What.KEPT and not case.seen:
            body = event.detail.encode()
            if any(each.what is not What.KEPT or each.who != event.who for each in case.took[body]):
                continue
        else:
            continue
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
    """A client reads a MESSAGE only for a subscription of its own, from that destination, and as a broker gave it.
    A real ActiveMQ gives some more behind the RECEIPT of UNSUBSCRIBE.
    """
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
            fits = stay.subscribed.get(name) == place
            named = scene.clients[stay.client].version != b"1.0"
            if not fits and (named or place not in stay.subscribed.values()):
                yield f"{stay.name} read {frame}, and is not subscribed to it"
            receipt = stay.unsubscribed.get(name)
            answered = stay.receipts.get(receipt) if receipt is not None else None
            if answered is not None and answered.at < event.at and scene.kind != "fanout" and case.seen:
                yield f"{stay.name} read {frame} after the RECEIPT of its UNSUBSCRIBE"
        for body, count in read.items():
            gave = len(case.gave.get(body, ()))
            if count > gave and case.seen:
                what = body[:20].decode(errors="replace")
                yield f"{stay.name} read {what} {count} times, which brokers gave {gave} times"


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
    """Whether the odd headers of a frame are those that were sent, by the losses of `docs/translation.md`. Between
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
        if send.number is None or case.took.get(send.body) or read_too_late(case, stay, send):
            continue
        stayed = (stay.ended is None or stay.orderly) and not stay.errors
        if stayed and not scene.routed and scene.confirm and scene.kind == "failover":
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
    if case.history.facts.get("rough"):
        return  # what clients say that err is not in the stays
    scene = case.history.facts["scene"]
    stays = list(case.stays.values())
    counters = case.history.facts.get("counters", {})
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


def the_journal_equals_the_history(case: Case) -> Iterator[str]:
    """The journal has each SEND that a broker took, and each MESSAGE that a client read, as often as they came."""
    frames, damages, failed = case.history.facts.get("journal", (None, (), False))
    if frames is None:
        return
    yield from damages
    sent = Counter([each.body for _, each in case.sends])
    lossy = failed or any(each.detail == "is killed" for each in case.fates)
    read = Counter([_given(event).body for stay in case.stays.values() for event in stay.read])
    for (side, command, body), count in frames.items():
        if command == b"SEND" and (side != "client" or count > sent[body]):
            yield f"the journal has {count} times {body[:20].decode()} of the {side}"
        if command == b"MESSAGE" and (side != "broker" or count > len(case.gave.get(body, ()))):
            yield f"the journal has {count} times the MESSAGE {body[:20].decode()} of the {side}"
    for body in case.took if not lossy else ():
        if not frames["client", b"SEND", body] or frames["broker", b"MESSAGE", body] < read[body]:
            yield f"the journal does not have all of {body[:20].decode()}"


def nobody_is_disturbed(case: Case) -> Iterator[str]:
    """In front of several brokers a client gets no ERROR and keeps its connection, but where the documents say so."""
    scene = case.history.facts["scene"]
    cut = {event.who for event in case.fates if event.who in scene.clients}
    for stay in case.stays.values():
        if without_relay(case, stay):
            continue
        if stay.ended is not None and stay.ended.detail != "left" and stay.client not in cut:
            left = any(_given(event).command == b"DISCONNECT" for event in stay.asked.values())
            if not stay.errors and not left and scene.kind != "plain" and not half_closed(case, stay):
                yield f"{stay.name} was disconnected without an ERROR"
        for event in stay.errors:
            text = _given(event).headers.get(b"message", b"")
            left = any(_given(each).command == b"DISCONNECT" for each in stay.asked.values())
            late = text.startswith(LATE) and ((left and nobody_else(case)) or half_closed(case, stay))
            late = late or stay.erred is not None or expected(case, stay, event.at, text)
            habit = scene.clients[stay.client]
            refused = scene.loss is LossPolicy.REJECT and text.startswith(b"a header cannot be said")
            refused = refused or not habit.known or habit.chokes or odd(stay)
            late = late or (text == ASTRAY and bool(stay.unsubscribed))
            due = refused or scene.tight or text.startswith((*ALLOWED, *configured(case, event)))
            due = due or (again(case) and text in UNAWAITED)
            due = due or (text == b"the relay is short of memory" and scene.settings["memory"] < 1 << 30)
            if scene.kind != "plain" and not late and not due:
                yield f"{stay.name} read {event.frame}"


ALLOWED: Final = (
    b"the outcome of a transaction is unknown",
    b"the transaction cannot be committed",
    b"the quorum cannot be reached",
    b"a transaction cannot span upstreams",
)
"""How the messages of ERRORs begin that a broker's death, or a broker of an older version, may cause."""

LATE: Final = b"connection to the broker was lost"
"""How the message of the ERROR begins that a client reads when it leaves and brokers do not answer in time."""


ASTRAY: Final = b"Subscription not found"
"""RabbitMQ's own ERROR for a delivery of a subscription that has just ended. The session goes on."""


def without_relay(case: Case, stay: Stay) -> bool:
    """Whether the relay was killed or stopped while this connection was there, or refused it."""
    end = inf if stay.ended is None else stay.ended.at
    told = [each for each in case.fates if each.who == "relay" and each.detail in TAKES]
    before = [TAKES[each.detail] for each in told if each.at <= stay.began]
    away = [each.detail for each in told if stay.began < each.at <= end and not TAKES[each.detail]]
    handed = any(each.detail == "hands over" and stay.began < each.at <= end for each in told)
    return (
        handed
        or not before[-1]
        or any(stay.connected is None or not each.startswith("refuses") for each in away)
    )


TAKES: Final = {
    "starts": True,
    "hands over": True,
    "takes new clients": True,
    "refuses new clients": False,
    "is killed": False,
    "stops": False,
    "has stopped": False,
}
"""Whether a relay to which this happens takes new clients from then on."""


def configured(case: Case, until: Event) -> tuple[bytes, ...]:
    """Return how ERRORs begin that come of the configurations which the relay had up to an event."""
    used = [each.detail for each in case.fates if each.at <= until.at and each.detail.startswith("reads")]
    return tuple([each for word, texts in BY_SETTING.items() if word in " ".join(used) for each in texts])


BY_SETTING: Final = {
    "versions": (b"no common STOMP version",),
    "body": (b"body too large",),
    "clients": (b"too many connections",),
    "denied": (b"not allowed", b"a subscription is no longer allowed"),
}
"""How the messages of ERRORs begin that a setting causes."""


def again(case: Case) -> bool:
    """Whether clients may acknowledge once too often: `across`, or what was in a transaction that they aborted."""
    return across(case) or any(product.early for product, _ in case.history.facts["scene"].brokers.values())


def across(case: Case) -> bool:
    """Whether a broker acknowledges across subscriptions, so that a client's own ACKs may be one too many there."""
    return any(product.across for product, _ in case.history.facts["scene"].brokers.values())


def half_closed(case: Case, stay: Stay) -> bool:
    """Whether the client had closed its sending direction."""
    return any(
        event.what is What.FATE and event.who == stay.client and event.detail.startswith("half")
        for event in case.fates
    )


def a_session_ends(case: Case) -> Iterator[str]:
    """A session ends soon after its client sent DISCONNECT or closed its sending direction, in calm weather."""
    closed = {(each.who, each.session): each.at for each in case.fates if each.detail.startswith("half")}
    for key, stay in case.stays.items():
        left = [each.at for each in stay.asked.values() if _given(each).command == b"DISCONNECT"]
        left += [closed[key]] if key in closed else []
        end = inf if stay.ended is None else stay.ended.at
        if left and end > max(min(left), case.calm) + ENDS and case.calm < inf:
            yield f"{stay.name} wanted to leave at {min(left):.3f}, and its end came at {end:.3f}"


ENDS: Final = 29.0
"""Seconds within which a session ends in calm weather."""


def a_receipt_is_not_withheld(case: Case) -> Iterator[str]:
    """With heart-beats and several brokers no client waits for a RECEIPT, or for CONNECTED, while one broker is well
    for `ENOUGH` seconds. What is in a transaction waits for its COMMIT, and DISCONNECT for what is in transactions.
    """
    scene = case.history.facts["scene"]
    beats = scene.settings["beats"] and scene.settings["unacknowledged"] >= 1000
    if scene.kind != "failover" or not beats or disturbed(case):
        return
    spells = _spells(case)
    for stay in case.stays.values():
        waits = [(stay.began, stay.connected, "CONNECTED")] if stay.connected is not None else []
        since = stay.connected.at if stay.connected is not None else 0.0
        inside = any(_inside(stay, each) for each in stay.asked.values())
        for name, event in stay.receipts.items():
            asked = stay.asked.get(name)
            last = asked is not None and _given(asked).command == b"DISCONNECT"
            if asked is not None and not _inside(stay, asked) and not (last and inside):
                waits.append((max(asked.at, since), event, f"RECEIPT {name.decode()}"))
        for began, event, what in waits:
            if event.at - began > ENOUGH:
                well = max(min(event.at, end) - max(began, start) for start, end in spells)
                span = f"from {began:.3f} to {event.at:.3f}"
                if well > ENOUGH:
                    yield f"{stay.name} waited for {what} {span}, and a broker was well for {well:.1f} s"


ENOUGH: Final = 7.0
"""Seconds for which a broker is well without a break, in which every client is served. Clients may read nothing for two
of them.
"""


def _inside(stay: Stay, asked: Event) -> bool:
    """Whether what asked for a RECEIPT is in a transaction."""
    return b"transaction" in _given(asked).headers and asked not in stay.commits.values()


def _spells(case: Case) -> list[tuple[float, float]]:
    """Return from when to when a broker was well, of all brokers."""
    since = dict.fromkeys(case.history.facts["scene"].brokers, -inf)
    found = []
    for event in case.fates:
        if event.who in case.history.facts["scene"].brokers:
            if event.who in since:
                found.append((since.pop(event.who), event.at))
            if event.detail.startswith(("starts", "goes on", "is well", "is cut")):
                since[event.who] = event.at
    return found + [(each, inf) for each in since.values()]


def expected(case: Case, stay: Stay, at: float, text: bytes) -> bool:
    """Whether the world gave a reason for this ERROR: a broker refuses clients, the client fell silent, or its version
    has a command that a broker's has not.
    """
    scene = case.history.facts["scene"]
    fates = [(event.who, event.detail) for event in case.fates if event.at <= at]
    refuses = any(what == "refuses" for _, what in fates)
    lost = stay.connected is None or any(
        each.who in scene.brokers and each.detail not in HARMLESS and stay.began - 5.0 <= each.at <= at
        for each in case.fates
    )
    if text.startswith((REFUSED, b"the quorum cannot be reached")) and refuses:
        return lost
    if text.startswith(b"a frame cannot be delivered"):
        return any(what == "has full queues" for _, what in fates)
    if text.startswith(b"the quorum cannot be reached"):
        return bool(stay.commits)  # a group does not know the outcome of one
    if text.startswith(b"NACK cannot be said to the broker"):
        old = scene.versions or b"1.0" in [version for _, version in scene.brokers.values()]
        return scene.clients[stay.client].version != b"1.0" and bool(old)
    return text.startswith(b"heart-beat missed") and (stay.client, "falls silent") in fates


def odd(stay: Stay) -> bool:
    """Whether a client has sent a message for which some brokers close the connection."""
    return any(b"priority" in _given(each.event).headers for each in stay.sends)


UNAWAITED: Final = (b"AMQP channel died", b"not found")
"""With which messages brokers answer an ACK that they do not await."""


def nobody_else(case: Case) -> bool:
    """Whether no broker was well all the time and in time, so that a client which leaves may have to be told."""
    scene = case.history.facts["scene"]
    ill = {event.who for event in case.fates if event.detail not in HARMLESS[1:]}
    ill |= {
        event.detail.removeprefix("tcp://").partition(" ")[0] for event in case.fates if event.who == "relay"
    }
    rude = any(event.detail == "closes at DISCONNECT" for event in case.fates)
    return (
        rude
        or scene.kind != "failover"
        or scene.settings["disconnect_timeout"] < 5.0
        or ill.issuperset(scene.brokers)
    )


HARMLESS: Final = (
    "refuses",
    "starts",
    "is well",
    "goes on",
    "serves again",
    "has full queues",
    "has room again",
)
"""What happens to a broker and costs it no session."""


def read_too_late(case: Case, stay: Stay, send: Sent) -> bool:
    """Whether the relay need not have read a SEND before the session ended, soon after it."""
    scene = case.history.facts["scene"]
    if stay.connected is None or without_relay(case, stay) or (send.transaction is not None and stay.errors):
        return True
    if stay.erred is not None and send.event.at >= stay.erred.at:
        return True
    if odd(stay):
        return True
    if _answered(stay, b"unknown command"):
        return False  # all that was sent before it is read
    until = (inf if stay.ended is None else stay.ended.at) + scene.settings["disconnect_timeout"] + 5.0
    if any(
        stay.began < each.at < until and each.detail in ("is killed", "stops")
        for each in case.fates
        if each.at < case.calm
    ):
        return True  # and the relay is gone
    # An ERROR is written at the end of the session, and the client may be slow to read it.
    ends = [event.at - scene.settings["disconnect_timeout"] - 2.5 for event in stay.errors]
    if stay.ended is not None and not stay.orderly:
        ends.append(stay.ended.at if scene.kind != "plain" and scene.settings["buffer"] > 600 else -inf)
    ends += [each.at for each in case.fates if each.who == stay.client and each.at >= stay.began]
    return bool(ends) and send.event.at > min(ends) - (0.5 if scene.weather[2] < 0.1 else 5.0)


def _answered(stay: Stay, text: bytes) -> bool:
    """Whether the first ERROR begins with this text."""
    return bool(stay.errors) and _given(stay.errors[0]).headers.get(b"message", b"").startswith(text)


def in_doubt(case: Case, stay: Stay, receipt: bytes) -> bool:
    """Whether a broker may owe this receipt for ever: it is of a SEND in a transaction."""
    return b"transaction" in _given(stay.asked[receipt]).headers


def who_errs_is_told(case: Case) -> Iterator[str]:
    """A client that sends what nobody knows or what costs brokers their connection reads an ERROR; the first, soon."""
    most = 2 * case.history.facts["scene"].settings["disconnect_timeout"] + 3.0
    for stay in case.stays.values():
        if (
            stay.erred is None
            or stay.client in {event.who for event in case.fates}
            or without_relay(case, stay)
        ):
            continue
        end = inf if stay.ended is None else stay.ended.at
        if not stay.errors and end > case.calm + 30.0:
            yield f"{stay.name} was never told of {stay.erred.frame}"
        elif stay.connected is not None and _given(stay.erred).command == b"NONSENSE" and is_read(case):
            told = min([end, *[event.at for event in stay.errors]])
            if told > max(stay.erred.at, stay.connected.at) + most:
                yield f"{stay.name} was told at {told:.3f} of {stay.erred.frame}, sent at {stay.erred.at:.3f}"


def is_read(case: Case) -> bool:
    """Whether the relay reads from its clients all the time: it is one, with its first settings and large buffers."""
    settings = case.history.facts["scene"].settings
    large = settings["buffer"] > 600 and settings["memory"] >= 1 << 30 and settings["frames"] is None
    return large and not disturbed(case)


def disturbed(case: Case) -> bool:
    """Whether something happened to the relay, or to a broker by way of it, before the weather became calm."""
    return any(e.who == "relay" and e.detail != "starts" and e.at < case.calm for e in case.fates)


def an_error_says_what_may_be_lost(case: Case) -> Iterator[str]:
    """Unless an ERROR says that something may be lost, all that was sent before the frame at fault was delivered, and
    each RECEIPT came before the ERROR.
    """
    for stay in case.stays.values():
        scene = case.history.facts["scene"]
        if scene.kind == "fanout" or without_relay(case, stay):
            continue
        if not _answered(stay, b"unknown command") or LOST in _given(stay.errors[0]).body:
            continue
        error = _given(stay.errors[0])
        for send in stay.sends:
            kept = case.history.facts["scene"].confirm or send.receipt is not None
            if case.history.facts.get("counters", {}).get("fanout_overflowed"):
                continue
            if send.number is not None and not case.took.get(send.body) and kept:
                yield f"{stay.name} read {error} and {send.body[:20].decode()} was not delivered"
            if send.receipt is not None and send.transaction is None and send.receipt not in stay.receipts:
                yield f"{stay.name} read {error} and no RECEIPT {send.receipt.decode()}"


def who_half_closes_is_answered(case: Case) -> Iterator[str]:
    """A client that closed its sending direction reads its RECEIPTs, if nothing happens to brokers."""
    scene = case.history.facts["scene"]
    if scene.settings["disconnect_timeout"] < 5.0:
        return
    troubles = [each.at for each in case.fates if each.who in (*scene.brokers, "relay")]
    rude = any(each.detail == "closes at DISCONNECT" for each in case.fates)
    for event in case.fates:
        stay = case.stays.get((event.who, event.session))
        if not event.detail.startswith("half") or rude or stay is None:
            continue
        if any(event.at - 20.0 < at < event.at + 5.0 for at in troubles):
            continue
        if stay.ended is not None and stay.ended.detail == "closed" and not (stay.errors or odd(stay)):
            for name in stay.asked:
                if name not in stay.receipts and not in_doubt(case, stay, name):
                    yield f"{stay.name} half-closed, and read no RECEIPT {name.decode()}"


def nothing_comes_late(case: Case) -> Iterator[str]:
    """What a client sent that has left is taken within `disconnect_timeout`, or not at all; but what a broker had
    received that hangs, it may take when it goes on.
    """
    scene = case.history.facts["scene"]
    hung = {event.who for event in case.fates if event.detail == "hangs"}
    for stay, send in case.sends:
        end = stay.ended
        if (
            end is None
            or scene.kind == "plain"
            or hung
            or sum(len(each.body) for each in stay.sends) > BUFFER
        ):
            continue
        for event in case.took.get(send.body, ()):
            if event.at > end.at + scene.settings["disconnect_timeout"] + 4.0:
                what = send.body[:20].decode()
                yield f"{stay.name} left at {end.at:.3f}, and {event.who} took {what} at {event.at:.3f}"


BUFFER: Final = 50_000
"""Bytes of a client that the system keeps for a relay which does not read them, so that it does not see the end."""


def silence_is_noticed(case: Case) -> Iterator[str]:
    """A client that promised heart-beats and falls silent does not keep its session."""
    for event in case.fates:
        stay = case.stays.get((event.who, event.session))
        if event.detail != "falls silent" or stay is None or stay.connected is None or odd(stay):
            continue
        _, _, wants = _given(stay.connected).headers.get(b"heart-beat", b"0,0").partition(b",")
        promised = case.history.facts["scene"].clients[stay.client].beats
        end = inf if stay.ended is None else stay.ended.at
        since = max(event.at, stay.connected.at if is_read(case) else case.calm)
        if promised and int(wants) and end > since + 15.0:
            yield f"{stay.name} was silent from {event.at:.3f} to {end:.3f}"


def a_broker_is_not_flooded(case: Case) -> Iterator[str]:
    """Relays open few connections to a broker in a second, beside one for each that a client opens."""
    if case.history.facts.get("rough"):
        return
    most = 10 * len(case.history.facts["scene"].clients) + 5
    opened = [stay.began for stay in case.stays.values()]
    last: dict[str, list[float]] = defaultdict(list)
    for event in case.met:
        times = last[event.who]
        times[:] = [at for at in times if at > event.at - 1.0] + [event.at]
        if len(times) > most + sum(event.at - 1.5 < at <= event.at for at in opened):
            yield f"{event.who} got {len(times)} connections within a second"
            times.clear()


def nobody_goes_to_a_paused_broker(case: Case) -> Iterator[str]:
    """A broker that is out of service gets no new connections."""
    paused: dict[str, float] = {}
    for event in case.history:
        if event.what is What.FATE and event.who == "relay":
            name, _, what = event.detail.removeprefix("tcp://").partition(" ")
            paused = {} if event.detail == "starts" else paused
            if what == "is taken out of service":
                paused.setdefault(name, event.at)
            elif what == "is in service":
                paused.pop(name, None)
        elif event.what is What.CALM:
            return
        elif event.what is What.MET and event.at > paused.get(event.who, inf) + 3.0:
            yield f"{event.who} was out of service, and got a connection"


def an_alarm_has_a_cause(case: Case) -> Iterator[str]:
    """No SEND is counted as possibly lost where no broker was lost and nobody was sent an ERROR."""
    scene = case.history.facts["scene"]
    if case.history.facts.get("rough") or scene.kind == "fanout":  # each group that misses a SEND counts it
        return
    who = {event.who for event in case.fates if not event.detail.startswith(("starts", "is well"))}
    counted = case.history.facts.get("counters", {}).get("possibly_lost", 0)
    orderly = not who.intersection(scene.brokers)
    orderly = orderly and not any(stay.errors or stay.erred or odd(stay) for stay in case.stays.values())
    orderly = orderly and not any(
        event.at < case.calm and not TAKES.get(event.detail, True) for event in case.fates
    )
    taken = all(send.number is None or case.took.get(send.body) for _, send in case.sends)
    if (
        counted
        and orderly
        and taken
        and scene.settings["disconnect_timeout"] >= 5.0
        and scene.settings["buffer"] > 600
    ):
        yield f"{counted} SENDs are counted as possibly lost, and nothing happened"
    unsure = sum(send.confirmed is None for _, send in case.sends)
    if counted > unsure:
        yield f"{counted} SENDs are counted as possibly lost, and only {unsure} have no RECEIPT"


def nothing_of_the_relays_own(case: Case) -> Iterator[str]:
    """No receipt that relays ask for, and no header that they put into SENDs reaches a client."""
    for stay in case.stays.values():
        for event in stay.read:
            headers = _given(event).headers
            own = headers.get(b"receipt", b"").startswith(b"relay-")
            if own or headers.get(b"receipt-id", b"").startswith(b"relay-"):
                yield f"{stay.name} read {event.frame}"


def a_commit_is_whole(case: Case) -> Iterator[str]:
    """An ACK in a transaction whose COMMIT is confirmed has taken effect."""
    settled: dict[tuple[bytes, bytes], float] = {}
    for event in case.history:
        if event.what is What.SETTLED:
            settled.setdefault((event.who.encode(), event.detail.encode()), event.at)
    for stay in case.stays.values():
        for ack in stay.acks:
            headers = _given(ack).headers
            commit = stay.commits.get(headers.get(b"transaction", b""))
            asked = None if commit is None else _given(commit).headers.get(b"receipt")
            if asked not in stay.receipts or _given(ack).command != b"ACK":
                continue
            name = headers.get(b"id", headers.get(b"message-id"))
            read = [_given(event) for event in stay.read if _given(event).command == b"MESSAGE"]
            meant = [each for each in read if name in (each.headers.get(b"ack"), each.headers[b"message-id"])]
            by = stay.receipts[asked].at
            if meant and not any(
                settled.get((each.headers.get(b"from", b""), each.body), inf) <= by for each in meant
            ):
                yield f"{stay.name} committed {ack.frame}, which had no effect"


def an_ack_takes_effect(case: Case) -> Iterator[str]:
    """What a client acknowledges at last, in calm weather, its broker removes."""
    errors = [_given(event).headers.get(b"message") for stay in case.stays.values() for event in stay.errors]
    if any(text in UNAWAITED for text in errors):
        return
    given: set[tuple[bytes, bytes]] = set()
    due: dict[tuple[bytes, bytes], str] = {}
    for event in () if case.history.facts.get("rough") else case.history:
        match event.what:
            case What.GAVE if _given(event).headers.get(b"destination", b"").startswith(b"/queue/"):
                given.add((event.who.encode(), _given(event).body))
            case What.ACKED if event.at > case.calm + 50.0:
                key = _given(event).headers.get(b"from", b""), _given(event).body
                if key in given:
                    due[key] = event.who
            case What.RETURNED | What.SETTLED | What.FORGOT:
                given.discard((event.who.encode(), event.detail.encode()))
                if event.what is What.SETTLED:
                    due.pop((event.who.encode(), event.detail.encode()), None)
    for (broker, body), client in due.items():
        yield f"{client} acknowledged {body[:20].decode()}, and {broker.decode()} did not remove it"


def everybody_is_served_soon(case: Case) -> Iterator[str]:
    """When the weather ends, a client is answered within some seconds, unless it may owe too many ACKs."""
    if case.history.facts["scene"].settings["unacknowledged"] < 1000:
        return
    for stay in case.stays.values():
        if stay.erred is not None or odd(stay) or without_relay(case, stay):
            continue  # brokers that it makes go are asked after growing pauses
        for name, event in stay.receipts.items():
            asked = stay.asked.get(name)
            late = asked is not None and event.at > max(asked.at, case.calm) + SOON
            if asked is not None and late and not in_doubt(case, stay, name):
                yield f"{stay.name} waited for RECEIPT {name.decode()} from {asked.at:.3f} to {event.at:.3f}"
        if stay.connected is not None and stay.connected.at > max(stay.began, case.calm) + SOON:
            yield f"{stay.name} waited for CONNECTED from {stay.began:.3f} to {stay.connected.at:.3f}"


SOON: Final = 5.0
"""Seconds within which a client is answered in calm weather."""

OF_BROKERS: Final = (
    a_copy_is_marked,
    values_arrive,
    an_ack_is_for_its_message,
    deliveries_keep_their_order,
    counters_fit,
    who_errs_is_told,
    an_error_says_what_may_be_lost,
    who_half_closes_is_answered,
    nothing_comes_late,
    silence_is_noticed,
    a_broker_is_not_flooded,
    nobody_goes_to_a_paused_broker,
    an_alarm_has_a_cause,
    a_commit_is_whole,
    everybody_is_served_soon,
)
"""Rules that say nothing where the brokers' own events are absent."""

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
    the_journal_equals_the_history,
    nobody_is_disturbed,
    who_errs_is_told,
    an_error_says_what_may_be_lost,
    who_half_closes_is_answered,
    nothing_comes_late,
    silence_is_noticed,
    a_broker_is_not_flooded,
    nobody_goes_to_a_paused_broker,
    an_alarm_has_a_cause,
    nothing_of_the_relays_own,
    a_commit_is_whole,
    an_ack_takes_effect,
    everybody_is_served_soon,
    deliveries_keep_their_order,
    counters_fit,
    a_session_ends,
    a_receipt_is_not_withheld,
)


def judge(history: History) -> list[Finding]:
    """Return what is wrong in a history, by all rules."""
    case = arranged(history)
    rules = [rule for rule in RULES if case.seen or rule not in OF_BROKERS]
    if history.facts["scene"].mood:
        rules = rules[:1]
    return [Finding(rule.__name__, text) for rule in rules for text in rule(case)]
