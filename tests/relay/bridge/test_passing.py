"""What passes in runs leaves a session as it would if each frame were looked at."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stomprelay.relay.bridge import Bridges, bridges_between, to_broker, to_client
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.session.delivery import THING
from stomprelay.session.session import Session
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import BROKER_COMMANDS, CLIENT_COMMANDS, RECEIPT
from stomprelay.wire.run import Passing, Rule, Run
from tests.passing import barred

in_all_versions = pytest.mark.parametrize("version", DIALECTS, ids=bytes.decode)
MOST = 8
"""How many deliveries may await their ACK."""


class Looking(Session):
    """A session that wants a look at each delivery and each ACK."""

    def delivered(self, rows: bytes, width: int, count: int, *, unnamed: bool = False) -> bool:
        """Never."""
        return False

    def acknowledged(self, names: bytes) -> bool:
        """Never."""
        return False


def run_of(rule: Rule, frames: list[Frame]) -> Run | None:
    """Return these frames as a run, where the rule lets all of them pass."""
    values = b""
    for frame in frames:
        if barred(rule, frame) or (rule.plain and not frame.plain):
            return None
        found = [frame.raw(name) for name in rule.wants]
        if None in found and rule.needs:
            return None
        values += b"".join(each + b"\n" for each in found if each is not None)
    last, data = frames[-1], frames[0].data
    return Run(rule, data, frames[0].start, last.after, len(frames), last.start, last.head, values)


class Side:
    """A session and its bridges, with frames taken as they come, or in `runs` where that can be."""

    def __init__(self, session: Session, bridges: Bridges, *, runs: bool) -> None:
        self.session = session
        self.bridges = bridges
        self.runs = runs
        self.taken = 0
        self.tokens: list[bytes] = []
        self._up = Decoder(session.dialect, CLIENT_COMMANDS, Limits())
        self._down = Decoder(session.dialect, BROKER_COMMANDS, Limits())

    def from_client(self, wire: bytes) -> list[bytes]:
        """Return what the broker is sent of it, frame by frame."""
        for at, token in enumerate(self.tokens):
            wire = wire.replace(b"<token %d>" % at, token)
        passing = to_broker(self.bridges, self.session, sends=True)
        sent = [*self._carry(self._up, wire, passing)]
        for at, token in enumerate(self.tokens):
            sent = [each.replace(token, b"<token %d>" % at) for each in sent]
        return sent

    def from_broker(self, wire: bytes) -> list[bytes]:
        """Return what the client is sent of it, frame by frame; our own tokens are numbered."""
        passing = to_client(self.bridges, self.session, receipts=True)
        sent = []
        for each in self._carry(self._down, wire, passing):
            _, mark, rest = each.partition(b"ack:relay-ack-")
            token = b"relay-ack-" + rest.partition(b"\n")[0]
            if mark and token not in self.tokens:
                self.tokens.append(token)
            sent.append(each.replace(token, b"<token %d>" % self.tokens.index(token)) if mark else each)
        return sent

    def _carry(self, decoder: Decoder, wire: bytes, passing: Passing) -> Iterator[bytes]:
        decoder.feed(wire)
        frames = list(decoder.frames())
        rules = {rule.command: rule for rule in passing.rules}
        while frames:
            together = [frames.pop(0)]
            while frames and frames[0].command is together[0].command:
                together.append(frames.pop(0))
            rule = rules.get(together[0].command)
            run = run_of(rule, together) if self.runs and rule is not None else None
            if run is not None and passing.takes(run):
                self.taken += 1
                yield from (frame.wire for frame in together)
            else:
                for frame in together:
                    try:
                        yield self._look(frame, decoder)
                    except StompError as error:
                        yield str(error).encode()

    def _look(self, frame: Frame, decoder: Decoder) -> bytes:
        if decoder is self._up:
            return self.bridges.to_broker.carry(frame, self.session)
        if frame.command is RECEIPT:
            self.session.received(frame.header(b"receipt-id", self.bridges.broker))
        return self.bridges.to_client.carry(frame, self.session)


def side(version: bytes, *, runs: bool, looking: bool = False) -> Side:
    """A new client of this version that has a broker of the same, and may move to another one."""
    session = (Looking if looking else Session)(b"s", DIALECTS[version], MOST, Counter())
    return Side(
        session, bridges_between(version, version, "generic", LossPolicy.REPLACE, tracked=True), runs=runs
    )


def subscribe(id: bytes, mode: bytes = b"client-individual") -> bytes:
    """A SUBSCRIBE."""
    return b"SUBSCRIBE\nid:%b\ndestination:/queue/%b\nack:%b\n\n\0" % (id, id, mode)


def message(name: bytes, subscription: bytes = b"a") -> bytes:
    """A MESSAGE that has what each version needs; its `ack` is its message-id with a mark."""
    return b"MESSAGE\nsubscription:%b\nmessage-id:%b\nack:%b-k\n\nx\0" % (subscription, name, name)


def ack(version: bytes, name: bytes, subscription: bytes = b"a", more: bytes = b"") -> bytes:
    """Its ACK."""
    if version == b"1.2":
        return b"ACK\nid:%b-k\n%b\n\0" % (name, more)
    if version == b"1.1":
        return b"ACK\nsubscription:%b\nmessage-id:%b\n%b\n\0" % (subscription, name, more)
    return b"ACK\nmessage-id:%b\n%b\n\0" % (name, more)


# ------------------------------------------------------------------ what has to be looked at


@in_all_versions
def test_receipts_of_the_relays_own(version: bytes) -> None:
    """They stay where whoever asked knows them, and are looked at otherwise; nothing of them is in the session."""
    it = side(version, runs=True)
    told: list[list[bytes]] = []

    def ours(receipts: list[bytes]) -> bool:
        told.append(receipts)
        return len(receipts) > 1

    passing = to_client(it.bridges, it.session, receipts=False, ours=ours)
    (_, rule) = passing.rules
    assert rule == Rule(RECEIPT, wants=(b"receipt-id",), stays=True)
    decoder = Decoder(DIALECTS[version], BROKER_COMMANDS, Limits())
    decoder.feed(b"".join([b"RECEIPT\nreceipt-id:%d\n\n\0" % number for number in (1, 2, 3)]))
    frames = list(decoder.frames())
    for some, taken in ((frames[:2], True), (frames[2:], False)):
        run = run_of(rule, some)
        assert run is not None
        assert passing.takes(run) is taken
    assert told == [[b"1", b"2"], [b"3"]]


# ------------------------------------------------------------------ against a session that looks at each frame

ids = st.sampled_from([b"a", b"b", b"c\\cd"])
modes = st.sampled_from([b"client", b"client-individual", b"auto"])
names = st.sampled_from([b"1", b"2", b"3", b"4", b"5", b"x\\cy", b"x:y", b"x\\\\y", b"x y", b"\\c"])
numbers = st.integers(0, 60)
events = st.one_of(
    st.tuples(st.just("subscribe"), ids, modes),
    st.tuples(st.just("unsubscribe"), ids, st.none()),
    st.tuples(st.just("messages"), st.lists(st.tuples(names, ids), min_size=1, max_size=6), st.none()),
    st.tuples(st.just("new"), st.integers(1, 5), ids),
    st.tuples(st.just("acks"), st.lists(st.tuples(names, ids), min_size=1, max_size=4), st.none()),
    st.tuples(st.just("new acks"), st.lists(numbers, min_size=1, max_size=5), ids),
    st.tuples(
        st.just("acks"),
        st.lists(st.tuples(names, ids), min_size=1, max_size=2),
        st.sampled_from([b"t", b"u"]),
    ),
    st.tuples(st.just("new acks"), st.lists(numbers, min_size=1, max_size=2), st.sampled_from([b"t", b"u"])),
    st.tuples(st.just("token"), st.integers(0, 3), st.none()),
    st.tuples(st.just("begin"), st.sampled_from([b"t", b"u"]), st.none()),
    st.tuples(st.just("commit"), st.sampled_from([b"t", b"u"]), st.none()),
    st.tuples(st.just("abort"), st.sampled_from([b"t", b"u"]), st.none()),
    st.tuples(st.just("look"), names, ids),
    st.tuples(st.just("lost"), st.none(), st.none()),
)


class Play:
    """One conversation with three sessions: one that looks at each frame, one that may note it by its names, and one
    that takes whole runs.
    """

    def __init__(self, version: bytes) -> None:
        self.version = version
        self.sides = [
            side(version, runs=False, looking=True),
            side(version, runs=False),
            side(version, runs=True),
        ]
        self.fresh: list[tuple[bytes, bytes]] = []

    def client_says(self, wire: bytes) -> None:
        """All brokers are sent the same of it."""
        first, *others = [each.from_client(wire) for each in self.sides]
        assert others == [first, first]

    def broker_says(self, wire: bytes) -> None:
        """All clients are sent the same of it."""
        first, *others = [each.from_broker(wire) for each in self.sides]
        assert others == [first, first]

    def acknowledges(self, deliveries: list[tuple[bytes, bytes]], transaction: bytes | None) -> None:
        """The client acknowledges these, in this transaction if any."""
        more = b"" if transaction not in (b"t", b"u") else b"transaction:%b\n" % transaction
        self.client_says(b"".join(ack(self.version, *each, more) for each in deliveries))

    def happens(self, what: str, first: object, second: object) -> None:
        """An event."""
        match what, first, second:
            case "subscribe", bytes(id), bytes(mode):
                self.client_says(subscribe(id, mode))
            case "unsubscribe", bytes(id), _:
                self.client_says(b"UNSUBSCRIBE\nid:%b\n\n\0" % id)
            case "messages", list(those), _:
                self.broker_says(b"".join(message(name, id) for name, id in those))
            case "new", int(count), bytes(id):
                new = [(b"n\\c%d" % (len(self.fresh) + n), id) for n in range(count)]
                self.fresh += new
                self.broker_says(b"".join(message(*each) for each in new))
            case "acks", list(those), transaction:
                self.acknowledges(those, transaction)  # type: ignore[arg-type]
            case "new acks", list(those), transaction if self.fresh:
                named = [self.fresh[each % len(self.fresh)] for each in those]
                self.acknowledges(named, transaction)  # type: ignore[arg-type]
            case "token", int(token), _ if token < len(self.sides[0].tokens):
                self.client_says(b"ACK\nid:<token %d>\n\n\0" % token)
            case ("begin" | "commit" | "abort") as command, bytes(transaction), _:
                self.client_says(b"%b\ntransaction:%b\n\n\0" % (command.upper().encode(), transaction))
            case "look", bytes(name), bytes(id):
                self.compare_lookups(name, id)
            case "lost", _, _:
                for each in self.sides:
                    each.session.lost_broker()
        self.compare()

    def compare(self) -> None:
        """What can be seen of a session is the same for all three."""
        seen = [self._seen(each.session) for each in self.sides]
        assert seen[1:] == [seen[0], seen[0]]
        sizes = [each.session.ledger.cost for each in self.sides]
        count = len(self.sides[0].session.ledger)
        assert all(size - sizes[0] <= 16 * count for size in sizes)
        assert all(
            sizes[0] - size <= THING * count for size in sizes
        )  # what is of one name is not listed yet

    @staticmethod
    def _seen(session: Session) -> list[object]:
        ledger = session.ledger
        return [
            (len(ledger), ledger.awaited, ledger.full, ledger.crowded, ledger.expecting, ledger.forgot),
            (session.full, session.crowded, session.quiet, dict(session.counters)),
            {name: (each.acknowledged, each.doomed) for name, each in session.transactions.items()},
        ]

    def compare_lookups(self, name: bytes, id: bytes) -> None:
        """A delivery is found by its names in all three, or in none."""
        dialect = self.sides[0].session.dialect
        name, id = dialect.decode(b"id", name), dialect.decode(b"id", id)
        found = []
        for each in self.sides:
            ledger = each.session.ledger
            looked = [ledger.by_message(name), ledger.by_message(name, id), ledger.by_token(name + b"-k")]
            told = [None if it is None else (it.message_id, it.subscription.id, it.lost) for it in looked]
            found.append([*told, ledger.taken(name + b"-k")])
        assert found[1:] == [found[0], found[0]]


@settings(max_examples=3 * settings().max_examples)
@given(version=st.sampled_from([b"1.0", b"1.1", b"1.2"]), script=st.lists(events, max_size=40))
def test_runs_change_nothing(version: bytes, script: list[tuple[str, object, object]]) -> None:
    """Any conversation: with runs, and with names alone, the same is sent and kept as with a look at each frame."""
    play = Play(version)
    for id in (b"a", b"b"):
        play.happens("subscribe", id, b"client" if id == b"a" else b"client-individual")
    for event in script:
        play.happens(*event)
    for name in [
        *(name for name, _ in play.fresh),
        b"1",
        b"2",
        b"3",
        b"4",
        b"5",
        b"x\\cy",
        b"x:y",
        b"x\\\\y",
    ]:
        for id in (b"a", b"b", b"c\\cd"):
            play.compare_lookups(name, id)
    play.compare()
