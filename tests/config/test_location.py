"""What an upstream's URI means: groups of brokers, and what cannot be."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.config.uri import Location, locate
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
    """A group each, numbered after the upstream; options belong to where they stand."""
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


def test_static_hands_down_options() -> None:
    """Its own win over those of the fan-out."""
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


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("failover:((tcp://a,tcp://b))", "address 1: must be tcp://host:port"),
        ("failover:(tcp://a,tcp://b:x)", "address 2: the port must be a number"),
        ("fanout:(tcp://a,failover:(tcp://b,x))", "group 2: address 2: must be tcp://host:port"),
        ("fanout:(static:(x))", "group 1: group 1: must be tcp://host:port"),
        ("failover:(failover:(tcp://a))", "failover:(...) must not stand within failover:(...)"),
        ("failover:(tcp://b,fanout:(tcp://a))", "fanout:(...) must not stand within failover:(...)"),
        ("failover:(static:(tcp://a))", "static:(...) must not stand within failover:(...)"),
        ("fanout:(fanout:(tcp://a))", "group 1: fanout:(...) must not stand within fanout:(...)"),
        (
            "fanout:(static:(fanout:(tcp://a)))",
            "group 1: group 1: fanout:(...) must not stand within static:(...)",
        ),
        (
            "fanout:(static:(static:(tcp://a)))",
            "group 1: group 1: static:(...) must not stand within static:(...)",
        ),
        ("static:(tcp://a)", "static:(...) stands within fanout:(...) only"),
        (
            "failover:(tcp://a)?randomise=1",
            'option "randomise": there is no such option; did you mean "randomize"?',
        ),
        (
            "failover:(tcp://a?wieght=1)",
            'address 1: option "wieght": there is no such option; did you mean "weight"?',
        ),
        (
            "failover:(tcp://a?weight=0)",
            'address 1: option "weight": must be a positive whole number, not "0"',
        ),
        ("fanout:(failover:(tcp://a)?x=1,tcp://b)", 'group 1: option "x": there is no such option'),
        ("fanout:(tcp://a)?randomize=true", 'option "randomize": belongs to failover:(...)'),
        ("fanout:(static:(tcp://a)?minAckCount=1)", 'group 1: option "minAckCount": belongs to fanout:(...)'),
        ("fanout:(tcp://a?weight=2)", 'group 1: option "weight": there is no other broker to choose'),
        (
            "fanout:(tcp://a,tcp://b)?minAckCount=3",
            'option "minAckCount": must not be more than the number of groups, 2',
        ),
        (
            "fanout:(failover:(tcp://a))?timeout=5",
            'option "timeout": fanout:(...) has no address to hold for: say it of failover:(...)',
        ),
        (
            "fanout:(tcp://b,static:(failover:(tcp://a))?timeout=5)",
            'group 2: option "timeout": static:(...) has no address to hold for',
        ),
        ("failover:(tcp://a,tcp://a)", "must name each broker once, and names tcp://a twice"),
        (
            "failover:(ws://a/x,wss://a/x,ws://a/y,ws://A:80/x)",
            "must name each broker once, and names ws://A:80/x twice, once as ws://a/x",
        ),
        (
            "failover:(tcp://a,stomp://A:61613)",
            "must name each broker once, and names stomp://A:61613 twice, once as tcp://a",
        ),
        (
            "failover:(tcp://a:5,tcp:a:5)",
            "must name each broker once, and names tcp:a:5 twice, once as tcp://a:5",
        ),
        ("failover:(memory:,memory:)", "must name each broker once"),
        ("fanout:(failover:(tcp://a,tcp://b),tcp://b)", "must name each broker once"),
    ],
)
def test_mistakes(uri: str, said: str) -> None:
    """Each is told by where it stands."""
    assert refusal(uri).startswith(said)


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


numbers = st.integers(1, 10**6)
flags = st.booleans()
options: st.SearchStrategy[dict[str, tuple[str, Any]]] = st.fixed_dictionaries(
    {},
    optional={
        "initialReconnectDelay": numbers.map(lambda ms: ("initial_delay", ms)),
        "maxReconnectDelay": numbers.map(lambda ms: ("longest_delay", ms)),
        "timeout": numbers.map(lambda ms: ("timeout", ms)),
        "maxReconnectAttempts": numbers.map(lambda number: ("attempts", number)),
        "startupMaxReconnectAttempts": numbers.map(lambda number: ("startup_attempts", number)),
        "useExponentialBackOff": flags.map(lambda said: ("exponential", said)),
    },
)
TIMES = {"initial_delay", "longest_delay", "timeout"}


def spelled(said: dict[str, tuple[str, Any]]) -> str:
    """Options as a URI has them."""
    text = "&".join(f"{name}={str(value).lower()}" for name, (_, value) in said.items())
    return f"?{text}" if text else ""


def meant(said: dict[str, tuple[str, Any]]) -> Reconnect:
    """What they say."""
    return Reconnect(**{field: value / 1000 if field in TIMES else value for field, value in said.values()})


@given(
    st.lists(st.tuples(st.integers(0, 3), options), min_size=1, max_size=4),
    options,
    st.integers(1, 9),
)
def test_any_fanout_comes_back_as_it_was_built(
    shape: list[tuple[int, dict[str, tuple[str, Any]]]], own: dict[str, tuple[str, Any]], weight: int
) -> None:
    """Nested lists with options of their own: 0 stands for a plain address, another number for a list so long."""
    if all(size for size, _ in shape):
        own = {}
    parts, expected = [], []
    for at, (size, said) in enumerate(shape):
        hosts = [f"tcp://h{at}-{number}:1" for number in range(max(size, 1))]
        if size:
            listed = ",".join(f"{host}?weight={weight}" for host in hosts)
            parts.append(f"failover:({listed}){spelled(said)}")
        else:
            parts.append(hosts[0])
        expected.append((hosts, meant(said if size else own), weight if size else 1))
    found = locate(f"fanout:({','.join(parts)}){spelled(own)}")
    assert [
        ([str(broker) for broker in place.brokers], place.reconnect, place.brokers[0].weight)
        for place in found.places
    ] == expected
    assert isinstance(found, Location)


@given(st.text(alphabet="tcp:/ab,()?&=weightfailover01") | st.text())
def test_any_text_is_located_or_refused(text: str) -> None:
    """Nothing but `ValueError` ever comes of a string."""
    for each in (text, f"failover:({text})", f"fanout:(tcp://x,{text})", f"failover:(tcp://x)?{text}"):
        try:
            locate(each)
        except ValueError:
            pass
