"""Random conversations through all nine pairs, between a client and a broker that speak STOMP by the letter."""

import re
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.playbook import PAIRS, Cut, Playbook, joined
from tests.relay.reference import Heard, Pairs, TinyBroker, TinyClient, read, spell

# What every version can say in a name or a value, though most need an escape for some of it.
_COMMON = "abz09 -_.;/\\é☃\t\x01"
_NAMES = st.text(_COMMON, max_size=5)
_TEXTS = st.text(_COMMON + ":", max_size=8)
# Protocol headers are trimmed on 1.0, so blanks at an end would be lost there.
_PLAIN_NAMES = st.text("abz09-_./\\:é", min_size=1, max_size=6)
_ODD = st.sampled_from(["", "", "", "\n", "\r"])


@st.composite
def _headers(draw: st.DrawFn) -> list[tuple[str, str]]:
    """User headers: sometimes a colon or an LF in the name, at most one LF or CR in the value."""
    pairs = []
    for _ in range(draw(st.integers(0, 4))):
        name = "x-" + draw(_NAMES) + draw(st.sampled_from(["", "", "", ":", "\n"])) + "."
        value = draw(_TEXTS) + draw(_ODD) + draw(st.sampled_from(["", "", "z"]))
        pairs.append((name, value))
    return pairs


_PAIRS = st.sampled_from(PAIRS)
_NUMBER = st.integers(0, 5)
_MODE = st.sampled_from([b"client-individual", b"client", b"auto"])
_SUBSCRIBE = st.tuples(st.just("subscribe"), _NUMBER, _MODE)
_SEND = st.tuples(st.just("send"), _NUMBER, st.tuples(_headers(), st.binary(max_size=12), st.booleans()))
_SETTLE = st.tuples(st.just("settle"), _NUMBER, st.tuples(st.booleans(), st.booleans()))
_UNSUBSCRIBE = st.tuples(st.just("unsubscribe"), _NUMBER, st.none())
_BEGIN = st.tuples(st.just("begin"), _NUMBER, st.none())
_END = st.tuples(st.just("end"), _NUMBER, st.booleans())
_OPERATIONS = st.tuples(
    st.lists(_SUBSCRIBE, min_size=1, max_size=3),
    st.lists(_SEND, min_size=1, max_size=3),
    st.lists(
        st.one_of(_SETTLE, _SETTLE, _SEND, _BEGIN, _END, _SETTLE, _SUBSCRIBE, _UNSUBSCRIBE),
        min_size=4,
        max_size=24,
    ),
).map(lambda parts: [operation for part in parts for operation in part])
"""Somebody subscribes, something is sent, and then anything may happen."""


def carried(value: bytes, source: bytes, target: bytes) -> bytes:
    """A user header's value of at most one CR or LF on its way between two versions, by the loss table."""
    if source == target:
        return value
    if source == b"1.0":
        value = value.lstrip(b" ")
    if target == b"1.0":
        value = value.replace(b"\n", b" ")
    if target in (b"1.0", b"1.1") and value.endswith(b"\r"):
        value = value[:-1] + b" "
    return value


def nameable(name: bytes, target: bytes) -> bool:
    """Whether a header with this name reaches a leg of this version."""
    return target != b"1.0" or not set(name) & set(b":\n")


@dataclass
class Stage:
    """A relay between the two models, and what they should have said to each other."""

    client_version: bytes
    broker_version: bytes
    play: Playbook
    destinations: list[bytes]
    ids: list[bytes]
    client: TinyClient = field(init=False)
    broker: TinyBroker = field(init=False)
    open: list[tuple[bytes | None, bytes]] = field(default_factory=list)
    sends: list[tuple[Pairs, bytes]] = field(default_factory=list)
    meant: list[int] = field(default_factory=list)
    receipts: list[bytes] = field(default_factory=list)
    transactions: list[bytes] = field(default_factory=list)
    subscribed: dict[int, bytes | None] = field(default_factory=dict)
    begun: int = 0
    trace: bool = False

    def __post_init__(self) -> None:
        self.client = TinyClient(self.client_version)
        self.broker = TinyBroker(self.broker_version)

    def say(self, frame: bytes) -> None:
        """The client says it, and both sides hear what comes of it, until all is quiet."""
        self.play.client_says(frame)
        told = self.play.broker_reads()
        if self.trace and frame.startswith(b"SEND\n"):
            frame = b"SEND\nrelay-trace:relay-session-%d\n%b" % (len(self.sends), frame[5:])
        if self.client_version == self.broker_version:
            assert told == frame
        answer = self.broker.hear(told)
        if answer:
            self.play.broker_says(answer)
        delivered = self.play.client_reads_all()
        # A body that Hypothesis draws may begin with the name of the header.
        assert not re.search(rb"[^\n]\nrelay-trace:", delivered)
        if self.client_version == self.broker_version:
            line = b"relay-trace:relay-session-%d\n" % len(self.sends)
            assert delivered == answer.replace(line, b"")
        self.client.hear(delivered)

    def subscribe(self, number: int, mode: bytes) -> None:
        """SUBSCRIBE; a 1.0 client names every other of its subscriptions."""
        destination = self.destinations[number % len(self.destinations)]
        id: bytes | None = self.ids[number % len(self.ids)] + b"-%d" % len(self.subscribed)
        if self.client_version == b"1.0" and number % 2:
            id = None
        self.subscribed[len(self.subscribed)] = id
        self.open.append((id, destination))
        named = [] if id is None else [(b"id", id)]
        self.say(self.client.say(b"SUBSCRIBE", [*named, (b"destination", destination), (b"ack", mode)]))

    def unsubscribe(self, number: int) -> None:
        """UNSUBSCRIBE, by destination where the client gave no name."""
        if not self.open:
            return
        id, destination = self.open[number % len(self.open)]
        if id is None:
            # by destination it is the oldest one that goes
            self.open.remove(next(each for each in self.open if each[1] == destination))
            self.say(self.client.say(b"UNSUBSCRIBE", [(b"destination", destination)]))
        else:
            self.open.remove((id, destination))
            self.say(self.client.say(b"UNSUBSCRIBE", [(b"id", id)]))

    def send(self, number: int, pairs: list[tuple[str, str]], body: bytes, receipt: bool) -> None:
        """SEND with odd headers and any body."""
        headers = [(name.encode(), value.encode()) for name, value in pairs]
        if self.client_version == b"1.0":
            headers = [(name.translate(None, b":\n"), value.replace(b"\n", b"")) for name, value in headers]
        destination = self.destinations[number % len(self.destinations)]
        extra: Pairs = [(b"destination", destination), (b"n", b"%d" % len(self.sends))]
        if b"\0" in body or number % 2:
            extra.append((b"content-length", b"%d" % len(body)))
        if receipt:
            self.receipts.append(b"r:\\%d" % len(self.sends))
            extra.append((b"receipt", self.receipts[-1]))
        if self.transactions and number % 3 == 0:
            extra.append((b"transaction", self.transactions[-1]))
        self.sends.append((headers, body))
        self.say(self.client.say(b"SEND", [*extra, *headers], body))

    def settle(self, number: int, refuse: bool, in_transaction: bool) -> None:
        """ACK or NACK of something that awaits it."""
        unsettled = self.broker.unsettled
        if not unsettled:
            return
        copy = unsettled[number % len(unsettled)]
        command = b"NACK" if refuse and b"1.0" not in (self.client_version, self.broker_version) else b"ACK"
        if self.client_version == b"1.0":
            # all that a 1.0 client says is the message-id: the oldest delivery of that message is meant, but those
            # of subscriptions that have ended come last
            copy = next(each for each in self.broker.by_likelihood if each.message_id == copy.message_id)
        more = [(b"transaction", self.transactions[-1])] if in_transaction and self.transactions else []
        self.meant.append(copy.number)
        self.say(self.client.settle(command, self._message(copy.number), more))

    def _message(self, number: int) -> Heard:
        return next(each for each in self.client.messages if each.first(b"copy") == b"%d" % number)

    def begin(self) -> None:
        """BEGIN, with a name that has to be spelled."""
        self.begun += 1
        self.transactions.append(b"t:\\%d" % self.begun)
        self.say(self.client.say(b"BEGIN", [(b"transaction", self.transactions[-1])]))

    def end(self, number: int, commit: bool) -> None:
        """COMMIT or ABORT."""
        if self.transactions:
            name = self.transactions.pop(number % len(self.transactions))
            self.say(self.client.say(b"COMMIT" if commit else b"ABORT", [(b"transaction", name)]))

    def check(self) -> None:
        """All that was said arrived, on both sides, and meant the same; traces stay between relay and broker."""
        assert self.broker.wrongs == []
        assert self.client.errors == []
        assert self.broker.named == self.meant
        assert self.client.receipts == self.receipts
        assert self.client.rest == self.broker.rest == b""
        assert [message.first(b"copy") for message in self.client.messages] == [
            b"%d" % copy.number for copy in self.broker.copies
        ]
        orders = list(dict.fromkeys(id(copy.order) for copy in self.broker.copies))
        assert len(orders) <= len(self.subscribed)
        for message in self.client.messages:
            headers, body = self.sends[int(message.first(b"n") or b"")]
            assert message.body == body
            assert [pair for pair in message.headers if pair[0].startswith(b"x-")] == self._expected(headers)
            if self.client_version != b"1.0" or message.first(b"subscription") is not None:
                assert message.first(b"subscription") in self.subscribed.values()
            assert (message.first(b"ack") is not None) <= (self.client_version == b"1.2")

    def _expected(self, headers: Pairs) -> Pairs:
        there, back = self.broker_version, self.client_version
        expected = []
        for name, value in headers:
            if nameable(name, there) and nameable(name, back):
                expected.append((name, carried(carried(value, back, there), there, back)))
        return expected


@given(
    pair=_PAIRS,
    operations=_OPERATIONS,
    destinations=st.sampled_from([1, 1, 2]).flatmap(lambda n: st.lists(_PLAIN_NAMES, min_size=n, max_size=n)),
    ids=st.lists(_PLAIN_NAMES, min_size=1, max_size=2),
    cut=st.sampled_from([Cut.WHOLE, Cut.WHOLE, Cut.OCTETS]),
    trace=st.booleans(),
)
@settings(max_examples=2 * settings().max_examples)
def test_a_random_conversation(
    pair: tuple[bytes, bytes],
    operations: list[tuple[str, int, object]],
    destinations: list[str],
    ids: list[str],
    cut: Cut,
    trace: bool,
) -> None:
    """What is sent arrives equal but for the loss table, each ACK finds its delivery, equal versions pass octets."""
    client, broker = pair
    with joined(client, broker, cut=cut, trace=trace) as play:
        stage = Stage(
            client,
            broker,
            play,
            [b"/topic/" + each.encode() for each in destinations],
            [each.encode() for each in ids],
            trace=trace,
        )
        for name, number, argument in operations:
            match name, argument:
                case "subscribe", bytes() as mode:
                    stage.subscribe(number, mode)
                case "send", (list() as pairs, bytes() as body, bool() as receipt):
                    stage.send(number, pairs, body, receipt)
                case "settle", (bool() as refuse, bool() as in_transaction):
                    stage.settle(number, refuse, in_transaction)
                case "unsubscribe", _:
                    stage.unsubscribe(number)
                case "begin", _:
                    stage.begin()
                case "end", bool() as commit:
                    stage.end(number, commit)
        stage.check()
        play.both_stay()


@pytest.mark.parametrize("version", [b"1.0", b"1.1", b"1.2"], ids=bytes.decode)
def test_the_models_agree_with_the_specification(version: bytes) -> None:
    """The models' own codec, cell by cell: what they cannot spell, the tests above could not see."""
    cells = {
        b"1.0": (b"a:b\\n", b"a:b\\n"),
        b"1.1": (b"a:b\\\nc\rd", b"a\\cb\\\\\\nc\rd"),
        b"1.2": (b"a:b\\\nc\rd", b"a\\cb\\\\\\nc\\rd"),
    }
    meant, spelled = cells[version]
    assert spell(version, meant) == spelled
    assert read(version, spelled) == meant
    client, broker = TinyClient(version), TinyBroker(version)
    assert broker.hear(client.say(b"SUBSCRIBE", [(b"id", b"0"), (b"destination", b"/topic/t")])) == b""
    client.hear(broker.hear(client.say(b"SEND", [(b"destination", b"/topic/t"), (b"k", meant)], b"a\nb")))
    assert [(each.first(b"k"), each.body) for each in client.messages] == [(meant, b"a\nb")]
    assert broker.hear(b"ACK\nmessage-id:none\n\n\0") == b""
    assert broker.wrongs == [b"ACK"]
