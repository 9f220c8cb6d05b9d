"""Batch after batch: what is kept, what is made anew, and that neither a repetition nor another cut matters."""

import json
import shutil
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.schema import FRAMES, MESSAGES
from stomprelay.pipeline.sessions.outages import SessionOutage
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.store import OPEN, Batch, Store
from stomprelay.pipeline.tables.episodes import advance_failovers
from stomprelay.pipeline.tables.rollup import FLOW_SUMS, LATENCY_SUMS, Rollup, advance_traffic
from tests.pipeline.rows import FRAME, MESSAGE, OUTAGE_ROW, SECOND, START, START_NS, delivery, told, write

pytestmark = pytest.mark.spark

Rows = Sequence[dict[str, Any]]


def hours(many: Rows) -> list[str]:
    """The names of the hours of these rows."""
    return sorted({f"{each['seen_at']:%Y-%m-%d-%H}" for each in many})


class Tables:
    """Batches that are written by hand instead of read, in a folder of their own."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root
        self.settings = Settings(journal="/nowhere", tables=str(root))
        self.store = Store(spark, str(root))
        self.slices: dict[str, list[str]] = {}

    def batch(self, number: int) -> Batch:
        return Batch(self.spark, self.store, number, self.settings)

    def messages(self, number: int, settled: Rows, passing: Rows = ()) -> Batch:
        """As `messages` leaves them."""
        for folder in [*self.root.glob(f"messages/{layout.HOURS}/batch={OPEN}-*")]:
            shutil.rmtree(folder)
        write(self.root, MESSAGES, MESSAGE, settled, number, "seen_at")
        still = [{**each, "final": False} for each in passing]
        write(self.root, MESSAGES, MESSAGE, still, f"{OPEN}-{number}", "seen_at")
        gone, self.slices = self.slices, {}
        if passing:
            self.slices[str(number)] = hours(still)
        watched = {
            "slices": {name: [1, 0, hours] for name, hours in self.slices.items()},
            "made": self.slices,
            "gone": gone,
            "final": hours(settled),
        }
        self.store.save_text("watch", number, json.dumps(watched))
        return self.batch(number)

    def frames(self, number: int, many: Rows) -> Batch:
        """As `frames` writes them."""
        write(self.root, FRAMES, FRAME, many, number, "seen_at")
        self.batch(number).note_frames(hours([{**FRAME, **each} for each in many]), [])
        return self.batch(number)

    def outages(self, number: int, many: Rows) -> Batch:
        """As `messages` leaves them, too."""
        known = [{**OUTAGE_ROW, **one} for one in many]
        told = [[one.get(name) for name in SessionOutage._fields] for one in known]
        self.store.save_text("outages", number, json.dumps(told))
        return self.batch(number)

    def table(self, name: str) -> list[tuple[Any, ...]]:
        return told(self.store.read(name))


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Tables:
    """A place for tables."""
    return Tables(spark, tmp_path / "one")


def message(minute: int, us: int, client: str = "bob", **further: Any) -> dict[str, Any]:
    """One that was sent in this minute and took so long."""
    at = START + timedelta(minutes=minute)
    got = delivery(client, at + timedelta(microseconds=us))
    return {"seen_at": at, "sent_at": at, "delivery_us": us, "deliveries": [got], **further}


def test_a_batch_that_is_done_again(place: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes nothing, whether it was cut short before its hours were made anew, or was complete."""
    advance_traffic(place.frames(0, [{"size": 1}]))
    LATENCY_SUMS.advance_messages(place.messages(0, [message(0, 5)]))
    before = place.table("traffic"), place.table("latency")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    place.frames(1, [{"size": 2}])
    place.messages(1, [message(0, 7)], [message(1, 9)])
    with monkeypatch.context() as patch:
        patch.setattr(Store, "replace", killed)
        for advance in (advance_traffic, LATENCY_SUMS.advance_messages):
            with pytest.raises(KeyboardInterrupt):
                advance(place.batch(1))
    assert (place.table("traffic"), place.table("latency")) == before
    found = []
    for _ in range(2):
        advance_traffic(place.batch(1))
        found.append(place.table("traffic"))
    assert found[0] == found[1] != before[0]
    LATENCY_SUMS.advance_messages(place.batch(1))
    assert told(place.store.read("latency"), ["delivery_count", "delivery_max"]) == [(1, 9), (2, 7)]
    assert told(place.store.read("traffic"), ["frames", "octets"]) == [(2, 3)]


@pytest.mark.parametrize(
    "sums", [FLOW_SUMS, pytest.param(LATENCY_SUMS, marks=pytest.mark.deep)], ids=["flow", "latency"]
)
def test_messages_add_up(place: Tables, tmp_path: Path, sums: Rollup) -> None:
    """Open rows count while they are open, once; in the end the cut does not matter."""
    many = [message(n * 4, n * 100, "bcd"[n % 3]) for n in range(24)]
    several = Tables(place.spark, tmp_path / "several")
    first, rest = many[:5], many[5:]
    found = []
    for tables, number, settled, still in (
        (place, 0, many, []),
        (several, 0, first, rest),
        (several, 1, rest, []),
    ):
        sums.advance_messages(tables.messages(number, settled, still))
        found.append(tables.table(sums.table.name))
    assert found[0] == found[1] == found[2]


@pytest.mark.deep
def test_an_open_row_that_moves_to_another_hour(place: Tables) -> None:
    """Its SEND, in a segment that came late, lies an hour before: nothing of it is left where it was."""
    late = message(65, 5, producer=None, sent_at=None, delivery_us=None, ack_us=70)
    LATENCY_SUMS.advance_messages(place.messages(0, [], [late]))
    FLOW_SUMS.advance_messages(place.batch(0))
    assert place.store.hours("latency") == place.store.hours("flow") == ["2026-11-21-09"]
    LATENCY_SUMS.advance_messages(place.messages(1, [], [message(5, 5, ack_us=70)]))
    FLOW_SUMS.advance_messages(place.batch(1))
    assert place.store.hours("latency") == place.store.hours("flow") == ["2026-11-21-08"]


def lost(session: str, at: int, recovered: int | None = None, **further: Any) -> dict[str, Any]:
    """A session's outage; times are seconds after the start."""
    ended = None if recovered is None else START_NS + recovered * SECOND
    return {"session": session, "lost_ns": START_NS + at * SECOND, "recovered_ns": ended, **further}


def test_outages_come_apart_and_together_over_hours(place: Tables) -> None:
    """What a recovery that is told later sets apart, and what a late segment joins; other hours are not touched."""
    columns = ["date", "hour", "broker", "sessions"]
    day = date(2026, 11, 21)
    other = lost("t1", -3600, -3590, broker="b")
    advance_failovers(
        place.outages(0, [other, lost("s1", 3590), lost("s2", 3610, 3620), lost("s3", 7300, 7301)])
    )
    split = [(day, 7, "b", 1), (day, 8, "a:61613", 2), (day, 10, "a:61613", 1)]
    assert sorted(told(place.store.read("failovers"), columns)) == split
    advance_failovers(place.outages(1, [lost("s1", 3590, 3591)]))
    apart = [(day, 7, "b", 1), (day, 8, "a:61613", 1), (day, 9, "a:61613", 1), (day, 10, "a:61613", 1)]
    assert sorted(told(place.store.read("failovers"), columns)) == apart
    advance_failovers(place.outages(2, [lost("s4", 3600, 7300)]))
    joined = [(day, 7, "b", 1), (day, 8, "a:61613", 4)]
    assert sorted(told(place.store.read("failovers"), columns)) == joined
    assert place.store.hours("failovers") == ["2026-11-21-07", "2026-11-21-08"]
