"""What must hold of a history, one function for each rule. Each yields what it found, in words; `judge` asks
all of them.

The same rules hold for worlds of the simulator and for runs with real brokers, whose own events are absent
(`facts["brokers_seen"]` is False). There a message counts as taken if a client read it or a broker has it at the
end; what is sent to a topic, or to a queue that somebody reads with `ack:auto`, is assumed to be taken. Rules that need
more are left out (`OF_BROKERS`).

A rule excuses what the documents allow, and only that: each excuse names the page of `docs/` and the heading.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from math import inf
from typing import Final, NamedTuple

from sim.brokers import REFUSED
from sim.case import Case, Sent, Stay, arranged, shown, topic
from sim.history import Event, History, What
from stomprelay.relay.model.group import Policy
from stomprelay.relay.model.listener import LossPolicy

RESENT: Final = b"relay-resent"
SOON: Final = 5.0  # seconds within which a client is answered in calm weather
ENOUGH: Final = 5.5  # seconds in which a broker that is well serves all; clients may read nothing for two
ENDS: Final = 29.0  # seconds within which a session ends in calm weather, whose client leaves, or errs
SLOWEST: Final = 2.5  # seconds that a RabbitMQ of a world takes to confirm a SEND
LITTLE: Final = 20_000  # bytes of SENDs that do not keep the relay from reading on
SILENT: Final = 15.0  # the same for a client that does not keep its promise of heart-beats
BUFFER: Final = 50_000  # bytes that the system keeps of a client, so that a relay does not see its end


class Finding(NamedTuple):
    """Something that must not be. `rule` is the name of the rule that it breaks."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


# What explains a finding


def without_relay(case: Case, stay: Stay) -> bool:
    """Return whether no relay took clients when this connection began, or one began or ceased to until its end."""
    told = [each for each in case.fates if each.who == "relay" and each.detail in TAKES + LEAVES]
    told = [each for each in told if each.at <= stay.end]
    return not told or told[-1].detail in LEAVES or told[-1].at > stay.began


TAKES: Final = ("starts", "hands over", "takes new clients")
LEAVES: Final = ("refuses new clients", "is killed", "stops", "has stopped")
"""What happens to a relay that takes new clients from then on, or none."""
ENDS_OF: Final = {
    "is killed": {"starts"},
    "hangs": {"goes on", "starts"},
    "takes no connections": {"takes connections again", "starts"},
    "serves nobody": {"serves again", "starts"},
    "has full queues": {"has room again", "starts"},
    "goes": {"is well"},
    "refuses": {"is well"},
    "is taken out of service": {"is in service"},
}
"""What lasts of what happens to a broker, and what ends it."""
HARMLESS: Final = {"has full queues"}.union(*ENDS_OF.values())
"""What happens to a broker and costs it no session."""


def troubles(case: Case) -> list[Event]:
    """Return what happened to brokers and may have cost them sessions."""
    return [each for each in case.fates if each.who in case.scene.brokers and each.detail not in HARMLESS]


def happened(case: Case) -> list[float]:
    """Return when something happened to a broker, the relay or one of its connections, but a start."""
    return [each.at for each in case.fates if each.who not in case.scene.clients and each.detail != "starts"]


def first_fate(case: Case) -> float:
    """Return when the first of this happened."""
    return min(happened(case), default=inf)


def steady(case: Case) -> bool:
    """Return whether a broker of a list was well all the time, and in time, so that nobody is told that none is."""
    scene, least = case.scene, case.least
    single = scene.kind == "failover" and not scene.routed and "brokers" not in least
    # failover.md, "Together": no other broker is asked as long as others are served by the one that closes
    bound = case.goes and scene.settings["policy"] is Policy.TOGETHER
    # failover.md, "nothing: it closed its connection": half of `disconnect_timeout` for each broker
    short = slowest(case) or least["disconnect_timeout"] < SOON or case.counters.get("connects_prevented")
    rude = any(each.detail == "closes at DISCONNECT" for each in case.fates)
    begins = min([each.began for each in case.stays.values()], default=inf)
    well = any(since <= begins and until == inf for since, until in spells(case))
    return single and well and not (bound or short or rude)


def spells(case: Case) -> list[tuple[float, float]]:
    """Return from when to when a broker was well and in service, of all brokers but a route's."""
    since = dict.fromkeys([*case.scene.brokers][: -1 if case.scene.routed else None], -inf)
    found: list[tuple[float, float]] = []
    ill: dict[str, set[str]] = defaultdict(set)
    for event in case.fates:
        place, _, told = event.detail.removeprefix("tcp://").partition(" ")
        who, what = (place, told) if event.who == "relay" else (event.who, event.detail.partition(";")[0])
        if who in since:
            found.append((since[who], event.at))
            ill[who] = {each for each in ill[who] if what not in ENDS_OF.get(each, {"is well"})}
            ill[who] |= {what} & ENDS_OF.keys() if case.seen else {what} - {"is well"}
            since[who] = inf if ill[who] else event.at
    since |= {who: case.calm for who, each in ill.items() if each == {"is taken out of service"}}
    return found + [(each, inf) for each in since.values()]


def owing(case: Case, stay: Stay) -> bool:
    """Return whether a client may owe so many ACKs that the relay does not read from its broker, so that it does not
    see either that the broker closed (limits.md).
    """
    modes = [mode for _, mode in stay.subscribed.values()]
    return case.least["unacknowledged"] < 1000 and any(mode != b"auto" for mode in modes)


def refused(case: Case, stay: Stay) -> float:
    """Return from when on a client sent what may end its session: what `loss = "reject"` refuses (translation.md), a
    transaction where there are routes (failover.md, "Routes"), or one that gets an ERROR (the same page, "What the
    client did when the broker died").
    """
    odd = [
        send.event.at
        for send in stay.sends
        if case.scene.loss is LossPolicy.REJECT
        for name, value in send.event.headers.items()
        if {*name} & {*b":\n\r"} or b"\n" in value or value.endswith(b"\r")
    ]
    told = any(b"transaction" in each.headers.get(b"message", b"") for each in stay.errors)
    spans = (b"SEND", b"ACK", b"NACK") if case.scene.routed else ()
    ends = (*spans, b"COMMIT") if told else spans
    odd += [each.at for each in stay.sent if each.command in ends and b"transaction" in each.headers]
    return min(odd, default=inf)


def unread(case: Case, send: Sent) -> bool:
    """Return whether the relay need not have read a SEND before the session ended, soon after it (failover.md, "When
    the relay ends a session").
    """
    scene, stay = case.scene, send.stay
    at = stay.over.get(send.transaction or b"", send.event).at
    # failover.md, "What the client did when the broker died": what a transaction acknowledged may fail its COMMIT
    doomed = not stay.orderly and any(stay.began < each.at for each in troubles(case))
    undone = send.transaction is not None and (stay.errors or (doomed and stay.inside.get(send.transaction)))
    if stay.connected is None or without_relay(case, stay) or undone:
        return True
    if stay.odd or at >= stay.faulty or at >= refused(case, stay):
        return True
    if stay.unknown is not None:
        return False  # all that was sent before it is read
    patience = scene.settings["disconnect_timeout"]
    until = min(stay.end + patience + 5.0, case.calm)
    gone = [each.at for each in case.fates if each.who == "relay" and each.detail in ("is killed", "stops")]
    if any(stay.began < each < until for each in gone):
        return True
    # A broker that hangs may be written to, until the buffers are full.
    harm = [e.at for e in troubles(case) if e.detail != "hangs" and stay.connected.at < e.at < stay.end]
    little = (
        scene.kind == "plain" and send.receipt is None and stay.size <= min(LITTLE, case.least["size"] // 2)
    )
    if little and harm and all(event.at >= harm[0] for event in stay.errors):
        return at > harm[0] - case.within(1.0)
    # An ERROR is written at the end of the session, and the client may be slow to read it.
    ends = [event.at - patience - 2.5 for event in stay.errors]
    if stay.ended is not None and not stay.orderly:
        ends.append(stay.end if scene.kind != "plain" and case.least["buffer"] > 600 else -inf)
        # configuration.md: accepts no more data; failover.md, "SEND without `receipt`": its broker is lost later
        kept = send.receipt is not None or (scene.confirm and scene.kind != "plain")
        late = any(each.at > stay.end and each.detail.startswith("is killed") for each in troubles(case))
        if stay.size > scene.settings["size"] or (late and not kept):
            ends += [each.at for each in case.fates if each.detail == "hangs" and each.at < stay.end]
    ends += [each.at for each in case.fates if each.who == stay.client and each.at >= stay.began]
    return at > min(ends, default=inf) - case.within(0.5)


# The rules

Rule = Callable[[Case], Iterator[str]]
RULES: Final[list[Rule]] = []
OF_BROKERS: Final[set[Rule]] = set()
"""Rules that say nothing where the brokers' own events are absent."""


def rule(checks: Rule) -> Rule:
    """Add a rule."""
    RULES.append(checks)
    return checks


def rule_of_brokers(checks: Rule) -> Rule:
    """Add a rule that needs the brokers' own events."""
    OF_BROKERS.add(checks)
    return rule(checks)


@rule
def nothing_is_wrong(case: Case) -> Iterator[str]:
    """Nobody saw something at once that must not be: bytes that cannot be read, an exception, no answer in calm
    weather, something that is left at the end.
    """
    mood, clients = bool(case.scene.mood), case.scene.clients
    excused: tuple[str, ...] = UNKNOWN if mood or case.rough else ()
    chokes = any(product.chokes for product, _ in case.scene.brokers.values())
    for event in case.of[What.WRONG]:
        slow = mood or (event.who in clients and clients[event.who].chokes and chokes)
        slow = slow or case.lag > 1.0 or not case.prompt  # the complaint comes half a minute after the calm
        if not event.detail.startswith(excused) and not (slow and "in calm weather" in event.detail):
            yield f"{event.at:.3f} {event.who}: {event.detail}"


UNKNOWN: Final = (
    "an ACK names nothing that waits",
    "an UNSUBSCRIBE names nothing that there is",
    "the relay wrote what the broker cannot read: KeyError",
)
"""How begins what is no fault of the relay, if a client or a broker says what it should not."""


@rule
def a_receipt_comes_once(case: Case) -> Iterator[str]:
    """A client reads CONNECTED once, before all else, and a RECEIPT once for each that it asked for, after it asked,
    and not beside an ERROR that names it.
    """
    for stay in case.stays.values():
        yield from (f"{stay} read {each}" for each in stay.strange)
        for event in stay.errors:
            name = event.headers.get(b"receipt-id")
            if name is not None and name in stay.receipts:
                yield f"{stay} read ERROR and RECEIPT for {shown(name)}"


@rule
def a_receipt_is_true(case: Case) -> Iterator[str]:
    """What a client has a RECEIPT for was taken by a broker before, and no broker lost it that had confirmed it."""
    sure = case.scene.confirm and case.scene.kind != "plain"
    for send in case.sends:
        # failover.md, "What `confirm` costs and needs": RabbitMQ confirms COMMIT before what is in it, and the relay
        # believes it where an ERROR that names no receipt came meanwhile
        errors = [each.at for each in send.stay.errors if b"receipt-id" not in each.headers]
        unsure = any(send.event.at <= each <= (send.confirmed or 0.0) for each in errors)
        early = send.transaction is not None and (unsure or not sure)
        if send.confirmed is not None and send.number is not None and not early:
            took = [
                each for each in case.took.get(send.body, ()) if each.at <= send.confirmed or not case.seen
            ]
            held = Counter([each.who for each in took])
            held.subtract([each.who for each in case.forgot.get(send.body, ())])
            if max(held.values(), default=0) <= 0:
                yield f"{send.stay} has a RECEIPT for {send}, which no broker has"


@rule
def nothing_uncommitted_is_taken(case: Case) -> Iterator[str]:
    """Brokers take only what a client sent, and of a transaction only what it committed."""
    for send in case.sends:
        if send.number is None and case.took.get(send.body):
            yield f"{send.stay}: {send} was taken, and never committed"
    for body in case.took.keys() - {each.body for each in case.sends} if case.seen and not case.rough else ():
        yield f"{case.took[body][0].who} took {shown(body)}, which nobody sent"


@rule_of_brokers
def what_is_taken_is_kept(case: Case) -> Iterator[str]:
    """What a broker takes into a queue it removes when it is acknowledged, forgets when it is killed, or has in the
    end. Without a message in the end it is not known what is there.
    """
    held: Counter[tuple[str, bytes]] = Counter()
    settled = case.of[What.KEPT] and not (case.rough or case.of[What.WRONG])
    for what, sign in ((What.TOOK, 1), (What.SETTLED, -1), (What.FORGOT, -1), (What.KEPT, -1)):
        for event in case.of[what] if settled else ():
            held[event.who, event.body] += sign
    topics = {send.body for send in case.sends if topic(send.destination)}
    for (who, body), count in held.items():
        if count and body not in topics:
            yield f"{who} has {shown(body)} {'less' if count > 0 else 'more'} often than it took it"


@rule
def order_is_kept(case: Case) -> Iterator[str]:
    """A broker takes what one client sends to one destination in the client's order, copies included. If its events are
    absent: it keeps in this order what was given to nobody and no other broker has. A real ActiveMQ does not, where
    consumers gave messages back to the queue: what it had read from its store then comes after them, or before.
    """
    places = {each.body: each for each in case.sends}
    mixed = {
        (each.who, places[each.body].destination)
        for each in case.of[What.KEPT]
        if each.headers.get(b"redelivered") and each.body in places and case.scene.brokers[each.who][0].lags
    }
    last: dict[tuple[str, Stay, bytes], int] = {}
    seen = set()
    lost = {(event.who, event.body) for event in case.of[What.FORGOT]}
    for event in case.of[What.TOOK if case.seen else What.KEPT]:
        send = places.get(event.body)
        copy = event.who, event.body
        elsewhere = () if case.seen else case.took[event.body]
        if any(each.what is not What.KEPT or each.who != event.who for each in elsewhere):
            continue
        again = not case.seen and event.headers.get(b"redelivered") == b"true"
        if again or (send is not None and (event.who, send.destination) in mixed):
            continue
        if send is not None and send.number is not None and copy not in seen:
            seen.add(copy)
            key = event.who, send.stay, send.destination
            if send.number < last.get(key, -1) and copy not in lost:
                yield f"{event.who} took {send} of {send.stay} too late"
            last[key] = max(send.number, last.get(key, -1))


@rule_of_brokers
def a_copy_is_marked(case: Case) -> Iterator[str]:
    """Of two copies of a message at least one is marked as sent again; in a fan-out of two at one broker."""
    for send in case.sends:
        copies = defaultdict(list)
        for event in case.took.get(send.body, ()):
            copies[event.who if case.scene.kind == "fanout" else ""].append(RESENT in event.headers)
        for marks in copies.values():
            if len(marks) > 1 and not any(marks):
                yield f"{send} was taken {len(marks)} times, without a mark"


@rule
def only_what_was_subscribed(case: Case) -> Iterator[str]:
    """A client reads a MESSAGE only for a subscription of its own, from that destination, and as often as brokers gave
    it. A real ActiveMQ gives some more behind the RECEIPT of UNSUBSCRIBE.
    """
    for stay in case.stays.values():
        named = case.scene.clients[stay.client].version != b"1.0"
        for event in stay.messages:
            place = event.headers.get(b"destination", b"")
            name = event.headers.get(b"subscription", place)
            places = {each: at for each, (at, _) in stay.subscribed.items()}
            if places.get(name) != place and (named or place not in places.values()):
                yield f"{stay} read {event.frame}, and is not subscribed to it"
            ended = stay.unsubscribed.get(name)
            answered = ended and stay.receipts.get(ended.headers.get(b"receipt", b""))
            giver = case.scene.brokers.get(event.headers.get(b"from", b"").decode())
            lags = giver is not None and giver[0].lags
            behind = answered is not None and answered.at < event.at and not lags
            if behind and case.scene.kind != "fanout" and case.seen:
                yield f"{stay} read {event.frame} after the RECEIPT of its UNSUBSCRIBE"
        for body, count in Counter([each.body for each in stay.messages]).items():
            gave = len(case.gave.get(body, ()))
            if count > gave and case.seen:
                yield f"{stay} read {shown(body)} {count} times, which brokers gave {gave} times"


@rule
def values_arrive(case: Case) -> Iterator[str]:
    """A header's value is read as it was sent, but for what a version on the way cannot express; and no client reads
    a header that is the relay's own.
    """
    sent = {each.body: each for each in case.sends} if case.seen else {}
    for send in sent.values():
        for event in case.took.get(send.body, ()):
            if not _same(case, send.stay, event, send.event.headers, event.headers):
                yield f"{event.who} took {event.frame}, and {send.stay} sent {send.event.frame}"
    for stay in case.stays.values():
        for event in stay.read:
            gave = case.gave.get(event.body, ()) if event.body in sent and event.command == b"MESSAGE" else ()
            if gave and not any(_same(case, stay, each, each.headers, event.headers) for each in gave):
                yield f"{stay} read {event.frame}, which no broker gave"
            own = [event.headers.get(each, b"") for each in (b"receipt", b"receipt-id")]
            ours = [each for each in own if each.startswith(b"relay-") and each.count(b"-") > 2]
            if b"relay-trace" in event.headers or ours:  # rough clients say `relay-ack-1`
                yield f"{stay} read {event.frame}, which is the relay's own"


def _same(case: Case, stay: Stay, event: Event, sent: dict[bytes, bytes], read: dict[bytes, bytes]) -> bool:
    """Return whether the odd headers of a frame are those that were sent, by the losses of `docs/translation.md`.
    Between equal versions bytes pass unchanged, even if the product has escapes of its own.
    """
    version = case.versions.get((event.who, event.session), b"1.0")
    own = case.scene.clients[stay.client].version
    if stay.connected is not None:
        own = stay.connected.headers.get(b"version", b"1.0")
    escapes = dict(case.scene.brokers[event.who][0].escapes)
    raw = own == version and version in escapes
    target = escapes.get(version, (version,))[0] if event.what is What.TOOK else own
    bare = own != version and target != b"1.2"  # a CR at the end would be the line's
    for name, value in sent.items():
        if name not in read and {*name} & {*b":\n"} and b"1.0" in (own, version):
            continue
        if raw and {*name, *value} & {*b":\\\n\r "}:
            continue
        both = [value, read.get(name, b"")]
        if b"1.0" in (own, version):
            both = [each.replace(b"\n", b" ").replace(b"%0A", b" ").lstrip(b" ") for each in both]
        if own != b"1.2" or version != b"1.2":
            both = [each.removesuffix(b"%0D").rstrip(b" \r") for each in both]
        ends = bare and read.get(name, b"").endswith(b"\r")
        if name.startswith(b"x") and (ends or both[0] != both[1]):
            return False
    return sent.get(b"destination") == read.get(b"destination")


@rule_of_brokers
def a_message_has_one_trace(case: Case) -> Iterator[str]:
    """A message has one trace at all brokers, however often it is sent, and shares it with no other."""
    owners: dict[bytes, bytes] = {}
    for send in case.sends:
        found = {event.headers.get(b"relay-trace", b"") for event in case.took.get(send.body, ())}
        shared = [owners.setdefault(each, send.body) != send.body for each in found if each]
        if len(found) > 1 or any(shared):
            yield f"{send} has the traces {sorted(found)}, or shares one"


@rule_of_brokers
def an_ack_is_for_its_message(case: Case) -> Iterator[str]:
    """A broker removes a message only if a client acknowledged it: a copy that this broker delivered."""
    for event in () if case.rough else case.astray:
        product, _ = case.scene.brokers[event.who]
        if not product.across and told_apart(case) and not covered_again(case, event):
            yield f"{event.at:.3f} {event.who} removed {shown(event.body)}, which no client had acknowledged"


def told_apart(case: Case) -> bool:
    """Return whether an ACK names one delivery only: no broker counts them, no session was lost or moved, or all
    clients speak 1.2.
    """
    counts = any(product.counts for product, _ in case.scene.brokers.values())
    versions = {each.version for each in case.scene.clients.values()}
    calm = sum(event.who in case.scene.brokers for event in case.fates) == len(case.scene.brokers)
    calm = calm and undisturbed(case)
    return calm or versions == {b"1.2"} or not counts


def covered_again(case: Case, event: Event) -> bool:
    """Return whether an ACK in `client` mode may cover this message of a fan-out: it names an id that came twice, and
    so is for the second copy (failover.md, "What the client did when the broker died").
    """
    copy = event.who.encode(), event.body
    for stay in case.stays.values() if case.scene.kind == "fanout" else ():
        named = {each.headers.get(b"message-id", b"") for each in stay.sent if each.at <= event.at}
        read = [each for each in stay.messages if each.at <= event.at + 1.0]  # some was on its way
        ids = [each.headers[b"message-id"] for each in read]
        twice = [at for at, each in enumerate(ids) if each in named and each in ids[:at]]
        before = [(each.headers.get(b"from"), each.body) for each in read[: max(twice, default=0)]]
        if copy in before and b"client" in [mode for _, mode in stay.subscribed.values()]:
            return True
    return False


@rule_of_brokers
def an_ack_takes_effect(case: Case) -> Iterator[str]:
    """A broker removes what a client acknowledged: when the client has the RECEIPT of its ACK or COMMIT, and soon in
    calm weather.
    """
    brokers = case.scene.brokers
    yield from _receipts_of_acks(case)
    for stay in case.stays.values():
        for name, end in stay.over.items():
            receipt = stay.receipts.get(end.headers.get(b"receipt", b""))
            for each in stay.inside[name] if receipt is not None and end.command == b"COMMIT" else ():
                who = each.headers.get(b"from", b"")
                late = receipt is not None and case.settled.get((who, each.body), inf) > receipt.at
                if late and who.decode() in brokers and not brokers[who.decode()][0].counts:
                    yield f"{stay} has a RECEIPT for {name.decode()}, and {who.decode()} has {shown(each.body)}"
    errors = [each.headers.get(b"message") for stay in case.stays.values() for each in stay.errors]
    if case.rough or {b"AMQP channel died", b"not found"}.intersection(errors):
        return
    halved = {(each.who, each.session) for each in case.fates if each.detail == "half-closes"}
    given: dict[tuple[str, bytes], Event] = {}  # when it was given last
    due: dict[tuple[str, bytes], Stay] = {}
    for event in case.history:
        key = event.who, event.body
        match event.what:
            case What.GAVE if not topic(event.headers.get(b"destination", b"")):
                given[key] = event
            case What.ACKED if event.at > case.calm + SOON:
                copy = event.headers.get(b"from", b"").decode(), event.body
                stay = case.stays[event.who, event.session]
                read = max([each.at for each in stay.messages if each.frame == event.frame], default=-inf)
                gave = given.get(copy, event)
                # what a client reads late, a connection may have given that has ended since then
                same = gave.headers.get(b"message-id") == event.headers.get(b"message-id")
                # configuration.md, `frames`: an ACK waits as well
                waits = case.least["frames"] or not same
                if copy in given and read >= gave.at and not waits:
                    due[copy] = stay
            case What.RETURNED | What.SETTLED | What.FORGOT:
                last = given.pop(key, event)
                unseen = key in due and owing(case, due[key]) and (last.who, last.session) in halved
                if event.what is What.SETTLED or unseen:
                    due.pop(key, None)
    for (broker, body), client in due.items():
        yield f"{client} acknowledged {shown(body)}, and {broker} did not remove it"


def _receipts_of_acks(case: Case) -> Iterator[str]:
    """Yield what a client has the RECEIPT of an ACK for, and a broker gave it, and removes it later or never. What it
    takes back may have been lost to the relay before. A fan-out needs the answer of one group.
    """
    if case.rough or case.scene.kind == "fanout" or case.scene.routed or not told_apart(case):
        return
    for stay in case.stays.values():
        # failover.md, "What the client did when the broker died": an id that came twice; `ack` never does
        ids = [e.headers.get(b"message-id") for e in stay.messages if b"ack" not in e.headers]
        for name, acked in [pair for pair in stay.settles.items() if pair[0] in stay.receipts]:
            until = stay.receipts[name].at
            twice = any(ids.count(e.headers.get(b"message-id")) > 1 for e in acked[-1:])
            for each in [] if twice else acked:
                who = each.headers.get(b"from", b"")
                read = max([e.at for e in stay.messages if e.frame == each.frame], default=-inf)
                moves = case.moves[who, each.body] if not topic(each.headers[b"destination"]) else []
                last = [e for e in moves if e.at <= until][-1:]
                later = [e.what for e in moves if e.at > until][:1]
                # failover.md, "How long it takes": one that hangs may be lost to the relay, and go on
                hung = any(
                    e.detail == "hangs" and e.who.encode() == who and e.at <= until for e in case.fates
                )
                given = not hung and last and last[0].what is What.GAVE and last[0].at <= read
                # it may have been given anew before the client read the first copy
                given = given and last[0].headers.get(b"message-id") == each.headers.get(b"message-id")
                if given and later in ([], [What.SETTLED]):
                    yield f"{stay} has a RECEIPT for its ACK {name.decode()}, and {who.decode()} has {shown(each.body)}"


@rule_of_brokers
def deliveries_keep_their_order(case: Case) -> Iterator[str]:
    """A client reads what one connection to a broker gave in the broker's order, and leaves nothing out, but for
    subscriptions that it ended: nothing before a MESSAGE or a RECEIPT of this connection that it read.
    """
    given: dict[tuple[str, int], list[Event]] = defaultdict(list)
    origins: dict[tuple[bytes, ...], tuple[str, int, int] | None] = {}
    for event in case.of[What.GAVE]:
        key = event.who, event.session
        name = event.who.encode(), event.headers.get(b"message-id", b""), event.body
        origins[name] = None if name in origins else (*key, len(given[key]))  # None: which one is not known
        given[key].append(event)
    first, patience = first_fate(case), case.scene.settings["disconnect_timeout"] + 2.5
    owners = {(at.who, at.session): each.stay for each in case.sends for at in case.took.get(each.body, ())}
    for stay in case.stays.values():
        read = Counter([event.body for event in stay.messages])
        # at which place it has what a connection gave, and when
        known: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
        for event in stay.messages:
            name = event.headers.get(b"from", b""), event.headers.get(b"message-id", b""), event.body
            origin = origins.get(name)
            if origin is not None:
                *_, place = origin
                if place < max(known[origin[:2]], default=-1):
                    yield f"{stay} read {shown(event.body)} too late"
                known[origin[:2]][place] = event.at
        # While nothing has happened to anybody, a client has soon what it is given.
        # failover.md, "When the relay ends a session": it sends RECEIPTs, and no MESSAGEs, for `disconnect_timeout`
        ends = min(stay.left, stay.faulty, refused(case, stay), stay.halved, stay.silent, first)
        told = [stay.end] * (stay.ended is None or stay.ended.detail != "left") + [e.at for e in stay.errors]
        ends = min([ends, stay.end, *[at - patience for at in told]])
        ends = ends if case.exact and not (stay.odd or owing(case, stay)) else -inf
        for send in stay.sends if case.scene.kind != "fanout" else ():
            took, at = case.took.get(send.body, []), send.confirmed or inf
            if at < ends and not send.transaction and len(took) == 1:
                key = took[0].who, took[0].session
                known[key].setdefault(sum(each.at < took[0].at for each in given[key]) - 1, at)
        gone = {name: each.at for name, each in stay.unsubscribed.items()}
        due: dict[bytes, list[str]] = defaultdict(list)
        for key in {*known, *[key for key, owner in owners.items() if owner is stay]}:
            soonest = inf
            for place, event in reversed([*enumerate(given[key])]):
                at = event.at + 3.0  # clients may read nothing for two
                soonest = min(soonest, known[key].get(place, inf), at if at < ends else inf)
                names = event.headers.get(b"subscription", b""), event.headers[b"destination"]
                if all(soonest < gone.get(name, inf) for name in names):
                    due[event.body].append(key[0])
        for body, whence in due.items():
            if len(whence) > read[body]:
                yield f"{stay} did not read {shown(body)}, which {whence[0]} gave"


@rule
def nothing_is_lost_quietly(case: Case) -> Iterator[str]:
    """What a client sent is taken by a broker, unless the client left early, or was told by an ERROR that something may
    be lost, or it is counted as possibly lost.
    """
    scene = case.scene
    missing = [each for each in case.sends if each.number is not None and not case.took.get(each.body)]
    missing = [each for each in missing if not unread(case, each)]
    sure = scene.confirm and scene.kind == "failover" and not scene.routed
    patience, well_from = case.least["disconnect_timeout"], spells(case)
    for send in missing:
        # failover.md, "SEND without `receipt`": a plain address keeps nothing
        stay, kept = send.stay, (scene.confirm and scene.kind != "plain") or send.receipt is not None
        # failover.md, "nothing: it closed its connection": the broker that does not answer gets half of the time
        well = patience >= SOON and any(a <= stay.end and stay.end + patience <= b for a, b in well_from)
        if sure and well and not (stay.orderly or stay.errors or chokes(case, stay)):
            yield f"{stay} left {send} behind, which no broker took, and one was well"
        if sure and (stay.ended is None or stay.orderly) and not stay.errors:
            yield f"{stay}: no broker took {send}, and nobody was told"
        if stay.told and kept and scene.kind != "fanout" and not case.counters.get("fanout_overflowed"):
            yield f"{stay} read {stay.told.frame}, and {send} was not delivered"
    counted = case.counters.get("possibly_lost", 0)
    if len(missing) > counted:
        names = " ".join(map(str, missing))
        yield f"{len(missing)} SENDs were taken by no broker, {counted} are counted as possibly lost: {names}"


@rule_of_brokers
def nothing_comes_late(case: Case) -> Iterator[str]:
    """What a client sent that has left is taken within `disconnect_timeout`, or not at all; but what a broker had
    received that hangs, it may take when it goes on.
    """
    patience = case.scene.settings["disconnect_timeout"] + 4.0
    if case.scene.kind == "plain" or any(event.detail == "hangs" for event in case.fates):
        return
    buffer = min(BUFFER, case.scene.settings["size"])
    for send in case.sends:
        if send.stay.size <= buffer:
            for event in case.took.get(send.body, ()):
                if event.at > send.stay.end + case.within(patience):
                    yield f"{send.stay} left at {send.stay.end:.3f}, and {event.who} took {send} at {event.at:.3f}"


@rule_of_brokers
def counters_fit(case: Case) -> Iterator[str]:
    """The relay counts what clients and brokers have seen: at least what they read, at most what they sent."""
    scene = case.scene
    if case.rough:
        return  # what clients say that err is not in the stays
    stays = list(case.stays.values())
    connected = sum(stay.connected is not None for stay in stays)
    marked = sum(RESENT in event.headers for event in case.of[What.TOOK])
    killed = any(each.who == "relay" and each.detail == "is killed" for each in case.fates)
    told, answers = [], 0  # how many frames the relay has read for certain
    for stay in stays:
        read = [stay.asked[name] for name in stay.receipts]
        sure = [stay.orderly or each in read or each.body in case.took for each in stay.sent]
        if killed:
            break  # its last counts are lost
        told.append(max([at for at, each in enumerate(sure) if each], default=0))
        own = [each for each in read if each.command == b"SEND" and b"transaction" not in each.headers]
        answers += len(stay.messages) + len(own)
    quiet = uneventful(case) and not any(stay.odd or stay.errors for stay in stays)
    quiet = quiet and not case.counters.get("possibly_lost") and case.least["disconnect_timeout"] >= SOON
    quiet = quiet and case.exact
    again = sum(
        max([unconfirmed(case, stay, met.at) for stay in stays], default=0)
        for met in case.of[What.CONNECTED]
        if met.who in scene.brokers
    )
    bounds = {
        "sessions_opened": (connected, len(stays)),
        "sessions_connected": (connected, len(stays)),
        "client_frames": (sum(told), len(case.of[What.SENT]) - connected),
        "broker_frames": (answers, case.history.facts.get("said", inf)),
        "clients_vanished": (0, sum(not stay.orderly for stay in stays)),
        "frames_resent": (marked, marked if quiet else again),
    }
    for name, (least, most) in bounds.items():
        if name in case.counters and not least <= case.counters[name] <= most:
            yield f"{name} is {case.counters[name]}, and not from {least} to {most}"


def unconfirmed(case: Case, stay: Stay, at: float) -> int:
    """Return how many SENDs of a client a broker may get again that it is connected to then."""
    scene = case.scene
    # limits.md: a client that is not read from leaves, and nobody sees it
    unseen = stay.size > LITTLE or not case.exact or case.least["buffer"] <= 600
    if not stay.began < at < (inf if unseen else stay.end + scene.settings["disconnect_timeout"] + 1.0):
        return 0
    # failover.md, "Planned switch-over": a session that moves has a connection to both brokers, and waits
    moves = not undisturbed(case) or scene.home or scene.settings["policy"] is Policy.TOGETHER
    kept = [each for each in stay.sends if scene.confirm or each.receipt or each.transaction]
    kept = [each for each in kept if each.event.at < at or moves]
    return sum(scene.kind == "fanout" or (each.confirmed or inf) >= at for each in kept)


@rule_of_brokers
def an_alarm_has_a_cause(case: Case) -> Iterator[str]:
    """No SEND is counted as possibly lost that has its RECEIPT, and none where no broker was lost and nobody was sent
    an ERROR. Each group of a fan-out that misses a SEND counts it.
    """
    scene, stays = case.scene, case.stays.values()
    if case.rough:
        return
    counted = case.counters.get("possibly_lost", 0)
    copies = len(scene.brokers) if scene.kind == "fanout" else 1
    unsure = sum(doubtful(case, stay, copies) for stay in stays)
    if counted > unsure:
        yield f"{counted} SENDs are counted as possibly lost, and only {unsure} have no RECEIPT"
    harm = case.least["disconnect_timeout"] < SOON or case.least["buffer"] <= 600 or copies > 1
    harm = harm or any(stay.errors or stay.faulty < inf or stay.odd for stay in stays)
    # limits.md: what a client that left has said is delivered at its rate, for one `disconnect_timeout`
    harm = harm or (case.least["frames"] is not None and not all(stay.orderly for stay in stays))
    # failover.md, "nothing: it closed its connection": a broker that is asked after another has half of the time
    moved = slowest(case) > case.least["disconnect_timeout"] / 2 - 0.5 and not all(
        stay.orderly for stay in stays
    )
    for event in case.fates:
        harm = harm or (moved and "out of service" in event.detail)
        harm = harm or (event.who in scene.brokers and not event.detail.startswith(("starts", "is well")))
        harm = harm or (event.at < case.calm and event.detail in LEAVES)
    if counted and not harm and all(send.number is None or case.took.get(send.body) for send in case.sends):
        yield f"{counted} SENDs are counted as possibly lost, and nothing happened"


def doubtful(case: Case, stay: Stay, copies: int) -> int:
    """Return how many SENDs of a client may count as possibly lost, each so many times at most."""
    scene, patience = case.scene, case.least["disconnect_timeout"]
    confirm = scene.confirm and scene.kind != "plain"
    sure = confirm and scene.kind == "failover"
    times = happened(case)
    last, leaves = stay.end + patience, min(stay.end, stay.left, stay.halved, stay.faulty, stay.silent)
    # how soon a broker confirms what it took
    quick = 2.0 + slowest(case) if case.exact else inf
    # When SENDs may be lost: with the first broker, or one that confirms too late; if all are kept, at the end only.
    harm = min([at for at in times if stay.began - 5.0 < at < last], default=inf)
    harm = min(harm, leaves if quick > patience - 0.5 else inf)
    harm = -inf if stay.odd else inf if sure else harm
    if copies == 1 and harm == inf and (stay.orderly or (stay.told and stay.end < inf)):
        return 0
    # failover.md, "nothing: it closed its connection": each broker gets half of the time
    in_time = leaves + (patience / 2 if patience >= SOON else 0.0) - quick
    places = {id(event): at for at, event in enumerate(stay.sent)}
    read = [(places[id(stay.asked[name])], each.at) for name, each in stay.receipts.items()]
    # failover.md, "SEND without `receipt`": it counts if no frame behind it has its RECEIPT
    read = read if copies == 1 and not (scene.routed or confirm) else []
    lost = 0
    for send in stay.sends:
        took = [(each.who, each.at) for each in case.took.get(send.body, ()) if each.at < in_time]
        quiet = {who for who, at in took if not any(at <= each < at + quick for each in times)}
        kept = confirm or send.receipt is not None
        behind = [at for place, at in read if place > places[id(send.event)]]
        behind = [] if send.transaction or send.receipt is not None else behind
        # failover.md, "What `confirm` costs and needs": RabbitMQ answers COMMIT before the SENDs in it
        early = slowest(case) and send.transaction and send.receipt not in (None, *stay.receipts)
        answered = send.confirmed is not None and not early
        known = answered or min([*behind, last if took else inf]) < harm
        safe = len(quiet) if (kept or harm == inf) and not stay.odd else 0
        lost += 0 if copies == 1 and (safe or (known and not sure)) else max(0, copies - safe)
    return lost


@rule
def the_journal_equals_the_history(case: Case) -> Iterator[str]:
    """The journal has each SEND that a broker took, and each MESSAGE that a client read, as often as they came."""
    frames, damages, failed = case.history.facts.get("journal", (None, (), False))
    if frames is None:
        return
    yield from damages
    sent = Counter([each.body for each in case.sends])
    read = Counter([event.body for stay in case.stays.values() for event in stay.messages])
    for (side, command, body), count in frames.items():
        if command == b"SEND" and (side != "client" or (count > sent[body] and not case.rough)):
            yield f"the journal has {count} times {shown(body)} of the {side}"
        if command == b"MESSAGE" and (side != "broker" or count > len(case.gave.get(body, ()))):
            yield f"the journal has {count} times the MESSAGE {shown(body)} of the {side}"
    lossy = failed or any(each.detail == "is killed" for each in case.fates)
    for body in case.took if not lossy else ():
        if not frames["client", b"SEND", body] or frames["broker", b"MESSAGE", body] < read[body]:
            yield f"the journal does not have all of {shown(body)}"


@rule
def nobody_is_disturbed(case: Case) -> Iterator[str]:
    """In front of several brokers a client gets no ERROR and keeps its connection, but where the documents say so."""
    cut = {event.who for event in case.fates if event.who in case.scene.clients}
    for stay in case.stays.values():
        if (case.scene.kind == "plain" and troubles(case)) or without_relay(case, stay):
            continue
        lost = stay.ended is not None and stay.ended.detail != "left" and stay.client not in cut
        # settings.md, `linger`: the ERROR of a frame at fault, or of a limit, may need longer on a slow network
        fault = case.scene.tight or min(refused(case, stay), stay.faulty) < inf
        lost = lost and (case.exact or not fault)
        if lost and not (stay.errors or stay.odd or stay.orderly or stay.halved < inf):
            yield f"{stay} was disconnected without an ERROR"
        known = case.scene.clients[stay.client].known
        strange = stay.faulty < inf or stay.odd or not known or chokes(case, stay)
        if case.scene.kind == "plain" or strange or case.scene.tight:
            continue
        for event in stay.errors:
            text = event.headers.get(b"message", b"")
            due = [cause for cause, each in EXCUSES.items() if text.startswith((*each.split(b"|"),))]
            if not causes(case, stay).intersection(due):
                yield f"{stay} read {event.frame}"


EXCUSES: Final = {
    # failover.md, "What the client did when the broker died": COMMIT, and an ACK in a transaction; Artemis's own
    "COMMIT": b"the outcome of a transaction is unknown|the transaction cannot be committed|AMQ339013 Error",
    "ABORT": b"AMQ339025 failed to ack|Unexpected ACK received",  # Artemis's and ActiveMQ's, for ACKs in it
    "NACK": b"NACK cannot be said to the broker",  # translation.md: NACK
    "UNSUBSCRIBE": b"Subscription not found",  # translation.md, R65
    # failover.md, "DISCONNECT" and half-closed connections; "Fan-out"; "Routes"
    "no broker": b"connection to the broker was lost|the quorum cannot be reached|a transaction cannot span",
    # failover.md, "When a client does get an ERROR"; errors.md: it serves no client
    "it goes": REFUSED + b"|the broker did not answer CONNECT with CONNECTED",
    "full queues": b"a frame cannot be delivered",  # failover.md, "A frame that costs brokers their connection"
    "losses are rejected": b"a header cannot be said",  # configuration.md: loss
    "silence": b"heart-beat missed",  # failover.md, "When the relay ends a session"
    "ACKs twice": b"AMQP channel died|not found",  # RabbitMQ's and ActiveMQ's own
    "a token": b"the token has expired|access refused",  # access.md: when it expires; what the log says
    "little memory": b"the relay is short of memory",  # configuration.md: memory
    # operating.md, "Reload"; access.md: a CR that ends no line
    "versions": b"no common STOMP version",
    "body": b"body too large",
    "clients": b"too many connections",
    "denied": b"not allowed|it cannot be told what is asked for|a subscription is no longer allowed",
}
"""The ERRORs that a client may read behind several brokers, by how they begin, after what must have happened, as
`causes` names it.
"""


def causes(case: Case, stay: Stay) -> set[str]:
    """Return what may cause an ERROR that a client reads: the commands that it sent, and what holds in its world; of
    what a reload changed the names of the settings.
    """
    scene, details = case.scene, [each.detail for each in case.fates]
    harm = {each.detail for each in troubles(case)}
    paused = {each.split()[0] for each in details if each.endswith("is taken out of service")}
    all_paused = len(paused) + scene.routed >= len(scene.brokers)
    found = {
        "no broker": not steady(case),
        # failover.md, "When a client does get an ERROR": the next broker's refusal is final
        "it goes": case.goes and (stay.connected is None or harm != {"refuses"} or all_paused),
        "full queues": "has full queues" in details,  # ends connections that ask for receipts
        "losses are rejected": scene.loss is LossPolicy.REJECT,
        "silence": stay.silent < inf,
        "ACKs twice": any(product.across or product.early for product, _ in scene.brokers.values()),
        "a token": scene.auth and scene.clients[stay.client].chokes,
        "little memory": scene.settings["memory"] < 1 << 30,
    }
    reads = [each.split()[3:] for each in details if each.startswith("reads its configuration")]
    return {name for name, holds in found.items() if holds}.union(
        *reads, [each.command.decode() for each in stay.sent]
    )


def uneventful(case: Case) -> bool:
    """Return whether nothing happened in the weather."""
    return not any(each.detail != "starts" and each.at < case.calm for each in case.fates)


def slowest(case: Case) -> float:
    """Return how many seconds the slowest broker takes to confirm a SEND."""
    return SLOWEST if any(product.late for product, _ in case.scene.brokers.values()) else 0.0


def chokes(case: Case, stay: Stay) -> bool:
    """Return whether a broker cannot read the client's login."""
    reads = not any(product.chokes for product, _ in case.scene.brokers.values())
    return case.scene.clients[stay.client].chokes and not reads


def undisturbed(case: Case) -> bool:
    """Return whether nothing happened to the relay in the weather, and nobody told it anything."""
    return not any(e.who == "relay" and e.detail != "starts" and e.at < case.calm for e in case.fates)


@rule_of_brokers
def everybody_is_served(case: Case) -> Iterator[str]:
    """No client waits for CONNECTED or a RECEIPT for `SOON` seconds of calm weather, nor for `ENOUGH` seconds before
    anything happens, or with heart-beats and several brokers while one is well. Who owes too many ACKs, or sent what
    ends its session, waits. Times are longer where brokers are asked frame by frame, or go.
    """
    scene, slow, first = case.scene, slowest(case), first_fate(case)
    # failover.md, "A frame that costs brokers their connection": each after the answer to the one before; and so
    # where `resend_buffer` has room for one
    late = slow * len(case.sends) * ("frames_resent" in case.counters or case.least["buffer"] < 1 << 20)
    calm = 40.0 + late if late else SOON + case.goes
    simple = case.exact and calm == SOON and scene.settings["policy"] is not Policy.TOGETHER
    beats = scene.kind == "failover" and not scene.routed and scene.settings["beats"] and undisturbed(case)
    # failover.md, "How long it takes": STOMP 1.0 has no heart-beats
    versions = [*scene.versions, *[each for _, each in scene.brokers.values()]]
    hangs = any(each.detail == "hangs" for each in case.fates)
    for stay in case.stays.values():
        if without_relay(case, stay) or chokes(case, stay) or owing(case, stay):
            continue
        old = hangs and b"1.0" in (scene.clients[stay.client].version, *versions)
        well = spells(case) if beats and not old else []
        for since, until, what in _waits(case, stay):
            soon = ENOUGH if what == "CONNECTED" else 2.5 + slow
            clock = [(case.calm, inf, calm)] * (stay.faulty == inf and not stay.odd)
            clock += [(-inf, first, soon), *[(*each, ENOUGH) for each in well]] * simple
            for start, end, most in clock:
                if min(until, end) - max(since, start) > case.within(most):
                    yield f"{stay} waited for {what} from {since:.3f} to {until:.3f}"
                    break


def _waits(case: Case, stay: Stay) -> Iterator[tuple[float, float, str]]:
    """Yield from when to when a client waited, and for what. Who was told an ERROR, or says nothing any more, waits for
    nothing else. What is in a transaction waits for its end.
    """
    last = max([event.at for event in case.history.events[-1:]], default=0.0)
    gone = min([stay.end, stay.silent, last, *[each.at for each in stay.errors]])
    there = gone if stay.connected is None else stay.connected.at
    yield stay.began, there, "CONNECTED"
    for name, asked in stay.asked.items() if stay.connected is not None else ():
        receipt, since = stay.receipts.get(name), max(asked.at, there)
        if asked.command in (b"SEND", b"ACK", b"NACK") and b"transaction" in asked.headers:
            end = stay.over.get(asked.headers[b"transaction"])
            passed = end is None or (case.scene.kind == "plain" and end.command == b"ABORT")
            since = inf if passed or end is None else max(since, end.at)
        if receipt is not None or not stay.odd:
            yield since, gone if receipt is None else receipt.at, f"RECEIPT {name.decode()}"


@rule_of_brokers
def who_reads_to_the_end_has_all(case: Case) -> Iterator[str]:
    """A client reads all its RECEIPTs that closed its sending direction while brokers were well, got the RECEIPT of its
    DISCONNECT in time, or was told by an ERROR that nothing is lost. Before anything happens, who has the RECEIPT of a
    later frame has that of an earlier one.
    """
    first, patience, late = first_fate(case), case.least["disconnect_timeout"], slowest(case)
    several = case.scene.kind == "fanout" or case.scene.routed
    # configuration.md, `disconnect_timeout`: so long DISCONNECT waits for RECEIPTs
    short = patience < SOON or any(each.detail == "closes at DISCONNECT" for each in case.fates)
    for stay in case.stays.values():
        until = min([stay.end, stay.silent, first, *[each.at for each in stay.errors]]) - (
            late and late + 1.0
        )
        proofs = [stay.asked[name].at for name, read in stay.receipts.items() if read.at < until]
        due = max([-inf, *proofs]) if not (several or short) else -inf
        halved = stay.halved < inf and stay.ended is not None and stay.ended.detail == "closed"
        halved = halved and not any(stay.halved - case.within(SOON) < at < stay.end for at in happened(case))
        if not (stay.errors or short) and (halved or (stay.orderly and stay.end < stay.left + patience)):
            due = inf
        told = stay.told is not None and not several and not without_relay(case, stay)
        quiet = not short and stay.end < first
        named = {*stay.receipts, *[each.headers.get(b"receipt-id") for each in stay.errors]}
        for name, asked in stay.asked.items():
            # failover.md, "When the relay ends a session": within `disconnect_timeout`; the words are about SENDs
            safe = told and asked.at < stay.faulty and (asked.command == b"SEND" or quiet)
            inside = b"transaction" in asked.headers and (asked.command != b"COMMIT" or stay.errors)
            if (safe or asked.at < due) and not (stay.odd or inside or name in named):
                yield f"{stay} read all, and no RECEIPT {name.decode()}"


@rule
def a_session_ends(case: Case) -> Iterator[str]:
    """A session ends soon after its client sent DISCONNECT, closed its sending direction, read a last ERROR, or fell
    silent, though it had promised heart-beats; and who sends what nobody knows is told soon. This holds in calm
    weather; for silence, and for faults before anything happens, always, where nothing happens to the relay and it
    always reads. In the end no session is left.
    """
    patience, first = case.scene.settings["disconnect_timeout"], first_fate(case)
    over = any(each.detail == "stops" and each.at > case.calm for each in case.fates)
    last: dict[str, Stay] = {stay.client: stay for stay in case.stays.values()}
    soon = case.seen and case.exact and case.least["buffer"] > 600 and undisturbed(case)
    for stay in case.stays.values() if case.calm < inf else ():
        wants = b"0" if stay.connected is None else stay.connected.headers.get(b"heart-beat", b"0,0")
        beats = case.scene.clients[stay.client].beats and not stay.odd and int(wants.rpartition(b",")[2])
        silent = stay.silent if beats else inf
        told = min([stay.end, *[event.at for event in stay.errors]])
        last_word = stay.errors[-1].at if stay.read[-1:] == stay.errors[-1:] != [] else inf
        said = stay.errors[-1].headers.get(b"message") if stay.errors else b""
        # failover.md, "When a client does get an ERROR": RabbitMQ stays connected behind these
        stays = said in (b"Subscription not found", b"Processing error")
        always = soon and stay.connected is not None and stay.size <= LITTLE
        always = always and not (stay.odd or without_relay(case, stay))
        times = [(stay.left, stay.end), (stay.halved, stay.end), (stay.faulty, told), (silent, stay.end)]
        times += [(last_word, stay.end)] * (not owing(case, stay) and not stays)
        clock = [(max(since, case.calm), until, ENDS) for since, until in times]
        clock += [(silent, stay.end, SILENT), (stay.faulty, min(told, first), 2 * patience + 3.0)] * always
        for since, until, most in clock:
            begins = max(since, 0.0 if stay.connected is None else stay.connected.at)
            if begins < inf and until > begins + case.within(most):
                yield f"{stay} was to end or to be told from {since:.3f} on, and this came at {until:.3f}"
                break
        else:
            if stay.ended is None and (over or stay is not last[stay.client]):
                yield f"{stay} has no end"


@rule_of_brokers
def a_broker_is_not_flooded(case: Case) -> Iterator[str]:
    """Relays open few connections to a broker in a second for each session, where nobody has brokers asked anew
    (failover.md, "Planned switch-over"). A session outlives its client by `disconnect_timeout`, which begins when the
    last of its bytes is read.
    """
    # In a second before its end a session may have opened some, too.
    patience = case.within(case.scene.settings["disconnect_timeout"]) + 1.0
    last: dict[str, list[float]] = defaultdict(list)
    anew = case.rough or any(each.detail.endswith("is in service") for each in case.fates)
    for event in case.of[What.MET] if not anew else ():
        times = last[event.who]
        times[:] = [at for at in times if at > event.at - 1.0] + [event.at]
        there = sum(each.began <= event.at <= each.end + patience for each in case.stays.values())
        # failover.md, "How long it takes": pauses from 10 ms on, each twice as long
        if len(times) > 9 * there + 5:
            yield f"{event.who} got {len(times)} connections within a second"
            times.clear()


@rule_of_brokers
def nobody_goes_to_a_paused_broker(case: Case) -> Iterator[str]:
    """A broker that is out of service gets no new connections."""
    paused: dict[str, float] = {}
    for event in case.history:
        name, _, what = event.detail.removeprefix("tcp://").partition(" ")
        if event.what is What.CALM:
            return
        if event.what is What.FATE and event.who == "relay" and what == "is taken out of service":
            paused.setdefault(name, event.at)
        elif event.what is What.FATE and event.who == "relay":
            # operating.md, "Reload": brokers that stay keep their pauses, a new relay has none
            paused = {who: at for who, at in paused.items() if what == "is in service" and who != name}
        elif event.what is What.MET and event.at > paused.get(event.who, inf) + 1.0:
            yield f"{event.who} was out of service, and got a connection"


def judge(history: History) -> list[Finding]:
    """Return what is wrong in a history, by all rules."""
    case = arranged(history)
    rules = [each for each in RULES if case.seen or each not in OF_BROKERS]
    if case.scene.mood:
        rules = rules[:1]
    return [Finding(each.__name__, text) for each in rules for text in each(case)]
