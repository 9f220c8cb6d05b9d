"""What several processes are in sum: counts are added, and of states the worst is said."""

import json
from pathlib import Path
from typing import Any

from stomprelay.relay.model.counters import DestinationTally
from stomprelay.relay.model.group import BrokerTally
from stomprelay.service.admin.snapshot import (
    DestinationRow,
    JournalRow,
    Snapshot,
    ended,
    read,
    snapshot,
    summed,
)
from stomprelay.service.brokers import Outage
from tests.service.harness import SEND, JournalHarness, RelayHarness, failover, listener, movable


def two() -> list[RelayHarness]:
    """Two relays of one configuration."""
    return [RelayHarness(listener(upstream=movable(failover(1, 2)))) for _ in range(2)]


def taken(harness: RelayHarness) -> Snapshot:
    """All of one."""
    return snapshot(harness.service.state, whole=True)


def test_a_whole_snapshot_as_text(pair: RelayHarness) -> None:
    """It is the same when it was read."""
    pair.session()
    found = taken(pair)
    assert found.brokers
    assert read(json.loads(json.dumps(found))) == found


def test_the_worst_is_said_of_a_broker() -> None:
    """It is up where all say so who know; paused where one says so; its failures are the longest row of them."""
    one, other = two()
    mine, theirs = ([each.broker.health for each in it.service.state.brokers] for it in (one, other))
    mine[0].up = True
    assert said(one, other) == [("up", True), ("unknown", None)]
    theirs[0].up = False
    assert said(one, other) == [("down", False), ("unknown", None)]
    mine[0].paused = True
    theirs[1].paused = True
    assert said(one, other) == [("paused", False), ("paused", None)]
    theirs[0].failures, mine[0].failures = 2, 3
    assert summed(taken(one), [taken(other)]).brokers[0].failures == 3


def said(*harnesses: RelayHarness) -> list[tuple[str, bool | None]]:
    """State and `up` of each broker, in sum; whose turn is first does not matter."""
    first, *others = (taken(each) for each in harnesses)
    found = [(row.state, row.up) for row in summed(first, others).brokers]
    *others, last = first, *others
    assert found == [(row.state, row.up) for row in summed(last, others).brokers]
    return found


def test_journals_are_one(tmp_path: Path) -> None:
    """Their counts are added; one that is in trouble is told of."""
    rows = [
        JournalRow("/j", "is written", False, False, 5, {"blocks": 1}),
        JournalRow("/j", "cannot be written: full", True, False, 7, {"blocks": 2}),
        JournalRow("/j", "is written", False, False, 0, {"blocks": 4}),
    ]
    first, *others = (Snapshot(False, 0, (), (), row) for row in rows)
    found = summed(first, others).journal
    assert found == JournalRow("/j", "cannot be written: full", True, False, 12, {"blocks": 7})
    kept = taken(JournalHarness(tmp_path))
    assert summed(kept, []).journal == kept.journal


def test_what_is_left_of_one_that_ended() -> None:
    """Its counters; nothing that is there no more."""
    one, other = two()
    one.session()
    left = ended(taken(one))
    total = summed(taken(other), [left])
    assert (total.clients, total.connections) == (0, 0)
    assert total.listeners[0].counters["sessions_opened"] == 1
    assert [row.sessions for row in total.brokers] == [0, 0]
    assert [row.state for row in left.brokers] == ["unknown", "unknown"]
    assert left.brokers[0].tally == taken(one).brokers[0].tally != BrokerTally()
    assert left.times == taken(one).times


def with_destinations(*counted: tuple[str | None, int, bool]) -> Snapshot:
    """A process that counted so many SENDs to these, and shows them or not."""
    rows = (DestinationRow(name, DestinationTally(sends), shown=shown) for name, sends, shown in counted)
    return Snapshot(False, 0, (), (), None, destinations=tuple(rows))


def test_destinations_are_added() -> None:
    """One that has lost its place in one process, or whose process ended, still counts in the sum: it never falls."""
    shown = with_destinations(("/queue/a", 1, True), ("/queue/b", 5, True), (None, 7, True))
    away = with_destinations(("/queue/a", 2, False), ("/queue/c", 3, False), (None, 8, True))
    total = summed(shown, [away, ended(shown)])
    found = [(row.destination, row.tally.sends) for row in total.top]
    assert found == [("/queue/b", 10), ("/queue/a", 4), (None, 22)]
    assert [row.destination for row in ended(shown).top] == [None]
    assert [row.destination for row in total.destinations if not row.shown] == ["/queue/c"]


def test_names_of_destinations_are_text() -> None:
    """What is no UTF-8 is spelled with backslashes."""
    harness = RelayHarness(listener(), admin="tcp:0")
    client, _ = harness.session()
    client.sends(SEND.replace(b"/queue/a", b"/queue/\xff"))
    assert taken(harness).top[0].destination == "/queue/\\xff"


# Outages


def outage(began: float, ended: float | None, broker: str = "a", lost: int = 1, **more: Any) -> Outage:
    """A time of trouble with a broker of upstream main."""
    return Outage("main", broker, began, ended, False, lost, 0, 0, 0, "it went")._replace(**more)


def total(*processes: tuple[Outage, ...]) -> tuple[Outage, ...]:
    """The outages of several processes as one."""
    first, *others = (Snapshot(False, 0, (), (), None, outages=each) for each in processes)
    return summed(first, others).outages


def test_an_outage_that_several_processes_saw() -> None:
    """It is one, from its first loss to its last; it goes on while it does for one of them; sessions are added."""
    mine = outage(10.0, 14.0, lost=3)
    theirs = outage(11.0, None, lost=4, down=True, elsewhere=2, waited=1, failed=5, reason="refused")
    both = outage(10.0, None, lost=7, down=True, elsewhere=2, waited=1, failed=5)
    assert total((mine,), (theirs,)) == total((theirs,), (mine,)) == (both,)
    assert total((mine,), (theirs._replace(ended=13.0),))[0].ended == 14.0
    assert [each.lost for each in total((mine,), (outage(20.0, 21.0),))] == [3, 1]
    assert [each.broker for each in total((mine,), (outage(11.0, None, "b"),))] == ["a", "b"]


def test_the_outages_of_a_process_that_ended() -> None:
    """It knows of their end no more: they ended when it was asked last."""
    last = Snapshot(False, 0, (), (), None, time=30.0, outages=(outage(1.0, 2.0), outage(20.0, None)))
    assert [each.ended for each in ended(last).outages] == [2.0, 30.0]
