"""One client and one broker say the same things over each kind of upstream, and hear the same as over a plain address:
what survives keeps more than what does not, and judges nothing otherwise.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from stomprelay.relay.model.listener import Listener
from tests.playbook import SAY_HELLO, VERSIONS, Cut, Playbook, in_all_cuts, listener, upstream
from tests.relay.failing import movable, moves, started
from tests.relay.several import fan_out, lasting, routed

KINDS: Final[dict[str, Callable[[], Listener]]] = {
    "a plain address": lambda: listener(upstream()),
    "failover": lambda: listener(movable(1)),
    "confirm": lambda: listener(movable(1, confirm=True)),
    "routes": lambda: routed(lasting("main", "a"), lasting("there", "b")),
    "fan-out": lambda: listener(fan_out(2)),
}
OF_ONE: Final = list(KINDS)[1:4]
"""Those with one broker for each thing that is said."""
PRODUCTS: Final = ("generic", "rabbitmq", "activemq", "artemis")
_OWN: Final = re.compile(rb"\n(?:receipt:relay-session-receipt-|relay-copy:)[^\n]*(?=\n)")


def served(kind: str, version: bytes, product: str, cut: Cut = Cut.WHOLE) -> Playbook:
    """A playbook whose client has all brokers that it needs, each of that version."""
    play = Playbook(KINDS[kind](), cut=cut)
    play.client_says(SAY_HELLO[version])
    for uri in [peer.uri for peer in play.brokers]:
        play.broker_welcomes(version, product, at=uri)
    assert play.client_reads().startswith(b"CONNECTED\n")
    return play


def subscribe(mode: bytes = b"client", headers: bytes = b"id:1\n") -> bytes:
    """A SUBSCRIBE."""
    return b"SUBSCRIBE\n%bdestination:/queue/a\nack:%b\n\n\0" % (headers, mode)


def message(headers: bytes = b"subscription:1\n", name: bytes = b"") -> bytes:
    """A MESSAGE with what any version needs."""
    return b"MESSAGE\n%bmessage-id:m%b\nack:k%b\ndestination:/queue/a\n\nx\0" % (headers, name, name)


def told(command: bytes, headers: bytes = b"") -> bytes:
    """A frame without a body."""
    return b"%b\n%b\n\0" % (command, headers)


Script = tuple[tuple[str, bytes], ...]
"""Who says what."""


def _settlements() -> Iterator[tuple[str, Script]]:
    names = (b"message-id:m\n", b"message-id:m\nsubscription:1\n", b"id:k\n", b"", b"id:n\nmessage-id:n\n")
    for command in (b"ACK", b"NACK"):
        for mode in (b"client", b"client-individual", b"auto", b"odd"):
            for id in (b"id:1\n", b""):
                for of in (b"subscription:1\n", b"", b"subscription:a\\tb\n"):
                    for said in names:
                        settled = "client", told(command, said)
                        yield (
                            b" ".join((command, said, b"of", mode, id, of)).decode().replace("\n", " "),
                            (("client", subscribe(mode, id)), ("broker", message(of)), settled, settled),
                        )


_SEND: Final = b"SEND\ndestination:/queue/a\n%b\nx\0"
_HEAD: Final = b"destination:/queue/a\n"
_SAID: Final = {
    "no destination": b"SEND\n\nx\0" + told(b"SUBSCRIBE", b"id:1\n"),
    "no id": told(b"SUBSCRIBE", _HEAD) + told(b"UNSUBSCRIBE"),
    "an unknown id": told(b"UNSUBSCRIBE", b"id:2\n"),
    "an unknown mode": subscribe(b"odd"),
    "an id twice": subscribe() * 2,
    "two ids": told(b"SUBSCRIBE", b"id:1\nid:2\n" + _HEAD) + told(b"UNSUBSCRIBE", b"id:2\n"),
    "UNSUBSCRIBE by destination": subscribe() + told(b"UNSUBSCRIBE", _HEAD),
    "no transaction": told(b"BEGIN") + told(b"COMMIT") + told(b"ABORT"),
    "an unknown transaction": told(b"ABORT", b"transaction:t\n") + _SEND % b"transaction:t\n",
    "BEGIN twice": told(b"BEGIN", b"transaction:t\n") * 2,
    "what only a broker may set": _SEND % b"message-id:1\nsubscription:2\nack:4\nredelivered:x\n",
    "padding": told(b"SUBSCRIBE", b"id: 1 \ndestination: /queue/a \n"),
    "CR LF": b"SEND\r\ndestination:/queue/a\r\n\r\nx\0",
    "CONNECT again": told(b"CONNECT"),
    "a body": b"SUBSCRIBE\nid:1\n\nx\0",
    "an odd escape": _SEND % b"foo:a\\tb\n",
    "a lone backslash": _SEND % b"foo:a\\\n",
    "a wrong length": _SEND % b"content-length:3\n",
}
_ANSWERS: Final = {
    "an odd value": message(b"subscription:1\nfoo:a\\tb\n"),
    "no colon": message(b"foo\n"),
    "no name": message(b":foo\n"),
    "a subscription of odd spelling": message(b"subscription:a\\\n"),
    "no message-id": b"MESSAGE\nsubscription:1\n\nx\0",
    "no subscription": message(b""),
    "a receipt": message(b"subscription:1\nreceipt:mine\n"),
    "an ERROR": b"ERROR\nreceipt-id:9\nfoo:a\\tb\n\nx\0",
}
CONVERSATIONS: Final[dict[str, Script]] = {
    **dict(_settlements()),
    **{f"client: {name}": (("client", frames),) for name, frames in _SAID.items()},
    **{
        f"broker: {name}": (("client", subscribe(id)), ("broker", frame))
        for name, frame in _ANSWERS.items()
        for id in (b"id:1\n",)
    },
    **{
        f"receipt {receipt.decode()}": (
            ("client", _SEND % b"receipt:%b\n" % receipt),
            ("broker", told(b"RECEIPT", b"receipt-id:%b\n" % receipt)),
            ("client", told(b"DISCONNECT", b"receipt:%bbye\n" % receipt)),
            ("broker", told(b"RECEIPT", b"receipt-id:%bbye\n" % receipt)),
        )
        for receipt in (b"a", b"a:b", b" a")
    },
}


def heard(kind: str, version: bytes, product: str, script: Script) -> list[tuple[bytes, bytes, bool]]:
    """What the client and the broker are sent at each step, without what the relay puts in for itself; and whether the
    client is still there.
    """
    play, steps = served(kind, version, product), []
    for who, data in script:
        if play.client.closed is None:
            (play.client_says if who == "client" else play.broker_says)(data)
        steps.append((play.client_reads(), _OWN.sub(b"", play.broker_reads()), play.client.closed is None))
    return steps


@pytest.mark.parametrize("kind", OF_ONE)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("version", VERSIONS, ids=bytes.decode)
def test_one_judge(version: bytes, product: str, kind: str) -> None:
    """Between equals a broker judges whatever it is sent, a NACK of 1.0 too, and hears it as the client said it."""
    for name, script in CONVERSATIONS.items():
        plain = heard("a plain address", version, product, script)
        assert heard(kind, version, product, script) == plain, name


@in_all_cuts
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS, ids=bytes.decode)
def test_what_is_the_relays_own_reaches_nobody(version: bytes, kind: str, cut: Cut) -> None:
    """By whatever way a message came, past this relay or by another; a client's own receipt stays."""
    own = b"receipt:relay-0123abcd-7-receipt-12\nrelay-trace:relay-0123abcd-7-3\n"
    kept = b"receipt:mine\nreceipt-id:relay-1\nrelay-resent:true\n"
    with served(kind, version, "rabbitmq", cut) as play:
        play.client_says(subscribe(b"client"))
        for uri in [peer.uri for peer in play.brokers]:
            play.broker_reads(at=uri)
        others = [b"", b"receipt:relay-1\n", b"receipt:relay-receipt-1\n", kept]
        for number, headers in enumerate((own, *others, own + kept)):
            left = headers.removeprefix(own)
            names = (b"a%d" % number, b"b%d" % number)
            play.broker_says(b"".join([message(b"subscription:1\n" + headers, name) for name in names]))
            play.client_gets(b"".join([message(b"subscription:1\n" + left, name) for name in names]))


_MISREAD: Final = [
    ("generic", b"a\\cb", b"a\\cb"),
    ("rabbitmq", b"a:b", b"a\\cb"),
    ("rabbitmq", b"a\\cb", b"a\\cb"),
    ("rabbitmq", b"a:b\\\\", b"a\\cb\\\\"),
    ("activemq", b"a:b", b"a:b"),
    ("activemq", b"a\\cb", b"a:b"),
    ("activemq", b"C:\\code", b"C::ode"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("product", "receipt", "answer"), _MISREAD)
def test_a_receipt_of_1_0_read_otherwise(kind: str, product: str, receipt: bytes, answer: bytes) -> None:
    """RabbitMQ escapes there as well, ActiveMQ unescapes: it is the same receipt, and passes as it came."""
    frames = [
        _SEND % b"receipt:%b\n",
        told(b"BEGIN", b"transaction:t\nreceipt:%b\n"),
        told(b"DISCONNECT", b"receipt:%b\n"),
    ]
    said = told(b"RECEIPT", b"receipt-id:%b\n" % answer)
    with served(kind, b"1.0", product) as play:
        there = [peer.uri for peer in play.brokers] if kind == "fan-out" else [play.broker.uri]
        for asking in (frames[0] * 2, frames[1], frames[2]):
            count = asking.count(b"%b")
            play.client_says(asking % ((receipt,) * count))
            for uri in there:
                assert play.broker_reads(at=uri).count(b"\nreceipt:%b\n" % receipt) == count
                play.broker_says(said * count, at=uri)
            play.client_gets(said * count)


def test_a_receipt_of_1_0_at_the_next_broker() -> None:
    """What that one takes it for counts, and the SEND is confirmed once."""
    with started(b"1.0", product="activemq") as play:
        play.client_said(_SEND % b"receipt:a\\cb\n")
        moves(play, b"1.0", product="rabbitmq")
        assert b"\nreceipt:a\\cb\n" in play.broker_reads()
        play.broker_tells_client(told(b"RECEIPT", b"receipt-id:a\\cb\n"))
        moves(play, b"1.0", product="rabbitmq")
        play.broker_gets(b"")
