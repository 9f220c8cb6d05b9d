"""Frames that are taken together go out, and leave a session, as if each were looked at: between any two versions."""

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stomprelay.relay.bridge import SPELLER, Spelling, bridges_between, to_broker, to_client
from stomprelay.relay.effects import Joiner
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.session.delivery import THING
from stomprelay.session.recent import joined
from stomprelay.session.session import Session
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS, Dialect
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame, Limits
from stomprelay.wire.names import BROKER_COMMANDS, CLIENT_COMMANDS, MESSAGE_ID, RECEIPT
from stomprelay.wire.run import Passing, Run

pytestmark = pytest.mark.skipif(SPELLER is None, reason="not built, or not wanted")

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


class Side:
    """A session between two versions, with frames taken as they come, or in `runs` where that can be."""

    def __init__(
        self,
        client: bytes,
        broker: bytes,
        profile: str = "generic",
        loss: LossPolicy = LossPolicy.REPLACE,
        *,
        tracked: bool = False,
        runs: bool = True,
        looking: bool = False,
    ) -> None:
        self.runs = runs
        self.bridges = bridges_between(client, broker, profile, loss, tracked=tracked)
        self.session = (Looking if looking else Session)(b"s", DIALECTS[client], MOST, Counter())
        self.taken = 0
        self._tokens: list[bytes] = []
        self._up = Decoder(self.session.dialect, CLIENT_COMMANDS, Limits())
        self._down = Decoder(self.bridges.broker, BROKER_COMMANDS, Limits())

    def from_client(self, wire: bytes) -> bytes:
        """Return what the broker is sent of it, with errors in their places."""
        wire = re.sub(rb"<token-(\d+)>", lambda match: self._tokens[int(match[1])], wire)
        return self._carry(self._up, wire, to_broker(self.bridges, self.session, sends=True))

    def from_broker(self, wire: bytes) -> bytes:
        """Return what the client is sent of it, with errors in their places; the relay's own tokens are numbered."""
        told = self._carry(self._down, wire, to_client(self.bridges, self.session, receipts=True))
        return re.sub(rb"relay-ack-\d+", self._numbered, told)

    def _numbered(self, token: re.Match[bytes]) -> bytes:
        if token[0] not in self._tokens:
            self._tokens.append(token[0])
        return b"<token-%d>" % self._tokens.index(token[0])

    def _carry(self, decoder: Decoder, wire: bytes, passing: Passing) -> bytes:
        decoder.feed(wire)
        joiner = Joiner()
        for found in decoder.runs(passing) if self.runs else decoder.frames():
            if type(found) is Run:
                self.taken += found.count
                joiner.add(found, None)
            else:
                joiner.write(self._look(found, decoder))
        return joiner.take()

    def _look(self, frame: Frame, decoder: Decoder) -> bytes:
        bridge = self.bridges.to_broker if decoder is self._up else self.bridges.to_client
        if frame.command is RECEIPT:
            self.session.received(frame.header(b"receipt-id", self.bridges.broker))
        try:
            return bridge.carry(frame, self.session)
        except StompError as error:
            return b"<%b>" % str(error).encode()


@pytest.mark.parametrize(("id", "named"), [(b"", b""), (b"id:s\n", b"subscription:s\n")])
def test_a_run_is_taken_whole(id: bytes, named: bytes) -> None:
    """MESSAGEs of 1.2 for a client of 1.0, which sees no name that it did not choose; and its ACKs."""
    it = Side(b"1.0", b"1.2")
    sent = it.from_client(b"SUBSCRIBE\n%bdestination:/queue/a\nack:client\n\n\0" % id)
    name = sent.partition(b"\nid:")[2].partition(b"\n")[0]
    message = b"MESSAGE\nsubscription:%b\nmessage-id:ID\\c%d\nack:k\\c%d\n\nx\0\n"
    told = it.from_broker(message % (name, 1, 1) + message % (name, 2, 2))
    assert told == b"".join([b"MESSAGE\n%bmessage-id:ID:%d\n\nx\0\n" % (named, at) for at in (1, 2)])
    assert it.from_client(b"ACK\nmessage-id:ID:1\n\n\0\n") == b"ACK\nid:k\\c1\n\n\0\n"
    assert it.taken == 3


@pytest.mark.parametrize(
    "line",
    [b"x:a\r", b"x\\c:1", b"x:\\n", b"x:\\r", b"x:\\r."],
    ids=["CR", "name", "LF", "last CR", "CR within"],
)
def test_what_has_to_be_looked_at(line: bytes) -> None:
    """One frame of that kind, and all of its run are carried by themselves: it is counted what is lost."""
    wire = b"MESSAGE\nsubscription:s\nmessage-id:1\n%b\n\n\0" % line * 2
    both = [Side(b"1.0", b"1.2", "activemq", runs=runs) for runs in (True, False)]
    for it in both:
        it.from_client(b"SUBSCRIBE\nid:s\ndestination:/queue/a\n\n\0")
    told, expected = [it.from_broker(wire) for it in both]
    assert told == expected
    assert both[0].taken == 0
    assert both[0].session.counters == both[1].session.counters


@given(
    pair=st.tuples(*[st.sampled_from(list(DIALECTS.values()))] * 2),
    texts=st.lists(st.text("ab\\cnr: \r" + "x" * 30, max_size=90).map(str.encode), max_size=6),
)
def test_values_by_themselves(pair: tuple[Dialect, Dialect], texts: list[bytes]) -> None:
    """They are spelled as the target spells what the source reads."""
    source, target = pair
    found = Spelling(source, target, alike=False).values(joined([texts]))
    if found is not None:
        assert found == joined([[target.encode(source.decode(MESSAGE_ID, each)) for each in texts]])


few = st.sampled_from([b"1", b"2", b"3", b"x:y", b"x y", b" x ", b"relay-x", b"x\\y", b""])
"""Names that come again."""
values = st.one_of(
    few,
    few,
    st.lists(st.sampled_from([b":", b"\\", b"\n", b"\r", b" ", b"a", b"c", b"\xc3\xa9"]), max_size=5).map(
        b"".join
    ),
)
spellings = st.lists(st.sampled_from([b"1", b"x\\cy", b"x:y", b"x\\\\y", b"\\c"]), min_size=1, max_size=4)
"""Some names have two."""
lines = st.one_of(
    st.sampled_from(
        [b"x:\\c", b"x: \\\\", b"x:a:b", b"x :y", b"x\\c:y", b"x:y\r", b"ack:1", b"id:4", b"x:\\r", b"x:"]
    ),
    st.sampled_from(
        [b"content-length:0", b"content-length: 0 ", b"x:\\\\r", b"redelivered:a", b"receipt: r:1"]
    ),
)
modes = st.sampled_from([b"client", b"client-individual", b"client-individual", b"auto"])
subscriptions = st.integers(0, 2)
transactions = st.sampled_from([b"t", b"u"])
more = st.lists(lines, max_size=2)
acks = st.lists(st.tuples(st.integers(0, 40), more), min_size=1, max_size=4)
events = st.one_of(
    st.tuples(st.just("subscribe"), st.one_of(st.none(), st.sampled_from([b"a", b"b", b"c:d"])), modes),
    st.tuples(st.just("unsubscribe"), subscriptions, st.none()),
    st.tuples(st.just("sends"), st.lists(st.tuples(values, more), min_size=1, max_size=4), st.none()),
    st.tuples(st.just("messages"), st.lists(st.tuples(values, more), min_size=1, max_size=6), subscriptions),
    st.tuples(
        st.sampled_from(["spelled messages", "spelled acks"]), spellings, st.sampled_from([b"a", b"b"])
    ),
    st.tuples(st.just("new"), st.integers(1, 5), subscriptions),
    st.tuples(st.just("new and acks"), st.integers(1, 5), subscriptions),
    st.tuples(st.just("new and acks"), st.integers(1, 5), subscriptions),
    st.tuples(st.just("acks"), acks, st.none()),
    st.tuples(st.just("acks"), acks, transactions),
    st.tuples(st.just("acks in order"), st.integers(1, 5), st.booleans()),
    st.tuples(st.just("acks in order"), st.integers(1, 5), st.booleans()),
    st.tuples(st.just("receipts"), st.lists(values, min_size=1, max_size=3), st.none()),
    st.tuples(st.just("begin"), transactions, st.none()),
    st.tuples(st.just("commit"), transactions, st.none()),
    st.tuples(st.just("abort"), transactions, st.none()),
    st.tuples(st.just("lost"), st.none(), st.none()),
)


def frame(command: bytes, headers: list[tuple[bytes, bytes]], dialect: Dialect, extra: list[bytes]) -> bytes:
    """A frame as a peer of this dialect spells it, where it can, with raw lines behind its headers."""
    known = [(name, value if dialect.speakable(value) else b"odd") for name, value in headers]
    return b"%b\n%b%b\n\0\n" % (command, dialect.write(known), b"".join([b"%b\n" % each for each in extra]))


class Play:
    """One conversation with three sessions: one that looks at each frame, one that may note it by its names, and one
    that takes whole runs.
    """

    def __init__(
        self, client: bytes, broker: bytes, profile: str, loss: LossPolicy, *, tracked: bool
    ) -> None:
        self.sides = [
            Side(client, broker, profile, loss, tracked=tracked, runs=runs, looking=looking)
            for runs, looking in ((False, True), (False, False), (True, False))
        ]
        self.client, self.broker = self.sides[0].session.dialect, self.sides[0].bridges.broker
        self.ids: list[bytes] = [b"unknown"]
        self.names: list[list[tuple[bytes, bytes]]] = []
        self.next = self.fresh = 0

    def _good(self, frames: list[bytes], dialect: Dialect, commands: frozenset[bytes]) -> bytes:
        found = b""
        for wire in frames:
            decoder = Decoder(dialect, commands, Limits())
            decoder.feed(wire)
            try:
                list(decoder.frames())
            except StompError:
                continue
            found += wire
        return found

    def client_says(self, frames: list[bytes]) -> bytes:
        """All brokers are sent the same of it."""
        wire = self._good(frames, self.client, CLIENT_COMMANDS)
        first, *others = [each.from_client(wire) for each in self.sides]
        assert others == [first, first]
        return first

    def broker_says(self, frames: list[bytes]) -> None:
        """All clients are sent the same of it."""
        wire = self._good(frames, self.broker, BROKER_COMMANDS)
        first, *others = [each.from_broker(wire) for each in self.sides]
        assert others == [first, first]
        decoder = Decoder(self.client, BROKER_COMMANDS, Limits())
        decoder.feed(first)
        try:
            self.names += map(self._named, decoder.frames())
        except StompError:
            pass  # an error of the relay's own stands there

    def _named(self, message: Frame) -> list[tuple[bytes, bytes]]:
        """How the client acknowledges it."""
        has = dict(message.headers(self.client))
        if self.client.version == b"1.2":
            return [(b"id", has.get(b"ack", b""))]
        both = [(name, value) for name, value in has.items() if name in {b"message-id", b"subscription"}]
        return both if self.client.version == b"1.1" else [each for each in both if each[0] == b"message-id"]

    def _acks(self, those: Iterator[tuple[int, list[bytes]]]) -> list[bytes]:
        return [
            frame(b"ACK", self.names[number % len(self.names)], self.client, extra) for number, extra in those
        ]

    def happens(self, what: str, first: object, second: object) -> None:
        """An event."""
        match what, first, second:
            case "subscribe", id, bytes(mode):
                headers = [(b"destination", b"/queue/%d" % len(self.ids)), (b"ack", mode)]
                if isinstance(id, bytes) or self.client.named_subscriptions:
                    headers.insert(0, (b"id", id if isinstance(id, bytes) else b"e"))
                told = self.client_says([frame(b"SUBSCRIBE", headers, self.client, [])])
                name = told.partition(b"\nid:")[2].partition(b"\n")[0]
                self.ids.append(self.broker.decode(b"id", name))
            case "unsubscribe", int(number), _:
                id = self.ids[number % len(self.ids)]
                self.client_says([frame(b"UNSUBSCRIBE", [(b"id", id)], self.client, [])])
            case "sends", list(those), _:
                self.client_says(
                    [
                        frame(b"SEND", [(b"destination", v), (b"x", v)], self.client, extra)
                        for v, extra in those
                    ]
                )
            case "spelled acks", list(those), bytes(id):
                wire = b"ACK\nid:%b-k\n\n\0" if self.client.version == b"1.2" else b"ACK\nmessage-id:%b\n\n\0"
                named = b"subscription:%b\n" % id if self.client.version == b"1.1" else b""
                self.client_says([(wire % name).replace(b"ACK\n", b"ACK\n" + named) for name in those])
            case "new and acks", int(count), int(number):
                self.next = len(self.names)
                self.happens("new", count, number)
                if self.names:
                    self.happens("acks in order", count, False)
            case "acks", list(those), transaction if self.names:
                inside = [b"transaction:%b" % transaction] if isinstance(transaction, bytes) else []
                self.client_says(self._acks((number, extra + inside) for number, extra in those))
            case "acks in order", int(count), bool(skips) if self.names:
                self.next += skips
                self.client_says(self._acks((self.next + each, [b"x:a"]) for each in range(count)))
                self.next += count
            case ("begin" | "commit" | "abort") as command, bytes(transaction), _:
                self.client_says([b"%b\ntransaction:%b\n\n\0" % (command.upper().encode(), transaction)])
            case _:
                self._at_the_broker(what, first, second)

    def _at_the_broker(self, what: str, first: object, second: object) -> None:
        match what, first, second:
            case "messages", list(those), int(number):
                self.broker_says([self._message(value, number, extra) for value, extra in those])
            case "spelled messages", list(those), bytes(id):
                wire = b"MESSAGE\nsubscription:%b\nmessage-id:%b\nack:%b-k\n\nx\0"
                self.broker_says([wire % (id, name, name) for name in those])
            case "new", int(count), int(number):
                self.fresh += count
                new = range(self.fresh - count, self.fresh)
                self.broker_says([self._message(b"ID:%d" % each, number, []) for each in new])
            case "receipts", list(those), _:
                self.broker_says([frame(b"RECEIPT", [(b"receipt-id", v)], self.broker, []) for v in those])
            case "lost", _, _:
                for each in self.sides:
                    each.session.lost_broker()

    def _message(self, value: bytes, number: int, extra: list[bytes]) -> bytes:
        headers = [(b"subscription", self.ids[number % len(self.ids)]), (b"message-id", value)]
        if self.broker.version == b"1.2":
            headers.append((b"ack", value + b"-k"))
        return frame(b"MESSAGE", headers, self.broker, extra)

    def compare(self) -> None:
        """What can be seen of a session is the same for all three."""
        seen, *others = [self._seen(each.session) for each in self.sides]
        assert others == [seen, seen]
        count = len(self.sides[0].session.ledger)
        first, *costs = [each.session.ledger.cost for each in self.sides]
        # What is of one name is not listed yet.
        assert all(-THING * count <= cost - first <= 16 * count for cost in costs)

    @staticmethod
    def _seen(session: Session) -> list[object]:
        ledger = session.ledger
        return [
            (len(ledger), ledger.awaited, ledger.full, ledger.crowded, ledger.expecting, ledger.forgot),
            (session.full, session.crowded, session.quiet, dict(session.counters), list(session.receipts)),
            [(name, each.acknowledged, each.doomed) for name, each in session.transactions.items()],
        ]

    def look_for(self, name: bytes, id: bytes) -> None:
        """A delivery is found by its names in all three, or in none."""
        found = []
        for each in self.sides:
            ledger = each.session.ledger
            looked = [ledger.by_message(name), ledger.by_message(name, id), ledger.by_token(name + b"-k")]
            told = [None if it is None else (it.message_id, it.subscription.id, it.lost) for it in looked]
            found.append([*told, ledger.taken(name + b"-k")])
        assert found[1:] == [found[0], found[0]]


@settings(max_examples=10 * settings().max_examples)
@given(
    pair=st.one_of(
        st.sampled_from(list(DIALECTS)).map(lambda version: (version, version)),
        st.tuples(*[st.sampled_from(list(DIALECTS))] * 2),
    ),
    profile=st.sampled_from(["generic", "rabbitmq", "activemq"]),
    loss=st.sampled_from(list(LossPolicy)),
    tracked=st.sampled_from([True, True, False]),
    script=st.lists(events, max_size=40),
)
def test_runs_change_nothing(
    pair: tuple[bytes, bytes],
    profile: str,
    loss: LossPolicy,
    tracked: bool,
    script: list[tuple[str, object, object]],
) -> None:
    """Any conversation between any two: with runs, and with names alone, the same is sent and kept."""
    play = Play(*pair, profile, loss, tracked=tracked)
    play.happens("subscribe", b"a", b"client-individual")
    play.happens("subscribe", b"b", b"client")
    for event in script:
        play.happens(*event)
        play.compare()
    for name in [b"1", b"2", b"x:y", b"x\\y", *(b"ID:%d" % each for each in range(play.fresh))]:
        for id in play.ids:
            play.look_for(name, id)
