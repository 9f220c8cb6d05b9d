"""Watching what passes: which sessions are recorded for it, from when to when, and what the others notice of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.web.http import NOT_FOUND, SERVICE_UNAVAILABLE

from stomprelay.config import Config
from stomprelay.journal.records import Record, records_of
from stomprelay.journal.segment import parse
from stomprelay.journal.settings import JournalSettings
from stomprelay.journal.tail import TailAnswer
from stomprelay.service.admin.site import site
from stomprelay.service.journal.tails import MOST, PATIENCE, TURN
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    SEND,
    FakeTransport,
    JournalHarness,
    RelayHarness,
    listener,
)
from tests.service.test_admin import JSON, Answer

LOGIN = CONNECT.replace(b"\n\n", b"\nlogin:me\npasscode:hush\n\n")


def answer(harness: RelayHarness, **request: Any) -> Answer:
    """What is answered to a request."""
    said = json.dumps({"watch": "one", **request}).encode()
    factory = site(harness.service.state, harness.reactor, guarded=True)
    return Answer(harness, "/tail", "POST", said, factory=factory, content_type=JSON)


def tail(harness: RelayHarness, **request: Any) -> TailAnswer:
    """The same, read."""
    found = answer(harness, **request)
    assert (found.status, found.headers["content-type"]) == (200, JSON), found.text
    return TailAnswer.parse(json.loads(found.text))


def shown(found: TailAnswer) -> list[str]:
    """What passed, in short: `>` a client said, `<` a broker, and events."""
    marks = {"client": ">", "broker": "<", "": ""}
    return [
        marks[each.context.side] + (each.command if each.event is None else each.event.event)
        for each in read(found)
    ]


def read(found: TailAnswer) -> list[Record]:
    """The records of an answer."""
    return [each for each in records_of(parse(found.segment)) if isinstance(each, Record)]


def recorded(transport: FakeTransport) -> bool:
    """Whether what comes on this connection is recorded."""
    return transport.protocol.leg.decoder._recording is not None


@pytest.fixture(params=["alone", "with a journal"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> RelayHarness:
    """A relay with two listeners, with and without a journal."""
    listeners = listener(), listener(name="other", endpoint="tcp:61614")
    return RelayHarness(*listeners) if request.param == "alone" else JournalHarness(tmp_path, *listeners)


def test_a_new_session_is_shown_from_its_first_frame(harness: RelayHarness) -> None:
    """Who it is, but no passcode; and how it ended."""
    tail(harness)
    client = harness.client()
    client.sends(LOGIN)
    harness.broker().sends(CONNECTED)
    client.sends(SEND.replace(b"\n\n", b"\ntoken:hush\n\n"))
    client.disconnects()
    found = tail(harness, bodies=0)
    assert shown(found)[:4] == [">CONNECT", "<CONNECTED", "connected", ">SEND"]
    assert shown(found)[-1] == "vanished"
    assert {each.context.client for each in read(found)} == {"me"}
    assert b"hush" not in found.segment


@pytest.mark.parametrize(
    "chosen",
    [lambda name: {"sessions": [name]}, lambda name: {"listeners": ["other"]}],
    ids=["name", "listener"],
)
def test_sessions_that_are_not_asked_for(chosen: Callable[[str], dict[str, Any]]) -> None:
    """They are what they were; the one that is asked for is recorded, and no more when nobody watches."""
    harness = RelayHarness(listener(), listener(name="other", endpoint="tcp:61614"))
    one, _ = harness.session()
    other = harness.client(1)
    request = chosen(f"{harness.service.clients.prefix}-2")
    tail(harness, **request)
    assert (recorded(one), recorded(other)) == (False, True)
    other.sends(LOGIN)
    one.sends(SEND)
    assert shown(tail(harness, **request)) == [">CONNECT"]
    another = harness.client()
    assert not recorded(another)
    tail(harness, **request, over=True)
    assert not recorded(other)


def test_what_the_configuration_redacts() -> None:
    """It does so without a journal, too. Of an older session both sides are shown."""
    harness = RelayHarness(journal=JournalSettings(redact=("x-mine",)))
    client, broker = harness.session()
    tail(harness)
    client.sends(SEND.replace(b"\n\n", b"\nX-Mine:hush\n\n"))
    broker.sends(b"RECEIPT\nreceipt-id:1\n\n\0")
    found = tail(harness)
    assert (read(found)[0].header("X-Mine"), shown(found)) == ("***", [">SEND", "<RECEIPT"])


def test_a_watch_that_nobody_asks_for_ends(harness: RelayHarness) -> None:
    """In time, but not before; who asks later begins anew."""
    client, _ = harness.session()
    before = recorded(client)
    tail(harness)
    harness.reactor.advance(PATIENCE - 1)
    assert not tail(harness).began
    harness.reactor.advance(PATIENCE - 1)
    assert recorded(client)
    harness.reactor.advance(1)
    assert recorded(client) == before
    client.sends(SEND)
    assert tail(harness) == TailAnswer(began=True)


def test_who_says_that_it_is_over(harness: RelayHarness) -> None:
    """It is told what is left, and that was all; what is not watched can be over, too."""
    client, _ = harness.session()
    before = recorded(client)
    tail(harness)
    client.sends(SEND)
    assert shown(tail(harness, over=True)) == [">SEND"]
    assert recorded(client) == before
    assert tail(harness, over=True) == TailAnswer()


def test_no_more_watch_than_may(harness: RelayHarness) -> None:
    """The next one is refused until one of them is over."""
    for number in range(MOST):
        tail(harness, watch=str(number))
    refused = answer(harness, watch="more")
    assert refused.status == SERVICE_UNAVAILABLE
    assert refused.error == "4 watch already, and no more may at a time"
    tail(harness, watch="0", over=True)
    assert tail(harness, watch="more").began


def test_what_cannot_be_watched(harness: RelayHarness) -> None:
    """A request that is none, and a listener that is not there; GET is none either."""
    nobody, nowhere = answer(harness, watch=""), answer(harness, listeners=["publik"])
    assert (nobody.status, '"watch" must be a name' in nobody.error) == (400, True)
    assert (nowhere.status, nowhere.error) == (NOT_FOUND, 'there is no listener "publik"')
    assert Answer(harness, "/tail").status == 405


def test_bodies_are_not_for_everybody() -> None:
    """Where the endpoint asks for nothing they are refused, and what to set is named; heads are shown."""
    harness = RelayHarness()
    for bodies, status in ((1, 403), (0, 200)):
        said = json.dumps({"watch": "one", "bodies": bodies}).encode()
        found = Answer(harness, "/tail", "POST", said, content_type=JSON)
        assert found.status == status
        assert ("set admin_token_file" in found.text) is bool(bodies)


def test_a_few_sessions_in_a_turn() -> None:
    """However many there are, the relay does other things meanwhile; those that went are passed over."""
    harness = RelayHarness()
    clients = [harness.client() for _ in range(2 * TURN)]
    tail(harness)
    clients[-1].disconnects()
    assert [recorded(each) for each in clients].count(True) == TURN
    harness.reactor.advance(0)
    harness.reactor.advance(0)
    assert all(map(recorded, clients[:-1]))
    tail(harness, over=True)
    tail(harness)
    harness.reactor.advance(0)
    assert all(map(recorded, clients[:-1]))


def test_nothing_is_left_of_a_watch_when_the_relay_stops(harness: RelayHarness) -> None:
    """Its time ends with it."""
    tail(harness)
    _ = harness.service.stopService()
    harness.reactor.advance(0)
    harness.reactor.advance(Config((listener(),)).stop_timeout)
    assert not [each for each in harness.reactor.getDelayedCalls() if "Tails" in repr(each)]
