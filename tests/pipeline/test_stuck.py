"""Who did not answer, and from when to when."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from stomprelay.pipeline.match.conversation import SessionRow
from stomprelay.pipeline.match.deliveries import WAIT
from stomprelay.pipeline.schema import STUCK
from stomprelay.pipeline.settings import Settings
from stomprelay.pipeline.store.store import Batch, Store
from stomprelay.pipeline.tables import stuck
from tests.pipeline.rows import SECOND, START_NS, rows, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

USUAL: dict[str, Any] = {
    "relay": "r1",
    "session": "s1",
    "client": "bob",
    "subscription": "1",
    "destination": "/queue/a",
    "upstream": "main",
    "broker": "a:61613",
    "since_ns": START_NS,
    "until_ns": START_NS + 90 * SECOND,
    "deliveries": 1,
    "outcome": "acked",
    "going": False,
    "final": True,
}

Wait = dict[str, Any]


def wait(since: int, until: int, **further: Any) -> Wait:
    """From when to when, in seconds after the start."""
    return {"since_ns": START_NS + since * SECOND, "until_ns": START_NS + until * SECOND, **further}


def going(since: int, now: int, **further: Any) -> Wait:
    """One that goes on."""
    return wait(since, now, outcome=None, going=True, final=False, **further)


class Ground:
    """Batches of waits, as `messages` leaves them."""

    def __init__(self, spark: "SparkSession", root: Path) -> None:
        self.spark = spark
        self.store = Store(spark, str(root))
        self.settings = Settings(journal="/nowhere", tables=str(root))

    def batch(self, number: int, many: Sequence[Wait]) -> Batch:
        """Done, by `stuck`."""
        said = rows(self.spark, WAIT, USUAL, many).selectExpr(
            "session AS key", "0L AS number", "to_json(struct(*)) AS text", f"{int(SessionRow.WAIT)} AS what"
        )
        self.store.save("said", number, said.coalesce(1), "what")
        batch = Batch(self.spark, self.store, number, self.settings)
        stuck.advance(batch)
        return batch

    def table(self, *columns: str) -> list[tuple[Any, ...]]:
        """Its rows."""
        return told(self.store.read("stuck"), columns or ["since", "until", "deliveries", "outcome"])


def test_each_cell(spark: "SparkSession", tmp_path: Path) -> None:
    """Waits that overlap or touch are one episode, others are not, nor those of another subscription or broker."""
    ground = Ground(spark, tmp_path)
    many = [
        wait(0, 90, client="old", destination="/queue/b"),
        wait(80, 170, deliveries=2, outcome="nacked"),
        wait(170, 240, outcome="returned"),
        wait(100, 161),
        going(300, 4000, deliveries=5),
        wait(290, 370, broker="b:61613"),
        wait(230, 310, subscription=None),
    ]
    ground.batch(0, many)
    assert ground.store.read("stuck").columns == [*STUCK.names, "hour"]
    who = ("r1", "s1", "bob", "1", "/queue/a", "main", "a:61613")
    at = "2026-11-21 08:"
    assert told(ground.store.read("stuck")) == [
        (f"{at}00:00", f"{at}04:00", *who, 90_000_000, 5, "returned", "2026-11-21-08"),
        (f"{at}03:50", f"{at}05:10", *who[:3], None, *who[4:], 80_000_000, 1, "acked", "2026-11-21-08"),
        (f"{at}04:50", f"{at}06:10", *who[:6], "b:61613", 80_000_000, 1, "acked", "2026-11-21-08"),
        (f"{at}05:00", None, *who, 3_700_000_000, 5, None, "2026-11-21-08"),
    ]


def test_an_episode_over_batches_and_hours(spark: "SparkSession", tmp_path: Path) -> None:
    """It is one row, in the hour in which it began, until it ends and after; other hours stay as they are."""
    ground = Ground(spark, tmp_path)
    ground.batch(0, [wait(-7000, -6900, session="before"), going(3500, 3590)])
    first = ("2026-11-21 06:03:20", "2026-11-21 06:05:00", 1, "acked")
    assert ground.table() == [first, ("2026-11-21 08:58:20", None, 1, None)]
    untouched = [*(tmp_path / "stuck" / "hour=2026-11-21-06").iterdir()]
    ground.batch(1, [going(3500, 9000, deliveries=2), wait(7300, 7400, session="other")])
    ground.batch(2, [])
    assert ground.table()[1:] == [
        ("2026-11-21 08:58:20", None, 2, None),
        ("2026-11-21 10:01:40", "2026-11-21 10:03:20", 1, "acked"),
    ]
    ground.batch(3, [wait(3500, 9100, deliveries=2, outcome="returned")])
    for number in (4, 4):
        ground.batch(number, [wait(9050, 9200, deliveries=1)])
        assert ground.table("hour", "until", "deliveries", "outcome", "age_us")[1:] == [
            ("2026-11-21-08", "2026-11-21 10:33:20", 3, "acked", 5_600_000_000),
            ("2026-11-21-10", "2026-11-21 10:03:20", 1, "acked", 100_000_000),
        ]
    assert [*(tmp_path / "stuck" / "hour=2026-11-21-06").iterdir()] == untouched


def test_an_episode_that_joins_two(spark: "SparkSession", tmp_path: Path) -> None:
    """What a segment that came late tells; an hour that has nothing any more is gone."""
    ground = Ground(spark, tmp_path)
    ground.batch(0, [wait(3000, 3100), wait(3700, 3800)])
    assert ground.store.hours("stuck") == ["2026-11-21-08", "2026-11-21-09"]
    ground.batch(1, [wait(3050, 3750)])
    assert ground.table() == [("2026-11-21 08:50:00", "2026-11-21 09:03:20", 3, "acked")]
    assert ground.store.hours("stuck") == ["2026-11-21-08"]


def _random(random: Random) -> list[Wait]:
    """Waits of some subscriptions, over some hours."""
    made = []
    for _ in range(120):
        since = random.randrange(0, 20_000)
        made.append(
            wait(
                since,
                since + random.randrange(61, random.choice((90, 90, 4000))),
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
    known = [{**USUAL, **one} for one in waits]
    for who in {tuple(one[name] for name in ("session", "subscription", "broker")) for one in known}:
        ours = sorted(
            (
                ((one["since_ns"] - START_NS) // SECOND, (one["until_ns"] - START_NS) // SECOND)
                for one in known
                if (one["session"], one["subscription"], one["broker"]) == who
            ),
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


@pytest.mark.parametrize("seed", range(3))
def test_the_same_however_it_is_cut(spark: "SparkSession", tmp_path: Path, seed: int) -> None:
    """Into any batches, by time: in each the waits that ended are told, and all that go on; and so up to any time."""
    random = Random(seed)
    waits = _random(random)
    now = random.randrange(10_000, 20_000)
    tables = []
    for at, cuts in enumerate(([], sorted(random.sample(range(now), 3)))):
        ground = Ground(spark, tmp_path / str(at))
        before = -1
        for number, end in enumerate([*cuts, now]):
            news = []
            for one in waits:
                since, until = ((one[name] - START_NS) // SECOND for name in ("since_ns", "until_ns"))
                if before < until <= end:
                    news.append(one)
                elif until > end and end - since > 60:
                    rest = {name: value for name, value in one.items() if name != "outcome"}
                    news.append({**rest, **going(since, end)})
            random.shuffle(news)
            for _ in range(random.choice((1, 2))):
                ground.batch(number, news)
            before = end
        tables.append(told(ground.store.read("stuck")))
        begun = [
            one
            for one in waits
            if min((one["until_ns"] - START_NS) // SECOND, now) * SECOND
            > one["since_ns"] - START_NS + 60 * SECOND
        ]
        measured = ground.store.read("stuck").selectExpr(
            "session",
            "subscription",
            "broker",
            f"unix_seconds(since) - {START_NS // SECOND} AS since",
            f"unix_seconds(until) - {START_NS // SECOND} AS until",
            "age_us DIV 1000000 AS age",
            "deliveries",
        )
        assert sorted((tuple(row) for row in measured.collect()), key=repr) == _expected(begun, now)
    assert tables[0] == tables[1]
