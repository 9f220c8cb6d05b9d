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
from itertools import takewhile
from math import inf
from typing import Final, NamedTuple

from sim.brokers import REFUSED
from sim.case import Case, Sent, Stay, arranged, shown, topic
from sim.history import Event, History, What
from sim.plan import TIGHT
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
STOPS: Final = ("stops", "hands over")  # what happens to a relay that ends
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
    # failover.md, "nothing: it closed its connection": half of `disconnect_timeout` for each broker, which a slow
    # network may need
    short = slowest(case) or case.lag >= 0.1 or least["disconnect_timeout"] < SOON
    short = short or case.counters.get("connects_prevented")
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
    links = case.serving[stay.client, stay.number]
    # translation.md, "NACK": it is an ERROR, but between equal versions
    if b"1.0" in [case.versions.get(each) for each in links] and not alike(case, stay):
        odd += [each.at for each in stay.sent if each.command == b"NACK"]
    told = any(b"transaction" in each.headers.get(b"message", b"") for each in stay.errors)
    told = told or not (stay.orderly or stay.errors or not troubles(case))  # who has left does not read it
    spans = (b"SEND", b"ACK", b"NACK") if case.scene.routed else ()
    ends = (*spans, b"COMMIT") if told else spans
    most = TIGHT["limits"].body if case.scene.tight else case.least.get("body", inf)
    # limits.md, "Limits": who has gone does not read the ERROR
    odd += [each.event.at for each in stay.sends if len(each.body) > most]
    if case.counters.get("frames_denied"):  # access.md, "A denied frame": also one that waited for its broker
        lost = [each.event for each in stay.sends if not case.took.get(each.body)]
        lost += [each for each in stay.sent if each.command == b"SUBSCRIBE"]
        values = [(each.at, value) for each in lost for value in each.headers.values()]
        odd += [at for at, value in values if value == b"/queue/c" or b"\r" in value]
    odd += [each.at for each in stay.sent if each.command in ends and b"transaction" in each.headers]
    return min(odd, default=inf)


def alike(case: Case, stay: Stay) -> bool:
    """Return whether all brokers speak the version of the client with it."""
    links = case.serving[stay.client, stay.number]
    own = case.scene.clients[stay.client].version
    return {case.versions[each] for each in links if each in case.versions} == {own}


def over(case: Case, stay: Stay, end: float) -> float:
    """Return when at the latest a session is over whose client came to its end at `end`: after `disconnect_timeout`;
    after its half-close, brokers have one to accept all, two to answer DISCONNECT, and the session has one more
    (configuration.md, "Half-closed connections").
    """
    return end + float(case.scene.settings["disconnect_timeout"]) * (4 if stay.halved < inf else 1)


def promised(case: Case, send: Sent) -> bool:
    """Return whether the relay must deliver a SEND or count it: it had read it, or the COMMIT of its transaction, while
    it served the client (failover.md, "When the relay ends a session").
    """
    stay, end = send.stay, send.stay.over.get(send.transaction or b"", send.event)
    key, came = (stay.client, stay.number), case.read(end)
    # failover.md, "What the client did when the broker died": COMMIT may get an ERROR, which who has left does not read
    doubt = stay.errors or (not stay.orderly and (troubles(case) or case.counters.get("brokers_lost")))
    # limits.md, "What is kept": what waits for its rate, or for a broker, counts, and so a frame before it may exceed
    # the limit
    waited = stay.connected is None or case.least["frames"] or end.at < stay.connected.at
    # failover.md, "A frame that costs brokers their connection"
    poison = b"priority" in send.event.headers
    if stay.connected is None or (send.transaction and doubt) or (case.scene.tight and waited) or poison:
        return False
    links = [each for each in case.serving[key] if each in case.versions]
    plain, until = case.scene.kind == "plain", case.until[key]
    # the relay reads no more: when it ends the session, or stops
    ends = ending = case.history.ending.get(key, inf)
    if stay.errors and not case.seen:  # it was on its way for a time
        ends = stay.errors[-1].at - case.scene.weather[2] - case.scene.settings["disconnect_timeout"]
    stops = [each for each in case.fates if each.who == "relay" and each.at > stay.began]
    ends = min([ends, *[each.at for each in stops if each.detail in STOPS]])
    gone = over(case, stay, max([until, *[case.until[each] for each in links]]))
    killed = any(each.detail == "is killed" and came < each.at <= gone for each in stops)
    if came > until or came >= ends or killed or end.at >= min(stay.faulty, refused(case, stay)):
        return False
    # the same page, "What the client did when the broker died": of SENDs that are not kept
    # the client left first, and then the connection to a broker ended
    ended = [each.at for link in links for each in case.history.arrived[link] if each.frame is None]
    left = until <= ending and (len(ended) < len(links) or any(at >= until for at in ended))
    before = takewhile(lambda each: each is not send.event, stay.sent)
    earlier = {each.headers[b"receipt"] for each in before if b"receipt" in each.headers}
    receipts = [each for link in links for each in case.receipts[link] if each.at > came]
    proof = [each for each in receipts if each.behind or each.headers[b"receipt-id"] in earlier]
    return (case.kept(send) and not plain) or not (left or (proof and plain and send.receipt is None))


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
    mood = bool(case.scene.mood)
    # failover.md, "What the client did when the broker died": an id that came twice
    excused = UNKNOWN if mood or case.rough else UNKNOWN[:1] * (not told_apart(case))
    # limits.md: a client that the relay does not read, because a broker does not answer, may leave unseen
    small, links = case.least["buffer"] < 1 << 20, [each for links in case.serving.values() for each in links]
    for event in case.of[What.WRONG]:
        owes = any(each.client == event.who and owing(case, each) for each in case.stays.values())
        # the complaint comes half a minute after the calm
        silent = overlooks(case) and (case.scene.kind == "plain" or "transaction:" in event.detail)
        slow = mood or owes or case.lag > 1.0 or not case.prompt or silent
        unseen = mood and (small or any(case.until[link] > event.at for link in links))
        allowed = (slow and "in calm weather" in event.detail) or (unseen and "after all" in event.detail)
        if not (allowed or event.detail.startswith(excused)):
            yield f"{event.at:.3f} {event.who}: {event.detail}"


def overlooks(case: Case) -> bool:
    """Return whether a broker rejected SENDs and said nothing. At a plain address nobody answers them, and in a
    transaction perhaps nobody (failover.md, "A SEND that no broker accepts", "What `confirm` costs and needs").
    """
    return case.patience < inf and any(each.detail == "has full queues" for each in case.fates)


def told_apart(case: Case) -> bool:
    """Return whether an ACK names one delivery only: no broker counts them, no session was lost or moved, or all
    clients speak 1.2.
    """
    counts = any(product.counts for product, _ in case.scene.brokers.values())
    versions = {each.version for each in case.scene.clients.values()}
    calm = sum(event.who in case.scene.brokers for event in case.fates) == len(case.scene.brokers)
    return (calm and undisturbed(case)) or versions == {b"1.2"} or not counts


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


@rule_of_brokers
def a_receipt_passes(case: Case) -> Iterator[str]:
    """A client reads a RECEIPT that as many brokers as are needed had given the relay: if it reads one that came to the
    relay later, or all that the relay wrote until it closed, or is there soon afterwards.
    """
    scene = case.scene
    groups = len(scene.brokers) - scene.routed if scene.kind == "fanout" else 1
    several = groups > 1 or scene.routed
    for stay in case.stays.values():
        key = stay.client, stay.number
        came: dict[bytes, dict[str, float]] = defaultdict(dict)
        for link in case.serving[key]:
            for each in case.receipts[link]:
                came[each.headers[b"receipt-id"]].setdefault(link[0], each.at)
        passed: dict[bytes, float] = {}
        for name, found in came.items():
            asked = stay.asked.get(name)
            # failover.md, "Fan-out": DISCONNECT waits for those who owe an answer, COMMIT for a part that one group has
            parts = asked and (scene.alone or stay.inside.get(asked.headers.get(b"transaction", b"")))
            all_of = asked and (asked.command == b"DISCONNECT" or (asked.command == b"COMMIT" and parts))
            enough = groups if scene.settings["all"] else 1
            enough = max(enough, len({who for who, _ in case.serving[key]})) if several and all_of else enough
            passed |= {name: sorted(found.values())[enough - 1]} if len(found) >= enough else {}
        firsts = {name: min(came[name].values()) for name in stay.receipts if name in came}
        last = max([at for name, at in firsts.items() if at <= stay.receipts[name].at], default=-inf)
        closed = stay.ended is not None and stay.ended.detail == "closed"
        # settings.md, `linger`: so much longer a slow network needs; what a killed relay has not sent is lost
        last = max(last, case.until[key] - max(0.5, case.lag) if closed else stay.end - case.within(3.0))
        answered = {each.headers.get(b"receipt-id") for each in stay.errors}.union(stay.receipts)
        # translation.md, "NACK": of several brokers one has no such command
        until = refused(case, stay)
        for name in [each for each in passed if each in stay.asked and each not in answered]:
            asked, at = stay.asked[name], passed[name]
            # failover.md, "What `confirm` costs and needs": RabbitMQ answers COMMIT before the SENDs in it
            early = asked.command == b"COMMIT" and slowest(case)
            if at < last and asked.at < until and not early:
                yield f"{stay} did not read RECEIPT {name.decode()}, which the relay had at {at:.3f}"


@rule
def a_receipt_is_true(case: Case) -> Iterator[str]:
    """What a client has a RECEIPT for was taken by a broker before, and no broker lost it that had confirmed it. With
    `confirm` this holds for all that it sent.
    """
    sure = case.scene.confirm and case.scene.kind != "plain"
    counted = case.counters.get("possibly_lost", 0)
    for send in case.sends:
        # failover.md, "What `confirm` costs and needs": RabbitMQ confirms COMMIT before what is in it, and the relay
        # believes it where an ERROR that names no receipt came meanwhile
        unsure = case.erred(send.stay, send.event.at, send.confirmed or 0.0)
        early = send.transaction is not None and (unsure or not sure)
        # the same page: the relay keeps a SEND until it is safe
        stay, took = send.stay, case.took.get(send.body, [])
        served = (stay.orderly or stay.ended is None) and not (stay.errors or stay.odd)
        kept = sure and case.seen and case.scene.kind == "failover" and served and took
        told = inf if send.confirmed is None and kept else send.confirmed
        if told is not None and send.number is not None and not early:
            held = Counter([each.who for each in took if each.at <= told or not case.seen])
            held.subtract([each.who for each in case.forgot.get(send.body, ())])
            if max(held.values(), default=0) <= 0:
                # translation.md, "Receipts, ERRORs, DISCONNECT": it waits for receipts no longer than so long
                if not (send.confirmed or send.known) and counted > 0:
                    counted -= 1
                    continue
                had = "a RECEIPT for" if send.confirmed else "a relay that keeps"
                yield f"{stay} has {had} {send}, which no broker has"


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
        # failover.md, "Duplicates and order": a broker that hung reads what it was sent before it was given up
        again = again or event.at > case.until[event.who, event.session]
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
        # move.md, "Phases": a copy, with its mark, where the client owes an ACK
        originals = [
            each for each in stay.messages if b"-shadow-" not in each.headers.get(b"relay-copy", b"")
        ]
        for body, count in Counter([each.body for each in originals]).items():
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
    """A broker removes a message only if a client acknowledged the copy that it delivered, or what the same connection
    gave behind it, or named such an id (failover.md, "What the client did when the broker died").
    """
    fans = case.scene.kind == "fanout"
    for event in () if case.rough else case.astray:
        link, owner = (event.who, event.session), case.history.owners.get((event.who, event.session))
        # failover.md, "Fan-out": it covers what any group gave before, and this may be the copy that came again
        links = [link, *(case.serving[owner] if owner is not None and fans else ())]
        gave = sorted([e for e in case.of[What.GAVE] if (e.who, e.session) in links], key=case.read)
        own = [(e.who, e.session, e.body) for e in gave]
        named = {e.headers.get(b"message-id", 0) for e in case.of[What.ACKED] if (e.who, e.session) == owner}
        twice = Counter([e.headers.get(b"message-id") for e in gave])
        behind = gave[own.index((*link, event.body)) :] if (*link, event.body) in own else []
        acked = [
            (e.who.encode(), e.body) in case.acked or e.headers.get(b"message-id") in named
            for e in behind
            if (e.who, e.session) == link or twice[e.headers.get(b"message-id")] > 1
        ]
        if not any(acked):
            yield f"{event.at:.3f} {event.who} removed {shown(event.body)}, which no client had acknowledged"


@rule_of_brokers
def an_ack_takes_effect(case: Case) -> Iterator[str]:
    """A broker removes what a client acknowledged: when the client has the RECEIPT of its ACK or COMMIT, and soon in
    calm weather. The relay does not pass an ACK for a connection that is over, but for one in a transaction, which then
    fails; nor a second one for what came once more, by the same id (failover.md, "What the client did when the broker
    died"). In a fan-out it gives itself the RECEIPT of an ACK for a broker that it is leaving (the same page, "Planned
    switch-over").
    """
    several, patience = case.scene.kind == "fanout" or case.scene.routed, case.least["disconnect_timeout"]
    # TLS and WebSocket do not show when a connection is over for the relay
    several = several or case.least["broker_tls"] or case.least["broker_web"]
    settled = {(each.who, each.session, each.body): each.at for each in reversed(case.of[What.SETTLED])}
    soon, details = SOON + by_turns(case), {each.detail for each in case.fates}
    for stay in () if case.rough else case.stays.values():
        named: set[tuple[str, int, bytes]] = set()
        # limits.md, "Limits": who owes ACKs (`unacknowledged`) keeps the relay from seeing that a broker closed
        unseen = troubles(case) if owing(case, stay) else []
        for ack, acked in stay.acks:
            name = ack.headers.get(b"transaction")
            end = ack if name is None else stay.over.get(name)
            came, receipt = case.read(ack), end and stay.receipts.get(end.headers.get(b"receipt", b""))
            void = end is None or end.command == b"ABORT" or bool(stay.errors)
            # failover.md, "What `confirm` costs and needs": COMMIT succeeds without what RabbitMQ answers with an ERROR
            void = void or (name is not None and receipt is not None and case.erred(stay, ack.at, receipt.at))
            until = inf if end is None or case.read(end) <= case.calm else case.read(end) + case.within(soon)
            until = until if receipt is None else receipt.at
            links = case.serving[stay.client, stay.number]
            given = [each.headers for link in links for each in case.receipts[link]]
            itself = several and receipt is not None and receipt.headers not in given
            covered: list[Event] = []
            for each in reversed(acked):
                origin = each.headers.get(b"from", b"").decode()
                gave = [e for e in case.gave[each.body] if e.who == origin and (e.who, e.session) in links]
                gave = [e for e in gave if case.read(e) < came]
                # the copies in the order in which the client read them, by the names that it read
                name_of = b"ack" if b"ack" in each.headers else b"message-id"
                read = [e.headers.get(name_of) for e in stay.messages if _origin(e) == _origin(each)]
                names = [e.headers.get(name_of) for e in stay.messages]
                # of two ACKs of an id that came twice the first counts; the relay answers the second
                if names.count(each.headers.get(name_of)) > 1 and receipt and receipt.headers not in given:
                    continue
                pairs = zip(sorted(gave, key=case.read), read, strict=False)
                last = [e for e, own in pairs if own == each.headers.get(name_of)][-1:]
                for e in last:
                    later = [o for o in gave[gave.index(e) + 1 :] if o.session == e.session]
                    # translation.md, "ACK and NACK" (R76): a NACK of another subscription had returned this copy
                    nacked = any(n.command == b"NACK" and e.at < n.at < ack.at for n in stay.sent)
                    void = void or (nacked and case.scene.brokers[e.who][0].across)
                    if any(b"redelivered" in o.headers for o in later):
                        continue
                    key = e.who, e.session, e.body
                    if each is acked[-1] and key not in named:
                        # the ACK covers what this connection had given before; a second ACK is dropped
                        covered = [o for o in case.of[What.GAVE] if (o.who, o.session) == key[:2]]
                        covered = covered[: covered.index(e) + 1]
                    closed = receipt is None and any(o.who == e.who and e.at < o.at < came for o in unseen)
                    due = case.until[key[:2]] > until + (patience if itself else 0.0) and not closed
                    due = due or (name is not None and receipt is not None)
                    due = due and e in covered and not (void or key in named)
                    paused = f"tcp://{e.who} is taken out of service" in details
                    # failover.md, "Planned switch-over": its own RECEIPT for a broker that does not go in time
                    due = due and not (paused and receipt is not None and receipt.headers not in given)
                    if due and settled.get(key, inf) > until:
                        yield f"{stay} acknowledged {shown(e.body)} with {ack.frame}, and {e.who} has it"
                    named.add(key)


def _origin(event: Event) -> tuple[bytes, bytes]:
    """Return which broker gave which message."""
    return event.headers.get(b"from", b""), event.body


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
    patience = case.scene.settings["disconnect_timeout"] + 2.5
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
        # A client has soon what the relay has read.
        # failover.md, "When the relay ends a session": it sends RECEIPTs, and no MESSAGEs, for `disconnect_timeout`
        ends = min(stay.left, stay.faulty, refused(case, stay), stay.halved, stay.silent)
        told = [stay.end] * (stay.ended is None or stay.ended.detail != "left") + [e.at for e in stay.errors]
        ends = min([ends, stay.end, *[at - patience for at in told]])
        ends = ends if case.exact and not stay.odd else -inf
        for send in stay.sends if case.scene.kind != "fanout" else ():
            took, at = case.took.get(send.body, []), send.confirmed or inf
            if at < ends and not send.transaction and len(took) == 1:
                key = took[0].who, took[0].session
                known[key].setdefault(sum(each.at < took[0].at for each in given[key]) - 1, at)
        gone = {name: each.at for name, each in stay.unsubscribed.items()}
        due: dict[bytes, list[str]] = defaultdict(list)
        for key in {*known, *case.serving[stay.client, stay.number]}:
            soonest = inf
            for place, event in reversed([*enumerate(given[key])]):
                # clients may read nothing for two; the relay reads nothing behind an ERROR that ends the connection
                at = case.read(event)
                at = inf if at > case.until[key] else at + 3.0
                soonest = min(soonest, known[key].get(place, inf), at if at < ends else inf)
                names = event.headers.get(b"subscription", b""), event.headers[b"destination"]
                if all(soonest < gone.get(name, inf) for name in names):
                    due[event.body].append(key[0])
        for body, whence in due.items():
            # move.md, "Phases": what meets the end of a subscription is not for the client
            if len(whence) > read[body] and not case.scene.moving:
                yield f"{stay} did not read {shown(body)}, which {whence[0]} gave"


@rule
def nothing_is_lost_quietly(case: Case) -> Iterator[str]:
    """What a client sent is taken by a broker, unless the client left early, or was told by an ERROR that something may
    be lost, or it is counted as possibly lost.
    """
    scene = case.scene
    # what a broker takes that has hung, it may take long after the session's end
    last = case.least["disconnect_timeout"] + 1.0 if case.seen else inf
    late = [each for each in case.sends if each.number is not None]
    late = [each for each in late if all(at.at > each.stay.end + last for at in case.took.get(each.body, ()))]
    late = [each for each in late if promised(case, each)]
    missing = [each for each in late if not case.took.get(each.body)]
    sure = scene.confirm and scene.kind == "failover" and not scene.routed
    patience, well_from = case.least["disconnect_timeout"], spells(case)
    for send in late:
        # failover.md, "SEND without `receipt`": a plain address keeps nothing
        stay, kept = send.stay, (scene.confirm and scene.kind != "plain") or send.receipt is not None
        # failover.md, "nothing: it closed its connection": the broker that does not answer gets half of the time
        # the same page, "Together": for 5 seconds it asks no other; a half-closed client's time began at `halved`
        well = patience >= SOON and scene.settings["policy"] is not Policy.TOGETHER and stay.halved == inf
        # the same page, "When a client does get an ERROR": the next broker's refusal is final
        well = well and case.exact and not case.goes
        well = well and any(a <= stay.end and stay.end + patience <= b for a, b in well_from)
        if sure and well and not (stay.orderly or stay.errors or stay.odd or chokes(case, stay)):
            yield f"{stay} left {send} behind, which no broker took in time, and one was well"
        if send not in missing:
            continue
        # the RECEIPT of DISCONNECT comes behind those of all SENDs that are kept
        orderly = stay.orderly and (sure or (kept and scene.kind == "failover" and not scene.routed))
        if (orderly or (sure and stay.ended is None)) and not stay.errors:
            yield f"{stay}: no broker took {send}, and nobody was told"
        if stay.told and kept and scene.kind != "fanout" and not case.counters.get("fanout_overflowed"):
            yield f"{stay} read {stay.told.frame}, and {send} was not delivered"
    counted = case.counters.get("possibly_lost", 0)
    if len(missing) > counted:
        names = " ".join(map(str, missing))
        yield f"{len(missing)} SENDs were taken by no broker, {counted} are counted as possibly lost: {names}"


@rule_of_brokers
def each_group_counts(case: Case) -> Iterator[str]:
    """What a group of a fan-out lacks at the end of a session is counted (failover.md, "Fan-out"), unless the group has
    failed, and is left out: the same page, "A group has failed". It has no connection any more then.
    """
    scene, counters = case.scene, case.counters
    given_up = counters.get("fanout_errors") or counters.get("connects_rejected")
    if scene.kind != "fanout" or scene.alone or case.rough or given_up:
        return
    refuse = {each.who for each in case.fates if each.detail == "refuses"}
    failed = {*scene.brokers} if scene.tight else refuse
    groups = {*scene.brokers} - ({[*scene.brokers][-1]} if scene.routed else set())
    sends = [each for each in case.sends if each.transaction is None and case.kept(each)]
    sends = [each for each in sends if not (scene.routed and each.destination.startswith(b"/queue/c"))]
    took = {each.body: {event.who for event in case.took.get(each.body, ())} for each in sends}
    sends = [each for each in sends if took[each.body] and promised(case, each)]  # others count once
    lacking = []
    for send in sends:
        links = [each for each in case.serving[send.stay.client, send.stay.number] if each in case.versions]
        there = {who for who, session in links if case.until[who, session] > case.read(send.event)}
        lacking += [send] * len(groups - (failed - there) - took[send.body])
    counted = sum(counters.get(name, 0) for name in ("possibly_lost", "fanout_overflowed", "poison_refused"))
    if len(lacking) > counted:
        yield f"groups lack {len(lacking)} SENDs, and {counted} are counted: {' '.join(map(str, lacking))}"


@rule_of_brokers
def nothing_comes_late(case: Case) -> Iterator[str]:
    """What a client sent that has left is taken within `disconnect_timeout`, or not at all; but what a broker had
    received that hangs, it may take when it goes on.
    """
    if case.scene.kind == "plain" or any(event.detail == "hangs" for event in case.fates):
        return
    buffer = min(BUFFER, case.scene.settings["size"])
    for send in case.sends:
        if send.stay.size <= buffer:
            for event in case.took.get(send.body, ()):
                if event.at > over(case, send.stay, send.stay.end) + case.within(4.0):
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
    arrived = case.history.arrived
    frames = {key: [each.frame for each in found if each.frame is not None] for key, found in arrived.items()}
    came = sum(len(each) for (who, _), each in frames.items() if who in scene.clients)
    said = sum(len(frames[key][1:]) for key in case.versions)
    again = sum(resent(case, stay, link) for stay in stays for link in case.serving[stay.client, stay.number])
    bounds = {
        "sessions_opened": (connected, len(stays)),
        "sessions_connected": (connected, len(stays)),
        "client_frames": (sum(told), came - connected),
        "broker_frames": (answers, said),
        "clients_vanished": (0, sum(not stay.orderly for stay in stays)),
        "frames_resent": (marked, again),
    }
    for name, (least, most) in bounds.items():
        if name in case.counters and not least <= case.counters[name] <= most:
            yield f"{name} is {case.counters[name]}, and not from {least} to {most}"


def resent(case: Case, stay: Stay, link: tuple[str, int]) -> int:
    """Return how many SENDs of a client may be sent again on a connection to a broker: those that may have been sent on
    another, and that were not confirmed there when this one began.
    """
    fanout = case.scene.kind == "fanout"
    others = [each for each in case.serving[stay.client, stay.number] if each != link]
    others = [each for each in others if each[0] == link[0] or not fanout]
    until = max([case.until[each] for each in others], default=-inf)
    began = min([each.at for each in case.of[What.MET] if (each.who, each.session) == link], default=inf)
    sends = [each for each in stay.sends if case.kept(each) and case.read(each.event) < until]
    known = [min([at for key, at in each.known.items() if key in others], default=inf) for each in sends]
    return sum(at > began for at in known)


@rule_of_brokers
def an_alarm_has_a_cause(case: Case) -> Iterator[str]:
    """No SEND is counted as possibly lost that has its RECEIPT, and none where no broker was lost and nobody was sent
    an ERROR. Each group of a fan-out that misses a SEND counts it.
    """
    settings = case.scene.settings
    # WebSocket and TLS do not show when the relay gave a connection up, and read on
    if case.rough or ((settings["broker_web"] or settings["broker_tls"]) and not case.exact):
        return
    counted = case.counters.get("possibly_lost", 0)
    # failover.md, "A frame that costs brokers their connection"
    poison = case.counters.get("poison_refused", 0) - sum(each.number is None for each in case.sends)
    unsure = sum(doubtful(case, each) for each in case.sends) - max(0, poison)
    if counted > unsure:
        yield f"{counted} SENDs are counted as possibly lost, and only {unsure} have no RECEIPT"


def doubtful(case: Case, send: Sent) -> int:
    """Return how often a SEND may be counted as possibly lost."""
    scene, stay, came = case.scene, send.stay, case.read(send.event)
    key = stay.client, stay.number
    served = any(case.since[each] <= came < case.until[each] for each in case.serving[key])
    # limits.md: what waits for a broker, or for its rate, counts even if it is in a transaction without a COMMIT
    moves = any(each.detail.endswith("is taken out of service") for each in case.fates)
    # failover.md, "A frame that costs brokers their connection": so does what comes behind frames that are sent again
    waits = moves or stay.odd or "frames_resent" in case.counters
    aside = send.number is None and scene.kind != "plain" and case.exact and served and not waits
    if came == inf or aside:
        return 0
    known = {who for who, _ in send.known}
    if case.least["frames"] is None and (scene.kind == "plain" or not case.kept(send)):
        # failover.md, "What the client did when the broker died": the relay waits for no answer
        took = [(each.who, each.session) for each in case.took.get(send.body, ())]
        # the relay closed it, and not because of an ERROR
        ends = {each: case.history.arrived[each] for each in took}
        ends = {each: [e for e in came if e.at == came[-1].at] for each, came in ends.items()}
        took = [e for e, last in ends.items() if last[-1].behind and all(o.command != b"ERROR" for o in last)]
        fates = [*troubles(case), *[each for each in case.fates if each.who == "relay"]]
        ended = {each.who for each in fates if stay.began < each.at <= case.until[key]}
        gone = stay.end <= case.until[key] and min(stay.left, stay.faulty) == inf and "relay" not in ended
        took = [each for each in took if gone and each[0] not in ended]
        known |= {each[0] for each in took if case.until[key] == case.until[each]}
    # the same page, "Fan-out": with `fanOutQueues=false` a SEND to a queue goes to one group; a transaction to all
    one = scene.kind != "fanout" or (scene.alone and not (topic(send.destination) or send.transaction))
    return max(0, (1 if one else len(scene.brokers)) - len(known))


@rule
def the_journal_equals_the_history(case: Case) -> Iterator[str]:
    """The journal has each SEND that a broker took, and each MESSAGE that a client read, as often as they came."""
    frames, damages, failed = case.history.facts.get("journal", (None, (), False))
    if frames is None:
        return
    yield from damages
    sent = Counter([each.body for each in case.sends])
    read = Counter([event.body for stay in case.stays.values() for event in stay.messages])
    gave = Counter([event.body for event in case.history if event.what is What.GAVE])  # copies of a move, too
    for (side, command, body), count in frames.items():
        if command == b"SEND" and (side != "client" or (count > sent[body] and not case.rough)):
            yield f"the journal has {count} times {shown(body)} of the {side}"
        if command == b"MESSAGE" and (side != "broker" or count > gave[body]):
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
        # settings.md, `linger`: the ERROR of a frame at fault, of a limit, or of a broker that does not answer in time,
        # and the answer to DISCONNECT may need longer on a slow network
        fault = case.scene.tight or min(refused(case, stay), stay.faulty, stay.left) < inf
        fault = fault or (case.scene.kind == "plain" and stay.connected is None)
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
    # failover.md, "What counts against a broker": it was lost twice just then
    "two losses": b"the broker closed the connection when it was sent CONNECT",
    "full queues": b"a message was not accepted",  # failover.md, "A SEND that no broker accepts"
    "losses are rejected": b"a header cannot be said",  # configuration.md: loss
    "silence": b"heart-beat missed",  # failover.md, "When the relay ends a session"
    # RabbitMQ's, ActiveMQ's and Artemis's own
    "ACKs twice": b"AMQP channel died|not found|AMQ339018 Error acknowledging",
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
    # "A frame that costs brokers their connection": full queues end connections that ask for receipts
    harm = {each.detail for each in troubles(case)} | {"has full queues"}.intersection(details)
    paused = {each.split()[0] for each in details if each.endswith("is taken out of service")}
    all_paused = len(paused) + scene.routed >= len(scene.brokers)
    lost = scene.settings["buffer"] < 1 << 20 and case.counters.get("brokers_lost")  # one that took nothing
    # failover.md, "What counts against a broker": who does not confirm in time what a client said that leaves is left;
    # the same page, "When the relay ends a session"
    asked = min(stay.left, stay.halved, refused(case, stay)) < inf
    asked = asked or any(each.command == b"DISCONNECT" for each in stay.sent)
    asked = asked and (case.least["disconnect_timeout"] < SOON or case.lag >= 0.1)
    # the same page, "Routes"
    asked = asked or (scene.routed and any(each.who == [*scene.brokers][-1] for each in troubles(case)))
    found = {
        "no broker": not steady(case),
        # failover.md, "When a client does get an ERROR": the next broker's refusal is final
        "it goes": case.goes
        and (stay.connected is None or harm != {"refuses"} or all_paused or asked or lost),
        "two losses": stay.connected is None
        and sum(e.at > stay.began and e.detail.startswith(("is killed", "is cut")) for e in case.fates) > 1,
        "full queues": "has full queues" in harm,
        "losses are rejected": scene.loss is LossPolicy.REJECT,
        "silence": stay.silent < inf,
        "ACKs twice": any(product.across or product.early for product, _ in scene.brokers.values()),
        "a token": scene.auth and scene.clients[stay.client].chokes,
        "little memory": scene.settings["memory"] < 1 << 30,
    }
    reads = [each.split()[3:] for each in details if each.startswith("reads its configuration")]
    said = {each.command.decode() for each in stay.sent} - ({"NACK"} if alike(case, stay) else set())
    return {name for name, holds in found.items() if holds}.union(*reads, said)


def uneventful(case: Case) -> bool:
    """Return whether nothing happened in the weather."""
    return not any(each.detail != "starts" and each.at < case.calm for each in case.fates)


def slowest(case: Case) -> float:
    """Return how many seconds the slowest broker takes to confirm a SEND."""
    return SLOWEST if any(product.late for product, _ in case.scene.brokers.values()) else 0.0


def by_turns(case: Case) -> float:
    """Return how many seconds the slowest broker takes to confirm all SENDs, where the relay may send each after the
    answer to the one before, and an ACK behind them (failover.md, "A frame that costs brokers their connection"; or
    `resend_buffer` has room for one).
    """
    return slowest(case) * len(case.sends) * one_by_one(case)


def one_by_one(case: Case) -> bool:
    """Return whether the relay may send each SEND after the answer to the one before."""
    return "frames_resent" in case.counters or case.least["buffer"] < 1 << 20


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
    ends sessions, waits. Times are longer where brokers are asked frame by frame, or go.
    """
    scene, slow, first, late = case.scene, slowest(case), first_fate(case), by_turns(case)
    calm = 40.0 + late if late else SOON + case.goes
    simple = case.exact and calm == SOON and scene.settings["policy"] is not Policy.TOGETHER
    beats = scene.kind == "failover" and not scene.routed and scene.settings["beats"] and undisturbed(case)
    # failover.md, "How long it takes": STOMP 1.0 has no heart-beats
    versions = [*scene.versions, *[each for _, each in scene.brokers.values()]]
    hangs = len({each.who for each in case.fates if each.detail == "hangs"})
    patience = case.patience if overlooks(case) else 0.0
    for stay in case.stays.values():
        if without_relay(case, stay) or chokes(case, stay) or owing(case, stay) or stay.odd:
            continue
        if patience and scene.kind == "plain":
            continue
        old = hangs and b"1.0" in (scene.clients[stay.client].version, *versions)
        well = spells(case) if beats and not old else []
        for since, until, what in _waits(case, stay):
            soon = ENOUGH if what == "CONNECTED" else 3.0 + slow
            # failover.md, "How long it takes": each broker that hangs leaves a CONNECT without an answer for
            # `connect_timeout`, and who hangs at DISCONNECT has all of `disconnect_timeout` first; configuration.md,
            # "Half-closed connections": the relay says DISCONNECT for who has closed its sending direction
            leaves = since == stay.left or stay.halved < until
            enough = ENOUGH + 2.0 * (len(scene.brokers) - 1 if hangs and leaves else max(hangs - 1, 0))
            # other brokers than RabbitMQ need less than half a second for each
            turns = 0.4 * len(stay.sends) * one_by_one(case)
            clock = [(case.calm, inf, calm + turns)] * (stay.faulty == inf)
            clock += [(-inf, first, soon), *[(*each, enough) for each in well]] * simple
            for start, end, most in clock:
                if min(until, end) - max(since, start) > case.within(most) + patience:
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
        yield since, gone if receipt is None else receipt.at, f"RECEIPT {name.decode()}"


@rule_of_brokers
def who_reads_to_the_end_has_all(case: Case) -> Iterator[str]:
    """A client reads all its RECEIPTs that closed its sending direction while brokers were well, or sent DISCONNECT and
    got its RECEIPT, in time.
    """
    patience = case.least["disconnect_timeout"]
    # configuration.md, `disconnect_timeout`: so long DISCONNECT waits for RECEIPTs
    short = patience < SOON or any(each.detail == "closes at DISCONNECT" for each in case.fates)
    for stay in case.stays.values():
        halved = stay.halved < inf and stay.ended is not None and stay.ended.detail == "closed"
        halved = halved and not any(stay.halved - case.within(SOON) < at < stay.end for at in happened(case))
        all_read = (halved or stay.orderly) and stay.end < min(stay.halved, stay.left) + patience
        for name, asked in stay.asked.items() if all_read and not (short or stay.errors or stay.odd) else ():
            inside = b"transaction" in asked.headers and asked.command != b"COMMIT"
            if not (inside or name in stay.receipts):
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
        # failover.md, "When a client does get an ERROR": RabbitMQ stays connected behind these; errors.md: so does the
        # relay behind one of its own
        stays = said in (b"Subscription not found", b"Processing error", b"a message was not accepted")
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
    ends = {key: [each.end + patience] for key, each in case.stays.items()}
    for link, owner in case.history.owners.items():
        ends.setdefault(owner, []).append(case.until[link] + 1.0)
    last: dict[str, list[float]] = defaultdict(list)
    anew = case.rough or any(each.detail.endswith("is in service") for each in case.fates)
    for event in case.of[What.MET] if not anew else ():
        times = last[event.who]
        times[:] = [at for at in times if at > event.at - 1.0] + [event.at]
        there = sum(each.began <= event.at <= max(ends[key]) for key, each in case.stays.items())
        # failover.md, "How long it takes": pauses from 10 ms on, each twice as long
        most = 9 * there + 5
        if len(times) > most:
            # the same page, "A SEND that no broker accepts": so many for each, where the broker closes at it
            full = [each for each in case.of[What.FORGOT] if each.session and each.who == event.who]
            most += 4 * len({each.body for each in full if event.at - 1.0 < each.at <= event.at})
        if len(times) > most:
            yield f"{event.who} got {len(times)} connections within a second"
            times.clear()


@rule_of_brokers
def nobody_goes_to_a_paused_broker(case: Case) -> Iterator[str]:
    """A broker that is out of service gets no new connections."""
    paused: dict[str, float] = {}
    handed, older = -inf, 0  # when a relay handed over, and how many that did have not ended
    for event in case.history:
        name, _, what = event.detail.removeprefix("tcp://").partition(" ")
        if event.detail == "hands over":
            handed, older = event.at, older + 1
        owner = case.stays.get(case.history.owners.get((event.who, event.session), ("", 0)))
        if event.what is What.CALM:
            return
        if event.what is What.FATE and event.who == "relay" and what == "is taken out of service":
            paused.setdefault(name, event.at)
        elif event.detail == "has handed over":
            older -= 1
        elif event.what is What.FATE and event.who == "relay":
            # operating.md, "Reload": brokers that stay keep their pauses, a new relay has none
            paused = {who: at for who, at in paused.items() if what == "is in service" and who != name}
        # operating.md, "Upgrades without a refused client": pauses of the new relay are not the old one's
        elif older and (owner is None or owner.began <= handed):
            continue
        elif event.what is What.MET and event.at > paused.get(event.who, inf) + 1.0:
            yield f"{event.who} was out of service, and got a connection"


def judge(history: History) -> list[Finding]:
    """Return what is wrong in a history, by all rules."""
    case = arranged(history)
    rules = [each for each in RULES if case.seen or each not in OF_BROKERS]
    if case.scene.mood:
        rules = rules[:1]
    return [Finding(each.__name__, text) for each in rules for text in each(case)]
