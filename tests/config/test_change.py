"""From one configuration to another: what stays, what comes and goes, and what is said of it."""

import pytest

from stomprelay.config import Config, load
from stomprelay.config.change import Change, change
from tests.config.reference import refuses

FILE = """
[listener.public]
endpoint = "tcp:61613"
upstream = "main"

[upstream.main]
uri = "failover:(tcp://a:1,tcp://b:1)?randomize=false"
"""


def config(text: str = FILE) -> Config:
    """The configuration in this text."""
    return load("stomprelay.toml", text)


def changed(*replaced: tuple[str, str], text: str = FILE) -> Change:
    """What becomes of the configuration when these pieces of its text are others."""
    other = text
    for old, new in replaced:
        assert old in other
        other = other.replace(old, new)
    return change("stomprelay.toml", config(text), config(other))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[listener.public]", 'log_level = "debug"\n[listener.public]', ["log_level"]),
        ('"tcp:61613"', '"tcp:61614"', ["listener.public.endpoint"]),
        ('upstream = "main"', 'upstream = "main"\nlimits.clients = 3', ["listener.public.limits.clients"]),
        ('upstream = "main"', 'upstream = "main"\nlimits.body = 3', ["listener.public.limits.body"]),
        ("tcp://b:1", "tcp://c:1", ["upstream.main.uri: tcp://c:1 added", "upstream.main.uri: tcp://b:1 removed"]),
        ("randomize=false", "randomize=true", ["upstream.main.uri"]),
        ("?randomize=false\"", "\"\npolicy = \"random\"", ["upstream.main.policy"]),
        ("randomize=false\"", "randomize=false\"\nlogin = \"x\"\npasscode = \"hidden\"", ["upstream.main.login"]),
        ("randomize=false\"", "randomize=false\"\nkeep_alive_eol = 3", ["upstream.main.keep_alive_eol"]),
        ("randomize=false\"", "randomize=false\"\nhealth.probe = 3", ["upstream.main.health.probe"]),
        ("main", "other", ["listener.public.upstream", "upstream.other added", "upstream.main removed"]),
        ("public", "inner", ["listener.inner added", "listener.public removed"]),
        ("[upstream.main]", '[[route]]\nprefix = "/q"\nupstream = "main"\n[upstream.main]', ["listener.public.route"]),
        ("[upstream.main]", '[[rule]]\nsend = "/q"\naction = "deny"\n[upstream.main]', ["listener.public.rule"]),
        ('upstream = "main"', 'upstream = "main"\nrules_default = "deny"', ["listener.public.rule"]),
        ("[listener.public]", "journal.bodies = 3\n[listener.public]", ["journal.bodies"]),
        ("61613", "61613", []),
    ],
)  # fmt: skip
def test_what_is_said_of_it(old: str, new: str, expected: list[str]) -> None:
    """Keys, and brokers that come and go; no values."""
    found = changed((old, new))
    assert list(found.changed) == expected
    assert found.restart == ()


def test_what_needs_a_restart_stays_as_it_is() -> None:
    """It is named each time, and the rest is changed."""
    text = 'journal.directory = "/j"\n' + FILE
    found = changed(
        (
            '"/j"',
            '"/k"\njournal.queue = 5000\njournal.retain_age = 9\nworkers = 2\nbroker.queue_messages = 7',
        ),
        text=text,
    )
    assert set(found.restart) == {"journal.directory", "journal.queue", "workers", "broker.queue_messages"}
    assert found.changed == ("journal.retain_age",)
    assert (found.config.journal.directory, found.config.journal.retain_age) == ("/j", 9)
    assert (found.config.workers, found.config.broker) == (1, config().broker)


def test_workers_that_stay_need_an_upstream_that_they_can_share() -> None:
    """The file alone would be right: it asks for one process, which a restart gives it."""
    with refuses(r"^stomprelay\.toml: workers: 2 processes cannot share the embedded broker"):
        changed(
            ("workers = 2\n", ""),
            ("failover:(tcp://a:1,tcp://b:1)?randomize=false", "memory:"),
            text="workers = 2\n" + FILE,
        )


def test_a_list_of_brokers_goes_on() -> None:
    """Its group is the one that sessions have, with the brokers that stay as they are, whatever is known of them."""
    before = config()
    (group,) = before.upstreams[0].groups
    a, b = group.brokers
    b.health.paused = True
    found = change("", before, config(FILE.replace("tcp://a:1,tcp://b:1", "tcp://b:1,tcp://c:1")))
    (listener,) = found.config.listeners
    assert listener.upstream.groups == (group,)
    assert group.brokers == (a, b)
    found.apply()
    assert [str(each) for each in group.brokers] == ["tcp://b:1", "tcp://c:1"]
    assert group.brokers[0] is b
    assert b.health.paused
    assert [broker for _, broker in found.left] == [a]


def test_weights_and_policy_of_a_list_that_goes_on() -> None:
    """They are the new ones, and those who had their turn have had it."""
    text = FILE.replace("?randomize=false", "").replace(
        "[upstream.main]", '[upstream.main]\npolicy = "round-robin"'
    )
    before = config(text)
    (group,) = before.upstreams[0].groups
    assert [str(group.order(0.0, lambda: 0.5)[0]) for _ in range(3)] == [
        "tcp://a:1",
        "tcp://b:1",
        "tcp://a:1",
    ]
    change("", before, config(text.replace("b:1)", "b:1?weight=3)"))).apply()
    assert [each.weight for each in group.brokers] == [1, 3]
    assert [str(group.order(0.0, lambda: 0.5)[0]) for _ in range(4)].count("tcp://b:1") == 3


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tcp://a:1", "tcp://b:1"),
        ("tcp://a:1", "failover:(tcp://a:1)"),
        ("failover:(tcp://a:1)", "tcp://a:1"),
        ("failover:(tcp://a:1)", "fanout:(tcp://a:1,tcp://b:1)"),
    ],
)
def test_what_sessions_cannot_go_on_with(before: str, after: str) -> None:
    """They keep what they began with: a plain address cannot be left, and how many groups there are is known."""
    place = "failover:(tcp://a:1,tcp://b:1)?randomize=false"
    old = config(FILE.replace(place, before))
    found = change("", old, config(FILE.replace(place, after)))
    assert found.left == ()
    kept = old.upstreams[0].groups
    there = kept[0].brokers
    found.apply()
    assert all(each not in kept for each in found.config.upstreams[0].groups)
    assert kept[0].brokers == there
    stays = [each for each in found.config.upstreams[0].brokers if str(each) == "tcp://a:1"]
    assert all(each is there[0] for each in stays)
