"""The page for people, as it is sent, and what it asks for once a second."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stomprelay.service.admin.pages import FILES
from stomprelay.service.admin.site import site
from stomprelay.service.admin.snapshot import SERVES, WorkerRow, overview, snapshot
from tests.service.harness import JournalHarness, RelayHarness, failover, listener, movable
from tests.service.test_admin import Answer


@pytest.fixture
def harness() -> RelayHarness:
    """A relay before two brokers."""
    return RelayHarness(listener(upstream=movable(failover(1, 2))))


def asked(harness: RelayHarness) -> Any:
    """What is answered to the page."""
    answer = Answer(harness, "/overview")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    return json.loads(answer.text)


@pytest.mark.parametrize(("path", "kind"), [(path.decode(), kind) for path, (_, kind) in FILES.items()])
def test_the_files_of_the_page(harness: RelayHarness, path: str, kind: str) -> None:
    """Each with its type; none is kept by a browser, for the relay may be another one tomorrow."""
    answer = Answer(harness, path)
    assert (answer.status, answer.headers["content-type"]) == (200, kind)
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert len(answer.text) > 200


@pytest.mark.parametrize(
    ("page", "style", "scripts"),
    [
        ("/", "/dashboard.css", ("/drawing.js", "/dashboard.js")),
        ("/console", "/console.css", ("/drawing.js", "/stomp.js", "/console.js")),
    ],
)
def test_a_page_has_nothing_that_its_policy_forbids(
    harness: RelayHarness, page: str, style: str, scripts: tuple[str, ...]
) -> None:
    """No script and no style of its own, nothing of elsewhere, no text that is taken for markup."""
    factory = site(harness.service.state, harness.reactor, console=harness.service.clients.accept)
    html, style, *read = (Answer(harness, path, factory=factory).text for path in (page, style, *scripts))
    script = "".join(read)
    for forbidden in ("style=", "<style", "onclick=", "http:", "https:", "javascript:"):
        assert forbidden not in html
    assert re.findall("<script[^>]*>", html) == [f'<script src="{path[1:]}" defer>' for path in scripts]
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "https:"):
        assert forbidden not in script
    assert "url(" not in style
    assert "@import" not in style


def test_a_failover_as_it_happens(harness: RelayHarness) -> None:
    """Which broker lost how many, and how many went on: while it goes on, and when it is over."""
    _, broker = harness.session()
    broker.disconnects()
    [outage] = asked(harness)["outages"]
    assert (outage["upstream"], outage["broker"]) == ("main", "tcp://192.0.2.1:61613")
    assert (outage["lost"], outage["elsewhere"], outage["ended"]) == (1, 0, None)
    assert outage["reason"] == "closed the connection: connection closed"
    harness.broker().sends(b"CONNECTED\nversion:1.2\nserver:scripted/1\n\n\0")
    [outage] = asked(harness)["outages"]
    assert (outage["lost"], outage["elsewhere"]) == (1, 1)
    harness.reactor.pump([1.0] * 15)
    assert asked(harness)["outages"][0]["ended"] >= outage["began"]


def test_the_journal_and_workers(tmp_path: Path) -> None:
    """Where it is, how it is and how much; a failing disk shows, in the line for systemd, too. Processes by number."""
    harness = JournalHarness(tmp_path)
    assert harness.service._status() == "0 sessions, 1 listener"
    harness.journal.written.trouble = "No space left on device"
    harness.journal.written.errors = 3
    row = asked(harness)["journal"]
    assert (row["directory"], row["trouble"], row["counts"]["write_errors"]) == (str(tmp_path), True, 3)
    assert row["state"] == "cannot be written: No space left on device"
    assert harness.service._status() == (
        "0 sessions, 1 listener, the journal cannot be written: No space left on device"
    )
    workers = (WorkerRow(1, 4711, SERVES, 3, 0, 12.5),)
    found = json.loads(overview(snapshot(harness.service.state, whole=False)._replace(workers=workers), ()))
    assert found["workers"] == [
        {"number": 1, "process": 4711, "state": SERVES, "sessions": 3, "restarts": 0, "seen": 12.5}
    ]


def test_many_who_look(harness: RelayHarness) -> None:
    """They get the same for half a second: it is made once for all of them."""
    factory = site(harness.service.state, harness.reactor)

    def look() -> Any:
        return json.loads(Answer(harness, "/overview", factory=factory).text)

    first = look()
    harness.reactor.advance(0.4)
    assert look() == first
    harness.reactor.advance(0.2)
    assert look() != first
