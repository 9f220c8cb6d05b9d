"""Moves in a running relay: phases on disk, orders over HTTP, and sessions that follow."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from stomprelay.config import ConfigError
from stomprelay.relay.model.listener import Listener, Match, Route
from stomprelay.relay.model.move import SHOWN, Move, MoveRow, NotNow, Phase
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.moves import AGAIN
from tests.relay.frames import header, receipt
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    SEND,
    SUBSCRIBE,
    FakeTransport,
    RelayHarness,
    failover,
    listener,
    movable,
    upstream,
)
from tests.service.test_admin import Answer
from tests.service.test_reload import reload

OLD = movable(failover(1), name="old")
PLAIN = upstream()


def moving(old: Upstream = OLD) -> Listener:
    """A listener with a move of `/queue/` from broker 1 to broker 2."""
    route = Route(Match.PREFIX, "/queue/", movable(failover(2), name="new"), Move("orders"))
    return listener(upstream=old, routes=(route,))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of phases, which is not there yet."""
    return tmp_path / "moves.json"


def posted(harness: RelayHarness, **said: object) -> Answer:
    """What is answered to an order."""
    body = json.dumps(said).encode()
    return Answer(harness, "/moves", "POST", body, content_type="application/json")


def shown(harness: RelayHarness) -> dict[str, Any]:
    """The only move, as the endpoint shows it."""
    [row] = json.loads(Answer(harness, "/moves").text)["moves"]
    found: dict[str, Any] = row
    return found


def subscribed(harness: RelayHarness) -> tuple[FakeTransport, FakeTransport]:
    """A session that is subscribed to what moves, and its connection to OLD."""
    client, old = harness.session()
    client.sends(SUBSCRIBE)
    assert old.written() == SUBSCRIBE
    return client, old


def test_forward_and_back(file: Path) -> None:
    """Sessions follow at once; the phase is on disk before they do, and the next relay begins with it."""
    harness = RelayHarness(moving(), moves_file=str(file))
    client, old = subscribed(harness)
    row = shown(harness)
    assert [row[name] for name in ("phase", "pattern", "old", "to")] == [
        "off",
        "prefix /queue/",
        "old",
        "new",
    ]
    for phase in ("shadow", "both"):
        assert json.loads(posted(harness, move="orders", phase="next").text)["moves"][0]["phase"] == phase
        assert json.loads(file.read_text())["orders"]["phase"] == phase
    assert (shown(harness)["followed"], shown(harness)["waiting"]) == (0, 1)
    answer = posted(harness, move="orders", phase="next")
    assert answer.status == 409
    assert "not all sessions have followed orders to both: 1 waiting" in answer.text
    new = harness.broker()
    new.sends(CONNECTED)
    assert new.written().endswith(SUBSCRIBE + b"\n")
    assert (shown(harness)["followed"], shown(harness)["waiting"]) == (1, 0)
    assert posted(harness, move="orders", phase="next").status == 200
    assert posted(harness, move="orders", phase="done").status == 200
    ended = old.written()
    assert ended.startswith(b"UNSUBSCRIBE\nid:0\n")
    another = RelayHarness(moving(), moves_file=str(file))
    assert shown(another)["phase"] == "done"
    assert posted(harness, move="orders", phase="next").status == 409
    assert posted(harness, move="orders", phase="back").status == 200
    assert old.written() == b""
    old.sends(receipt(header(ended, b"receipt").decode()))
    harness.reactor.advance(AGAIN)
    assert old.written() == SUBSCRIBE + b"\n"
    assert client.ends == []


def test_who_cannot_follow_yet_is_told_again(file: Path) -> None:
    """Once a second, until nobody is behind: an ACK that is owed may come at any time."""
    harness = RelayHarness(moving(), moves_file=str(file))
    client, old = harness.session()
    client.sends(SUBSCRIBE.replace(b"\n\n", b"\nack:client\n\n"))
    posted(harness, move="orders", phase="new")
    harness.broker().sends(CONNECTED)
    old.sends(b"MESSAGE\nsubscription:0\nmessage-id:1\nack:1\ndestination:/queue/a\n\nhello\0")
    posted(harness, move="orders", phase="done")
    harness.reactor.advance(AGAIN)
    assert shown(harness)["waiting"] == 1
    client.sends(b"ACK\nid:1\n\n\0")
    old.written()
    harness.reactor.advance(AGAIN)
    assert old.written().startswith(b"UNSUBSCRIBE\nid:0\n")
    assert shown(harness)["followed"] == 1


def test_who_stays(file: Path) -> None:
    """A session that NEW refuses is named with the reason, and `new` begins only where that is said."""
    harness = RelayHarness(moving(), moves_file=str(file))
    subscribed(harness)
    posted(harness, move="orders", phase="both")
    new = harness.broker()
    new.sends(b"ERROR\nmessage:Access refused\n\n\0")
    row = shown(harness)
    assert (row["staying"], row["waiting"]) == (1, 0)
    [(session, reason)] = row["stays"]
    assert (session[:6], reason) == ("relay-", "it answered CONNECT with ERROR: Access refused")
    assert "1 staying at OLD" in posted(harness, move="orders", phase="next").text
    assert posted(harness, move="orders", phase="new").status == 200


def test_a_move_that_is_stopped(file: Path, log: list[str]) -> None:
    """It has no next phase, also in the next relay, until one goes back."""
    first = RelayHarness(moving(), moves_file=str(file))
    posted(first, move="orders", phase="both")
    first.config.moves["orders"].fault("it answered ERROR: no")
    first.config.moves["orders"].fault("it answered ERROR: again")
    harness = RelayHarness(moving(), moves_file=str(file))
    assert shown(harness)["phase"] == "both"
    answer = posted(harness, move="orders", phase="next")
    assert answer.status == 409
    assert (
        "orders is stopped: it answered ERROR: no; go back with `stomprelay move back orders`" in answer.text
    )
    posted(harness, move="orders", phase="shadow")
    assert shown(harness)["stopped"] == shown(RelayHarness(moving(), moves_file=str(file)))["stopped"] == ""
    file.unlink()
    file.mkdir()
    harness.config.moves["orders"].fault("it answered ERROR: no")
    assert "what became of moves is not kept: " in log[-1]


def durable(harness: RelayHarness, *, accepted: bool) -> None:
    """A durable subscriber comes, and leaves; NEW accepts it or not."""
    client, _ = harness.session(CONNECT.replace(b"\n\n", b"\nclient-id:me\n\n"))
    client.sends(SUBSCRIBE.replace(b"/queue/a\n\n", b"/topic/a\ndurable-subscription-name:s\n\n"))
    if accepted:
        harness.broker().sends(CONNECTED)
    client.protocol.connectionLost(Failure(ConnectionDone()))


def test_durable_subscribers_that_are_away(file: Path) -> None:
    """`new` and `done` wait for them, also in the next relay, until each was at both brokers in the phase before."""
    route = Route(Match.PREFIX, "/topic/", movable(failover(2), name="new"), Move("orders"))
    front = listener(upstream=OLD, routes=(route,))
    harness = RelayHarness(front, moves_file=str(file))
    posted(harness, move="orders", phase="both")
    durable(harness, accepted=False)
    answer = posted(harness, move="orders", phase="next")
    assert answer.status == 409
    assert "durable subscribers have not been connected since orders is both: me: s; " in answer.text
    assert "durable" not in json.loads(file.read_text())["orders"]
    harness.reactor.advance(AGAIN)
    assert json.loads(file.read_text())["orders"]["durable"] == {"me: s": False}
    move = Move("orders")
    front = listener(upstream=OLD, routes=(replace(route, move=move),))
    harness = RelayHarness(front, moves_file=str(file))
    assert shown(harness)["away"] == ["me: s"]
    durable(harness, accepted=True)
    assert shown(harness)["away"] == []
    harness.service.state.moves.stopService()
    assert json.loads(file.read_text())["orders"]["durable"] == {"me: s": True}
    assert posted(harness, move="orders", phase="next").status == 200
    assert json.loads(file.read_text())["orders"]["durable"] == {"me: s": False}
    assert shown(harness)["away"] == ["me: s"]
    for each in range(SHOWN):
        move.met(f"{each}", there=False)
    assert shown(harness)["away"][-1] == "and 1 more"
    assert posted(harness, move="orders", phase="next").status == 409
    assert posted(harness, move="orders", phase="done").status == 200


def test_sessions_older_than_the_move(file: Path) -> None:
    """At a plain address they stay, and are counted; those that begin now follow; a new table's phase is read."""
    harness = RelayHarness(listener(upstream=PLAIN))
    _, old = subscribed(harness)
    file.write_text('{"orders": {"phase": "both", "since": 1.5}, "else": {"phase": "off", "since": 2.0}}')
    found = reload(harness, moving(old=PLAIN), moves_file=str(file))
    assert "listener.public.move" in found.changed
    assert (shown(harness)["phase"], shown(harness)["since"], shown(harness)["older"]) == ("both", 1.5, 1)
    client, _ = harness.session()
    client.sends(SUBSCRIBE)
    harness.broker().sends(CONNECTED)
    assert (shown(harness)["followed"], shown(harness)["older"]) == (1, 1)
    posted(harness, move="orders", phase="shadow")
    assert old.written() == b""
    said = json.loads(file.read_text())
    assert (said["orders"]["phase"], said["else"]["phase"]) == ("shadow", "off")
    reload(harness, moving(old=PLAIN), moves_file=str(file))
    assert shown(harness)["phase"] == "shadow"


def test_a_move_that_a_reload_brings(file: Path) -> None:
    """Sessions that began before follow it, where they survive their broker: what was under way goes on."""
    harness = RelayHarness(listener(upstream=OLD))
    client, old = harness.session()
    client.sends(SUBSCRIBE.replace(b"\n\n", b"\nack:client\n\n") + SEND.replace(b"\n\n", b"\nreceipt:r\n\n"))
    old.sends(b"MESSAGE\nsubscription:0\nmessage-id:1\nack:1\ndestination:/queue/a\n\nhello\0")
    client.written()
    old.written()
    reload(harness, moving(), moves_file=str(file))
    posted(harness, move="orders", phase="both")
    new = harness.broker()
    new.sends(CONNECTED)
    assert b"SUBSCRIBE" in new.written()
    old.sends(b"RECEIPT\nreceipt-id:r\n\n\0")
    assert client.written() == b"RECEIPT\nreceipt-id:r\n\n\0"
    client.sends(b"ACK\nid:1\n\n\0")
    assert old.written() == b"ACK\nid:1\n\n\0"
    assert (shown(harness)["followed"], shown(harness)["older"]) == (1, 0)


def test_a_file_that_cannot_be_used(file: Path, tmp_path: Path) -> None:
    """Nothing begins with a phase that may be wrong, and no phase begins that is not on disk."""
    for content in ("x", "[]", '{"orders": {"phase": "soon", "since": 1}}', '{"orders": 1}'):
        file.write_text(content)
        with pytest.raises(ConfigError, match="is not a file of phases that the relay has written"):
            RelayHarness(moving(), moves_file=str(file))
    harness = RelayHarness(moving(), moves_file=str(tmp_path / "nowhere" / "moves.json"))
    answer = posted(harness, move="orders", phase="next")
    assert answer.status == 409
    assert "the phase cannot be written" in answer.text
    assert shown(harness)["phase"] == "off"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({}, 400),
        ({"move": "orders"}, 400),
        ({"move": "orders", "phase": "soon"}, 400),
        ({"move": 1, "phase": "next"}, 400),
        ({"move": "orders", "phase": "next", "within": 1}, 400),
        ({"move": "others", "phase": "next"}, 404),
        ({"move": "orders", "phase": "back"}, 409),
    ],
)
def test_orders_that_are_none(file: Path, said: dict[str, object], status: int) -> None:
    """They change nothing."""
    harness = RelayHarness(moving(), moves_file=str(file))
    assert posted(harness, **said).status == status
    assert shown(harness)["phase"] == "off"
    assert not file.exists()


def test_the_sum_of_workers() -> None:
    """Sessions and counts are added; the first reason stands."""
    one = MoveRow("a", "prefix /", "new", "both", 1.0, 3, 1, 1, 0, 4, 5, "", [["s", "no"]], [])
    two = one._replace(older=1, stopped="it is full", stays=[["t", "no"]] * SHOWN)
    whole = one.plus(two)
    assert (whole.sessions, whole.followed, whole.staying, whole.older, whole.waiting) == (6, 2, 2, 1, 1)
    assert (whole.copied, whole.failed, whole.stopped, len(whole.stays)) == (8, 10, "it is full", SHOWN)
    assert whole.chosen("back") is Phase.SHADOW
    with pytest.raises(NotNow):
        whole.chosen("next")
