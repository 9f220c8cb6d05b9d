"""Raw conversations with a broker, right and wrong ones, play the same directly and through the relay.

What a broker makes of odd input is the broker's business; a client that relies on it must not notice the relay.
Where the relay decides otherwise, `DECIDED` says why, and the test holds it to that.
"""

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.cells import sampled
from tests.e2e.conftest import KINDS, Direct, Through
from tests.e2e.facts import VERSIONS
from tests.e2e.raw import Closed, Connection
from tests.e2e.stage import CLOSED_AT_ONCE, Place

pytestmark = [pytest.mark.e2e, pytest.mark.broker]


@dataclass(frozen=True)
class Conversation:
    """What a client writes after CONNECTED; `QUEUE` stands for a destination of its own.

    `messages` is how many MESSAGE frames to wait for before the next thing is written.
    """

    name: str
    parts: tuple[tuple[bytes, int], ...]
    versions: tuple[str, ...] = VERSIONS


SUBSCRIBE = b"SUBSCRIBE\nid:1\ndestination:QUEUE\nack:%b\n\n\0"
SEND = b"SEND\ndestination:QUEUE\n%b\nhello\0"


def told(name: str, *parts: bytes, versions: tuple[str, ...] = VERSIONS) -> Conversation:
    """Return a conversation in which no message is waited for."""
    return Conversation(name, tuple((part, 0) for part in parts), versions)


def carried(name: str, head: bytes, versions: tuple[str, ...] = VERSIONS) -> Conversation:
    """Return a conversation in which a message with these header lines is sent and comes back."""
    return Conversation(name, ((SUBSCRIBE % b"auto", 0), (SEND % head, 1)), versions)


CONVERSATIONS = (
    carried("no content-length", b""),
    carried("content-length", b"content-length:5\n"),
    carried("repeated header", b"k:one\nk:two\n"),
    carried("empty value", b"k:\n"),
    carried("many headers", b"".join(b"k%d:v\n" % number for number in range(90))),
    carried("long header", b"k:" + b"x" * 9000 + b"\n"),
    carried("order of headers", b"z:1\na:2\nm:3\n"),
    carried("content-type", b"content-type:application/json;charset=utf-8\n"),
    carried("persistent", b"persistent:true\n"),
    carried("priority and expires", b"priority:7\nexpires:0\n"),
    carried("correlation", b"correlation-id:c1\nreply-to:/queue/answers\ntype:t\n"),
    carried("raw colon", b"k:a:b:c\n"),
    carried("escaped colon", b"k:a\\cb\n", ("1.1", "1.2")),
    carried("escaped newline", b"k:a\\nb\n", ("1.1", "1.2")),
    carried("escaped backslash", b"k:a\\\\nb\n", ("1.1", "1.2")),
    carried("backslash that begins no escape", b"k:a\\tb\\\n", ("1.1",)),
    carried("spaces kept", b"k:  v  \n", ("1.1", "1.2")),
    carried("padded", b"k: v\n", ("1.0",)),
    carried("case of names", b"Key:v\nkey:w\n"),
    told("unknown transaction", b"COMMIT\ntransaction:t\n\n\0"),
    told("abort of an unknown transaction", b"ABORT\ntransaction:t\n\n\0"),
    told("send in an unknown transaction", SEND % b"transaction:t\n"),
    told("begin twice", b"BEGIN\ntransaction:t\n\n\0" * 2),
    told("begin without a name", b"BEGIN\n\n\0"),
    told("send without destination", b"SEND\n\nhello\0"),
    told("subscribe without destination", b"SUBSCRIBE\nid:1\n\n\0"),
    told("subscribe without id", b"SUBSCRIBE\ndestination:QUEUE\n\n\0"),
    told("unsubscribe of an unknown id", b"UNSUBSCRIBE\nid:nobody\n\n\0"),
    told("unsubscribe without id", SUBSCRIBE % b"auto", b"UNSUBSCRIBE\ndestination:QUEUE\n\n\0"),
    told("unknown acknowledgement", b"ACK\nmessage-id:m\nsubscription:1\n\n\0", versions=("1.0", "1.1")),
    told("unknown acknowledgement id", b"ACK\nid:m\n\n\0", versions=("1.2",)),
    told("acknowledgement of nothing", b"ACK\n\n\0"),
    told("unknown negative acknowledgement", b"NACK\nmessage-id:m\nsubscription:1\n\n\0", versions=("1.1",)),
    told("after an error", b"COMMIT\ntransaction:t\n\n\0", SEND % b"receipt:after\n"),
    told("receipt with odd text", SEND % b"receipt: a/b;c=d \n", versions=("1.1", "1.2")),
    Conversation(
        "acknowledged twice",
        ((SUBSCRIBE % b"client", 0), (SEND % b"", 1), (b"ACK\nID\n\n\0", 0), (b"ACK\nID\n\n\0", 0)),
    ),
    Conversation(
        "acknowledged in automatic mode", ((SUBSCRIBE % b"auto", 0), (SEND % b"", 1), (b"ACK\nID\n\n\0", 0))
    ),
    Conversation(
        "LFs for a body",
        (
            (b"SUBSCRIBE\nid:1\ndestination:QUEUE\nack:client\n\n\n\0", 0),
            (b"BEGIN\ntransaction:t\n\n\n\n\0" + SEND % b"transaction:t\n", 0),
            (b"COMMIT\ntransaction:t\n\n\n\0", 1),
            (b"ACK\nID\n\n\n\n\n\0", 0),
            (b"BEGIN\ntransaction:u\n\n\n\0ABORT\ntransaction:u\n\n\n\0", 0),
            (b"UNSUBSCRIBE\nid:1\ndestination:QUEUE\n\n\n\0", 0),
        ),
    ),
    told("LFs for a body that are counted", b"BEGIN\ntransaction:t\ncontent-length:2\n\n\n\n\0"),
    told("CRLFs for a body", b"BEGIN\r\ntransaction:t\r\n\r\n\r\n\0", versions=("1.2",)),
    Conversation(
        "eols between frames",
        ((b"\n\n\n" + SUBSCRIBE % b"auto" + b"\n\n", 0), (b"\n" + SEND % b"" + b"\n", 1)),
    ),
    Conversation(
        "crlf", ((b"SUBSCRIBE\r\nid:1\r\ndestination:QUEUE\r\n\r\n\0", 0), (SEND % b"", 1)), ("1.2",)
    ),
)

CONNECTS = {
    "no login": b"CONNECT\naccept-version:1.2\nhost:/\n\n\0",
    "stomp": b"STOMP\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0",
    "three versions": b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0",
    "versions in disorder": b"CONNECT\naccept-version:1.1,1.0\nhost:/\nlogin:guest\npasscode:guest\n\n\0",
    "no version": b"CONNECT\nlogin:guest\npasscode:guest\n\n\0",
    "no host": b"CONNECT\naccept-version:1.1\nlogin:guest\npasscode:guest\n\n\0",
    "unknown host": b"CONNECT\naccept-version:1.2\nhost:nowhere\nlogin:guest\npasscode:guest\n\n\0",
    "unknown user": b"CONNECT\naccept-version:1.2\nhost:/\nlogin:nobody\npasscode:guest\n\n\0",
    "crlf": b"CONNECT\r\naccept-version:1.2\r\nhost:/\r\nlogin:guest\r\npasscode:guest\r\n\r\n\0",
    "eols before": b"\n\nCONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0",
    "an LF for a body": b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\n\0",
    "LFs that are counted": (
        b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\ncontent-length:2\n\n\n\n\0"
    ),
    "unknown header": b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\nk:v\n\n\0",
}

SILENCE = 5.0
"""Seconds after which no answer to CONNECT will come any more."""

_NO_EOL = (
    "before 1.2 a CR ends no line: where a frame ends at its blank line, it would begin the next command"
)

_SPELLED_OUT = (
    "it takes no backslash that begins no escape; the relay spells it as one that stands for itself"
)

_EOLS = "it never answers a CONNECT that EOLs stand before; the relay takes them off"

BROKERS = ("rabbitmq", "activemq", "activemq_6", "artemis")

DECIDED: dict[tuple[str, str], str] = {
    **{(broker, "CRLFs for a body"): _NO_EOL for broker in BROKERS},
    **{(broker, "backslash that begins no escape"): _SPELLED_OUT for broker in ("rabbitmq", "artemis")},
    ("artemis", "connect: eols before"): _EOLS,
}
"""By broker and conversation: why the relay answers otherwise than the broker."""


def play(place: Place, conversation: Conversation, version: str) -> list[bytes]:
    """Play a conversation and return what came back, without what differs from run to run."""
    queue = f"/queue/e2e-{uuid.uuid4().hex[:12]}".encode()
    came: list[bytes] = []
    with Connection.to(place.port) as client:
        assert client.connect(version).startswith(b"CONNECTED\n")
        try:
            for number, (part, messages) in enumerate(conversation.parts):
                identity = _identity(version, came[-1]) if b"ID" in part else b""
                client.write(part.replace(b"QUEUE", queue).replace(b"\nID\n", b"\n" + identity))
                fence = b"fence-%d" % number
                client.write(b"SEND\ndestination:%b-fence\nreceipt:%b\n\n\0" % (queue, fence))
                seen = 0
                fenced = False
                while not fenced or seen < messages:
                    frame = client.frame()
                    seen += frame.startswith(b"MESSAGE\n")
                    if b"receipt-id:" + fence in frame:
                        fenced = True
                    else:
                        came.append(frame)
            # Artemis loses the RECEIPT of a DISCONNECT that its journal is not ready for.
            client.write(b"SEND\ndestination:%b-fence\npersistent:true\nreceipt:end\n\n\0" % queue)
            while b"receipt-id:end" not in (frame := client.frame()):
                came.append(frame)
            client.write(b"DISCONNECT\nreceipt:bye\n\n\0")
            while b"receipt-id:bye" not in (frame := client.frame()):
                came.append(frame)
            came.append(frame)
        except (Closed, ConnectionError):  # a reset where the broker had not read all: a matter of its time
            came.append(b"closed")
    return sorted(_steady(frame, queue) for frame in came)


def _identity(version: str, message: bytes) -> bytes:
    """Return the header lines by which ACK names `message`; made up where it has no name."""
    names = {"1.0": {b"message-id": b"message-id"}, "1.2": {b"ack": b"id"}}.get(
        version, {b"message-id": b"message-id", b"subscription": b"subscription"}
    )
    lines = [line.partition(b":") for line in message.split(b"\n\n")[0].split(b"\n")]
    return b"".join(b"%b:%b\n" % (names[n], v) for n, _, v in lines if n in names) or b"id:none\n"


_VOLATILE = re.compile(rb"^(message-id|ack|session|timestamp):.*$", re.MULTILINE)
_ROUTED = re.compile(rb"\ndestination-type:\w+")
"""How Artemis routed a message: the relay says it in the SEND, and Artemis repeats it."""


def _steady(frame: bytes, queue: bytes) -> bytes:
    """Mask what differs from run to run; of an ERROR's body (ActiveMQ: a stack trace) keep the first line."""
    frame = _VOLATILE.sub(rb"\1:*", frame.replace(queue, b"QUEUE"))
    head, separator, rest = frame.partition(b"\n\n")
    head = _ROUTED.sub(b"", head)
    if head.startswith(b"ERROR\n"):
        rest = re.sub(rb"ID:\S+|@@\S+|session-\S+", b"*", rest.split(b"\n")[0])
        head = re.sub(rb"ID(:|\\c)\S+|T_\S+|/e2e-\w+|\d+,\d+", b"*", head)
    elif head.startswith(b"CONNECTED\n") and b"\nheart-beat:" not in head:
        head += b"\nheart-beat:0,0"  # which no heart-beat says as well
    return head + separator + rest


Cell = tuple[str, str, Conversation]

CELLS: list[Cell] = [
    (broker, version, conversation)
    for broker in BROKERS
    for conversation in CONVERSATIONS
    for version in conversation.versions
]


def aspects(cell: Cell) -> Iterator[tuple[str, ...]]:
    """Name what a cell can show: a conversation, and a broker in a version."""
    broker, version, conversation = cell
    yield (conversation.name,)
    yield broker, version


@pytest.mark.parametrize("cell", sampled(CELLS, aspects))
def test_conversations(cell: Cell, direct: Direct, through: Through) -> None:
    """The same frames come back, whether the relay is there or not."""
    broker, version, conversation = cell
    decided = (broker, conversation.name) in DECIDED
    compare(direct(broker), through(broker, None), conversation, version, same=not decided)


def compare(one: Place, other: Place, conversation: Conversation, version: str, *, same: bool = True) -> None:
    """Show that the same frames come back at both places, or others. Of two ERRORs a broker may say either, as its own
    threads have it, so that both are asked again.
    """
    for _ in range(3):
        expected, got = play(one, conversation, version), play(other, conversation, version)
        if (got == expected) is same:
            return
    raise AssertionError((got, expected))


KindCell = tuple[str, str, str, Conversation]
KIND_CELLS: list[KindCell] = [(kind, *cell) for kind in KINDS for cell in CELLS]


def kind_aspects(cell: KindCell) -> Iterator[tuple[str, ...]]:
    """Name what a cell can show: a kind of upstream before a broker, and in a version."""
    kind, broker, version, _ = cell
    yield kind, broker
    yield kind, version


@pytest.mark.parametrize("cell", sampled(KIND_CELLS, kind_aspects))
def test_each_kind_of_upstream(cell: KindCell, through: Through) -> None:
    """The same frames come back as over a plain address."""
    kind, broker, version, conversation = cell
    compare(through(broker, None), through(broker, kind), conversation, version)


@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize("name", CONNECTS)
def test_connects(name: str, broker: str, direct: Direct, through: Through) -> None:
    """The broker's answer to CONNECT is the client's."""
    answers = [_answer(place, CONNECTS[name]) for place in (direct(broker), through(broker, None))]
    assert (answers[0] != answers[1]) == ((broker, f"connect: {name}") in DECIDED), answers


def _answer(place: Place, connect: bytes) -> bytes:
    """Return what comes first. Whom ActiveMQ refuses it tells nothing once in some thousand times, it closes only: then
    it is asked again.
    """
    for _ in range(3):
        with Connection.to(place.port) as client:
            client.write(connect)
            client.socket.settimeout(SILENCE)
            try:
                answer = _steady(client.frame(), b"QUEUE")
            except TimeoutError:
                answer = b""
            except Closed:
                answer = CLOSED_AT_ONCE
        if CLOSED_AT_ONCE not in answer:
            break
    return answer
