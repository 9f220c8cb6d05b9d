"""Rules and a client's frames: what passes, what is refused and how, and what must not get past a rule."""

import re
from dataclasses import replace
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.guard import readings
from stomprelay.relay.model.rules import AccessRule, AccessRules, Identity
from stomprelay.relay.relay import JUDGED
from stomprelay.session.effects import Event, How
from stomprelay.wire.errors import Refused
from tests.playbook import SAY_HELLO, Cut, Playbook, in_all_cuts, in_all_pairs, joined, listener

ALLOW = AccessRules(
    (
        AccessRule(1, allow=False, send=("/queue/secret",), subscribe=("/queue/secret",), name="secrets"),
        AccessRule(2, allow=True, send=("/queue/*",), subscribe=("/queue/*",)),
    ),
    allow=False,
)
GOOD = b"SEND\ndestination:/queue/a\n\nx\0"
BAD = b"SEND\ndestination:/queue/secret\n\nx\0"
SUBSCRIBED = b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0"

in_three_versions = pytest.mark.parametrize("version", [b"1.0", b"1.1", b"1.2"], ids=bytes.decode)


def refused(play: Playbook, data: bytes) -> str:
    """What the client is told, in one text, about a frame of it that is refused; the broker gets nothing of it."""
    play.client_says(data)
    said = play.client_reads()
    assert said.startswith(b"ERROR\n")
    assert said.count(b"\0") == 1
    play.client_is_closed(How.LINGER)
    play.nobody_gets_more()
    return said.decode()


def denied(play: Playbook, data: bytes) -> str:
    """The same, where it is the rules that refuse it."""
    said = refused(play, data)
    assert play.counters["frames_denied"] == 1
    return said


@in_all_cuts
@in_all_pairs
def test_a_frame_that_is_refused(client: bytes, broker: bytes, cut: Cut) -> None:
    """What was said before it is delivered; the ERROR names rule and destination, and the session ends."""
    with joined(client, broker, cut=cut, rules=ALLOW) as play:
        play.client_says(GOOD + GOOD + b"SEND\ndestination:/queue/secret\nreceipt:r-1\n\nx\0" + GOOD)
        assert play.broker_reads() == GOOD + GOOD
        body = b"rule 1 (secrets) denies SEND: '/queue/secret'"
        assert body in play.client.written
        play.client_gets_error(b"not allowed", receipt=b"r-1")
        play.broker_is_closed()
        assert play.counters["frames_denied"] == play.counters["errors_sent"] == 1
        assert "rule 1 (secrets) denies SEND" in play.noted(Event.ERROR)
        assert "/queue/secret" not in play.noted(Event.ERROR)


@in_all_pairs
def test_what_needs_no_rule(client: bytes, broker: bytes) -> None:
    """ACK, UNSUBSCRIBE, transactions and DISCONNECT refer to what was allowed; MESSAGEs pass whatever the rules."""
    with joined(client, broker, cut=Cut.PASSED, rules=ALLOW) as play:
        play.client_says(SUBSCRIBED.replace(b"\n\n", b"\nack:client\n\n"))
        play.broker_says(b"MESSAGE\nsubscription:1\nmessage-id:m\nack:m\ndestination:/queue/a\n\nx\0")
        said = play.client_reads()
        named = {b"1.0": b"message-id", b"1.1": b"message-id", b"1.2": b"ack"}[client]
        value = next(line.partition(b":")[2] for line in said.split(b"\n") if line.startswith(named + b":"))
        key = b"id" if client == b"1.2" else b"message-id"
        play.broker_reads()
        play.client_says(b"ACK\n%b:%b\nsubscription:1\n\n\0" % (key, value))
        play.client_says(b"BEGIN\ntransaction:t\n\n\0SEND\ndestination:/queue/a\ntransaction:t\n\nx\0")
        play.client_says(b"COMMIT\ntransaction:t\n\n\0BEGIN\ntransaction:u\n\n\0ABORT\ntransaction:u\n\n\0")
        play.client_says(b"UNSUBSCRIBE\nid:1\n\n\0DISCONNECT\n\n\0")
        commands = [each.split(b"\n")[0] for each in play.broker_reads().split(b"\0")[:-1]]
        assert commands == [
            b"ACK", b"BEGIN", b"SEND", b"COMMIT", b"BEGIN", b"ABORT", b"UNSUBSCRIBE", b"DISCONNECT",
        ]  # fmt: skip
        assert play.counters["frames_denied"] == 0


DURABLE = (
    AccessRule(1, allow=True, subscribe=("/topic/a",), users=("alice",), headers=("durable-*",)),
    AccessRule(2, allow=False, subscribe=("/topic/*",), headers=("durable-*", "activemq.*")),
    AccessRule(3, allow=False, subscribe=("*",)),
)


@in_three_versions
def test_an_unsubscribe_that_steers_a_broker(version: bytes) -> None:
    """By a header it may end a subscription that is not its client's: rules on SUBSCRIBEs with such a one count."""
    ends = b"UNSUBSCRIBE\nid:1\nDurable-Subscription-Name :bobs\nreceipt:r\n\n\0"
    with joined(version, version, rules=AccessRules(DURABLE, allow=True)) as play:
        play.client_says(b"UNSUBSCRIBE\nid:1\n\n\0")
        assert play.broker_reads() == b"UNSUBSCRIBE\nid:1\n\n\0"
        said = denied(play, ends)
        assert "rule 2 denies UNSUBSCRIBE" in said
        assert "receipt-id:r\n" in said


def test_an_unsubscribe_that_may_steer_a_broker() -> None:
    """The first rule decides, as ever; where it names a queue, it takes what a SUBSCRIBE to that would."""
    ends = b"UNSUBSCRIBE\nid:1\ndurable-subscription-name:mine\n\n\0"
    with known(Identity("alice"), AccessRules(DURABLE, allow=True)) as play:
        play.client_tells_broker(ends)
    with known(Identity("bob"), AccessRules(DURABLE, allow=True)) as play:
        denied(play, ends)
    ends = b"UNSUBSCRIBE\nid:1\ndurable:true\nx-queue-name:%b\n\n\0"
    rules = AccessRules((AccessRule(1, allow=False, subscribe=("/queue/secret",)),), allow=True)
    with joined(b"1.2", b"1.2", rules=rules) as play:
        play.client_tells_broker(ends % b"mine")
        assert "rule 1 denies SUBSCRIBE: '/queue/secret'" in denied(play, ends % b"secret")


@in_three_versions
def test_what_passes_straight_on(version: bytes) -> None:
    """A SEND to a destination that was allowed before, which needs no second look, and MESSAGEs whatever the rules."""
    with joined(version, version, cut=Cut.PASSED, rules=ALLOW) as play:
        message = b"MESSAGE\nsubscription:1\nmessage-id:1\ndestination:/queue/a\n\nx\0"
        play.client_says(SUBSCRIBED + GOOD)
        play.client_tells_broker(GOOD, SUBSCRIBED + GOOD + GOOD)
        sends = play.passed
        play.broker_says(message)
        play.broker_tells_client(message, message * 2)
        assert play.passed - sends == 2
        assert sends == 1
        play.client_errs(BAD, b"not allowed")


@pytest.mark.parametrize(
    "head",
    [
        b"destination:/queue/b\n",
        b"destination:/queue/a\nreceipt:r\n",
        b"destination:/queue/a\nx-dead-letter-exchange:\n",
        b"destination:/queue/a\ndestination:/queue/a\n",
        b"destination:/queue/a\nDestination:/queue/a\n",
        b"destination:/queue/a\ndestination :/queue/a\n",
        b"destination:/queue/a\ncontent-Length:1\n",
        b"destination:/queue/a\nx:\\n\n",
    ],
)
def test_what_is_looked_at_again(head: bytes) -> None:
    """A SEND of which brokers may read more than a destination that was allowed, or another one."""
    with joined(b"1.2", b"1.2", cut=Cut.PASSED, rules=ALLOW) as play:
        play.client_says(GOOD)
        play.client_says(GOOD)
        assert play.passed == 1
        play.client_says(b"SEND\n%b\nx\0" % head)
        assert play.passed == 1
        play.broker_reads()
        play.client_reads()


@pytest.mark.parametrize("condition", [{"size": 10}, {"headers": ("seq:*",)}], ids=["size", "headers"])
def test_rules_on_more_than_a_destination(condition: dict[str, Any]) -> None:
    """They are asked about each frame."""
    rules = AccessRules((AccessRule(1, allow=True, send=("/queue/*",), **condition),), allow=False)
    said = b"SEND\ndestination:/queue/a\nseq:1\n\nx\0"
    with joined(b"1.2", b"1.2", cut=Cut.PASSED, rules=rules) as play:
        for _ in range(3):
            play.client_says(said)
        play.broker_gets(said * 3)
        assert play.passed == 0
        denied(play, GOOD.replace(b"x", b"x" * 11))


@in_three_versions
@pytest.mark.parametrize(
    "head",
    [
        b"destination:/queue/a\ndestination:/queue/secret\n",
        b"destination:/queue/secret\ndestination:/queue/a\n",
        b"Destination:/queue/secret\ndestination:/queue/a\n",
        b"destination:/queue/a\nDESTINATION:/queue/secret\n",
        b"destination :/queue/secret\ndestination:/queue/a\n",
        b" destination:/queue/secret\ndestination:/queue/a\n",
        b"\tdestination\t:/queue/secret\ndestination:/queue/a\n",
        b"Destination:/queue/secret\n",
        b"destination: /queue/secret\n",
        b"destination:/queue/secret \n",
        b"destination:/queue/%73ecret\n",
        b"destination:%2Fqueue%2Fsecret\n",
        b"destination:/queue/a,/queue/secret\n",
        b"destination:/queue/secret,/queue/a\n",
        b"destination:/queue/>\n",
        b"destination:/queue/*\n",
        b"destination:/queue/secret?priority=9\n",
        b"destination:/queue/a::secret\n",
        b"destination:/queue/\xff\n",
        b"destination:/queue/a\x01\n",
        b"destination:/queue/a\rb\n",
        b"x:y\rdestination:/queue/secret\ndestination:/queue/a\n",
        b"x:y\n",
        b"destination:/queue/a\ncontent-length:1\ncontent-length:3\n",
        b"destination:/queue/a\nContent-Length:3\n",
        b"content-length :3\ndestination:/queue/a\n",
    ],
)
@pytest.mark.parametrize("command", [b"SEND", b"SUBSCRIBE"])
def test_a_head_that_a_broker_may_read_otherwise(version: bytes, head: bytes, command: bytes) -> None:
    """Where any way to read a frame is not allowed, or cannot be told, the frame is refused, if not as no frame."""
    with joined(version, version, rules=ALLOW) as play:
        play.client_tells_broker(GOOD)
        body = b"x" if command == b"SEND" else b""
        refused(play, b"%b\nid:1\n%b\n%b\0" % (command, head, body))


@pytest.mark.parametrize(
    "command", [b"ACK\nid:1", b"BEGIN\ntransaction:t", b"UNSUBSCRIBE\nid:1", b"DISCONNECT"]
)
def test_a_length_that_may_hide_a_frame(command: bytes) -> None:
    """A broker must not find a SEND where the relay sees no end of a frame, whatever the frame is."""
    with joined(b"1.2", b"1.2", rules=ALLOW) as play:
        denied(play, command + b"\nContent-Length:40\n\n\0")


def test_a_length_that_is_spoken_of() -> None:
    """The word alone hides nothing, nor does that of a destination."""
    with joined(b"1.2", b"1.2", rules=ALLOW) as play:
        said = b"SEND\ndestination:/queue/a\nnote:content-length and destination\ncontent-length:1\n\n\0\0"
        play.client_tells_broker(said * 2)


def test_all_readings_of_a_destination() -> None:
    """One alone where there is nothing to be read in it, else each once."""
    assert readings(b"/queue/a") == ["/queue/a"]
    assert readings(b" /queue/a") == [" /queue/a", "/queue/a"]
    assert readings(b"/a%20\\c") == ["/a%20\\c", "/a%20:", "/a \\c", "/a :"]
    assert readings(b"/100%") == ["/100%"]
    for bad in (b"/a\x7f", b"/a%00", b"/a\\n", b"/a%ff"):
        with pytest.raises(Refused):
            readings(bad)


def known(identity: Identity, rules: AccessRules) -> Playbook:
    """A client of 1.2 that the relay knows, connected."""
    play = Playbook(listener(rules=rules, auth="people"))
    play.client_says(SAY_HELLO[b"1.2"])
    play.client_is(identity)
    play.broker_welcomes()
    play.client_reads()
    return play


def test_rules_for_users() -> None:
    """Who a client is, is what the relay found out; what its CONNECT says does not count."""
    rules = AccessRules((AccessRule(1, allow=True, send=("/queue/{user}.*",), users=("a*",)),), allow=False)
    said = b"SEND\ndestination:/queue/alice.x\nlogin:bob\n\nx\0"
    with known(Identity("alice"), rules) as play:
        play.client_tells_broker(said)
    for other in (Identity("bob"), Identity("al"), Identity()):
        with known(other, rules) as play:
            denied(play, said)


@in_all_pairs
def test_rules_that_come(client: bytes, broker: bytes) -> None:
    """What passed straight on until then is judged from the next frame on; and passes as before when they go."""
    with joined(client, broker, cut=Cut.PASSED) as play:
        for _ in range(3):
            play.client_says(GOOD)
        assert play.broker_reads() == GOOD * 3
        passed = play.passed
        play.rules_change(ALLOW)
        play.client_says(GOOD)
        assert play.passed == passed
        play.rules_change(None)
        play.client_says(BAD)
        assert play.broker_reads() == GOOD + BAD
        assert play.passed - passed == (1 if passed else 0)
        play.rules_change(ALLOW)
        denied(play, BAD)


def many(last: bytes = b"/queue/last") -> Playbook:
    """A session with more subscriptions than are judged in a turn; others may have theirs in between."""
    play = joined(b"1.2", b"1.2")
    told = b"".join(b"SUBSCRIBE\nid:%d\ndestination:/queue/a\n\n\0" % at for at in range(2 * JUDGED))
    play.client_said(told + b"SUBSCRIBE\nid:last\ndestination:" + last + b"\n\n\0")
    play.busy = True
    return play


def test_many_subscriptions() -> None:
    """They are judged a turn's worth at a time, and what the client says meanwhile waits for that."""
    with many() as play:
        play.rules_change(ALLOW)
        play.client_says(GOOD)
        play.broker_gets(b"")
        assert play.turn_comes() is play.client.leg
        play.broker_gets(b"")
        play.turn_comes()
        play.broker_gets(GOOD)
    with many(b"/topic/b") as play:
        play.rules_change(AccessRules((AccessRule(1, allow=True, subscribe=("/queue/*",)),), allow=False))
        play.turn_comes()
        play.both_stay()
        play.turn_comes()
        assert b"SUBSCRIBE: '/topic/b'" in play.client.written
        play.client_gets_error(b"a subscription is no longer allowed")


odd = [b"Destination", b"destination ", b" destination", b"\tDESTINATION", b"x", b"destination-type"]
names = st.sampled_from([b"destination", *odd])
values = st.lists(
    st.sampled_from(
        [b"/queue/", b"secret", b"a", b" ", b"%73ecret", b"%2F", b"\\c", b",", b"::", b">", b"*", b"?"]
    ),
    max_size=4,
).map(b"".join)
heads = st.lists(st.tuples(names, values), max_size=3)


def generous(frame: bytes) -> set[bytes]:
    """All destinations that one broker or another might find in a frame."""
    found = set()
    for line in frame.partition(b"\n\n")[0].split(b"\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"destination":
            for each in (value, value.replace(b"\\c", b":"), unquote_to_bytes(value)):
                found |= {part.strip().partition(b"?")[0] for part in re.split(b",|::", each)}
    return found


@given(
    heads, st.sampled_from([b"1.0", b"1.1", b"1.2"]), st.sampled_from([b"1.0", b"1.1", b"1.2"]), st.booleans()
)
def test_no_head_gets_past(
    head: list[tuple[bytes, bytes]], client: bytes, broker: bytes, default: bool
) -> None:
    """What reaches a broker names nothing that is denied, however it is read, and no wildcard."""
    rules = replace(ALLOW, allow=default)
    lines = b"".join([name + b":" + value + b"\n" for name, value in head])
    with joined(client, broker, rules=rules) as play:
        play.client_says(b"SEND\n" + lines + b"\nx\0")
        there = generous(play.broker_reads())
        assert b"/queue/secret" not in there
        assert not any(mark in each for each in there for mark in (b">", b"*"))
        play.client_reads()
