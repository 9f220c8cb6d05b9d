"""Who did not answer, and from when to when."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stomprelay.pipeline.schema import STUCK
from stomprelay.pipeline.sessions.conversation import SessionRow
from stomprelay.pipeline.sessions.waits import Wait, merged
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.store.store import Batch, Store
from stomprelay.pipeline.tables import stuck
from tests.pipeline.rows import SECOND, START_NS, told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

USUAL: dict[str, Any] = {
    "relay": "r1",
    "session": "s1",
    "client": "bob",
    "subscription": "1",
    "destination": "/queue/a",
    "upstream": "main",
    "broker": "a:61613",
    "deliveries": 1,
    "outcome": "acked",
    "going": False,
    "final": True,
}


def wait(since: int, until: int, **further: Any) -> Wait:
    """From when to when, in seconds after the start."""
    times = {"since_ns": START_NS + since * SECOND, "until_ns": START_NS + until * SECOND}
    return Wait(**{**USUAL, **times, "age_ns": (until - since) * SECOND, **further})


def going(since: int, now: int, **further: Any) -> Wait:
    """One that goes on."""
    return wait(since, now, outcome=None, going=True, final=False, **further)


class Batches:
    """Batches of waits, as `messages` leaves them."""

    def __init__(self, spark: "SparkSession", root: Path) -> None:
        self.spark = spark
        self.root = root
        self.store = Store(spark, str(root))
        self.settings = Settings(journal="/nowhere", tables=str(root))

    def batch(self, number: int, many: Sequence[Wait]) -> Batch:
        """Done, by `stuck`."""
        folder = self.root / "_state" / "kept" / f"slice={number:09d}-said{int(SessionRow.WAIT)}"
        said = pa.table(
            {
                "match": pa.array([one.session for one in many], pa.string()),
                "turn": pa.array([0] * len(many), pa.int32()),
                "text": pa.array([json.dumps(one) for one in many], pa.string()),
            }
        )
        if many:
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(said, folder / "part-0.parquet")
        batch = Batch(self.spark, self.store, number, self.settings)
        stuck.advance(batch)
        return batch

    def table(self, *columns: str) -> list[tuple[Any, ...]]:
        """Its rows."""
        return told(self.store.read("stuck"), columns or ["since", "until", "deliveries", "outcome"])


def table(spark: "SparkSession", episodes: Sequence[Wait]) -> "DataFrame":
    """The table's rows of these."""
    return stuck.stuck(spark.createDataFrame(episodes, stuck.EPISODE))


def test_each_cell(spark: "SparkSession") -> None:
    """Waits that overlap or touch are one episode, others are not, nor those of another subscription or broker."""
    many = [
        wait(0, 90, client="old", destination="/queue/b"),
        wait(80, 170, deliveries=2, outcome="nacked"),
        wait(170, 240, outcome="returned"),
        wait(100, 161),
        going(300, 4000, deliveries=5),
        wait(290, 370, broker="b:61613"),
        wait(230, 310, subscription=None),
    ]
    found = table(spark, merged(many))
    assert found.columns == ["hour", *STUCK.names]
    who = ("r1", "s1", "bob", "1", "/queue/a", "main", "a:61613")
    at = "2026-11-21 08:"
    assert told(found, [*STUCK.names, "hour"]) == [
        (f"{at}00:00", f"{at}04:00", *who, 90_000_000, 5, "returned", "2026-11-21-08"),
        (f"{at}03:50", f"{at}05:10", *who[:3], None, *who[4:], 80_000_000, 1, "acked", "2026-11-21-08"),
        (f"{at}04:50", f"{at}06:10", *who[:6], "b:61613", 80_000_000, 1, "acked", "2026-11-21-08"),
        (f"{at}05:00", None, *who, 3_700_000_000, 5, None, "2026-11-21-08"),
    ]


def test_an_episode_over_batches_and_hours(spark: "SparkSession", tmp_path: Path) -> None:
    """It is one row, in the hour in which it began, until it ends and after, however often its last batch is done;
    other hours stay as they are.
    """
    batches = Batches(spark, tmp_path)
    batches.batch(0, [wait(-7000, -6900, session="before"), going(3500, 3590)])
    first = ("2026-11-21 06:03:20", "2026-11-21 06:05:00", 1, "acked")
    assert batches.table() == [first, ("2026-11-21 08:58:20", None, 1, None)]
    untouched = [*(tmp_path / "stuck" / "date=2026-11-21" / "hour=6").iterdir()]
    batches.batch(1, [going(3500, 9000, deliveries=2), wait(7300, 7400, session="other")])
    batches.batch(2, [])
    assert batches.table()[1:] == [
        ("2026-11-21 08:58:20", None, 2, None),
        ("2026-11-21 10:01:40", "2026-11-21 10:03:20", 1, "acked"),
    ]
    for _ in range(2):
        batches.batch(3, [wait(3500, 9100, deliveries=2, outcome="returned"), wait(9050, 9200)])
        assert sorted(batches.table("hour", "until", "deliveries", "outcome", "age_us"))[1:] == [
            (8, "2026-11-21 10:33:20", 3, "acked", 5_600_000_000),
            (10, "2026-11-21 10:03:20", 1, "acked", 100_000_000),
        ]
    assert [*(tmp_path / "stuck" / "date=2026-11-21" / "hour=6").iterdir()] == untouched


def test_an_episode_that_joins_two(spark: "SparkSession", tmp_path: Path) -> None:
    """What a segment that came late tells; an hour that has nothing any more is gone."""
    batches = Batches(spark, tmp_path)
    batches.batch(0, [wait(3000, 3100), wait(3700, 3800)])
    assert batches.store.hours("stuck") == ["2026-11-21-08", "2026-11-21-09"]
    batches.batch(1, [wait(3050, 3750)])
    assert batches.table() == [("2026-11-21 08:50:00", "2026-11-21 09:03:20", 3, "acked")]
    assert batches.store.hours("stuck") == ["2026-11-21-08"]


def _random(random: Random, relay: str = "r1") -> list[Wait]:
    """Waits of some subscriptions, over some hours."""
    made = []
    for _ in range(120):
        since = random.randrange(0, 20_000)
        made.append(
            wait(
                since,
                since + random.randrange(61, random.choice((90, 90, 4000))),
                relay=relay,
                session=random.choice(("s1", "s2", "s3")),
                subscription=random.choice(("1", "2", None)),
                broker=random.choice(("a", "b")),
                client=random.choice(("bob", None)),
                outcome=random.choice(("acked", "nacked", "returned")),
            )
        )
    return made


def _expected(waits: Sequence[Wait], now: int) -> list[tuple[Any, ...]]:
    """From when to when each was stuck, and how often, in seconds; in plain Python."""
    found = []
    for who in {(one.relay, one.session, one.subscription, one.broker) for one in waits}:
        ours = sorted(
            _seconds(one) for one in waits if (one.relay, one.session, one.subscription, one.broker) == who
        )
        while ours:
            since, until = ours.pop(0)
            longest, count = min(until, now) - since, 1
            while ours and ours[0][0] <= min(until, now):
                begun, end = ours.pop(0)
                until, count = max(until, end), count + 1
                longest = max(longest, min(end, now) - begun)
            found.append((*who, since, None if until > now else until, longest, count))
    return sorted(found, key=repr)


def _seconds(one: Wait) -> tuple[int, int]:
    return (one.since_ns - START_NS) // SECOND, (one.until_ns - START_NS) // SECOND


def _cut(waits: Sequence[Wait], ends: Sequence[int]) -> Iterator[list[Wait]]:
    """What each batch is told: the waits that ended in it, and all that go on after it."""
    before = -1
    for end in ends:
        news = []
        for one in waits:
            since, until = _seconds(one)
            if before < until <= end:
                news.append(one)
            elif until > end and end - since > 60:
                until_ns = START_NS + end * SECOND
                going = one._replace(until_ns=until_ns, age_ns=until_ns - one.since_ns, outcome=None)
                news.append(going._replace(going=True, final=False))
        yield news
        before = end


def _begun(waits: Sequence[Wait], now: int) -> list[Wait]:
    """Those that are stuck by now."""
    return [one for one in waits if min(_seconds(one)[1], now) > _seconds(one)[0] + 60]


def _measured(found: "DataFrame") -> list[tuple[Any, ...]]:
    """Rows of the table as `_expected` has them."""
    measured = found.selectExpr(
        "relay",
        "session",
        "subscription",
        "broker",
        f"unix_seconds(since) - {START_NS // SECOND} AS since",
        f"unix_seconds(until) - {START_NS // SECOND} AS until",
        "age_us DIV 1000000 AS age",
        "deliveries",
    )
    return sorted((tuple(row) for row in measured.collect()), key=repr)


def test_the_same_however_waits_are_cut(spark: "SparkSession") -> None:
    """Into any batches, by time: in each the waits that ended are merged and kept, and in the end those that go on come
    to them. Many relays side by side, each cut in another way.
    """
    random = Random(0)
    wanted: list[tuple[Any, ...]] = []
    ended: list[list[Wait]] = [[] for _ in range(4)]
    passing: list[Wait] = []
    for number in range(12):
        waits, now = _random(random, f"r{number}"), random.randrange(10_000, 20_000)
        cuts = sorted(random.sample(range(now), number % 4))
        for at, news in enumerate(_cut(waits, [*cuts, now])):
            ended[at] += [one for one in news if one.final]
            last = news
        passing += [one for one in last if not one.final]
        wanted += _expected(_begun(waits, now), now)
    episodes = merged([*(one for news in ended for one in merged(news)), *passing])
    assert _measured(table(spark, episodes)) == sorted(wanted, key=repr)
