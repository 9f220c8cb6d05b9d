"""The status page, line by line."""

import re
from html import unescape
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost

from stomprelay.relay.model.group import Broker, Group
from stomprelay.service.admin.sessions import LARGEST, SessionList, SessionQuery, list_sessions
from stomprelay.service.admin.snapshot import snapshot
from stomprelay.service.admin.status import status
from tests.service.harness import (
    CONNECT,
    CONNECTED,
    SEND,
    SUBSCRIBE,
    JournalHarness,
    RelayHarness,
    failover,
    listener,
    movable,
)


def page(harness: RelayHarness) -> str:
    """The page, with all sessions that it shows."""
    state, found = harness.service.state, list[SessionList]()
    _ = Deferred.fromCoroutine(list_sessions(state, SessionQuery(limit=LARGEST))).addCallback(found.append)
    while not found:
        harness.reactor.advance(0)
    return status(snapshot(state, whole=False), found[0])


def rows(harness: RelayHarness) -> list[tuple[str, ...]]:
    """The rows of all tables, as text."""
    return [
        tuple(re.findall("<td.*?>(.*?)</td>", row)) for row in re.findall("<tr>(.*?)</tr>", page(harness))
    ]


def test_a_listener_names_all_its_brokers() -> None:
    """In the order in which they are tried."""
    harness = RelayHarness(listener(upstream=movable(failover(1, 2))))
    assert ("public", "tcp:61613", "tcp://192.0.2.1:61613, tcp://192.0.2.2:61613", "0", "0", "0") in rows(
        harness
    )


def test_brokers_and_how_they_are() -> None:
    """Where they stand, their state, their sessions, their failures."""
    harness = RelayHarness(listener(upstream=movable(failover(1, 2))))
    harness.session()
    two = harness.service.state.brokers.configured[1]
    two.broker.health.failed(two.upstream.checks, harness.reactor.seconds(), lambda: 0.5)
    name = two.group.name
    assert ("main", name, "tcp://192.0.2.1:61613", "up", "1", "0") in rows(harness)
    assert ("main", name, "tcp://192.0.2.2:61613", "out", "0", "1") in rows(harness)


def test_where_a_session_is() -> None:
    """Nowhere before CONNECT; then on a broker, or looking for one; with what was said to it and is open there."""
    harness = RelayHarness(listener(upstream=movable(failover(1, 2))))

    def session() -> tuple[str, ...]:
        (row,) = (row for row in rows(harness) if row and row[0].startswith("relay-"))
        return row[2:]

    client = harness.client()
    assert session() == ("", "192.0.2.7:4711", "none yet", "none yet", "0", "", "", "0", "0", "0", "0")
    harness.reactor.advance(3)
    connect = CONNECT.replace(b"\n\n", b"\nlogin:&me\n\n")
    client.sends(connect)
    size = str(len(connect))
    assert session() == ("&amp;me", "192.0.2.7:4711", "1.2", "searching", "3", "0", "", "0", "0", size, "0")
    broker = harness.broker()
    broker.sends(CONNECTED)
    client.sends(
        b"".join(SUBSCRIBE.replace(b"0", b"%d" % id).replace(b"a\n\n", b"%d\n\n" % id) for id in range(7))
    )
    client.sends(SEND.replace(b"\n\n", b"\nreceipt:1\n\n"))
    harness.reactor.advance(2)
    found = session()
    assert found[2:6] == ("1.2 to 1.2", "tcp://192.0.2.1:61613", "5", "2")
    assert found[6:9] == ("/queue/0, /queue/1, /queue/2, /queue/3, /queue/4, 2 more", "1", "0")
    broker.disconnects(ConnectionLost())
    assert session()[2:4] == ("1.2", "searching")
    harness.broker().sends(CONNECTED)
    assert session()[2:4] == ("1.2 to 1.2", "tcp://192.0.2.2:61613")


def test_the_journal_on_the_status_page(tmp_path: Path) -> None:
    """Where it is, how it is and how much; a failing disk shows, in the line for systemd, too."""
    assert "Journal" not in page(RelayHarness())
    harness = JournalHarness(tmp_path)
    waiting = str(harness.journal.waiting)
    assert (str(tmp_path), "is written", "0", "0", "0", waiting, "0", "0") in rows(harness)
    assert harness.service._status() == "0 sessions, 1 listener"
    harness.journal.written.trouble = "No space left on device"
    harness.journal.written.errors = 3
    found = (str(tmp_path), "cannot be written: No space left on device", "0", "0", "0", waiting, "0", "3")
    assert found in rows(harness)
    assert harness.service._status() == (
        "0 sessions, 1 listener, the journal cannot be written: No space left on device"
    )


def test_whatever_is_shown_is_escaped() -> None:
    """A name from the configuration is text, not markup."""
    broker = Broker("<b>broker & co</b>", "tcp:host=192.0.2.1:port=61613", "192.0.2.1")
    main = movable(Group("<u>", (broker,)), name="<i>")
    harness = RelayHarness(listener(name="<script>alert(1)</script>", upstream=main))
    harness.client()
    shown = page(harness)
    assert not [mark for mark in ("<script>", "<b>", "<i>", "<u>") if mark in shown]
    assert "&lt;i&gt;" in shown
    assert "&lt;u&gt;" in shown
    assert shown.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 2
    assert "<b>broker & co</b>" in unescape(shown)


def test_the_page_has_an_end() -> None:
    """Of very many sessions it shows the first; their number is right."""
    harness = RelayHarness()
    for _ in range(LARGEST + 5):
        harness.client()
    shown = page(harness)
    assert f"<h2>Sessions: {LARGEST + 5}</h2>" in shown
    assert shown.count("<td>192.0.2.7:4711</td>") == LARGEST
