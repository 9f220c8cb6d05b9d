"""Which messages are sent again."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stomprelay.pipeline.replay.selection import Selection, selected
from stomprelay.pipeline.spark.errors import as_value_error
from stomprelay.pipeline.store.store import Store, StoreError
from tests.pipeline.replay import archive
from tests.pipeline.replay.archive import send
from tests.pipeline.rows import SECOND, START_NS, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Frames = Callable[..., Store]
Known = dict[int, dict[str, Any]]


def test_hours() -> None:
    """Only those are read that can have something of the time that was asked for."""
    hours = ["2026-11-21-07", "2026-11-21-08", "2026-11-21-09"]
    at = START_NS // 1000
    assert Selection().hours(hours) == hours
    assert Selection(since=at).hours(hours) == hours[1:]
    assert Selection(until=at).hours(hours) == hours[:2]
    assert Selection(since=at, until=at + 1).hours(hours) == hours[1:2]


@pytest.fixture
def frames(spark: "SparkSession", tmp_path: Path) -> Frames:
    """Make tables of these frames, and of messages, final and still open ones, by the numbers of their SENDs."""

    def make(*many: dict[str, Any], messages: Known | None = None, still: Known | None = None) -> Store:
        tables = archive.write(tmp_path / "tables", many)
        if messages is not None:
            archive.messages(tables, messages)
        if still is not None:
            archive.messages(tables, still, final=False)
        return Store(spark, str(tables))

    return make


def found(store: Store, selection: Selection = Selection(), *columns: str) -> list[Any]:  # noqa: B008
    """The values of a column, or of several, in order of the turns."""
    ordered = selected(store, selection).orderBy("turn_ns", "segment", "offset", "number")
    shown = [tuple(row) for row in ordered.select(*(columns or ("number",))).collect()]
    return shown if len(columns) > 1 else [row[0] for row in shown]


def said(number: int, command: str, transaction: str, **more: Any) -> dict[str, Any]:
    """COMMIT and the like."""
    return {**send(number, "", b"", transaction=transaction, **more), "command": command, "destination": None}


def inside(number: int, transaction: str, **more: Any) -> dict[str, Any]:
    """A SEND in a transaction."""
    return send(
        number, "/queue/a", b"x", transaction=transaction, headers={"transaction": transaction}, **more
    )


@pytest.mark.spark
def test_a_client_s_sends_are_selected(frames: Frames) -> None:
    """Nothing that a broker said, no other command, no event."""
    store = frames(
        send(1, "/queue/a", b"x"),
        {**send(2, "/queue/a", b"x"), "command": "MESSAGE", "side": "broker"},
        {**send(3, "/queue/a", b""), "command": "SUBSCRIBE"},
        {**send(4, "/queue/b", b""), "session": "s2"},
    )
    assert found(store, Selection(), "number", "destination", "reason") == [
        (1, "/queue/a", None),
        (4, "/queue/b", None),
    ]


@pytest.mark.spark
def test_by_time(frames: Frames) -> None:
    """Since includes, until does not; both are exact where the column `at` is not."""
    store = frames(*(send(number, "/queue/a", b"x") for number in range(5)))
    at = START_NS // 1000
    assert found(store, Selection(since=at + 1000, until=at + 3000)) == [1, 2]
    assert found(store, Selection(until=at)) == []
    assert found(store, Selection(since=at + 3600 * 1_000_000)) == []


CONDITIONS = {
    "destination = '/queue/b' OR headers['kind'] = 'new'": [1, 2],
    "at >= '2026-11-21' AND hour = '2026-11-21-08' AND client = 'alice'": [1, 2, 3],
    "outcome IS NULL": [3],
    "outcome != 'undelivered' AND size = 100 AND redelivered = 2": [1],
}


@pytest.mark.spark
def test_by_condition(frames: Frames) -> None:
    """Over columns of `frames` and of `messages`, where the frame's are meant by names that both have."""
    store = frames(
        send(1, "/queue/a", b"x", headers={"kind": "new"}),
        send(2, "/queue/b", b"x"),
        send(3, "/queue/c", b"x"),
        messages={1: {"outcome": "acked", "redelivered": 2}, 2: {"outcome": "undelivered"}},
    )
    assert {where: found(store, Selection(where=where)) for where in CONDITIONS} == CONDITIONS


@pytest.mark.spark
def test_a_message_in_two_states_is_one(frames: Frames) -> None:
    """While a batch is at work the row that may change is still there beside the final one, which counts."""
    store = frames(
        send(1, "/queue/a", b"x"), messages={1: {"outcome": "acked"}}, still={1: {"outcome": "delivered"}}
    )
    assert store.read("messages").count() == 2
    assert found(store, Selection(where="outcome = 'acked'")) == [1]
    assert found(store, Selection(where="outcome = 'delivered'")) == []


@pytest.mark.spark
def test_transactions(frames: Frames) -> None:
    """Only what was committed is sent, in the turn of the COMMIT. A name may be used again."""
    store = frames(
        said(1, "BEGIN", "t"),
        inside(2, "t"),
        said(3, "ABORT", "t"),
        said(4, "BEGIN", "t"),
        inside(5, "t"),
        inside(6, "t"),
        send(7, "/queue/a", b"x"),
        said(8, "COMMIT", "t"),
        inside(9, "t"),
        inside(10, "u"),
        said(11, "COMMIT", "u", session="another"),
        inside(12, "v"),
        said(13, "COMMIT", "v"),
        messages={12: {"outcome": "aborted", "transaction": "v"}},
    )
    assert found(store, Selection(), "number", "reason", "turn_ns") == [
        (2, "aborted", START_NS + 3_000_000),
        (7, None, START_NS + 7_000_000),
        (5, None, START_NS + 8_000_000),
        (6, None, START_NS + 8_000_000),
        (9, "uncommitted", START_NS + 9_000_000),
        (10, "uncommitted", START_NS + 10_000_000),
        (12, "aborted", START_NS + 13_000_000),
    ]


@pytest.mark.spark
def test_a_commit_may_come_after_the_time_that_was_asked_for(frames: Frames) -> None:
    """The SEND is what was asked for."""
    store = frames(inside(1, "t"), {**said(2, "COMMIT", "t"), "ns": START_NS + 100 * SECOND})
    at = START_NS // 1000
    assert found(store, Selection(since=at, until=at + 2000), "number", "reason") == [(1, None)]


@pytest.mark.spark
def test_bodies_that_are_not_whole(frames: Frames) -> None:
    """Of none the journal has nothing to keep; of the others all is needed."""
    store = frames(
        send(1, "/queue/a", b"whole"),
        send(2, "/queue/a", b""),
        {**send(3, "/queue/a", b"none"), "body": None},
        {**send(4, "/queue/a", b"cut off"), "body": b"cut"},
    )
    assert found(store, Selection(), "number", "reason") == [
        (1, None),
        (2, None),
        (3, "incomplete"),
        (4, "incomplete"),
    ]


@pytest.mark.spark
def test_what_is_kept_of_a_message(frames: Frames) -> None:
    """All headers but those that the journal has no values of; whether there was a content-length."""
    store = frames(
        send(1, "/queue/a", b"x", headers={"token": "***", "n": "1"}),
        {**send(2, "/queue/a", b"y"), "headers": [("destination", "/queue/a"), ("n", "2")]},
    )
    assert found(store, Selection(), "headers", "content_length", "body", "blanked") == [
        ({"destination": "/queue/a", "content-length": "1", "n": "1"}, True, b"x", ["token"]),
        ({"destination": "/queue/a", "n": "2"}, False, b"y", []),
    ]


PLACES: list[tuple[Selection, list[str | None]]] = [
    (Selection(destination="/queue/x"), ["/queue/x"] * 4),
    (Selection(renames=(("/queue/ab", "/b"), ("/queue/", "/q/"))), ["/q/a", "/b", "/topic/a", None]),
    (Selection(renames=(("", "/all"),)), ["/all/queue/a", "/all/queue/ab", "/all/topic/a", None]),
    (Selection(renames=(("/queue/a", ""),)), ["", "b", "/topic/a", None]),
]


@pytest.mark.spark
def test_where_messages_go(frames: Frames) -> None:
    """To one place, or with prefixes replaced, the longest first; a blanked destination is known to nobody."""
    store = frames(
        *(send(at, to, b"x") for at, to in enumerate(["/queue/a", "/queue/ab", "/topic/a", "***"]))
    )
    for selection, places in PLACES:
        reasons = ["nowhere" if to in ("", None) else None for to in places]
        wanted = list(zip(places, reasons, strict=True))
        assert found(store, selection, "destination", "reason") == wanted


NONSENSE = {
    "nonsense = 1": "A column, variable, or function parameter with name `nonsense` cannot be resolved",
    "size >": "Syntax error",
    "size": 'Filter expression "size" of type "BIGINT" is not a boolean',
}


@pytest.mark.spark
def test_a_condition_that_means_nothing(frames: Frames) -> None:
    """Spark's reason, in a line; one that is about values comes when they are read."""
    store = frames(send(1, "/queue/a", b"x", headers={"n": "one"}))
    for where, reason in NONSENSE.items():
        with pytest.raises(ValueError, match=f"^--where: .*{reason}") as raised:
            selected(store, Selection(where=where))
        assert "\n" not in str(raised.value)
    chosen = selected(store, Selection(where="headers['n'] > 1"))
    with pytest.raises(ValueError, match=r"The value 'one' .* cannot be cast") as raised, as_value_error():
        told(chosen)
    assert "\n" not in str(raised.value)


@pytest.mark.spark
def test_no_tables(spark: "SparkSession", tmp_path: Path) -> None:
    """Neither a folder that is not there nor one in which nothing is yet."""
    with pytest.raises(
        StoreError, match=r"there is no table `frames` in .*/nowhere yet: `stomprelay-pipeline once`"
    ):
        selected(Store(spark, str(tmp_path / "nowhere")), Selection())
    with pytest.raises(StoreError, match="there is no table `frames`"):
        selected(Store(spark, str(tmp_path)), Selection())
