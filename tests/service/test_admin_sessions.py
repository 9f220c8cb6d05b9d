"""Who is connected, over HTTP: which sessions are asked for, a page at a time; and ending one."""

import json
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from stomprelay.service.admin.condition import LISTINGS, OwnRelay
from stomprelay.service.admin.sessions import (
    LARGEST,
    TURN,
    SessionList,
    SessionQuery,
    Unavailable,
    list_sessions,
)
from stomprelay.service.connection.relay_driver import LONGEST, MOST, SHOWN
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    MESSAGE,
    SEND,
    SUBSCRIBE,
    FakeTransport,
    RelayHarness,
    failover,
    listener,
    movable,
    result,
)
from tests.service.test_admin import JSON, Answer


@pytest.fixture
def harness() -> RelayHarness:
    """A relay before two brokers."""
    return RelayHarness(listener(upstream=movable(failover(1, 2))))


def login(harness: RelayHarness, name: bytes) -> tuple[FakeTransport, FakeTransport]:
    """A client with this login, and its broker."""
    return harness.session(CONNECT.replace(b"\n\n", b"\nlogin:%b\npasscode:hush\n\n" % name))


def subscribe(client: FakeTransport, *destinations: bytes, ack: bytes = b"auto") -> None:
    """SUBSCRIBE to each of these."""
    for destination in destinations:
        client.sends(b"SUBSCRIBE\nid:%b\ndestination:%b\nack:%b\n\n\0" % (destination, destination, ack))


def asked(harness: RelayHarness, arguments: str = "") -> Any:
    """What is answered to a GET with these arguments."""
    answer = Answer(harness, f"/sessions?{arguments}")
    assert (answer.status, answer.headers["content-type"]) == (200, JSON)
    return json.loads(answer.text)


def logins(found: Any) -> list[str | None]:
    """Whose sessions there are."""
    return [each["login"] for each in found["sessions"]]


# What there is to see


def test_all_that_is_known(harness: RelayHarness) -> None:
    """By name, as it is counted anyway; a passcode is not among it."""
    harness.reactor.advance(10)
    client, broker = login(harness, b"me")
    subscribe(client, b"/queue/a", ack=b"client")
    broker.sends(MESSAGE.replace(b"subscription:0", b"subscription:/queue/a"))
    client.sends(SEND.replace(b"\n\n", b"\nreceipt:1\n\n"))
    harness.reactor.advance(4)
    found = asked(harness)
    [row] = found.pop("sessions")
    assert found == {"total": 1, "matching": 1, "next": None, "missing": []}
    client_bytes, broker_bytes = row.pop("client_bytes"), row.pop("broker_bytes")
    assert client_bytes > len(CONNECT + SUBSCRIBE + SEND)
    assert broker_bytes > len(CONNECTED + MESSAGE)
    assert row.pop("to_client_bytes") > len(CONNECTED + MESSAGE)
    assert row.pop("to_broker_bytes") > len(CONNECT + SUBSCRIBE + SEND)
    assert row == {
        "session": f"{harness.service.clients.prefix}-1",
        "listener": "public",
        "login": "me",
        "client": "192.0.2.7:4711",
        "version": "1.2",
        "brokers": ["tcp://192.0.2.1:61613"],
        "broker_versions": ["1.2"],
        "age": 4.0,
        "idle": 4.0,
        "destinations": ["/queue/a"],
        "more_destinations": 0,
        "unconfirmed": 1,
        "unacknowledged": 1,
        "client_frames": 2,
        "broker_frames": 1,
        "sent_to": [],
        "limited": None,
        "client_id": None,
    }


def test_subscriptions_with_their_headers(harness: RelayHarness) -> None:
    """Those headers that say what a client uses, and no others; a hundred subscriptions at most."""
    client, _ = harness.session(CONNECT.replace(b"\n\n", b"\nclient-id:me\n\n"))
    client.sends(
        b"SUBSCRIBE\nid:1\ndestination:/topic/a\nselector:a = 1\nsecret:hush\nack:client\nactivemq.prefetchSize:5\n\n\0"
    )
    [row] = asked(harness, "subscriptions=yes")["sessions"]
    assert row["client_id"] == "me"
    headers = [
        ["destination", "/topic/a"],
        ["selector", "a = 1"],
        ["ack", "client"],
        ["activemq.prefetchSize", "5"],
    ]
    assert row["subscriptions"] == [{"upstream": "main", "headers": headers}]
    subscribe(client, *(b"/queue/%d" % number for number in range(MOST)))
    [row] = asked(harness, "subscriptions=yes")["sessions"]
    assert len(row["subscriptions"]) == MOST
    assert "subscriptions" not in asked(harness, "subscriptions=no")["sessions"][0]


def test_what_a_client_says_is_bounded(harness: RelayHarness) -> None:
    """A handful of destinations, and how many more there are; long names are cut; it is valid JSON, whatever it is."""
    client, _ = login(harness, b"l" * (LONGEST + 1))
    subscribe(client, *(b"/queue/%d" % number for number in range(SHOWN)), b"\xc3\xbc\\c", b"d" * 1000)
    [row] = asked(harness)["sessions"]
    assert row["login"] == "l" * LONGEST + "..."
    assert (row["destinations"], row["more_destinations"]) == ([f"/queue/{each}" for each in range(SHOWN)], 2)
    assert asked(harness, "destination=%C3%BC:")["matching"] == 1
    assert asked(harness, f"destination={'d' * LONGEST}")["matching"] == 0
    assert asked(harness, f"destination={'d' * (LONGEST - 1)}*")["matching"] == 1


# Which are asked for


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("", ["a", "b", None]),
        ("login=a", ["a"]),
        ("login=*", ["a", "b"]),
        ("login=[bc]", ["b"]),
        ("login=A", []),
        ("client=192.0.2.7:*", ["a", "b", None]),
        ("client=192.0.2.8:*", []),
        ("listener=public&login=b", ["b"]),
        ("listener=p", []),
        ("destination=/queue/a", ["a"]),
        ("destination=/queue/*", ["a", "b"]),
        ("destination=*9", ["b"]),
        ("broker=tcp://192.0.2.1:*", ["a", "b"]),
        ("session=*-2", ["b"]),
        ("sort=login", [None, "a", "b"]),
        ("sort=client_frames", ["b", "a", None]),
        ("sort=frames&limit=1", ["b"]),
        ("sort=destinations&limit=2", ["b", "a"]),
        ("sort=age", ["a", "b", None]),
        ("sort=idle", ["a", "b", None]),
        ("sort=bytes&login=?", ["b", "a"]),
        ("sort=-login", ["b", "a", None]),
        ("sort=-frames&limit=2", [None, "a"]),
        ("sort=-session", [None, "b", "a"]),
        ("any=B", ["b"]),
        ("any=/QUEUE/*", ["a", "b"]),
        ("any=*:4711&login=a", ["a"]),
        ("any=*192.0.2.1:616*", ["a", "b"]),
        ("any=*nothing*", []),
    ],
)
def test_those_that_are_asked_for(harness: RelayHarness, arguments: str, found: list[str | None]) -> None:
    """All filters have to match, from end to end; texts are sorted from the first, numbers from the largest."""
    for number, name in enumerate((b"a", b"b")):
        client, _ = login(harness, name)
        subscribe(client, b"/queue/" + name, *(b"/queue/%d" % each for each in range(10 * number)))
        harness.reactor.advance(1)
    harness.client()
    assert logins(asked(harness, arguments)) == found


def test_a_page_at_a_time(harness: RelayHarness) -> None:
    """In every order each comes once; `matching` are those from there on."""
    for number in range(7):
        login(harness, b"%d" % (number // 2))
    for sort in ("session", "login", "age", "client_bytes", "unacknowledged", "-session", "-login", "-age"):
        seen: list[str] = []
        left, after = 7, ""
        while True:
            found = json.loads(Answer(harness, f"/sessions?limit=3&login=*&sort={sort}{after}").text)
            assert (found["matching"], found["total"]) == (left, 7)
            seen += [each["session"] for each in found["sessions"]]
            left -= len(found["sessions"])
            if found["next"] is None:
                break
            after = f"&after={found['next']}"
        assert len(seen) == len(set(seen)) == 7
        if sort == "session":
            assert [int(name.rpartition("-")[2]) for name in seen] == list(range(1, 8))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("limit=0", f'"limit" must be a number from 1 to {LARGEST}'),
        (f"limit={LARGEST + 1}", '"limit" must be'),
        ("limit=", '"limit" must be'),
        ("limit=-1", '"limit" must be'),
        ("limit=1e3", '"limit" must be'),
        ("limit=%D9%A1", '"limit" must be'),
        ("limit=" + "9" * 5000, '"limit" must be'),
        ("limit=1&limit=2", '"limit" must be said once'),
        ("login=a&login=b", '"login" must be said once'),
        (
            "logon=a",
            'there is no "logon" here; there is session, listener, login, client, broker, destination,',
        ),
        ("%22%3Cb%3E=a", 'there is no "\\"<b>" here'),
        ("subscriptions=all", '"subscriptions" must be "yes" or "no"'),
        ("sort=--age", '"sort" cannot be "--age"'),
        ("sort=-", '"sort" cannot be "-"'),
        ("sort=brokers", '"sort" cannot be "brokers"; there is session, listener, login, client, age, idle,'),
        (f"login={'a' * (LONGEST + 1)}", f'"login" must not be longer than {LONGEST} characters'),
        *(
            (f"after={after}", '"after" must be the "next" of')
            for after in ("x", "1", "[]", "[1,2,3,4]", "[" * 999)
        ),
        ('after=[1,"relay-1",1]', '"after" must be the "next" of'),
        ('after=["",1,1]', '"after" must be the "next" of'),
        ('after=["","relay-1","1"]', '"after" must be the "next" of'),
        ('sort=age&after=["","relay-1",1]', '"after" must be the "next" of'),
    ],
)
def test_what_cannot_be_asked_for(harness: RelayHarness, arguments: str, said: str) -> None:
    """400, and in words what is wrong."""
    answer = Answer(harness, f"/sessions?{arguments}")
    assert answer.status == 400
    assert answer.error.startswith(said)


# Very many


def turn(harness: RelayHarness) -> None:
    """What is due now is done; what that asks for waits for the next turn, which it does not at `advance`."""
    calls: list[Any] = list(harness.reactor.getDelayedCalls())
    for call in calls:
        if call.getTime() <= harness.reactor.seconds():
            do, arguments = call.func, call.args
            call.cancel()
            do(*arguments)


def test_others_have_their_turns(harness: RelayHarness) -> None:
    """So many sessions are looked at in a turn, and no more; those that end meanwhile are left out."""
    clients = [harness.client() for _ in range(3 * TURN)]
    coming = Deferred.fromCoroutine(list_sessions(harness.service.state, SessionQuery(limit=LARGEST)))
    for _ in range(2):
        assert not coming.called
        clients.pop().disconnects()
        turn(harness)
    found = result(coming)
    assert len(found.sessions) == found.matching == found.total == len(clients)


def test_one_who_asks_at_a_time(harness: RelayHarness) -> None:
    """The others wait; when they are too many the next is refused, and nothing is kept of it."""
    for _ in range(TURN + 1):
        harness.client()
    relay, found = OwnRelay(harness.service.state), list[SessionList]()
    for _ in range(LISTINGS + 1):
        _ = relay.sessions(SessionQuery(limit=1)).addCallback(found.append)
    with pytest.raises(Unavailable):
        result(relay.sessions(SessionQuery()))
    for number in range(LISTINGS + 1):
        assert len(found) == number
        turn(harness)
    assert [each.total for each in found] == [TURN + 1] * (LISTINGS + 1)


# Ending one


def killed(harness: RelayHarness, name: str) -> Answer:
    """The answer to an order to end this session."""
    return Answer(harness, f"/sessions/{name}/kill", "POST", b"{}", content_type=JSON)


def test_a_session_is_ended(harness: RelayHarness, log: list[str]) -> None:
    """Its client hears of it in an ERROR, its broker is left, and nobody else is disturbed; the log tells."""
    client, broker = login(harness, b"me")
    other, _ = login(harness, b"other")
    name = asked(harness, "login=me")["sessions"][0]["session"]
    answer = killed(harness, name)
    assert (answer.status, json.loads(answer.text)) == (200, {"killed": name})
    assert client.written().startswith(b"ERROR\nmessage:the session was ended\n")
    assert client.ends == ["half"]
    assert broker.ends
    assert (other.written(), other.ends) == (b"", [])
    assert logins(asked(harness)) == ["other"]
    assert log[-2] == f"info: session {name} is ended, as an operator asked"
    assert "disconnected: an operator ended the session; 0.0 s" in log[-1]
    assert killed(harness, name).status == 404
