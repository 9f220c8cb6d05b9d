"""What an upstream's URI means: groups of brokers, and what cannot be."""

import pytest

from stomprelay.config.uri import locate
from stomprelay.relay.model.group import Policy, Reconnect

FAILOVER = Policy.FAILOVER


def groups(uri: str, policy: Policy = FAILOVER) -> list[tuple[str, list[str], Reconnect | None]]:
    """Names, brokers and options of the groups."""
    return [
        (each.name, list(map(str, each.brokers)), each.reconnect)
        for each in locate(uri).groups("main", policy)
    ]


def refusal(uri: str) -> str:
    """What is said about a URI."""
    with pytest.raises(ValueError, match=r".") as error:
        locate(uri)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("uri", ["tcp://a", "memory:", "tls:a:1", "ssl://a:2"])
def test_a_plain_address(uri: str) -> None:
    """One broker, whose death ends its sessions; the group has the upstream's name, which is no address."""
    assert groups(uri) == [("main", [uri], None)]
    assert (locate(uri).quorum, locate(uri).fan_out_queues) == (1, True)


def test_weights() -> None:
    """Of each address; 1 where it says none. The broker's own name does not have it."""
    [place] = locate("failover:(tcp://a?weight=3,tcp://b,tls:c:1?weight=2)").places
    assert [(str(each), each.weight) for each in place.brokers] == [
        ("tcp://a", 3),
        ("tcp://b", 1),
        ("tls:c:1", 2),
    ]


def test_fanout() -> None:
    """A group each, numbered; options belong to where they stand, and static hands down those of the fan-out."""
    uri = (
        "fanout:(failover:(tcp://a,tcp://b)?randomize=false&timeout=1000,tcp://c,failover:(tcp://d))"
        "?maxReconnectAttempts=3&timeout=2000&fanOutQueues=false"
    )
    assert groups(uri) == [
        ("main-1", ["tcp://a", "tcp://b"], Reconnect(randomize=False, timeout=1.0)),
        ("main-2", ["tcp://c"], Reconnect(attempts=3, timeout=2.0)),
        ("main-3", ["tcp://d"], Reconnect()),
    ]
    assert (locate(uri).quorum, locate(uri).fan_out_queues) == (2, False)
    uri = "fanout:(static:(tcp://a,failover:(tcp://b))?timeout=1000,tcp://c)?timeout=2000&maxReconnectAttempts=5"
    assert [found for _, _, found in groups(uri)] == [
        Reconnect(timeout=1.0, attempts=5),
        Reconnect(),
        Reconnect(timeout=2.0, attempts=5),
    ]


@pytest.mark.parametrize(
    ("uri", "quorum"),
    [
        ("fanout:(tcp://a)", 1),
        ("fanout:(tcp://a,tcp://b)", 2),
        ("fanout:(tcp://a,tcp://b,tcp://c)", 2),
        ("fanout:(tcp://a,tcp://b,tcp://c)?minAckCount=1", 1),
        ("fanout:(tcp://a,tcp://b,tcp://c)?minAckCount=3", 3),
        ("fanout:(failover:(tcp://a,tcp://b))", 1),
        ("fanout:(static:(tcp://a,tcp://b),tcp://c)?minAckCount=3", 3),
    ],
)
def test_the_quorum(uri: str, quorum: int) -> None:
    """ActiveMQ's two, where there are so many groups and nothing else is said."""
    assert locate(uri).quorum == quorum


MISTAKES = """
failover:((tcp://a,tcp://b))         address 1: must be tcp://host:port
failover:(tcp://a,tcp://b:x)         address 2: the port must be a number
fanout:(tcp://a,failover:(tcp://b,x))  group 2: address 2: must be tcp://host:port
fanout:(static:(x))                  group 1: group 1: must be tcp://host:port
failover:(failover:(tcp://a))        failover:(...) must not stand within failover:(...)
failover:(tcp://b,fanout:(tcp://a))  fanout:(...) must not stand within failover:(...)
failover:(static:(tcp://a))          static:(...) must not stand within failover:(...)
fanout:(fanout:(tcp://a))            group 1: fanout:(...) must not stand within fanout:(...)
fanout:(static:(fanout:(tcp://a)))   group 1: group 1: fanout:(...) must not stand within static:(...)
fanout:(static:(static:(tcp://a)))   group 1: group 1: static:(...) must not stand within static:(...)
static:(tcp://a)                     static:(...) stands within fanout:(...) only
failover:(tcp://a)?randomise=1       option "randomise": there is no such option; did you mean "randomize"?
failover:(tcp://a?wieght=1)          address 1: option "wieght": there is no such option; did you mean "weight"?
failover:(tcp://a?weight=0)          address 1: option "weight": must be a positive whole number, not "0"
fanout:(failover:(tcp://a)?x=1,tcp://b)  group 1: option "x": there is no such option
fanout:(tcp://a)?randomize=true      option "randomize": belongs to failover:(...)
fanout:(static:(tcp://a)?minAckCount=1)  group 1: option "minAckCount": belongs to fanout:(...)
fanout:(tcp://a?weight=2)            group 1: option "weight": there is no other broker to choose
fanout:(tcp://a,tcp://b)?minAckCount=3  option "minAckCount": must not be more than the number of groups, 2
fanout:(failover:(tcp://a))?timeout=5  option "timeout": fanout:(...) has no address to hold for: say it of
fanout:(tcp://b,static:(failover:(tcp://a))?timeout=5)  group 2: option "timeout": static:(...) has no address
failover:(tcp://a,tcp://a)           must name each broker once, and names tcp://a twice
failover:(ws://a/x,wss://a/x,ws://a/y,ws://A:80/x)  must name each broker once, and names ws://A:80/x twice, once
failover:(tcp://a,stomp://A:61613)   must name each broker once, and names stomp://A:61613 twice, once as tcp://a
failover:(tcp://a:5,tcp:a:5)         must name each broker once, and names tcp:a:5 twice, once as tcp://a:5
failover:(memory:,memory:)           must name each broker once
fanout:(failover:(tcp://a,tcp://b),tcp://b)  must name each broker once
"""
"""A URI, and what is said of it."""


@pytest.mark.parametrize("row", MISTAKES.strip().splitlines())
def test_mistakes(row: str) -> None:
    """Each is told by where it stands."""
    uri, said = row.split(maxsplit=1)
    assert refusal(uri).startswith(said)
    assert refusal("failover:(ws://a/x,ws://A:80/x)").endswith("once as ws://a/x")
    assert refusal("fanout:(failover:(tcp://a))?timeout=5").endswith("hold for: say it of failover:(...)")


@pytest.mark.parametrize(
    "uri",
    [
        "failover:(tcp://a,ssl://a:61613)",
        "failover:(tcp://a:1,tcp://a:2)",
        "failover:(unix:/a,unix:/A)",
        "failover:(tcp:a:5,tls:a:5)",
    ],
)
def test_brokers_that_only_look_alike(uri: str) -> None:
    """Another port, another path, or TLS, is another broker."""
    assert len(locate(uri).places[0].brokers) == 2


@pytest.mark.parametrize(
    ("uri", "policy"),
    [
        ("failover:(tcp://a,tcp://b)", Policy.TOGETHER),
        ("failover:(tcp://a,tcp://b)?timeout=1000&maxReconnectAttempts=3", Policy.TOGETHER),
        ("failover:(tcp://a,tcp://b)?randomize=false", FAILOVER),
        ("failover:(tcp://a,tcp://b)?randomize=true", FAILOVER),
        ("failover:(tcp://a,tcp://b)?priorityBackup=true", FAILOVER),
        ("failover:(tcp://a?weight=2,tcp://b)", FAILOVER),
        ("failover:(tcp://a)", FAILOVER),
        ("tcp://a", FAILOVER),
    ],
)
def test_the_policy_where_none_is_said(uri: str, policy: Policy) -> None:
    """Sessions stay together, but where the list says which broker serves them, or it makes no difference."""
    place = locate(uri)
    assert [each.policy for each in place.groups("main", None)] == [policy]
    assert [each.policy for each in place.groups("main", None, connected=True)] == [FAILOVER]


OTHERS = [policy for policy in Policy if policy is not FAILOVER]


@pytest.mark.parametrize("policy", OTHERS)
@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("tcp://a", "needs brokers to choose from, as in failover:(tcp://a,tcp://b)"),
        ("fanout:(tcp://a,tcp://b)", "needs brokers to choose from, as in failover:(tcp://a,tcp://b)"),
        ("failover:(tcp://a)?randomize=false", "excludes the option randomize of the URI: say one of them"),
        ("failover:(tcp://a)?randomize=true", "excludes the option randomize of the URI: say one of them"),
        ("fanout:(tcp://b,failover:(tcp://a)?randomize=true)", "excludes the option randomize of the URI"),
        ("failover:(tcp://a)?priorityBackup=true", "excludes the option priorityBackup of the URI"),
    ],
)
def test_policies_that_do_not_fit(policy: Policy, uri: str, said: str) -> None:
    """What the list's own options say otherwise, or what there is nothing to choose for."""
    with pytest.raises(ValueError, match=r".") as error:
        locate(uri).groups("main", policy)
    assert str(error.value).startswith(f"{policy.value} {said}")
