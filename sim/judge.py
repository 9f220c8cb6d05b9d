"""What must hold of a history, one function for each rule. Each yields what it found, in words; `judge` asks all of them.

The same rules hold for worlds of the simulator and for runs with real brokers, whose own events may be absent.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from sim.brokers import POISON, REFUSED
from sim.history import Event, History, What
from sim.stomp import Frame

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
    sends: list[Sent] = field(default_factory=list)
    asked: dict[bytes, Event] = field(default_factory=dict)
    receipts: dict[bytes, Event] = field(default_factory=dict)
    errors: list[Event] = field(default_factory=list)
    read: list[Event] = field(default_factory=list)
    subscribed: dict[bytes, bytes] = field(default_factory=dict)
    modes: dict[bytes, bytes] = field(default_factory=dict)
    began: float | None = None
    unsubscribed: dict[bytes, bytes | None] = field(default_factory=dict)
    commits: dict[bytes, Event] = field(default_factory=dict)
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
    met: list[Event] = field(default_factory=list)
    calm: float = inf

    @property
    def sends(self) -> Iterator[tuple[Stay, Sent]]:
        """Yield all SENDs with their stays."""
        for stay in self.stays.values():
            for each in stay.sends:
                yield stay, each

    def holds(self, body: bytes, by: float | None = None) -> bool:
        """Whether a broker took a message (before `by`) and did not forget it."""
        taken = Counter(each.who for each in self.took.get(body, ()) if by is None or each.at <= by)
        return bool(taken - Counter(each.who for each in self.forgot.get(body, ())))


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
            case What.MET:
                case.met.append(event)
            case What.CALM:
                case.calm = event.at
            case What.WRONG:
                case.wrongs.append(event)
            case What.SENT | What.READ | What.ENDED | What.CONNECTED if event.who != "relay":
                stay = case.stays.setdefault((event.who, event.session), Stay(event.who, event.session))
                if stay.began is None:
                    stay.began = event.at
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
    if frame.command == b"NONSENSE" or POISON in (*headers, headers.get(b"login")):
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
                if each.receipt == name and each.transaction is None:
                    each.confirmed = event.at
                elif what.command == b"COMMIT" and each.transaction == transaction:
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
            fits = stay.subscribed.get(name) == place
            if not fits and (b"subscription" in frame.headers or place not in stay.subscribed.values()):
                yield f"{stay.name} read {frame}, and is not subscribed to it"
            receipt = stay.unsubscribed.get(name)
            answered = stay.receipts.get(receipt) if receipt is not None else None
            if answered is not None and answered.at < event.at and scene.kind != "fanout":
                yield f"{stay.name} read {frame} after the RECEIPT of its UNSUBSCRIBE"
        for body, count in read.items():
            if count > len(case.gave.get(body, ())):
                yield f"{stay.name} read {body[:20].decode()} {count} times, which brokers gave {len(case.gave.get(body, ()))} times"


def nothing_is_lost_quietly(case: Case) -> Iterator[str]:
    """What a client sent is taken by a broker, unless the client was told, left early, or it is counted as possibly lost."""
    scene = case.history.facts["scene"]
    missing = []
    for stay, send in case.sends:
        if send.number is None or case.took.get(send.body) or read_too_late(case, stay, send):
            continue
        stayed = (stay.ended is None or stay.orderly) and not stay.errors
        if stayed and scene.confirm and scene.kind == "failover":
            yield f"{stay.name}: no broker took {send.body[:20].decode()}, and nobody was told"
        missing.append(send)
    counted = case.history.facts.get("counters", {}).get("possibly_lost", 0)
    if len(missing) > counted:
        names = " ".join([each.body[:20].decode() for each in missing])
        yield f"{len(missing)} SENDs were taken by no broker, {counted} are counted as possibly lost: {names}"


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
            late = text.startswith(LATE) and ((left and nobody_else(case)) or half_closed(case, stay))
            late = late or stay.erred is not None or expected(case, stay, event.at, text)
            if scene.kind != "plain" and not late and not text.startswith(ALLOWED) and not across(case):
                yield f"{stay.name} read {event.frame}"


ALLOWED: Final = (
    b"the outcome of a transaction is unknown",
    b"the transaction cannot be committed",
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
        if stay.began is not None
    )
    if text.startswith((REFUSED, b"the quorum cannot be reached")) and refuses:
        return lost
    if text.startswith(b"the quorum cannot be reached"):
        return bool(stay.commits)  # a group does not know the outcome of one
    if text.startswith(b"NACK cannot be said to the broker"):
        return scene.clients[stay.client].version != b"1.0" and b"1.0" in [
            v for _, v in scene.brokers.values()
        ]
    return text.startswith(b"heart-beat missed") and (stay.client, "falls silent") in fates


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


HARMLESS: Final = ("refuses", "starts", "is well", "goes on")
"""What happens to a broker and costs it no session."""


def read_too_late(case: Case, stay: Stay, send: Sent) -> bool:
    """Whether the relay need not have read a SEND before the session ended: it left, or was sent an ERROR, soon after."""
    scene = case.history.facts["scene"]
    if stay.connected is None or (send.transaction is not None and stay.errors):
        return True
    if stay.erred is not None and send.event.at >= stay.erred.at:
        return True
    if _answered(stay, b"unknown command"):
        return False  # all that was sent before it is read
    ends = [event.at for event in stay.errors]
    if stay.ended is not None and not stay.orderly:
        ends.append(stay.ended.at if scene.kind != "plain" and scene.settings["buffer"] > 600 else -inf)
    ends += [each.at for each in case.fates if each.who == stay.client and each.at >= (stay.began or 0.0)]
    return bool(ends) and send.event.at > min(ends) - (0.5 if scene.weather[2] < 0.1 else 5.0)


def _answered(stay: Stay, text: bytes) -> bool:
    """Whether the first ERROR begins with this text."""
    return bool(stay.errors) and _given(stay.errors[0]).headers.get(b"message", b"").startswith(text)


def in_doubt(case: Case, stay: Stay, receipt: bytes) -> bool:
    """Whether a broker may owe this receipt for ever: it is of a SEND in a transaction."""
    return b"transaction" in _given(stay.asked[receipt]).headers


def who_errs_is_told(case: Case) -> Iterator[str]:
    """A client that sends what nobody knows or what costs brokers their connection reads an ERROR."""
    for stay in case.stays.values():
        if stay.erred is None or stay.errors or stay.client in {event.who for event in case.fates}:
            continue
        if stay.ended is None or stay.ended.at > case.calm + 30.0:
            yield f"{stay.name} was never told of {stay.erred.frame}"


def an_error_says_what_may_be_lost(case: Case) -> Iterator[str]:
    """Unless an ERROR says that something may be lost, all that was sent before the frame at fault was delivered, and
    each RECEIPT came before the ERROR.
    """
    for stay in case.stays.values():
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
    last = max([0.0, *[each.at for each in case.fates if each.who in (*scene.brokers, "relay")]])
    rude = any(each.detail == "closes at DISCONNECT" for each in case.fates)
    for event in case.fates:
        stay = case.stays.get((event.who, event.session))
        if not event.detail.startswith("half") or event.at < last + 20.0 or rude or stay is None:
            continue
        if stay.ended is not None and stay.ended.detail == "closed" and not stay.errors:
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
        if end is None or scene.kind == "plain" or hung:
            continue
        for event in case.took.get(send.body, ()):
            if event.at > end.at + scene.settings["disconnect_timeout"] + 4.0:
                yield f"{stay.name} left at {end.at:.3f}, and {event.who} took {send.body[:20].decode()} at {event.at:.3f}"


def silence_is_noticed(case: Case) -> Iterator[str]:
    """A client that promised heart-beats and falls silent does not keep its session."""
    for event in case.fates:
        stay = case.stays.get((event.who, event.session))
        if event.detail != "falls silent" or stay is None or stay.connected is None:
            continue
        _, _, wants = _given(stay.connected).headers.get(b"heart-beat", b"0,0").partition(b",")
        promised = case.history.facts["scene"].clients[stay.client].beats
        end = inf if stay.ended is None else stay.ended.at
        if promised and int(wants) and end > max(event.at, case.calm) + 15.0:
            yield f"{stay.name} was silent from {event.at:.3f} to {end:.3f}"


def a_broker_is_not_flooded(case: Case) -> Iterator[str]:
    """Relays open few connections to a broker in a second, beside one for each that a client opens."""
    most = 10 * len(case.history.facts["scene"].clients) + 5
    opened = [stay.began for stay in case.stays.values() if stay.began is not None]
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
    who = {event.who for event in case.fates if not event.detail.startswith(("starts", "is well"))}
    counted = case.history.facts.get("counters", {}).get("possibly_lost", 0)
    orderly = not who.intersection(scene.brokers)
    orderly = orderly and not any(stay.errors or stay.erred for stay in case.stays.values())
    if counted and orderly and scene.settings["disconnect_timeout"] >= 5.0 and scene.settings["buffer"] > 600:
        yield f"{counted} SENDs are counted as possibly lost, and nothing happened"
    unsure = sum(send.confirmed is None for _, send in case.sends)
    unsure += sum(POISON in _given(event).headers for event in case.history if event.what is What.SENT)
    if counted > unsure and scene.kind != "fanout":
        yield f"{counted} SENDs are counted as possibly lost, and only {unsure} have no RECEIPT"


def nothing_of_the_relays_own(case: Case) -> Iterator[str]:
    """No header that relays put into SENDs reaches a client."""
    for stay in case.stays.values():
        for event in stay.read:
            headers = _given(event).headers
            own = headers.get(b"receipt", b"").startswith(b"relay-") or b"relay-trace" in headers
            if own or headers.get(b"receipt-id", b"").startswith(b"relay-"):
                yield f"{stay.name} read {event.frame}"


def what_is_settled_was_acknowledged(case: Case) -> Iterator[str]:
    """A broker removes a message only if a client that read it has acknowledged it, or one that it covers."""
    acknowledged: set[bytes] = set()
    for stay in case.stays.values():
        acknowledged |= _acknowledged(stay, across(case))
    given: Event | None = None
    for event in case.history:
        if event.what is What.GAVE:
            given = event
        elif event.what is What.SETTLED:
            body = event.detail.encode()
            auto = given is not None and given[:2] == event[:2] and _given(given).body == body
            if not auto and body not in acknowledged:
                yield f"{event.who} removed {event.detail[:20]}, which nobody acknowledged"
            given = None


def _acknowledged(stay: Stay, across: bool) -> set[bytes]:
    """Return the bodies of the messages that ACKs and NACKs of a client cover."""
    found: set[bytes] = set()
    messages = [event for event in stay.read if _given(event).command == b"MESSAGE"]
    for ack in stay.acks:
        headers = _given(ack).headers
        name = headers.get(b"id", headers.get(b"message-id"))
        before = [_given(event) for event in messages if event.at <= ack.at]
        for number, frame in enumerate(before):
            if name in (frame.headers.get(b"ack"), frame.headers.get(b"message-id")):
                found.add(frame.body)
                subscription = frame.headers.get(b"subscription", frame.headers.get(b"destination", b""))
                if stay.modes.get(subscription, b"client") == b"client":
                    place = frame.headers.get(b"destination")
                    found.update(
                        each.body
                        for each in before[:number]
                        if across or each.headers.get(b"destination") == place
                    )
    return found


def a_commit_is_whole(case: Case) -> Iterator[str]:
    """An ACK in a transaction whose COMMIT is confirmed has taken effect."""
    settled = {event.detail.encode() for event in case.history if event.what is What.SETTLED}
    for stay in case.stays.values():
        for ack in stay.acks:
            headers = _given(ack).headers
            commit = stay.commits.get(headers.get(b"transaction", b""))
            asked = None if commit is None else _given(commit).headers.get(b"receipt")
            if asked not in stay.receipts or _given(ack).command != b"ACK":
                continue
            name = headers.get(b"id", headers.get(b"message-id"))
            bodies = {
                _given(event).body
                for event in stay.read
                if name in (_given(event).headers.get(b"ack"), _given(event).headers.get(b"message-id", b"-"))
            }
            if bodies and not bodies & settled:
                yield f"{stay.name} committed {ack.frame}, which had no effect"


def everybody_is_served_soon(case: Case) -> Iterator[str]:
    """When the weather ends, a client is answered within some seconds, unless it may owe too many ACKs."""
    if case.history.facts["scene"].settings["unacknowledged"] < 1000:
        return
    for stay in case.stays.values():
        if stay.erred is not None:
            continue  # brokers that it makes go are asked after growing pauses
        for name, event in stay.receipts.items():
            asked = stay.asked.get(name)
            late = asked is not None and event.at > max(asked.at, case.calm) + SOON
            if asked is not None and late and not in_doubt(case, stay, name):
                yield f"{stay.name} waited for RECEIPT {name.decode()} from {asked.at:.3f} to {event.at:.3f}"
        if (
            stay.connected is not None
            and stay.began is not None
            and stay.connected.at > max(stay.began, case.calm) + SOON
        ):
            yield f"{stay.name} waited for CONNECTED from {stay.began:.3f} to {stay.connected.at:.3f}"


SOON: Final = 5.0
"""Seconds within which a client is answered in calm weather."""

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
    what_is_settled_was_acknowledged,
    a_commit_is_whole,
    everybody_is_served_soon,
)


def judge(history: History) -> list[Finding]:
    """Return what is wrong in a history, by all rules."""
    case = arranged(history)
    return [Finding(rule.__name__, text) for rule in RULES for text in rule(case)]
