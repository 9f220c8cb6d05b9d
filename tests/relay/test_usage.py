"""What is foretold of clients' frames at another product, against what a relay then does with the same frames."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import Final

import pytest

from stomprelay.relay.model.features import FEATURES, NACKS
from stomprelay.relay.model.features import PRODUCTS as NAMES
from stomprelay.relay.model.mapping import IGNORED, LEFT_OUT, Addition, HeaderRow, MapSettings
from stomprelay.relay.model.usage import Finding, Judge, Verdict, session_of
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.names import ABORT, ACK, BEGIN, NACK, SEND, SUBSCRIBE, UNSUBSCRIBE
from tests.playbook import PRODUCTS, Playbook, joined

Frame = tuple[bytes, dict[bytes, bytes]]
Script = list[Frame]

VALUES: Final = {b"expiration": b"5000", b"selector": b"price > 10", b"persistent": b"true"}
PLACED: Final = (
    b"/queue/a", b"/queue/a/b", b"/queue/a%2Fb", b"/topic/a.b", b"/topic/a.>", b"/topic/a.#", b"/topic/a.*",
    b"/queue/a.>", b"/queue/a,/topic/b", b"/exchange/e/k", b"/temp-queue/a", b"/temp-topic/a", b"plain",
    b"/queue/Consumer.A.VirtualTopic.T", b"/topic/VirtualTopic.T", b"/queue/relay-temp.other.a",
)  # fmt: skip
"""Destinations of many forms."""
HEADERS: Final = {b"id": b"1", b"destination": b"/queue/a"}
"""Those of a SUBSCRIBE."""


def subscribe(number: int, place: bytes = b"/queue/a", **headers: str) -> Frame:
    """A SUBSCRIBE with this id."""
    more = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return SUBSCRIBE, {b"id": b"%d" % number, b"destination": place, **more}


def scripts(clients: str) -> Iterator[Script]:
    """What clients of a product may say: each feature by itself, then in conversations."""
    for feature in FEATURES:
        said = feature.said.get(clients)
        if said is None:
            continue
        header = {said.name: VALUES.get(said.name, b"7")}
        for place in (b"/queue/a", b"/topic/a"):
            if SEND in feature.commands:
                yield [(SEND, {b"destination": place, **header})]
            if SUBSCRIBE in feature.commands:
                yield [(SUBSCRIBE, {b"id": b"1", b"destination": place, **header})]
            if UNSUBSCRIBE in feature.commands:
                yield [subscribe(1, place), (UNSUBSCRIBE, {b"id": b"1", **header})]
    for place in PLACED:
        yield [(SEND, {b"destination": place})]
        yield [(SEND, {b"destination": b"/queue/a", b"reply-to": place})]
        yield [subscribe(1, place)]
    for name in NAMES:  # headers of other products
        for feature in FEATURES:
            if SUBSCRIBE in feature.commands and name in feature.said:
                for value in (b"7", b"true", b"jms-xml"):
                    word = feature.said[name].name
                    yield [(SUBSCRIBE, {b"id": b"1", b"destination": b"/queue/a", word: value})]
    yield from conversations()


def conversations() -> Iterator[Script]:
    """What concerns several frames, in any product's words."""
    yield [subscribe(1, b"/topic/a", durable="true", auto_delete="false")]
    for first in ("auto", "client", "client-individual"):
        for second in ("auto", "client", "client-individual"):
            yield [subscribe(1, ack=first), subscribe(2, b"/queue/b", ack=second)]
            yield [subscribe(1, ack=first), (UNSUBSCRIBE, {b"id": b"1"}), subscribe(2, ack=second)]
    for command in (ACK, NACK):
        yield [subscribe(1, ack="client-individual"), (command, {b"id": b"x"})]
        begun = (BEGIN, {b"transaction": b"t"})
        yield [
            subscribe(1, ack="client-individual"),
            begun,
            (command, {b"id": b"x", b"transaction": b"t"}),
            (ABORT, {b"transaction": b"t"}),
        ]
    for ack in ("client", "client-individual"):
        yield [subscribe(1, ack=ack), (NACK, {b"id": b"x"})]
        for requeue in (b"true", b"false"):
            yield [subscribe(1, ack=ack), (NACK, {b"id": b"x", b"requeue": requeue})]


def spelled(frame: Frame) -> bytes:
    """A frame as its client writes it."""
    command, headers = frame
    return b"%b\n%b\n\0" % (command, V1_2.write([*headers.items()]))


def play(
    settings: MapSettings, product: str, client_id: bytes, script: Script
) -> Iterator[tuple[bytes, bytes]]:
    """What the broker gets of each frame of a script, and what the client gets. The last one may be an ERROR."""
    hello = b"client-id:%b\n" % client_id if client_id else b""
    book: Playbook = joined(
        b"1.2", b"1.2", product=product, hello=hello, over=lambda each: replace(each, map=settings)
    )
    for frame in script:
        book.client_says(spelled(frame))
        sent, read = book.broker_reads(), book.client_reads()
        yield sent, read
        if read:
            return
        if frame[0] is SUBSCRIBE and frame[1].get(b"ack", b"auto") != b"auto":
            place = next(line for line in sent.split(b"\n") if line.startswith(b"destination:"))
            names = b"subscription:%b\nmessage-id:m\nack:x\n" % frame[1][b"id"]
            book.broker_says(b"MESSAGE\n%b\n%b\n\0" % (place, names))
            assert book.client_reads().startswith(b"MESSAGE\n")


CHANGED: Final = {Verdict.MAPPED, Verdict.UNDECIDED}

FREE = "free"
CHOICES: Final = {
    "none": {},
    FREE: {"ignore": IGNORED, "message_size": 1000},
    "filter": {"filter": ("/topic/*", "/queue/a")},
    "all": {"ignore": IGNORED, "temporary": False, "route": False},
}
"""Choices of a configuration, by a name."""


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("client_id", [b"", b"me"], ids=["no id", "id"])
@pytest.mark.parametrize(("clients", "product"), [*permutations(NAMES, 2), *[(name, name) for name in NAMES]])
def test_what_is_foretold_happens(clients: str, product: str, client_id: bytes, choice: str) -> None:
    """A frame for which a refusal is foretold gets an ERROR, and no other; it is changed if that is foretold."""
    nacks = {} if choice == "none" else {each: next(iter(NACKS[each])) for each in NAMES}
    settings = MapSettings(clients, nack=nacks, **CHOICES[choice])  # type: ignore[arg-type]
    judge = Judge(settings, product)
    for script in scripts(clients):
        session = session_of(b"relay-session", client_id)
        for frame, (sent, read) in zip(script, play(settings, product, client_id, script), strict=False):
            found = judge.judge(frame[0], [*frame[1].items()], session)
            verdicts = {each.verdict for each in found}
            if read:
                assert read.startswith(b"ERROR\n"), (frame, read)
            assert (Verdict.REFUSED in verdicts) is bool(read), (frame, read, found)
            if Verdict.REFUSED in verdicts:
                refused = [each for each in found if each.verdict is Verdict.REFUSED]
                assert any(_said(each, read) for each in refused), (frame, read, refused)
            elif frame[0] is not UNSUBSCRIBE and Verdict.CHOSEN not in verdicts:
                assert bool(verdicts & CHANGED) is (sent != spelled(frame)), (frame, sent, found)


def _said(finding: Finding, error: bytes) -> bool:
    """Whether an ERROR is for this reason."""
    return finding.feature.encode() in error or finding.why.rpartition(": ")[2].encode() in error


def test_a_virtual_topic() -> None:
    """It is told once."""
    judge = Judge(MapSettings("activemq"), "rabbitmq")
    command, headers = subscribe(1, b"/queue/Consumer.A.VirtualTopic.T")
    found = judge.judge(command, [*headers.items()], session_of(b"relay-session"))
    assert [(each.feature, each.verdict) for each in found] == [("virtual-topics", Verdict.MAPPED)]


def test_own_rows() -> None:
    """Rows of the user's are told as such."""
    rows = (
        HeaderRow((SEND,), b"secret", b"secret", LEFT_OUT),
        HeaderRow((SEND,), b"kind", b"type"),
        Addition((SEND,), MapSettings().at("artemis").additions[0].places, b"x", b"y"),  # type: ignore[union-attr]
    )
    judge = Judge(MapSettings(headers=rows), "rabbitmq")
    found = judge.judge(
        SEND, [(b"destination", b"/queue/a"), (b"secret", b"1"), (b"kind", b"2")], session_of(b"s")
    )
    assert [(each.feature, each.verdict, each.setting) for each in found] == [
        ("header secret", Verdict.CHOSEN, "headers = ..."),
        ("header kind", Verdict.MAPPED, ""),
        ("routing", Verdict.MAPPED, ""),
    ]


def test_settings_that_decide() -> None:
    """Each refusal names the line that would allow it, with what is allowed already."""
    settings = MapSettings("activemq", ignore=frozenset({"delays"}))
    judge = Judge(settings, "rabbitmq")

    def setting(command: bytes, *headers: tuple[bytes, bytes]) -> list[str]:
        found = judge.judge(command, [(b"destination", b"/queue/a"), *headers], session_of(b"s"))
        return [each.setting for each in found]

    assert setting(SUBSCRIBE, (b"selector", b"a = 1")) == ['ignore = ["delays", "selectors"]']
    topic = (b"destination", b"/topic/a"), (b"selector", b"a = 1")
    (found,) = judge.judge(SUBSCRIBE, [*topic], session_of(b"s"))
    assert (found.verdict, found.setting) == (Verdict.REFUSED, 'filter = ["/topic/*"]')
    judge = Judge(replace(settings, filter=("/topic/*", "/queue/a")), "rabbitmq")
    (found,) = judge.judge(SUBSCRIBE, [*topic], session_of(b"s"))
    assert (found.verdict, found.why) == (Verdict.MAPPED, "the relay applies them")
    assert setting(SUBSCRIBE, (b"selector", b"a = 1")) == ['filter = ["/queue/a", "/topic/*"]']
    judge = Judge(settings, "rabbitmq")
    assert setting(SEND, (b"AMQ_SCHEDULED_DELAY", b"1")) == ['ignore = ["delays"]']
    assert setting(NACK) == ['nack = "requeue"  # or dead-letter or discard']
    assert judge.selector == b"selector"
    assert Judge(settings, "artemis").selector is None
    sized = Judge(MapSettings("activemq"), "artemis")
    (found,) = [
        each
        for each in sized.judge(
            SUBSCRIBE,
            [(b"destination", b"/queue/a"), (b"activemq.prefetchSize", b"5")],
            session_of(b"s"),
        )
        if each.feature == "prefetch"
    ]
    assert (found.verdict, found.setting) == (Verdict.UNDECIDED, "message_size = 1024")
    assert found.place == b"/queue/a"


def test_a_small_window() -> None:
    """Who acknowledges many messages at once may wait at Artemis without end, unless a window is asked for."""
    more = HEADERS | {b"ack": b"client"}

    def told(headers: dict[bytes, bytes], *rows: Addition, clients: str = "activemq") -> list[str]:
        judge = Judge(MapSettings(clients, headers=rows), "artemis")
        found = judge.judge(SUBSCRIBE, [*headers.items()], session_of(b"s"))
        return [each.setting for each in found if each.feature == "prefetch"]

    setting = '[{ on = "SUBSCRIBE", header = "consumer-window-size", destination = "*", add = "-1" }]'
    assert told(more) == [f"headers = {setting}"]
    assert told(more, Addition((SUBSCRIBE,), re.compile(b".*"), b"consumer-window-size", b"-1")) == []
    assert told(HEADERS) == told(HEADERS | {b"ack": b"auto"}) == told(more, clients="artemis") == []
    assert told(more | {b"activemq.prefetchSize": b"5"}) == ["message_size = 1024"]


def test_products_have_words() -> None:
    """A CONNECTED of each product is known to the playbook."""
    assert set(NAMES) <= set(PRODUCTS)
