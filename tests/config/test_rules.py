"""`[[rule]]` to rules, which listener has which, and what a rule may ask of whom."""

from dataclasses import replace
from typing import Any

import pytest

from stomprelay.config import ConfigError
from stomprelay.config.address import broker
from stomprelay.config.listener import read_rule, ruled
from stomprelay.config.table import ConfigTable
from stomprelay.relay.model.group import alone
from stomprelay.relay.model.listener import Listener, ServerTLS
from stomprelay.relay.model.rules import AccessRule, AccessRules
from stomprelay.relay.model.upstream import Upstream

MAIN = Upstream("main", alone(broker("tcp://main")))
OPEN = Listener("open", "tcp:1", MAIN)
ASKED = {"send": "/queue/a", "action": "allow"}


CLOSED = Listener("closed", "tcp:2", MAIN, tls=ServerTLS("c", "k", "ca", True), auth="staff")
OPTIONAL = Listener("optional", "tcp:3", MAIN, tls=ServerTLS("c", "k", "ca"), auth="staff")
LISTENERS = {each.name: each for each in (OPEN, CLOSED, OPTIONAL)}


def rule(number: int = 1, **values: Any) -> tuple[AccessRule, frozenset[str]]:
    """The rule of a table with these values, for a listener that knows its clients if it names no other."""
    table = ConfigTable("f", "/", {"listener": "closed", **values}, ("rule", number))
    return read_rule(table, LISTENERS)


def test_all_of_a_rule() -> None:
    """Each setting has its place."""
    found, listeners = rule(
        3,
        name="orders",
        action="allow",
        send=["/queue/a", "/queue/{user}.*"],
        subscribe="/topic/*",
        user="alice",
        group=["clerks", "admin*"],
        certificate="*.example.net",
        ack=["auto", "client"],
        headers=["selector", "persistent:true"],
        size=0,
    )
    assert listeners == {"closed"}
    assert found == AccessRule(
        3,
        allow=True,
        send=("/queue/a", "/queue/{user}.*"),
        subscribe=("/topic/*",),
        name="orders",
        users=("alice",),
        groups=("clerks", "admin*"),
        certificates=("*.example.net",),
        ack=frozenset({b"auto", b"client"}),
        headers=("selector", "persistent:true"),
        size=0,
    )
    assert str(found) == "rule 3 (orders)"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "rule[2].action: is missing"),
        ({"action": "allow"}, "rule[2]: needs send or subscribe"),
        ({"action": "allow", "send": []}, "rule[2].send: must be a string that is not empty, or a list"),
        ({**ASKED, "listener": "opne"}, 'rule[2].listener: no listener is called "opne"; did you mean "open"?'),
        ({**ASKED, "user": "a", "listener": "open"}, "rule[2].user: is not known of clients of listener.open, which"),
        ({**ASKED, "group": "a", "listener": "open"}, "rule[2].group: is not known of clients of listener.open"),
        ({**ASKED, "certificate": "a", "listener": "open"}, "rule[2].certificate: is not known of clients of"),
        ({**ASKED, "certificate": "a", "listener": "optional"}, "rule[2].certificate: needs listener.optional.tls"),
        ({"action": "deny", "send": "/{user}", "listener": "open"}, "rule[2].send: has {user}, but listener.open has"),
        ({**ASKED, "ack": "auto"}, "rule[2].ack: is about subscribe, which the rule does not have"),
        ({"action": "allow", "subscribe": "a", "size": 1}, "rule[2].size: is about send, which the rule does"),
        ({"action": "deny", "send": "a", "size": 1}, 'rule[2].size: is how large what a rule allows may be: it goes'),
        ({"action": "deny", "subscribe": "a", "ack": "Auto"}, "rule[2].ack: must be one of auto, client, client-i"),
        ({"action": "deny", "subscribe": "a", "ack": []}, "rule[2].ack: must be an ack mode, or a list of such"),
        ({**ASKED, "headers": "a b"}, "rule[2].headers: must be a header's name, or name:value"),
        ({**ASKED, "headers": ":x"}, "rule[2].headers: must be a header's name, or name:value"),
        ({**ASKED, "name": "a\nb"}, "rule[2].name: must be printable"),
    ],
)  # fmt: skip
def test_what_cannot_be(values: dict[str, Any], said: str) -> None:
    """The error names the key, and what it may be."""
    with pytest.raises(ConfigError) as error:
        rule(2, **values)
    assert str(error.value).startswith(f"f: {said}")


def test_who_has_which() -> None:
    """In the order of the file; who has one and says nothing denies what no rule allows."""
    first, second = rule(1, **ASKED), rule(2, **{**ASKED, "listener": ["open", "closed"]})
    lenient = replace(OPTIONAL, rules=AccessRules((), allow=True))
    rules = [first, second, (first[0], frozenset({"x"}))]
    neither, both, none, other = (ruled(each, rules) for each in (OPEN, CLOSED, OPTIONAL, lenient))
    assert neither.rules == AccessRules((second[0],), allow=False)
    assert both.rules == AccessRules((first[0], second[0]), allow=False)
    assert none.rules is None
    assert other.rules == AccessRules((), allow=True)
