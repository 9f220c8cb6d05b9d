"""Which rule decides: who, what and where, cell by cell."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.relay.guard import places, request
from stomprelay.relay.model.profile import ACTIVEMQ, ARTEMIS, AUTO, RABBITMQ, Naming, Profile
from stomprelay.relay.model.rules import (
    ANYBODY,
    AccessRule,
    AccessRules,
    ClientRules,
    Decision,
    Identity,
    Pattern,
    Place,
)
from stomprelay.wire.names import SEND, SUBSCRIBE

ALICE = Identity("alice", frozenset({"clerks"}))
BOB = Identity("bob", frozenset({"clerks", "admins"}))
CAROL = Identity("", frozenset(), "carol.example.net")
STAR = Identity("*")


def rules(*said: dict[str, Any], allow: bool = False) -> AccessRules:
    """Rules with these settings, numbered from 1."""
    return AccessRules(tuple(AccessRule(number, **each) for number, each in enumerate(said, 1)), allow)


def decide(
    found: AccessRules,
    identity: Identity,
    command: bytes,
    destination: bytes,
    size: int = 0,
    **headers: bytes,
) -> Decision:
    """The decision about a frame."""
    lines = [(b"destination", destination)]
    lines += [(name.replace("_", "-").encode(), value) for name, value in headers.items()]
    policy = ClientRules(found, identity)
    return policy.decide(
        policy.matching(places(command, lines, policy.naming)), request(command, lines, size)
    )


HOUSE = rules(
    {"allow": False, "send": ("/queue/closed",), "subscribe": ("/queue/closed",)},
    {"allow": True, "users": ("bob",), "send": ("/queue/*",), "subscribe": ("/queue/*",)},
    {"allow": True, "groups": ("clerks",), "send": ("/queue/orders",)},
    {"allow": True, "certificates": ("*.example.net",), "subscribe": ("/topic/prices.[*]",)},
    {"allow": True, "send": ("/queue/{user}.in",), "subscribe": ("/queue/{user}.out",)},
)
FRAMES = (
    (SEND, b"/queue/closed"),
    (SEND, b"/queue/orders"),
    (SUBSCRIBE, b"/queue/orders"),
    (SUBSCRIBE, b"/topic/prices.*"),
    (SEND, b"/queue/alice.in"),
    (SUBSCRIBE, b"/queue/alice.out"),
    (SUBSCRIBE, b"/queue/alice.in"),
    (SEND, b"/queue/*.in"),
    (SEND, b"/queue/.in"),
)
CELLS = {
    "anybody": (ANYBODY, "1- -- -- -- -- -- -- 1- --"),
    "alice": (ALICE, "1- 3+ -- -- 5+ 5+ -- 1- --"),
    "bob": (BOB, "1- 2+ 2+ -- 2+ 2+ 2+ 1- 2+"),
    "carol": (CAROL, "1- -- -- 4+ -- -- -- 1- --"),
    "star": (STAR, "1- -- -- -- -- -- -- 1- --"),
}
"""For each user, what becomes of each frame: the number of the rule that decides (-: none), and + for allowed."""


@pytest.mark.parametrize(
    ("who", "at", "cell"),
    [(who, at, cell) for who, (_, row) in CELLS.items() for at, cell in enumerate(row.split())],
)
def test_each_rule_for_each_frame_of_each_user(who: str, at: int, cell: str) -> None:
    """The first rule that matches decides, and where none does, the default."""
    command, destination = FRAMES[at]
    decision = decide(HOUSE, CELLS[who][0], command, destination)
    number = "-" if decision.rule is None else str(decision.rule.number)
    assert number + ("+" if decision.allow else "-") == cell


ALL = ("*",)
CONDITIONS = rules(
    {"allow": False, "send": ALL, "subscribe": ALL, "headers": ("selector", "x-queue-*", "persistent:true")},
    {"allow": True, "send": ("/queue/small",), "size": 10},
    {"allow": True, "send": ("/queue/mine",), "headers": ("tenant:alice",)},
    {"allow": False, "subscribe": ("/queue/*",), "ack": frozenset({b"client"})},
    {"allow": True, "subscribe": ("/queue/*",), "ack": frozenset({b"auto", b"client-individual"})},
)


@pytest.mark.parametrize(
    ("command", "destination", "size", "headers", "number"),
    [
        (SEND, b"/queue/small", 10, {}, 2),
        (SEND, b"/queue/small", 11, {}, None),
        (SEND, b"/queue/small", 0, {"persistent": b"false"}, 2),
        (SEND, b"/queue/small", 0, {"persistent": b"true"}, 1),
        (SEND, b"/queue/small", 0, {"Persistent": b" TRUE"}, 1),
        (SEND, b"/queue/mine", 0, {}, None),
        (SEND, b"/queue/mine", 0, {"tenant": b"alice"}, 3),
        (SEND, b"/queue/mine", 0, {"Tenant": b"alice"}, None),
        (SEND, b"/queue/mine", 0, {"tenant": b"alice", "Tenant": b"bob"}, None),
        (SUBSCRIBE, b"/queue/a", 0, {}, 5),
        (SUBSCRIBE, b"/queue/a", 0, {"ack": b"auto"}, 5),
        (SUBSCRIBE, b"/queue/a", 0, {"ack": b"client"}, 4),
        (SUBSCRIBE, b"/queue/a", 0, {"ack": b"client-individual"}, 5),
        (SUBSCRIBE, b"/queue/a", 0, {"ack": b"Client"}, 4),
        (SUBSCRIBE, b"/queue/a", 0, {"Ack": b"auto"}, 4),
        (SUBSCRIBE, b"/queue/a", 0, {"selector": b""}, 1),
        (SUBSCRIBE, b"/queue/a", 0, {"X-Queue-Name": b"other"}, 1),
    ],
)
def test_conditions(
    command: bytes, destination: bytes, size: int, headers: dict[str, bytes], number: int | None
) -> None:
    """A rule that denies counts for any way to read the frame, one that allows only where there is no other."""
    decision = decide(CONDITIONS, ANYBODY, command, destination, size, **headers)
    assert (decision.rule and decision.rule.number) == number


def test_what_is_more_than_a_name_is_written_out() -> None:
    """Neither a glob nor the default allows wildcards, lists, options and names behind names."""
    found = rules({"allow": True, "subscribe": ("/queue/*", "/topic/a.>", "/queue/b[?]x=*")}, allow=True)
    for destination in b"/queue/> /queue/a,b /queue/a?b /queue/a::b /queue/# /topic/a.*".split():
        decision = decide(found, ANYBODY, SUBSCRIBE, destination)
        assert (decision.allow, decision.more) == (False, True)
    for destination in (b"/topic/a.>", b"/queue/b?x=1", b"/queue/a:b"):
        assert decide(found, ANYBODY, SUBSCRIBE, destination).allow


@pytest.mark.parametrize(
    ("destination", "denied"),
    [
        (b"/queue/secret", True),
        (b"/queue/>", True),
        (b"/queue/secret?a=b", True),
        (b"/queue/s*", True),
        (b"/queue/public,/queue/secret", True),
        (b"/topic/x::secret", True),
        (b"/topic/>", False),
        (b"/queue/t*", False),
    ],
)
def test_a_rule_that_denies_counts_where_it_may_be_meant(destination: bytes, denied: bool) -> None:
    """What a broker makes of a destination may be what is denied: for wildcards that begin alike, and all lists."""
    allowed = re.sub(r"[*?]", r"[\g<0>]", destination.decode())
    found = rules({"allow": False, "subscribe": ("/queue/secret",)}, {"allow": True, "subscribe": (allowed,)})
    assert decide(replace(found, naming=Naming()), ANYBODY, SUBSCRIBE, destination).allow is not denied


def test_a_user_whose_name_reads_as_a_set() -> None:
    """It is the name and nothing else."""
    found = rules({"allow": True, "send": ("/queue/{user}",)})
    assert decide(found, Identity("[ab]"), SEND, b"/queue/[ab]").allow
    assert not decide(found, Identity("[ab]"), SEND, b"/queue/a").allow


SECRETS = (
    {"allow": False, "send": ("/queue/secret",), "subscribe": ("/queue/secret",)},
    {"allow": False, "send": ("/topic/VirtualTopic.s",), "subscribe": ("/topic/VirtualTopic.s",)},
)


@pytest.mark.parametrize(
    ("product", "destination"),
    [
        (RABBITMQ, "secret"),
        (RABBITMQ, "/amq/queue/secret"),
        (RABBITMQ, "/reply-queue/secret"),
        (RABBITMQ, "/exchange/amq.topic/VirtualTopic.s"),
        (RABBITMQ, "/queue/stomp-subscription-x5bMWdz2"),
        (RABBITMQ, "/amq/queue/stomp-subscription-x5bMWdz2"),
        (RABBITMQ, "/exchange/amq.rabbitmq.trace/deliver.secret"),
        (ACTIVEMQ, "secret"),
        (ACTIVEMQ, " secret "),
        (ACTIVEMQ, "/queue/ secret"),
        (ACTIVEMQ, "queue://secret"),
        (ACTIVEMQ, "/topic/queue:// secret"),
        (ACTIVEMQ, "/remote-temp-topic/queue://secret"),
        (ACTIVEMQ, "topic://VirtualTopic.s"),
        (ACTIVEMQ, "/queue/Consumer.a.VirtualTopic.s"),
        (ACTIVEMQ, "Consumer.a.VirtualTopic.s"),
        (ACTIVEMQ, "/queue/Consumer..VirtualTopic.s"),
        (ACTIVEMQ, "/queue/Consumer.a.b.VirtualTopic.s"),
        (ARTEMIS, "secret"),
        (ARTEMIS, "jms.queue.secret"),
        (ARTEMIS, "/topic/secret"),
        (ARTEMIS, "/queue/VirtualTopic.s"),
    ],
)
def test_a_place_by_its_other_names(product: Profile, destination: str) -> None:
    """A rule denies a place by all of its product's names, or of any product's where that is not known."""
    for naming in (product.naming, AUTO.naming):
        found = replace(rules(*SECRETS, allow=True), naming=naming)
        for command in (SEND, SUBSCRIBE):
            assert not decide(found, ANYBODY, command, destination.encode()).allow
            other = re.sub("secret|VirtualTopic.s|stomp-.*", "public", destination)
            tracing = "trace" in other
            assert decide(found, ANYBODY, command, other.encode()).allow is not tracing


@pytest.mark.parametrize(
    ("product", "glob", "denied", "allowed"),
    [
        (RABBITMQ, "/amq/queue/a", ["/queue/a", "a", "/reply-queue/a"], ["/queue/b"]),
        (RABBITMQ, "a*", ["/queue/ab", "/amq/queue/a"], ["/queue/b"]),
        (RABBITMQ, "/queue/a%2Fb", ["/reply-queue/a/b", "/queue/a%2Fb"], ["/queue/a"]),
        (RABBITMQ, "/exchange/amq.topic/a", ["/topic/a"], ["/topic/b", "/exchange/amq.direct/a"]),
        (RABBITMQ, "/amq/queue/*", ["/amq/queue/a"], ["/queue/a"]),
        (RABBITMQ, "/exchange/*", ["/exchange/amq.topic/a"], ["/topic/a"]),
        (ARTEMIS, "/queue/a*", ["/topic/ab", "ab", "jms.topic.ab"], ["/topic/b", "/queue/b"]),
        (ARTEMIS, "/queue/*", ["/queue/a", "a"], ["/topic/a"]),
    ],
)
def test_a_rule_by_another_name(product: Profile, glob: str, denied: list[str], allowed: list[str]) -> None:
    """It denies the place by all of its names; with nothing but a wildcard it denies that way to spell names."""
    found = replace(rules({"allow": False, "send": (glob,)}, allow=True), naming=product.naming)
    assert [each for each in denied if decide(found, ANYBODY, SEND, each.encode()).allow] == []
    assert [each for each in allowed if not decide(found, ANYBODY, SEND, each.encode()).allow] == []


@pytest.mark.parametrize(
    ("command", "headers", "place"),
    [
        (SUBSCRIBE, {"x_queue_name": b"secret"}, Place(SUBSCRIBE, "/queue/secret")),
        (SUBSCRIBE, {"X_Queue_Name": b"sink"}, Place(SEND, "/queue/sink")),
        (SEND, {"x_dead_letter_exchange": b"", "x_dead_letter_routing_key": b"sink"}, Place(SEND, "/queue/sink")),
        (SUBSCRIBE, {"x_dead_letter_exchange": b"amq.topic"}, Place(SEND, "/exchange/amq.topic/open")),
        (SEND, {"x_queue_name": b"secret"}, None),
        (SEND, {"x_dead_letter_routing_key": b"sink"}, None),
    ],
)  # fmt: skip
def test_places_that_headers_name(command: bytes, headers: dict[str, bytes], place: Place | None) -> None:
    """A queue that is consumed from, bound to a topic or given dead letters is judged as if a frame named it."""
    secret = {"allow": False, "subscribe": ("/queue/secret",)}
    sink = {"allow": False, "send": ("/queue/sink", "/topic/open")}
    for allow in (
        rules(secret, sink, allow=True),
        rules(secret, sink, {"allow": True, "send": ("*",), "subscribe": ("*",)}),
    ):
        known = replace(allow, naming=RABBITMQ.naming)
        decision = decide(known, ANYBODY, command, b"/queue/open", 0, **headers)
        assert (None if decision.allow else decision.place) == place
    nothing = replace(rules(secret, sink, allow=True), naming=ACTIVEMQ.naming)
    assert decide(nothing, ANYBODY, command, b"/queue/open", 0, **headers).allow


PIECES = ("/queue/", "/topic/", "a", "b", ".", "*", ">", ",", "#", "::", ":", "[ab]", "[*]", "[!a]")
texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join)


@given(texts, texts)
def test_what_a_pattern_covers_it_may_cover(glob: str, text: str) -> None:
    """What would be allowed for certain would be denied for certain."""
    pattern = Pattern(glob)
    assert pattern.may_cover(text) or not pattern.covers(text)
