"""What is explained of a frame, and that it is what the relay does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.explain import Explanation, caret_text, without_passcode
from stomprelay.relay.bridge import bridges_between
from stomprelay.relay.model.counters import COUNTERS, Counters
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.model.mapping import MapSettings
from stomprelay.relay.model.profile import AUTO, PROFILES, RABBITMQ
from stomprelay.session.session import Session
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import DIALECTS
from stomprelay.wire.frame import Limits
from stomprelay.wire.names import CLIENT_COMMANDS

versions = pytest.mark.parametrize("client", list(DIALECTS))
brokers = pytest.mark.parametrize("broker", list(DIALECTS))


def explained(text: bytes, *arguments: object) -> list[list[str]]:
    """The paragraphs of an explanation as lines without indentation."""
    explanation = Explanation(*arguments)  # type: ignore[arg-type]
    return [[line.strip() for line in paragraph.split("\n")] for paragraph in explanation.paragraphs(text)]


def test_what_is_spelled_otherwise() -> None:
    """Each line that had to be spelled anew is shown with its new form, and only those."""
    _, paragraph = explained(b"SEND\ndestination: /queue/a\nplain:x\npath:C:\\new\n\n\0", b"1.0", b"1.2")
    assert "destination: /queue/a is spelled destination:/queue/a" in paragraph
    assert r"path:C:\new is spelled path:C\c\\new" in paragraph
    assert not any(line.startswith("plain:x is") for line in paragraph)


def test_what_is_read_otherwise_than_it_was_written() -> None:
    """It is shown as it came; what stands behind it in the text is found all the same."""
    _, first, second = explained(b"SEND\nk:a\\tb\nl:x\n\nx\0BEGIN\ntransaction:t\n\n\0", b"1.1", b"1.1")
    assert first[2:5] == ["SEND", r"k:a\tb", "l:x"]
    assert first[-1] == r"k:a\tb is spelled k:a\\tb"
    assert second[0] == "2. client to broker: BEGIN"


def test_losses_are_counted() -> None:
    """A counter that moved is shown with its meaning; a header that had to go is said to be gone."""
    _, paragraph = explained(b"SEND\ndestination:/queue/a\nt:a\\nb\nna\\cme:x\n\n\0", b"1.2", b"1.0")
    assert r"t:a\nb is spelled t:a b" in paragraph
    assert r"na\cme:x is left out" in paragraph
    assert f"counted: loss_value +1 ({COUNTERS['loss_value']})" in paragraph
    assert f"counted: loss_name +1 ({COUNTERS['loss_name']})" in paragraph


def test_the_policy_for_losses_holds() -> None:
    """`percent` spells it, `reject` refuses the frame."""
    text = b"SEND\ndestination:/queue/a\nt:a\\nb\nreceipt:7\n\n\0"
    assert "t:a%0Ab" in explained(text, b"1.2", b"1.0", AUTO, LossPolicy.PERCENT)[1]
    explanation = Explanation(b"1.2", b"1.0", AUTO, LossPolicy.REJECT)
    _, paragraph = explanation.paragraphs(text)
    assert "message:a header cannot be said in the other version" in paragraph
    assert "receipt-id:7" in paragraph
    assert explanation.refused == 1


def test_forged_headers_go() -> None:
    """Only headers that were there are said to be taken out."""
    _, paragraph = explained(b"SEND\ndestination:/queue/a\nmessage-id:1\n\n\0", b"1.2", b"1.2")
    assert "publish: takes out message-id" in paragraph


def test_a_delivery_and_its_ack() -> None:
    """The names of a delivery go through the session, as they do in the relay."""
    paragraphs = explained(
        b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client\n\n\0"
        b"MESSAGE\nsubscription:0\nmessage-id:ID\\c1\ndestination:/queue/a\n\nhi\0"
        b"ACK\nid:relay-ack-1\n\n\0",
        b"1.2",
        b"1.1",
    )
    assert "deliver: puts in ack:relay-ack-1" in paragraphs[2]
    assert paragraphs[3][0] == "3. client to broker: ACK"
    assert "name delivery: takes out id; puts in subscription:0, message-id:ID:1" in paragraphs[3]
    assert r"message-id:ID\c1" in paragraphs[3]


@pytest.mark.parametrize(
    "frame", [b"ACK\nmessage-id:1\n\n\0", b"NACK\nmessage-id:1\n\n\0", b"UNSUBSCRIBE\nid:5\n\n\0"]
)
def test_what_refers_to_nothing(frame: bytes) -> None:
    """An ERROR, and a hint that the conversation lacks something; what follows is explained all the same."""
    explanation = Explanation(b"1.0", b"1.2")
    _, paragraph, following = explanation.paragraphs(frame + b"BEGIN\ntransaction:1\n\n\0")
    assert "is refused: both connections end, and the client gets:" in paragraph
    assert "(what it refers to has to come earlier in the conversation)" in paragraph
    assert "2. client to broker: BEGIN" in following
    assert explanation.refused == 1


def test_connect_goes_through_the_handshake() -> None:
    """The version to ask for, heart-beats and virtual host of the default upstream; the passcode stays hidden."""
    _, paragraph = explained(
        b"STOMP\naccept-version:1.0,1.1\nlogin:u\npasscode:geheim\nheart-beat:1,2\n\n\0", None, None
    )
    assert paragraph[0] == "1. client to broker: STOMP"
    out = paragraph[paragraph.index("goes out as") :]
    assert out[1:5] == ["CONNECT", "accept-version:1.0,1.1", "login:u", "passcode:********"]
    assert out[5:8] == ["heart-beat:10000,10000", "host:/", ""]
    assert not any("geheim" in line for line in paragraph)


def test_the_handshake_settles_versions_and_product() -> None:
    """Without options the pair is that of CONNECT and CONNECTED, from there on."""
    paragraphs = explained(
        b"CONNECT\naccept-version:1.0\nhost:/\n\n\0"
        b"CONNECTED\nversion:1.2\nserver:RabbitMQ/3.10.8\n\n\0"
        b"SUBSCRIBE\ndestination:/queue/a\n\n\0"
    )
    assert [each[0] for each in paragraphs] == [
        "client 1.2, broker 1.2, profile auto, losses: replace",
        "1. client to broker: CONNECT",
        "client 1.0, broker 1.2, profile auto, losses: replace",
        "2. broker to client: CONNECTED",
        "client 1.0, broker 1.2, profile rabbitmq, losses: replace",
        "3. client to broker: SUBSCRIBE",
    ]
    assert "version:1.0" in paragraphs[3]
    assert "id:relay-1" in paragraphs[5]


def test_options_win_over_the_handshake() -> None:
    """A conversation that was written for one pair can be looked at as another."""
    paragraphs = explained(
        b"CONNECT\naccept-version:1.0,1.2\nhost:/\n\n\0"
        b"CONNECTED\nversion:1.2\nserver:ActiveMQ/5\n\n\0"
        b"BEGIN\ntransaction:1\n\n\0",
        b"1.0",
        b"1.1",
        PROFILES["artemis"],
    )
    assert paragraphs[0] == ["client 1.0, broker 1.1, profile artemis, losses: replace"]
    assert "accept-version:1.1" in paragraphs[1]
    assert len(paragraphs) == 4


@pytest.mark.parametrize("text", [b"HELLO\n\n\0", b"SEND\nx:\\q\n\n\0", b"SEND\nnothing\n\n\0"])
def test_what_is_no_frame(text: bytes) -> None:
    """A client's bad bytes get the ERROR that the relay sends, and end the explanation."""
    explanation = Explanation(b"1.2", b"1.2")
    _, paragraph = explanation.paragraphs(text + b"BEGIN\ntransaction:1\n\n\0")
    assert paragraph.startswith("1. client to broker: what is no frame\n")
    assert "      ERROR\n" in paragraph
    assert explanation.refused == 1


def test_a_broker_that_does_not_speak_stomp() -> None:
    """A broker's bad bytes are not the client's fault, and it is told so."""
    _, paragraph = explained(b"MESSAGE\ncontent-length:x\n\n\0", b"1.2", b"1.2")
    assert "1. broker to client: what is no frame" in paragraph
    assert "message:the broker sent what is not STOMP" in paragraph


def test_a_long_body_is_cut() -> None:
    """The size is said instead, and it goes out whole."""
    _, paragraph = explained(b"SEND\ndestination:/a\n\n" + b"x" * 5000 + b"\0", b"1.2", b"1.2")
    assert any(line == "x" * 1000 + "... (5000 bytes in all)^@" for line in paragraph)
    assert paragraph[-1] == "goes out as it came"


def test_a_message_that_does_not_fit() -> None:
    """It is not sent on, and the broker gets an ACK."""
    text = (
        b"SUBSCRIBE\nid:1\ndestination:/topic/t\nack:client\nselector:n > 5\n\n\0"
        b"MESSAGE\nsubscription:1\ndestination:/topic/t\nmessage-id:m\nack:a\nn:5\n\n\0"
    )
    settings = MapSettings("activemq", filter=("/topic/*",))
    _, subscribed, told = explained(text, b"1.2", b"1.2", RABBITMQ, LossPolicy.REPLACE, settings)
    assert subscribed[-1] == "map frame: takes out selector"
    assert told[-7:-1] == ["is not sent on", "the relay sends the broker", "ACK", "id:a", "", "^@"]
    assert told[-1].startswith("counted: messages_filtered +1")


def test_nothing_to_explain() -> None:
    """No frame, no paragraph."""
    assert explained(b"\n\n") == []


CASES = [
    b"SEND\ndestination:/queue/a\nk:a:b\n\nbody\0",
    b"SEND\ndestination:/queue/a\nk:a\\\\b\nack:1\n\nbody\0",
    b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client\n\n\0",
    b"BEGIN\ntransaction:t\n\n\0",
    b"DISCONNECT\nreceipt:1\n\n\0",
]


@versions
@brokers
@pytest.mark.parametrize("frame", CASES)
def test_it_says_what_the_relay_does(client: bytes, broker: bytes, frame: bytes) -> None:
    """For every pair, what is shown to go out is what a bridge of the relay writes."""
    bridge = bridges_between(client, broker, "auto", LossPolicy.REPLACE).to_broker
    decoder = Decoder(DIALECTS[client], CLIENT_COMMANDS, Limits())
    decoder.feed(frame)
    [read] = decoder.frames()
    out = bridge.carry(read, Session(b"s", DIALECTS[client], 10, Counters()))
    _, paragraph = explained(frame, client, broker)
    if out == frame:
        assert paragraph[-1] == "goes out as it came"
    else:
        shown = paragraph[paragraph.index("goes out as") + 1 :]
        lines = out.decode().replace("\0", "^@").split("\n")
        assert shown[: len(lines)] == lines
        assert len(shown) > len(lines), "and a reason is given"


def test_the_relays_own_bridges_are_left_alone() -> None:
    """Bridges are shared by all sessions of a pair: looking at one does not change it."""
    before = dict(bridges_between(b"1.0", b"1.2", "auto", LossPolicy.REPLACE).to_broker.steps)
    explained(CASES[2], b"1.0", b"1.2")
    assert bridges_between(b"1.0", b"1.2", "auto", LossPolicy.REPLACE).to_broker.steps == before


def test_visible() -> None:
    """Text stays, and what a terminal would act on is spelled."""
    texts = {b"a:b c\\n\n": "a:b c\\n\n", "häßlich \N{SNOWMAN}".encode(): "häßlich \N{SNOWMAN}"}
    texts |= {b"\0\r\t\x1b[31m\x7f": "^@^M^I^[[31m^?", b"\xff\xe9x": "<ff><e9>x"}
    texts["\u202e\x85".encode()] = "<U+202E><U+0085>"
    assert {data: caret_text(data) for data in texts} == texts


@given(st.binary())
def test_whatever_comes_can_be_shown(data: bytes) -> None:
    """Any bytes become lines of printable characters."""
    assert all(line.isprintable() for line in caret_text(data).split("\n"))


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_passcode_is_masked(end: bytes) -> None:
    """Every passcode of a head, however often it is said, and nothing else."""
    lines = [b"CONNECT", b"login:u", b"passcode:geheim", b"x-passcode:y", b"passcode:", b"", b""]
    masked = [b"CONNECT", b"login:u", b"passcode:********", b"x-passcode:y", b"passcode:********", b"", b""]
    assert without_passcode(end.join(lines)) == end.join(masked)
