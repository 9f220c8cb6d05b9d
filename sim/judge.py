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
    unsubscribed: dict[bytes, bytes | None] = field(default_factory=dict)
    commits: dict[bytes, Event] = field(default_factory=dict)
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
    for event in history:
        match event.what:
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
            case What.SENT | What.READ | What.ENDED | What.CONNECTED if event.who != "relay":
                stay = case.stays.setdefault(
                    (event.who, event.session), Stay(event.who, event.session, event.at)
                )
                if event.what is What.SENT:
                    _sent(stay, event, _given(event))
                elif event.what is What.READ:
                    _read(case, stay, event, _given(event))
                elif event.what is What.ENDED:
                    stay.ended = event
    return case


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
    for event in case.wrongs:
        yield f"{event.at:.3f} {event.who}: {event.detail}"


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
    for body, found in case.took.items():
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
            if count > len(case.gave.get(body, ())):
                given = len(case.gave.get(body, ()))
                yield f"{stay.name} read {body[:20].decode()} {count} times, which brokers gave {given} times"


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
            late = text.startswith(LATE) and (left or half_closed(case, stay))
            due = text.startswith((*ALLOWED, *configured(case, event)))
            due = due or (text == b"the relay is short of memory" and scene.settings["memory"] < 1 << 30)
            if scene.kind != "plain" and not late and not due and not across(case):
                yield f"{stay.name} read {event.frame}"


ALLOWED: Final = (
    b"NACK cannot be said to the broker",
    b"the outcome of a transaction is unknown",
    b"the transaction cannot be committed",
    b"the quorum cannot be reached",
)
"""How the messages of ERRORs begin that a broker's death, or a broker of an older version, may cause."""

LATE: Final = b"connection to the broker was lost"
"""How the message of the ERROR begins that a client reads when it leaves and brokers do not answer in time."""


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
    nothing_is_lost_quietly,
    the_journal_equals_the_history,
    nobody_is_disturbed,
)


def judge(history: History) -> list[Finding]:
    """Return what is wrong in a history, by all rules."""
    case = arranged(history)
    return [Finding(rule.__name__, text) for rule in RULES for text in rule(case)]
