"""What the log has of an outage, of sessions, and of peers that cause lines without end."""

import ast
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from twisted.logger import Logger, LogLevel, capturedLogs, formatEventAsClassicLogText
from twisted.python import log as older
from twisted.python.failure import Failure

from stomprelay.relay.model.group import Checks
from stomprelay.relay.model.listener import Match, Route
from stomprelay.service.brokers import LAST, LONGEST
from stomprelay.service.connection.runtime import EVERY, MOST, spell_text
from stomprelay.service.log import OWN, fields, json_line, set_level, text_line, write
from stomprelay.session.effects import Event, Note
from tests.service.harness import (
    CONNECTED,
    SEND,
    RelayHarness,
    failover,
    listener,
    movable,
)
from tests.service.scripted import ScriptedBrokers

LOGIN = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:%b\npasscode:hush\n\n\0"
SESSIONS = 200


def of_sessions(log: list[str]) -> Counter[str]:
    """How many lines there are of sessions, by their event; these are taken out of the log."""
    found = [re.search(r"relay-\w+-\d+ from \S+ on public: (\w+): ", line) for line in log]
    log[:] = [line for line, match in zip(log, found, strict=True) if match is None]
    return Counter(match.group(1) for match in found if match is not None)


@pytest.mark.parametrize("warn_after", [10, 10**9], ids=["as it is", "never"])
def test_an_outage_of_the_only_broker(log: list[str], warn_after: int) -> None:
    """Ten seconds, two hundred sessions, thousands of attempts: one line when it begins and one when it ends."""
    main = movable(failover(1, initial_delay=0.01, warn_after=warn_after))
    brokers = ScriptedBrokers(RelayHarness(listener(upstream=main)))
    for _ in range(SESSIONS):
        brokers.harness.client().sends(LOGIN % b"guest")
    brokers.answer()
    assert of_sessions(log) == {"connected": SESSIONS}
    log.clear()
    brokers.fail(1)
    brokers.pass_time(10, 0.1)
    attempts = brokers.harness.service.state.sessions.listeners["public"].counters["brokers_refused"]
    brokers.up.add(1)
    brokers.pass_time(35, 0.1)
    assert len(brokers.served) == SESSIONS
    assert of_sessions(log) in ({}, {} if warn_after > 10 else {"refused": 1})  # of many, the first
    told = [line for line in log if "in 10 attempts" not in line and "again and again" not in line]
    assert re.fullmatch(
        r"warn: upstream main: broker tcp://192.0.2.1:61613 is down: did not connect: connection refused "
        r"\(200 sessions lost it so far\)",
        told[0],
    )
    assert re.fullmatch(
        r"info: upstream main: broker tcp://192.0.2.1:61613 is back after 1[0-9.]+ s: 200 sessions lost it, "
        rf"0 went on elsewhere, \d+ waited for it, {attempts} attempts failed",
        told[1],
    )
    assert len(told) == 2
    assert len(log) - len(told) <= (0 if warn_after > 10 else 6)  # one in ten seconds, and how many more


def test_what_became_of_sessions_is_told_apart(pair: RelayHarness, log: list[str]) -> None:
    """Those that went on elsewhere, those that waited, and attempts; a second outage begins its own account."""
    one, two = (entry.broker for entry in pair.service.state.brokers)
    outages, facts = pair.service.state.outages, {"upstream": "main", "broker": str(one)}
    for _ in range(2):
        log.clear()
        for _ in range(3):
            outages.noted(Note(Event.LOST, "", facts | {"reason": "it went"}, detail=True))
        for _ in range(4):
            outages.noted(Note(Event.REFUSED, "", facts | {"reason": "nobody there"}, detail=True))
        one.health.failed(Checks(), pair.reactor.seconds(), lambda: 0.5)
        pair.reactor.advance(1)
        for _ in range(2):
            outages.noted(
                Note(Event.RECOVERED, "", facts | {"broker": str(two), "lost": str(one)}, detail=True)
            )
        pair.reactor.advance(1)
        one.health.answered()
        outages.noted(Note(Event.RECOVERED, "", facts | {"lost": str(one)}, detail=True))
        pair.reactor.advance(1)
        down, up = log
        assert down.endswith("is down: nobody there (3 sessions lost it so far)")
        assert up.endswith(
            "is back after 2.0 s: 3 sessions lost it, 2 went on elsewhere, 1 waited for it, 4 attempts failed"
        )


def test_outages_are_remembered(pair: RelayHarness) -> None:
    """Those that go on, as they are, and the last ones: for the page for people. A long reason is cut."""
    state = pair.service.state
    one, _two = (entry.broker for entry in state.brokers)
    facts = {"upstream": "main", "broker": str(one)}
    for number in range(LAST + 2):
        lost = Note(Event.LOST, "", facts | {"reason": f"{number}\n" + "x" * 1000}, detail=True)
        state.outages.noted(lost)
        [*_, outage] = state.outages.shown()
        assert (outage.upstream, outage.broker, outage.ended, outage.lost) == ("main", str(one), None, 1)
        assert outage.reason == f"{number}\\n" + "x" * (LONGEST - len(str(number)) - 2) + "..."
        assert state.outages.reason("main", str(one)) == outage.reason
        pair.reactor.pump([1.0] * 15)
    over = state.outages.shown()
    assert [each.reason.partition("\\")[0] for each in over] == [str(each) for each in range(2, LAST + 2)]
    assert all(each.ended is not None and each.ended >= each.began for each in over)
    assert state.outages.reason("main", str(one)) == ""


# A session's own lines


def test_a_session_from_its_start_to_its_end(log: list[str]) -> None:
    """Who it is, and in which versions; how it ended, after which time, and how much passed. No passcode."""
    relay = RelayHarness()
    client = relay.client()
    client.sends(LOGIN % b"guest")
    broker = relay.broker()
    broker.sends(CONNECTED)
    relay.reactor.advance(2)
    client.sends(SEND + b"DISCONNECT\nreceipt:r\n\n\0")
    broker.sends(b"RECEIPT\nreceipt-id:r\n\n\0")
    broker.disconnects()
    start, end = log[-2:]
    assert start.endswith(
        'on public: connected: login "guest", STOMP 1.2 to 1.2, generic at tcp://192.0.2.1:61613'
    )
    assert re.search(
        r"^info: .* on public: disconnected: the client sent DISCONNECT; 2\.0 s, from the client 2 frames, \d+ bytes, "
        r"from brokers 1 frame, \d+ bytes$",
        end,
    )
    assert not any("hush" in line for line in log)


def test_a_login_forges_no_line() -> None:
    """Control characters, quotes and what is no UTF-8 are escaped; a long one is cut."""
    assert spell_text(b"guest") == '"guest"'
    assert spell_text("Jörg".encode()) == '"Jörg"'
    assert spell_text(b'a"\n2026 [-] b\x1b[2J\\') == '"a\\"\\n2026 [-] b\\x1b[2J\\\\"'
    assert spell_text("\u2028\x85".encode()) == '"\\u2028\\x85"'
    assert "\n" not in spell_text(b"\xff\n")
    assert len(spell_text(b"x" * 100_000)) == 64 + 2 + 3


def test_what_clients_and_brokers_say_forges_no_line(log: list[str]) -> None:
    """Where an error quotes a client's transaction, or a group's failure its broker, control characters are escaped."""
    aside = movable(failover(2), name="aside")
    routes = (Route(Match.PREFIX, "/topic/", aside),)
    relay = RelayHarness(listener(upstream=movable(failover(1), failover(3), quorum=1), routes=routes))
    client = relay.client()
    client.sends(LOGIN % b"guest")
    brokers = [relay.broker(), relay.broker()]
    for broker in brokers:
        broker.sends(CONNECTED)
    client.sends(b"SEND\ndestination:/queue/a\nreceipt:1\n\n\0")
    brokers[0].sends(b"ERROR\nmessage:no\\n2026 [-] forged\x1b[2J\nreceipt-id:1\n\n\0")
    name = b"t\\n2026 [-] forged\x1b[2J"
    client.sends(b"BEGIN\ntransaction:%b\n\n\0" % name)
    for destination in (b"/queue/a", b"/topic/a"):
        client.sends(b"SEND\ndestination:%b\ntransaction:%b\n\n\0" % (destination, name))
    assert [line.count("\\n2026 [-] forged\\x1b[2J") for line in log if "forged" in line] == [1, 1]
    assert all(line.isprintable() for line in log)


# Lines without end


def test_what_clients_can_cause_is_counted(log: list[str]) -> None:
    """A few lines of each kind in ten seconds, then their number; one kind does not hide another."""
    relay = RelayHarness()
    log.clear()
    for _ in range(311 + MOST):
        client = relay.client()
        client.sends(b"GET / HTTP/1.1\r\n\r\n")
        client.disconnects()
    for _ in range(MOST):
        client = relay.client()
        client.sends(b"NONSENSE\n\n\0")
        client.disconnects()
    assert len(log) == 2 * MOST
    assert all(line.startswith("warn: ") for line in log)
    relay.reactor.advance(EVERY)
    assert log[2 * MOST :] == ["warn: listener public: foreign: and 311 more in 10 s"]
    relay.reactor.advance(EVERY)
    assert relay.reactor.getDelayedCalls() == []
    log.clear()
    client = relay.client()
    client.sends(b"GET / HTTP/1.1\r\n\r\n")
    assert len(log) == 1


def test_logins_that_are_refused(log: list[str]) -> None:
    """Each is a warning, as long as there are not too many."""
    relay = RelayHarness()
    log.clear()
    for _ in range(50):
        client = relay.client()
        client.sends(LOGIN % b"guest")
        relay.broker().sends(b"ERROR\nmessage:Bad CONNECT\n\n\0")
    assert len(log) == MOST
    assert log[0].endswith("refused: broker tcp://192.0.2.1:61613 answered CONNECT with ERROR: Bad CONNECT")


# How much is logged


@pytest.mark.parametrize(
    ("level", "events"),
    [
        ("debug", ["connected", "lost", "recovered", "vanished"]),
        ("info", ["connected", "vanished"]),
        ("warn", []),
    ],
)
def test_the_level_of_the_log(log: list[str], level: str, events: list[str]) -> None:
    """Debug has all that sessions go through; warn has no session that is well."""
    try:
        relay = RelayHarness(listener(upstream=movable()), log_level=level)
        client, broker = relay.session()
        broker.disconnects()
        relay.reactor.advance(1)
        relay.broker().sends(CONNECTED)
        client.disconnects()
        assert list(of_sessions(log)) == events
    finally:
        RelayHarness()


# What stands in front of a line


LINES = (
    (LogLevel.info, "hello", 1000.0),
    (LogLevel.warn, "the same second, another level", 1000.9),
    (LogLevel.info, "braces: {} {name} {{}}", 1000.95),
    (LogLevel.info, "another second", 1001.1),
    (LogLevel.error, "two\nlines", 1001.1),
    (LogLevel.info, "back again", 1000.2),
)


def test_lines_look_as_twisted_makes_them() -> None:
    """Though what stands in front of them is formatted once in a second."""
    with capturedLogs() as events:
        for level, text, at in LINES:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("stomprelay.service.log.time", lambda at=at: at)
                write(level, "{text}", text=text)
    lines = [text_line(each) for each in events]
    assert lines == [formatEventAsClassicLogText(each) for each in events]
    assert "".join(filter(None, lines)).count("\n") == len(LINES) + 1


# The log of a process that is ours alone


def objects(*events: Any) -> list[dict[str, Any]]:
    """The objects in the lines of a JSON log; each event is one line."""
    lines = [json_line(event) or "" for event in events]
    assert all(line.isascii() and line.count("\n") == 1 and line.endswith("\n") for line in lines)
    return [json.loads(line) for line in lines]


def test_a_line_of_json() -> None:
    """When, how grave, what, who, and the fields by their names; what a peer said can begin no line, nor an object."""
    text = '{"a": 1}\n\u2028ü'
    known = {"session": "relay-1", "text": text, "seconds": 1.25, "lost": 3, "whole": True, "none": None}
    spelled = {
        "raw": (b"\xff", "\\xff"),
        "endless": (float("inf"), "inf"),
        "reason": (ValueError("no"), "no"),
    }
    with capturedLogs() as events:
        said = {name: value for name, (value, _) in spelled.items()}
        write(LogLevel.warn, "{session}: {text} after {seconds:.1f} s", **known, **said)
        Logger("stomprelay").info("{count} clients", count=2)
    events[0]["log_time"] = 1_000_000_000.25
    first, second = objects(*events)
    assert first == {
        "time": "2001-09-09T01:46:40.250+00:00",
        "level": "warn",
        "message": f"relay-1: {text} after 1.2 s",
        "source": "stomprelay",
        **known,
        **{name: shown for name, (_, shown) in spelled.items()},
    }
    assert list(first)[:4] == ["time", "level", "message", "source"]
    assert (second["level"], second["message"], second["count"]) == ("info", "2 clients", 2)


def test_a_traceback_in_json() -> None:
    """Beside the message, not in it."""
    with capturedLogs() as events:
        Logger("stomprelay").failure("it failed", Failure(ValueError("a bug")))
    [found] = objects(*events)
    assert (found["level"], found["message"]) == ("critical", "it failed")
    assert "ValueError: a bug" in found["traceback"]


def test_what_twisted_says_in_json() -> None:
    """Its older log has fields that say nothing to others; a field of others gives way to ours."""
    with capturedLogs() as events:
        older.msg("hello", peer="p")
        Logger("twisted.web").info("a line", source="theirs", more=1)
    first, second = objects(*events)
    assert first.keys() == {"time", "level", "message", "source"}
    assert first["message"] == "hello"
    assert (second["level"], second["source"], second["more"]) == ("info", "twisted.web", 1)
    assert fields(events[0]) == {}


@pytest.mark.parametrize("form", [text_line, json_line])
def test_the_level_holds_for_all_lines(form: Any) -> None:
    """Those of Twisted, too, where the log is ours alone."""
    with capturedLogs() as events:
        Logger("twisted.web").info("it listens")
        Logger("twisted.web").warn("it does not")
    try:
        assert [bool(form(each)) for each in events] == [True, True]
        set_level("warn")
        assert [bool(form(each)) for each in events] == [False, True]
    finally:
        set_level("info")


def test_no_field_has_a_name_that_every_line_has() -> None:
    """It would be left out of a JSON log."""
    found = []
    writers = ("_log.", "self._log.", "write", "log_note")
    for path in sorted((Path(__file__).resolve().parents[2] / "stomprelay" / "service").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith(writers):
                found += [f"{path.name}: {each.arg}" for each in node.keywords if each.arg in OWN]
    assert found == []
