"""Conversations side by side, over the borders of Arrow batches."""

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from stomprelay.pipeline.sessions import record
from stomprelay.pipeline.sessions import transfer as s
from stomprelay.pipeline.sessions.conversation import Conversations, SessionRow
from stomprelay.pipeline.sessions.waits import Wait
from stomprelay.pipeline.settings import SECOND, TimeLimits
from stomprelay.pipeline.spark import arrow
from tests.pipeline.script import Script

HASTY = TimeLimits(stuck_after=0)


def _batches(rows: list[record.Record], most: int) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(rows), most):
        yield arrow.batch(rows[at : at + most], arrow.schema(record.FIELDS))


def _run(script: Script) -> str:
    return script._segment[16:-7]


def _said(
    rows: list[record.Record], *scripts: Script, most: int = 3, present: bool = True, later: float = 0.0
) -> list[s.Transfer]:
    newest = {_run(each): each.ns + round(later * SECOND) for each in scripts}
    what = Conversations(HASTY, newest, frozenset(newest) if present else frozenset())
    return [list(row) for row in arrow.rows(what(_batches(rows, most)))]


def _talk(name: str) -> Script:
    script = Script(name=name)
    script.subscribes()
    script.sends("t")
    script.gets("t")
    return script


def _of(rows: list[s.Transfer], what: int) -> list[s.Transfer]:
    return [row for row in rows if row[s.KIND] == what]


def _states(rows: list[s.Transfer]) -> list[record.Record]:
    """What the next batch is given of a session."""
    known = [{"session": row[0], "turn": record.SAID, "text": row[-1]} for row in _of(rows, SessionRow.STATE)]
    return [tuple(each.get(name) for name in record.NAMES) for each in known]


def _waits(rows: list[s.Transfer]) -> list[Wait]:
    return [Wait(*json.loads(row[s.TEXT])) for row in _of(rows, SessionRow.WAIT)]


@pytest.mark.parametrize("most", [1, 2, 100])
def test_sessions_one_behind_the_other(most: int) -> None:
    """Each is told of, and goes on in the next batch."""
    one, two = _talk("one"), _talk("two")
    rows = _said([*one.records, *two.records], one, two, most=most, later=1)
    assert [row[s.SESSION] for row in _of(rows, s.RowKind.DELIVERED)] == ["one", "two"]
    assert [wait.deliveries for wait in _waits(rows)] == [1, 1]
    states = _states(rows)
    before = len(one.records)
    one.says("ACK", ack="t")
    rows = _said([states[0], *one.records[before:], states[1]], one, two, most=most, later=1)
    assert [row[s.OUTCOME] for row in _of(rows, s.RowKind.DELIVERED_MORE)] == ["acked"]
    assert [(wait.session, wait.outcome, wait.going, wait.final) for wait in _waits(rows)] == [
        ("one", "acked", False, True),
        ("two", None, True, False),
    ]
    assert [row[0] for row in _of(rows, SessionRow.STATE)] == ["one", "two"]
    assert _of(rows, SessionRow.STATE)[1][-1] == states[1][record.TEXT]


def test_a_relay_that_is_silent() -> None:
    """Nobody waits any more in its sessions; when it is forgotten, so are they, and that is their last word."""
    script = _talk("one")
    rows = _said(script.records, script, present=False, later=5)
    (wait,) = _waits(rows)
    assert (wait.outcome, wait.going, wait.final) == (None, False, False)
    assert wait.until_ns == script.ns + 5 * SECOND
    assert len(_of(rows, SessionRow.STATE)) == 1
    what = Conversations(HASTY, {}, frozenset(), {_run(script): script.ns + 5 * SECOND})
    rows = [list(row) for row in arrow.rows(what(_batches(script.records, 3)))]
    assert _waits(rows) == [wait._replace(final=True)]
    assert _of(rows, SessionRow.STATE) == []
    assert [row for row in _said(script.records) if row[s.KIND] >= SessionRow.STATE] == []


def test_a_relay_that_was_killed() -> None:
    """Its sessions end with its last record: what they had not answered is returned, in a later batch, too."""
    script, over = _talk("one"), _talk("two")
    over.says("ACK", ack="t")
    over.sends("u", receipt="r")
    over.happens("disconnected", end="client")
    newest = {_run(each): script.ns + SECOND for each in (script, over)}
    what = Conversations(HASTY, newest, frozenset(), {}, newest)
    before = _states(_said([*script.records, *over.records], script, over))
    assert [row[record.NAMES.index("session")] for row in before] == ["one", "two"]
    rows = [list(row) for row in arrow.rows(what(_batches(before, 3)))]
    (more,) = _of(rows, s.RowKind.DELIVERED_MORE)
    assert (more[s.OUTCOME], more[s.SETTLED_NS]) == ("returned", script.ns + SECOND)
    (wait,) = _waits(rows)
    assert (wait.session, wait.outcome, wait.until_ns) == ("one", "returned", script.ns + SECOND)
    assert [row[s.KEY] for row in _of(rows, SessionRow.STATE)] == ["two"]
