"""Which messages are sent again, and what would be."""

import io
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.replay.selection import DestinationTotal, Preview, Selection, preview, selected
from stomprelay.pipeline.spark.errors import as_value_error
from stomprelay.pipeline.store.store import Store, StoreError
from tests.pipeline.replay import archive
from tests.pipeline.replay.archive import send
from tests.pipeline.rows import SECOND, START_NS, told

pytestmark = pytest.mark.spark

Frames = Callable[..., Store]
Known = dict[int, dict[str, Any]]

ORDER = ("turn_ns", "segment", "position", "number")
Rows = dict[str, list[Any]]
CONDITIONS = {
    "destination = '/queue/b' OR headers['kind'] = 'new'": [1, 2],
    "date = DATE '2026-11-21' AND hour = 8 AND client = 'alice'": [1, 2, 3, 4],
    "outcome IS NULL": [3],
    "outcome != 'undelivered' AND size = 100 AND redelivered = 2": [1],
    "outcome = 'nacked'": [4],
    "outcome = 'delivered'": [],
}
PLACES: list[tuple[Selection, list[str | None]]] = [
    (Selection(destination="/queue/x"), ["/queue/x"] * 4),
    (Selection(renames=(("/queue/ab", "/b"), ("/queue/", "/q/"))), ["/q/a", "/b", "/topic/a", None]),
    (Selection(renames=(("", "/all"),)), ["/all/queue/a", "/all/queue/ab", "/all/topic/a", None]),
    (Selection(renames=(("/queue/a", ""),)), ["", "b", "/topic/a", None]),
]
NONSENSE = {
    "nonsense = 1": "A column, variable, or function parameter with name `nonsense` cannot be resolved",
    "size >": "Syntax error",
    "size": 'Filter expression "size" of type "BIGINT" is not a boolean',
}


def test_hours() -> None:
    """Only those are read that can have something of the time that was asked for."""
    hours = ["2026-11-21-07", "2026-11-21-08", "2026-11-21-09"]
    at = START_NS // 1000
    assert Selection().hours(hours) == hours
    assert Selection(since=at).hours(hours) == hours[1:]
    assert Selection(until=at).hours(hours) == hours[:2]
    assert Selection(since=at, until=at + 1).hours(hours) == hours[1:2]


@pytest.fixture
def frames(spark: SparkSession, tmp_path: Path) -> Frames:
    """Make tables of these frames, and of messages, final and still open ones, by the numbers of their SENDs."""

    def make(*many: dict[str, Any], messages: Known | None = None, still: Known | None = None) -> Store:
        tables = archive.write(tmp_path / "tables", many)
        if messages is not None:
            archive.messages(tables, messages)
        if still is not None:
            archive.messages(tables, still, final=False)
        return Store(spark, str(tables))

    return make


def found(store: Store, selections: Sequence[Selection], *columns: str) -> list[list[Any]]:
    """Of each selection the values of a column, or of several, in order of the turns; Spark is asked once."""
    wanted = columns or ("number",)
    parts = [
        selected(store, selection).select(
            F.lit(at).alias("which"), *ORDER, *(F.col(name).alias(f"{name}_") for name in wanted)
        )
        for at, selection in enumerate(selections)
    ]
    rows = reduce(lambda one, other: one.unionByName(other), parts).collect()
    shown: list[list[Any]] = [[] for _ in selections]
    for row in sorted(rows, key=lambda row: tuple(row[: 1 + len(ORDER)])):
        values = tuple(row[1 + len(ORDER) :])
        shown[row.which].append(values if len(values) > 1 else values[0])
    return shown


def said(number: int, command: str, transaction: str, **more: Any) -> dict[str, Any]:
    """COMMIT and the like."""
    return {**send(number, "", b"", transaction=transaction, **more), "command": command, "destination": None}


def inside(number: int, transaction: str, **more: Any) -> dict[str, Any]:
    """A SEND in a transaction."""
    return send(
        number, "/queue/a", b"x", transaction=transaction, headers={"transaction": transaction}, **more
    )


CASES: dict[str, tuple[list[dict[str, Any]], Known]] = {
    "sends": (
        [
            send(1, "/queue/a", b"x"),
            {**send(2, "/queue/a", b"x"), "command": "MESSAGE", "side": "broker"},
            {**send(3, "/queue/a", b""), "command": "SUBSCRIBE"},
            {**send(4, "/queue/b", b""), "session": "s2"},
        ],
        {},
    ),
    "transactions": (
        [
            *(said(1, "BEGIN", "t"), inside(2, "t"), said(3, "ABORT", "t")),
            *(said(4, "BEGIN", "t"), inside(5, "t"), inside(6, "t")),
            *(send(7, "/queue/a", b"x"), said(8, "COMMIT", "t"), inside(9, "t")),
            *(inside(10, "u"), said(11, "COMMIT", "u", session="another")),
            *(inside(12, "v"), said(13, "COMMIT", "v")),
        ],
        {12: {"outcome": "aborted", "transaction": "v"}},
    ),
    "bodies": (
        [
            send(1, "/queue/a", b"whole"),
            send(2, "/queue/a", b""),
            {**send(3, "/queue/a", b"none"), "body": None},
            {**send(4, "/queue/a", b"cut off"), "body": b"cut"},
        ],
        {},
    ),
    "kept": (
        [
            send(1, "/queue/a", b"x", headers={"token": "***", "n": "1"}),
            {**send(2, "/queue/a", b"y"), "headers": [("destination", "/queue/a"), ("n", "2")]},
        ],
        {},
    ),
}
"""Frames, and rows of `messages` by the numbers of their SENDs; each case has a segment and sessions of its own."""


@pytest.fixture(scope="module")
def everything(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """By case the rows that are selected where no condition is given, in order of the turns."""
    own = {name: [{**one, "segment": name} for one in frames] for name, (frames, _) in CASES.items()}
    many = [{**one, "session": f"{name} {one['session']}"} for name, frames in own.items() for one in frames]
    tables = archive.write(tmp_path_factory.mktemp("selection") / "tables", many)
    ((name, known),) = [(name, known) for name, (_, known) in CASES.items() if known]
    archive.messages(tables, {number: {**one, "segment": name} for number, one in known.items()})
    rows = selected(Store(spark, str(tables)), Selection()).orderBy(*ORDER).collect()
    return {name: [row for row in rows if row.segment == name] for name in CASES}


def test_a_client_s_sends_are_selected(everything: Rows) -> None:
    """Nothing that a broker said, no other command, no event."""
    found = [(row.number, row.destination, row.reason) for row in everything["sends"]]
    assert found == [(1, "/queue/a", None), (4, "/queue/b", None)]


def test_by_time(frames: Frames) -> None:
    """Since includes, until does not; both are exact where the column `seen_at` is not."""
    store = frames(*(send(number, "/queue/a", b"x") for number in range(5)))
    at = START_NS // 1000
    times = [(at + 1000, at + 3000), (None, at), (at + 3600 * 1_000_000, None)]
    assert found(store, [Selection(None, *each) for each in times]) == [[1, 2], [], []]


def test_by_condition(frames: Frames) -> None:
    """Over columns of `frames`, which are meant by names that both have, and of the final rows of `messages`."""
    store = frames(
        send(1, "/queue/a", b"x", headers={"kind": "new"}),
        *(send(number, f"/queue/{to}", b"x") for number, to in ((2, "b"), (3, "c"), (4, "d"))),
        messages={
            1: {"outcome": "acked", "redelivered": 2},
            2: {"outcome": "undelivered"},
            4: {"outcome": "nacked"},
        },
        still={4: {"outcome": "delivered"}},
    )
    assert found(store, [Selection(where=where) for where in CONDITIONS]) == [*CONDITIONS.values()]


def test_transactions(everything: Rows) -> None:
    """Only what was committed is sent, in the turn of the COMMIT. A name may be used again."""
    assert [(row.number, row.reason, row.turn_ns) for row in everything["transactions"]] == [
        (2, "aborted", START_NS + 3_000_000),
        (7, None, START_NS + 7_000_000),
        (5, None, START_NS + 8_000_000),
        (6, None, START_NS + 8_000_000),
        (9, "uncommitted", START_NS + 9_000_000),
        (10, "uncommitted", START_NS + 10_000_000),
        (12, "aborted", START_NS + 13_000_000),
    ]


def test_a_commit_may_come_after_the_time_that_was_asked_for(frames: Frames) -> None:
    """The SEND is what was asked for."""
    store = frames(inside(1, "t"), {**said(2, "COMMIT", "t"), "ns": START_NS + 100 * SECOND})
    at = START_NS // 1000
    assert found(store, [Selection(since=at, until=at + 2000)], "number", "reason") == [[(1, None)]]


def test_bodies_that_are_not_whole(everything: Rows) -> None:
    """Of none the journal has nothing to keep; of the others all is needed."""
    found = [(row.number, row.reason) for row in everything["bodies"]]
    assert found == [(1, None), (2, None), (3, "incomplete"), (4, "incomplete")]


def test_what_is_kept_of_a_message(everything: Rows) -> None:
    """All headers but those that the journal has no values of; whether there was a content-length."""
    first, second = everything["kept"]
    assert first.headers == {"destination": "/queue/a", "content-length": "1", "n": "1"}
    assert (first.content_length, bytes(first.body), first.blanked) == (True, b"x", ["token"])
    assert second.headers == {"destination": "/queue/a", "n": "2"}
    assert (second.content_length, bytes(second.body), second.blanked) == (False, b"y", [])


def test_where_messages_go(frames: Frames) -> None:
    """To one place, or with prefixes replaced, the longest first; a blanked destination is known to nobody."""
    store = frames(
        *(send(at, to, b"x") for at, to in enumerate(["/queue/a", "/queue/ab", "/topic/a", "***"]))
    )
    rows = found(store, [selection for selection, _ in PLACES], "destination", "reason")
    for (_, places), found_here in zip(PLACES, rows, strict=True):
        reasons = ["nowhere" if to in ("", None) else None for to in places]
        assert found_here == list(zip(places, reasons, strict=True))


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


def test_no_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Neither a folder that is not there nor one in which nothing is yet."""
    for folder in (tmp_path / "nowhere", tmp_path):
        said = f"there is no table `frames` in {folder} yet: `stomprelay-pipeline once`"
        with pytest.raises(StoreError, match=said):
            selected(Store(spark, str(folder)), Selection())


def test_by_destination(spark: SparkSession, tmp_path: Path) -> None:
    """Where messages would go, how many, and from when to when."""
    rows = [
        send(0, "/queue/a", b"12"),
        send(1000, "/queue/a", b""),
        send(2000, "/queue/b", b"123", headers={"token": "***"}),
        {**send(3000, "/queue/b", b"cut"), "body": None, "headers": [("other", "***")]},
        {**send(4000, "/queue/c", b"cut"), "body": None},
    ]
    store = Store(spark, str(archive.write(tmp_path / "tables", rows)))
    found = preview(selected(store, Selection(renames=(("/queue/b", "/queue/x"),))))
    assert found.lines == [
        DestinationTotal("/queue/a", 2, 2, "2026-11-21 08:00:00", "2026-11-21 08:00:01"),
        DestinationTotal("/queue/x", 1, 3, "2026-11-21 08:00:02", "2026-11-21 08:00:02"),
    ]
    assert (found.messages, found.left_out, found.blanked) == (3, {"incomplete": 2}, ["other", "token"])


def test_as_a_table() -> None:
    """Numbers stand right, names left."""
    out = io.StringIO()
    lines = [
        DestinationTotal("/queue/orders", 2000, 7, "then", "now"),
        DestinationTotal("/b", 1, 12345, "a", "b"),
    ]
    Preview(lines, {}, []).show(out)
    assert out.getvalue().splitlines() == [
        "destination    messages  octets  first  last",
        "/queue/orders     2,000       7  then   now",
        "/b                    1  12,345  a      b",
    ]
