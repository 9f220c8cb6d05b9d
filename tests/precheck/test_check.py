"""`stomprelay move check`, with a relay that is made up and a journal that was written by hand."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stomprelay.cli import main
from stomprelay.cli.move.precheck.journal import fits
from stomprelay.journal.schema import Context
from tests.e2e.pairs import CHOSEN, PAIRS, REFUSED, ROWS
from tests.fake_admin import Relay, connected, listed, serving_relay
from tests.journal.made import NAME, NOW, RUN, SECOND, event, frames, put

Capture = pytest.CaptureFixture[str]

CONFIG = """
admin = "tcp:1:interface=127.0.0.1"
[listener.main]
endpoint = "tcp:61613"
upstream = "old"
[upstream.old]
uri = "tcp://a"
profile = "activemq"
[upstream.new]
uri = "tcp://b"
profile = "rabbitmq"
[upstream.other]
uri = "tcp://c"
[[route]]
prefix = "/queue/other."
upstream = "other"
[upstream.new.map]
clients = "activemq"
"""
FIRST = "/sessions?sort=session&limit=1000&after=&subscriptions=yes"


@pytest.fixture
def relay() -> Iterator[Relay]:
    """A relay that is made up."""
    with serving_relay() as relay:
        yield relay


def write(folder: Path, config: str = CONFIG, *settings: str) -> str:
    """A configuration; `settings` are lines of the new upstream's map."""
    file = folder / "relay.toml"
    file.write_text(config + "\n".join(settings))
    return str(file)


def checked(
    capsys: Capture, file: str, *options: str, names: tuple[str, str] = ("old", "new")
) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    status = main(["move", "check", *names, "-c", file, *options])
    out, err = capsys.readouterr()
    return status, out, err


def reported(capsys: Capture, file: str, *options: str) -> tuple[int, Any]:
    """Exit status and the report."""
    status, out, err = checked(capsys, file, "--json", *options)
    assert err == ""
    return status, json.loads(out)


def told(report: Any) -> list[tuple[str, str, str, list[str]]]:
    """Client, feature, verdict and destinations of each finding."""
    return [
        (each["client"], each["feature"], each["verdict"], each["destinations"])
        for each in report["findings"]
    ]


# The sessions that run


def subscribed(upstream: str, destination: str, **headers: str) -> dict[str, Any]:
    """A subscription, as a relay tells of it."""
    return {"upstream": upstream, "headers": [["destination", destination], *map(list, headers.items())]}


def test_the_sessions_that_run(relay: Relay, tmp_path: Path, capsys: Capture) -> None:
    """By client, what its subscriptions and SENDs use at the old upstream; the exit status says whether that stops."""
    rows = [
        connected(1, listener="main", client_id="billing", sent_to=["/queue/a/b", "/queue/other.x/y"], subscriptions=[
            subscribed("old", "/topic/x", selector="a = 1"),
            subscribed("old", "/queue/b", ack="client"),
            subscribed("old", "/queue/c", ack="client"),
            subscribed("other", "/queue/other.d/e", selector="a = 1"),
        ]),
        connected(2, listener="main", client_id=None, login=None, sent_to=[], subscriptions=[
            subscribed("old", "/topic/x.>"),
        ]),
        connected(3, listener="private", client_id=None, sent_to=["/queue/a/b"], subscriptions=[
            subscribed("old", "/topic/x", selector="a = 1"),
        ]),
    ]  # fmt: skip
    relay.answer(FIRST, listed(*rows))
    status, report = reported(capsys, write(tmp_path), "--admin", relay.place)
    assert status == 1
    assert told(report) == [
        ("billing", "cumulative-acks", "refused", ["/queue/c"]),
        ("billing", "selectors", "refused", ["/topic/x"]),
        ("192.0.2.7", "names", "mapped", ["/topic/x.>"]),
        ("billing", "names", "mapped", ["/queue/a/b"]),
    ]
    assert report["findings"][0]["setting"] == '[upstream.new.map] ignore = ["cumulative-acks"]'
    assert report["looked_at"][0].startswith("2 sessions of 2 clients now")
    chosen = write(tmp_path, CONFIG, 'ignore = ["selectors", "cumulative-acks"]')
    status, out, _ = checked(capsys, chosen, "--admin", relay.place)
    assert status == 0, out
    assert out.splitlines()[-1] == "the move may begin"
    assert (
        "  billing uses selectors on /topic/x: the broker delivers every message (1 in sessions that run)"
        in out
    )
    relay.answer(FIRST, listed(*rows, missing=("worker 2",)))
    status, report = reported(capsys, chosen, "--admin", relay.place)
    assert (status, report["open"]) == (1, ["worker 2 of the relay did not answer"])


def test_a_relay_that_cannot_tell(relay: Relay, tmp_path: Path, capsys: Capture) -> None:
    """An older one does not know the question, or answers without subscriptions."""
    relay.answer(FIRST, (400, b'{"error": "there is no \\"subscriptions\\" here"}'))
    assert checked(capsys, write(tmp_path), "--admin", relay.place)[0] == 1
    relay.answer(FIRST, listed(connected(1, listener="main")))
    status, out, err = checked(capsys, write(tmp_path), "--admin", relay.place)
    assert (status, out) == (1, "")
    assert "older version" in err


# The journal


def context(
    session: str, client: str, side: str = "client", upstream: str = "", listener: str = "main"
) -> Context:
    """The context of frames of a session."""
    return Context(
        listener, session, "10.0.0.1:5", client, side, upstream, "tcp://a" if upstream else "", "1.2"
    )


def record(at: int, where: Context, *heads: str) -> bytes:
    """Frames that passed so many seconds after `NOW`."""
    return frames(*[(each.encode() + b"\n\n", b"") for each in heads], context=where, at=NOW + at * SECOND)


def scene(journal: Path) -> None:
    """Two relays' segments: a client with selectors, and one that sends, also to another upstream."""
    billing, producer = context("s-1", "billing"), context("s-2", "producer")
    answers = context("s-1", "billing", "broker", "old")
    sends = [f"SEND\ndestination:/topic/x\nkind:{each}" for each in "aab"]
    put(
        journal,
        record(
            0, billing, "CONNECT\nlogin:billing", "SUBSCRIBE\nid:1\ndestination:/topic/x\nselector:kind = 'a'"
        ),
        record(2, answers, *["MESSAGE\nsubscription:1\nmessage-id:m\ndestination:/topic/x"] * 2),
        record(5, billing, "UNSUBSCRIBE\nid:1"),
        record(6, billing, "SUBSCRIBE\nid:2\ndestination:/queue/q\nselector:kind = 'a'\nack:client"),
        record(7, billing, "NACK\nid:x", "SUBSCRIBE\nid:3\ndestination:/queue/r\nack:auto"),
        event("disconnected", context=billing, at=NOW + 9 * SECOND, end="client"),
    )
    put(
        journal,
        record(
            1, producer, *sends, "SEND\ndestination:/topic/y", "SEND\ndestination:/queue/other.a\nexpires:9"
        ),
        record(2, producer, "BEGIN\ntransaction:t", f"{sends[0]}\ntransaction:t", "ABORT\ntransaction:t"),
        record(3, producer, "BEGIN\ntransaction:u", f"{sends[2]}\ntransaction:u", "COMMIT\ntransaction:u"),
        record(6, producer, sends[0]),
        record(8, producer, *["SEND\ndestination:/queue/q\nexpires:5"] * 4),
        record(10, producer, "SEND\ndestination:/queue/q\nexpires:5"),
        name=f"{NAME}.journal".replace("eu-1", "eu-2").replace(RUN, "4567abcd"),
    )


def test_the_journal(tmp_path: Path, capsys: Capture) -> None:
    """Two relays' segments in the order of time: features with counts, and what selectors keep away meanwhile."""
    journal = tmp_path / "journal"
    journal.mkdir()
    scene(journal)
    status, report = reported(capsys, write(tmp_path), "--no-sessions", "--journal", str(journal))
    assert status == 1
    assert told(report) == [
        ("billing", "nack", "refused", []),
        ("billing", "nack", "refused", []),
        ("billing", "selectors", "refused", ["/topic/x"]),
        ("billing", "selectors", "refused", ["/queue/q"]),
        ("producer", "expiry", "mapped", []),
    ]
    shared, nack, topic, queue, expiry = report["findings"]
    assert shared["setting"] == '[upstream.new.map] ignore = ["cumulative-acks"]'
    assert (nack["count"], nack["setting"]) == (
        {"the journal": 1},
        '[upstream.new.map] nack = "requeue"  # or dead-letter or discard',
    )
    assert expiry["count"] == {"the journal": 5}
    assert topic["setting"] == '[upstream.new.map] filter = ["/topic/*"]'
    assert topic["extra"] == [{"client": "billing", "place": "/topic/x", "sent": 4, "delivered": 2}]
    assert queue["extra"] == [{"client": "billing", "place": "/queue/q", "sent": 4, "delivered": 0}]
    _, out, _ = checked(capsys, write(tmp_path), "--no-sessions", "--journal", str(journal))
    assert '      [upstream.new.map] ignore = ["cumulative-acks", "selectors"]\n' in out
    assert "50 % of its deliveries would be extra (2 of 4 messages matched)" in out
    assert "on /queue/q: the broker delivers every message; 0 of 4 messages matched" in out
    applied = write(tmp_path, CONFIG, 'filter = ["/topic/*"]')
    _, out, _ = checked(capsys, applied, "--no-sessions", "--journal", str(journal))
    assert "  billing uses selectors on /topic/x: the relay applies them (" in out
    late = ["--since", "2026-11-21T08:23:10", "--until", "2026-11-21T08:23:11"]
    _, report = reported(capsys, write(tmp_path), "--no-sessions", "--journal", str(journal), *late)
    assert [each["feature"] for each in report["findings"]] == ["expiry"]
    nobody = ["--no-sessions", "--journal", str(journal), "--since", "2027-01-01"]
    assert reported(capsys, write(tmp_path), *nobody)[1]["open"] == ["no client of old is in the journal"]


def test_a_subscription_with_wildcards() -> None:
    """One word, or all that follow."""
    fit = ["/topic/a.b", "/topic/a.c"]
    assert [fits(b"/topic/a.*", each.encode()) for each in [*fit, "/topic/a", "/topic/a.b.c"]] == [
        1,
        1,
        0,
        0,
    ]
    assert [fits(b"/topic/a.>", each.encode()) for each in [*fit, "/topic/b.a", "/queue/a.b"]] == [
        1,
        1,
        0,
        0,
    ]
    assert fits(b"/topic/#", b"/topic/a.b")


def test_a_durable_subscription_needs_a_client_id(tmp_path: Path, capsys: Capture) -> None:
    """It is known from CONNECT; whoever connected before the journal began is believed to have one."""
    said = "SUBSCRIBE\nid:1\ndestination:/topic/x\nactivemq.subscriptionName:s"
    put(
        tmp_path,
        record(0, context("s-1", "a"), "CONNECT\nlogin:a", said),
        record(0, context("s-2", "b"), "CONNECT\nlogin:b\nclient-id:b", said),
        record(0, context("s-3", "c"), said),
    )
    _, report = reported(capsys, write(tmp_path), "--no-sessions", "--journal", str(tmp_path))
    assert told(report) == [
        ("a", "durable-subscriptions", "refused", ["/topic/x"]),
        ("b", "durable-subscriptions", "mapped", ["/topic/x"]),
        ("c", "durable-subscriptions", "mapped", ["/topic/x"]),
    ]


def test_a_durable_subscriber_that_is_away(relay: Relay, tmp_path: Path, capsys: Capture) -> None:
    """It has no session that follows the move: it is named, so that somebody lets it connect in time."""
    hello, said = (
        "CONNECT\nclient-id:%s",
        "SUBSCRIBE\nid:1\ndestination:/topic/x\nactivemq.subscriptionName:s",
    )
    put(tmp_path, *[record(0, context(f"s-{each}", each), hello % each, said) for each in ("here", "away")])
    durable = subscribed("old", "/topic/x", **{"activemq.subscriptionName": "s"})
    row = connected(1, listener="main", client_id="here", sent_to=[], subscriptions=[durable])
    relay.answer(FIRST, listed(row))
    options = ["--admin", relay.place, "--journal", str(tmp_path)]
    status, report = reported(capsys, write(tmp_path), *options)
    assert (status, report["away"]) == (0, {"away": ["/topic/x"]})
    assert (
        "must be connected once in both, and once in new\n  away: /topic/x\n"
        in checked(capsys, write(tmp_path), *options)[1]
    )
    assert reported(capsys, write(tmp_path), "--no-sessions", *options[2:])[1]["away"] == {}


def test_many_names_at_one_destination(tmp_path: Path, capsys: Capture) -> None:
    """More reasons than are shown are not more destinations."""
    said = "SUBSCRIBE\nid:1\ndestination:/topic/x\nactivemq.subscriptionName:s"
    frames = [f"{said}{number}" for number in range(30)]
    put(tmp_path, record(0, context("s-1", "a"), "CONNECT\nlogin:a\nclient-id:a", *frames))
    _, report = reported(capsys, write(tmp_path), "--no-sessions", "--journal", str(tmp_path))
    assert [each["more_destinations"] for each in report["findings"]] == [False]


# What clients say when they connect, by pair as in docs/move.md


def cell(scene: str, clients: str, product: str) -> str:
    """The word in the page's cell."""
    return next(each.verdict(clients, product) for each in ROWS if each.scene == scene)


def of_pair(folder: Path, clients: str, product: str, more: str = "") -> str:
    """A configuration for a move between two products."""
    products = {"activemq": clients, "rabbitmq": product}
    config = re.sub('"(activemq|rabbitmq)"', lambda found: f'"{products[found[1]]}"', CONFIG)
    return write(folder, config.replace('uri = "tcp://b"', f'uri = "tcp://b"\n{more}'))


@pytest.mark.parametrize(("clients", "product"), PAIRS)
def test_virtual_hosts(clients: str, product: str, tmp_path: Path, capsys: Capture) -> None:
    """RabbitMQ refuses hosts that it does not have; elsewhere they are all one, which only its clients notice."""
    said = "SEND\ndestination:/queue/a"
    hosts = [("a", "one"), ("b", "two"), ("c", "/")]
    put(tmp_path, *[record(0, context(f"s-{x}", x), f"CONNECT\nhost:{host}", said) for x, host in hosts])
    options = ["--no-sessions", "--journal", str(tmp_path)]

    def found(more: str) -> list[tuple[str, str, str, str]]:
        _, report = reported(capsys, of_pair(tmp_path, clients, product, more), *options)
        keys = ("client", "verdict", "why", "setting")
        rows = [each for each in report["findings"] if each["feature"] == "virtual-hosts"]
        return [tuple(str(each[key]) for key in keys) for each in rows]  # type: ignore[misc]

    setting = '[upstream.new] host = "/"'
    if cell("host", clients, product) == CHOSEN:
        why = "the broker refuses %s, if it has no such host"
        assert found("") == [
            (client, "not decided", f"['{why % name}']", setting)
            for client, name in (("a", '"one"'), ("b", '"two"'))
        ]
        assert found('host = "/"') == []
    elif clients == "rabbitmq":
        assert [each[:2] for each in found("")] == [("b", "not decided"), ("c", "not decided")]
        assert found("")[0][2:] == (
            """['it is at "two", others are at "one"; there one name is one queue for all']""",
            setting,
        )
        assert {each[1] for each in found('host = "/"')} == {"chosen"}
    else:
        assert found("") == []


@pytest.mark.parametrize(("clients", "product"), PAIRS)
def test_shared_client_ids(clients: str, product: str, relay: Relay, tmp_path: Path, capsys: Capture) -> None:
    """ActiveMQ refuses a second session at the same time. Sessions of a relay that was killed have no end."""
    said = "SEND\ndestination:/queue/a"
    ends = [context(f"s-{each}", "both") for each in (1, 2)]
    put(
        tmp_path,
        record(0, context("s-0", "killed"), "CONNECT\nclient-id:killed", said),
        record(1, context("s-9", "killed"), "CONNECT\nclient-id:killed", said),
        record(2, ends[0], "CONNECT\nclient-id:both", said),
        record(3, ends[1], "CONNECT\nclient-id:both", said),
        event("disconnected", context=ends[1], at=NOW + 4 * SECOND),
        event("disconnected", context=ends[0], at=NOW + 5 * SECOND),
    )
    rows = [connected(each, listener="main", client_id=name, sent_to=[], subscriptions=[])
            for each, name in enumerate(("now", "now", "alone"))]  # fmt: skip
    relay.answer(FIRST, listed(*rows))
    file = of_pair(tmp_path, clients, product)
    _, report = reported(capsys, file, "--admin", relay.place, "--journal", str(tmp_path))
    found = [(each["client"], each["verdict"], each["count"]) for each in report["findings"]
             if each["feature"] == "shared-client-ids"]  # fmt: skip
    refused = [("both", "refused", {"the journal": 1}), ("now", "refused", {"sessions that run": 1})]
    assert found == (refused if product == "activemq" else [])
    assert bool(found) or cell("same_client", clients, product) != REFUSED


def test_cumulative_acks_in_a_transaction(tmp_path: Path, capsys: Capture) -> None:
    """They are no different at the new broker, but while the move is between both."""
    heads = ["SUBSCRIBE\nid:1\ndestination:/queue/a\nack:%s", "ACK\nid:1\ntransaction:t", "ACK\nid:2"]
    put(
        tmp_path,
        *[
            record(0, context(f"s-{mode}", mode), f"{heads[0] % mode}", *heads[1:])
            for mode in ("client", "client-individual")
        ],
    )
    status, report = reported(capsys, write(tmp_path), "--no-sessions", "--journal", str(tmp_path))
    assert status == 0
    [found] = [each for each in report["findings"] if each["feature"] == "cumulative-acks-in-transactions"]
    assert (found["client"], found["verdict"]) == ("client", "same")
    assert found["why"] == [
        "while a move is in both or new, it settles what is at one of both brokers; the rest comes again"
    ]


# The tables


def test_the_tables(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipeline is asked in a process of its own; tests/pipeline has the query."""
    head = {"destination": "/topic/x", "id": "1", "selector": "a = 1"}
    heads = [
        {"command": "CONNECT", "head": "{}", "times": 1},
        {"command": "SUBSCRIBE", "head": json.dumps(head), "times": 1},
    ]
    rows = [
        ("SUBSCRIBE", json.dumps(heads), 3),
        ("SEND", json.dumps({"destination": "/queue/a/b"}), 5),
        ("sent", "/topic/x", 4),
        ("delivered", "/topic/x", 3),
    ]
    names = ("command", "head", "times")
    told = [
        json.dumps({"listener": "main", "client": "me", **dict(zip(names, row, strict=True))}) for row in rows
    ]
    asked: list[tuple[list[str], str]] = []

    def run(command: list[str], *, input: str, **_: object) -> SimpleNamespace:
        asked.append((command, input))
        return SimpleNamespace(returncode=len(asked) - 1, stdout="\n".join(told))

    monkeypatch.setattr("stomprelay.cli.move.precheck.tables.subprocess.run", run)
    until = ["--until", "1970-01-01T00:00:01"]
    _, report = reported(capsys, write(tmp_path), "--no-sessions", "--tables", "/tables", *until)
    assert [(each["feature"], each["count"]) for each in report["findings"]] == [
        ("selectors", {"the tables": 3}),
        ("names", {"the tables": 5}),
    ]
    assert report["findings"][0]["extra"] == [
        {"client": "me", "place": "/topic/x", "sent": 4, "delivered": 3}
    ]
    assert asked[0][0][-2:] == ["--tables", "/tables"]
    assert f"ns < {SECOND}" in asked[0][1]
    status, _, err = checked(capsys, write(tmp_path), "--no-sessions", "--tables", "/tables")
    assert (status, err) == (2, "stomprelay: --tables: /tables: the query ended with exit status 1\n")


# What is configured


def test_what_is_not_decided(relay: Relay, tmp_path: Path, capsys: Capture) -> None:
    """Without the clients' product in the map, all is foretold as with it, and the line is missing."""
    relay.answer(FIRST, listed())
    silent = CONFIG.replace('clients = "activemq"', "")
    status, report = reported(capsys, write(tmp_path, silent), "--admin", relay.place)
    assert status == 1
    (why,) = report["open"]
    assert '[upstream.new.map] clients = "activemq"' in why
    same = silent.replace('profile = "rabbitmq"', 'profile = "activemq"')
    assert reported(capsys, write(tmp_path, same), "--admin", relay.place)[0] == 0


@pytest.mark.parametrize(
    ("options", "names", "said"),
    [
        ([], ("old", "newer"), "there is no upstream.newer"),
        ([], ("old", "old"), "both the old upstream and the new one"),
        ([], ("other", "new"), "the product of upstream.other is not known"),
        ([], ("old", "other"), "the product of upstream.other is not known"),
        ([], ("new", "old"), "no listener and no route uses upstream.new"),
        (["--journal"], ("old", "new"), "journal.directory: is missing"),
        (["--journal", "/nowhere"], ("old", "new"), "/nowhere: cannot be read"),
    ],
)
def test_what_cannot_be_told(
    tmp_path: Path, capsys: Capture, options: list[str], names: tuple[str, str], said: str
) -> None:
    """The exit status is another one, and the reason is said."""
    config = CONFIG.replace('clients = "activemq"', "") if "other" in names else CONFIG
    status, out, err = checked(capsys, write(tmp_path, config), "--no-sessions", *options, names=names)
    assert (status, out) == (2, "")
    assert said in err


def test_logins_that_are_not_known(tmp_path: Path, capsys: Capture) -> None:
    """The clients' own are theirs: they are listed, and not tried."""
    (tmp_path / "users").write_text("alice::\n")
    (tmp_path / "users").chmod(0o600)
    status, report = reported(capsys, write(tmp_path), "--no-sessions", "--login")
    assert status == 0
    assert [(each["login"], each["accepted"]) for each in report["logins"]] == [
        ("the clients' own (of listener.main)", None)
    ]
    known = CONFIG.replace('upstream = "old"', 'upstream = "old"\nauth = "staff"', 1)
    staff = '[auth.staff]\nusers = "users"\nbroker = "user"'
    file = write(tmp_path, known.replace("tcp://b", "tcp://127.0.0.1:1"), staff)
    status, report = reported(capsys, file, "--no-sessions", "--login", "--within", "5")
    assert status == 1
    (login,) = report["logins"]
    assert (login["login"], login["accepted"]) == ("alice (of auth.staff, without a passcode)", False)
    assert "refused" in login["text"].lower()
