"""The tables, read through Spark."""

import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from stomprelay.pipeline.read.frames import QuarantineRow
from stomprelay.pipeline.report import findings, gather
from stomprelay.pipeline.report.findings import (
    NOTHING,
    ClientFigures,
    Episode,
    Percentiles,
    Rest,
    Series,
    Span,
)
from stomprelay.pipeline.report.gather import Range
from stomprelay.pipeline.report.page import PageOptions, page
from stomprelay.pipeline.report.text import DAY, HOUR, MINUTE, SECOND
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.tables.rollup import LATENCY_SUMS, WIDTH
from tests.pipeline.report.outline import outline
from tests.pipeline.report.sample import BEGIN, HOSTILE
from tests.pipeline.report.tables import build, later
from tests.pipeline.rows import MESSAGE, START_NS, rows

pytestmark = pytest.mark.spark

NOW = BEGIN + DAY
ALL = Range()


def hour_of_traffic() -> list[dict[str, Any]]:
    """Minutes of an hour, none in the middle; a busy destination, a slow one and one without a name."""
    rows: list[dict[str, Any]] = []
    for minute in (*range(20), *range(40, 60)):
        at = later(60 * minute)
        rows += [
            {"minute": at, "messages": 10, "frames": 11},
            {"minute": at, "messages": 9, "direction": "to_client", "client": "bob", "upstream": "main"},
        ]
    rows += [
        {"minute": later(0), "destination": "/queue/b", "messages": 3, "errors": 2, "octets": 50},
        {"minute": later(0), "destination": None, "messages": 0, "client": "carol", "frames": 5},
    ]
    return rows


def test_an_hour(spark: SparkSession, tmp_path: Path) -> None:
    """All of it: sums by minute, destination and client, outcomes and latencies, flow."""
    store = build(
        spark,
        tmp_path,
        traffic=hour_of_traffic(),
        messages=[
            {"seen_at": later(30), "delivery_us": 1000, "receipt_us": 20, "redelivered": 2},
            {"seen_at": later(31), "delivery_us": 3000, "outcome": "undelivered", "final": False},
            {"seen_at": later(90), "relay": "r0", "destination": "/queue/b", "outcome": "unconfirmed"},
            {"seen_at": later(91), "destination": "/topic/t", "outcome": "undelivered"},
            {"seen_at": later(7200), "destination": "/queue/later"},
        ],
        latency=[
            {"minute": later(0), "delivery_p99": 3000},
            {"minute": later(60), "delivery_p99": 2000},
            {"minute": later(0), "destination": "/queue/b"},
        ],
        flow=[
            {"producer": "alice", "consumer": "bob", "messages": 5},
            {"producer": None, "consumer": None, "messages": 1},
        ],
    )
    found = gather.gather(store, Range(BEGIN, BEGIN + HOUR), 10, NOW)
    assert found.span == Span(BEGIN, BEGIN + HOUR, MINUTE)
    assert list(found.recorded) == [True] * 20 + [False] * 20 + [True] * 20
    busy = [10] * 20 + [0] * 20 + [10] * 20
    assert found.series == [
        Series("/queue/a", busy, [9 if number else 0 for number in busy]),
        Series("/queue/b", [3] + [0] * 59, [0] * 60),
        Series(Rest.OTHERS, [0] * 60, [0] * 60),
    ]
    assert found.errors == [2] + [0] * 59
    assert found.relays == ["r0", "r1"]
    assert found.outcomes == {"acked": 1, "undelivered": 1, "unheard": 1, "unconfirmed": 1}
    assert (found.redelivered, found.unsettled) == (2, 1)
    assert found.latencies["delivery"].whole == Percentiles(2, 1000, 3000, 3000, 3000)
    assert found.latencies["delivery"].bins[0].count == 2
    assert found.latencies["receipt"].bins[0] == Percentiles(1, 20, 20, 20, 20)
    first, second = found.destinations
    assert (first.name, first.sent, first.delivered, first.octets) == ("/queue/a", 400, 360, 8000)
    assert (first.worst_minute, first.worst_minute_p99) == (BEGIN, 3000)
    assert (first.delivery.p99, dict(first.outcomes)) == (3000, {"acked": 1, "undelivered": 1})
    assert first.spark == [19] * 20 + [0] * 20 + [19] * 20
    assert (second.name, second.sent, second.worst_minute) == ("/queue/b", 3, None)
    assert found.total_destinations == 2
    assert found.clients == [
        ClientFigures("alice", 403, 0, 4050, 2),
        ClientFigures("bob", 0, 360, 4000, 0),
        ClientFigures("carol", 0, 0, 100, 0),
    ]
    assert found.total_clients == 3
    assert found.octets == 8150
    assert sorted(found.ways, key=lambda way: way.messages) == [
        findings.Way(None, "/queue/a", None, 1),
        findings.Way("alice", "/queue/a", "bob", 5),
    ]
    assert found.whole_hours
    assert not found.failovers
    assert outline(page(found, PageOptions(made=NOW))).one("h1").text


def test_a_few_seconds(spark: SparkSession, tmp_path: Path) -> None:
    """A short run is shown by the second, from its first record to its last."""
    frames = [
        {"seen_at": later(seconds), "ns": START_NS + int(seconds * 1e9), **rest}
        for seconds, rest in (
            (10.2, {"command": "CONNECT", "destination": None}),
            (11.0, {}),
            (11.9, {"direction": "to_client", "side": "broker", "command": "MESSAGE", "client": "bob"}),
            (13.0, {"direction": "to_client", "side": "broker", "command": "ERROR", "destination": None}),
            (14.5, {"kind": "event", "command": None, "event": "disconnected", "direction": None}),
        )
    ]
    store = build(
        spark,
        tmp_path,
        frames=frames,
        traffic=[{}, {"direction": "to_client"}],
        messages=[{"seen_at": later(11), "delivery_us": 900_000}],
        latency=[{"delivery_p99": 900_000}],
    )
    found = gather.gather(store, Range(), 10, NOW)
    assert found.span == Span(BEGIN + 10 * SECOND, BEGIN + 15 * SECOND, SECOND)
    assert found.series[0] == Series("/queue/a", [0, 1, 0, 0, 0], [0, 1, 0, 0, 0])
    assert found.recorded == [True, True, False, True, False]
    assert found.errors == [0, 0, 0, 1, 0]
    assert found.latencies["delivery"].bins[1].p99 == 900_000
    assert [(one.name, one.sent, one.delivered, one.worst_minute) for one in found.destinations] == [
        ("/queue/a", 1, 1, BEGIN)
    ]
    assert found.clients == [ClientFigures("alice", 1, 0, 300, 1), ClientFigures("bob", 0, 1, 100, 0)]
    assert found.octets == 400
    assert not found.whole_hours


@pytest.mark.deep
def test_the_top(spark: SparkSession, tmp_path: Path) -> None:
    """Of many destinations some have a colour, some a row, and all are in the sums."""
    many = [{"destination": f"/queue/{n:03}", "messages": 1000 - n, "client": f"c{n}"} for n in range(300)]
    store = build(
        spark,
        tmp_path,
        traffic=many,
        flow=[{"producer": f"c{n}", "destination": f"/queue/{n}", "consumer": "x"} for n in range(300)],
    )
    found = gather.gather(store, Range(BEGIN, BEGIN + HOUR), 3, NOW)
    assert [one.name for one in found.destinations] == ["/queue/000", "/queue/001", "/queue/002"]
    assert [one.name for one in found.clients] == ["c0", "c1", "c2"]
    assert (found.total_destinations, found.total_clients) == (300, 300)
    assert [one.name for one in found.series] == [*(f"/queue/{n:03}" for n in range(6)), Rest.OTHERS]
    assert sum(sum(one.sent) for one in found.series) == sum(1000 - n for n in range(300))
    assert [way.destination for way in found.ways] == ["/queue/0", "/queue/1", "/queue/10"]
    assert found.total_ways == 300


def test_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Tables that are not there yet give a page that says so, of the range that was asked for, or else an hour."""
    found = gather.gather(build(spark, tmp_path), Range(), 10, NOW)
    assert found.empty
    assert found.span == gather.empty_span(Range(), NOW)
    assert asdict(found).keys() == asdict(findings.Findings(found.span)).keys()
    assert "stomprelay-pipeline once" in page(found, PageOptions(made=NOW))
    assert found.span.until - found.span.since == HOUR
    asked = gather.empty_span(Range(since=BEGIN, until=BEGIN + 2 * HOUR), NOW)
    assert (asked.since, asked.until) == (BEGIN, BEGIN + 2 * HOUR)


def test_failovers(spark: SparkSession, tmp_path: Path) -> None:
    """Each cell; those that began before the range and were not over belong to it."""
    counts = {"sessions": 9, "recovered": 7, "given_up": 2, "resent": 4, "stale_acks": 5, "duplicates": 6}
    silences = {"silence_p50_us": 100, "silence_max_us": 200}
    store = build(
        spark,
        tmp_path,
        failovers=[
            {"began_at": later(-7000), "ended_at": later(5), **silences, **counts},
            {"began_at": later(-7000), "ended_at": later(-6990), "broker": "over"},
            {"began_at": later(-7000), "broker": "never over"},
            {"began_at": later(3600), "broker": "later"},
            {"began_at": later(3599), "broker": "last", "planned": True, "moved_to": []},
        ],
    )
    found = gather.read_failovers(store, Range(BEGIN, BEGIN + HOUR))
    assert [one.broker for one in found] == ["a:61613", "never over", "last"]
    told = (BEGIN - 7000 * SECOND, BEGIN + 5 * SECOND, False, 9, 7, 2, 100, 200, 4, 5, 6)
    assert found[0] == findings.Failover("main", "a:61613", ["b:61613"], *told)
    assert (found[1].ended, found[2].planned, found[2].moved_to) == (None, True, [])
    assert len(gather.read_failovers(store, ALL)) == 5


def test_stuck(spark: SparkSession, tmp_path: Path) -> None:
    """A subscription with all its episodes, the longest wait first; two at a time are those of two brokers."""

    def waited(since: int, seconds: int, **more: Any) -> dict[str, Any]:
        return {"since": later(since), "age_us": seconds * SECOND, **more}

    seen = [
        waited(10, 150, until=later(160), deliveries=5, outcome="acked"),
        waited(100, 100, deliveries=2, broker="c"),
        waited(20, 80, until=later(100), session="s2", client=None, outcome="returned"),
    ]
    store = build(spark, tmp_path, stuck=seen)
    found, total = gather.read_stuck(store, ALL, 10)
    assert total == 2
    over = Episode(BEGIN + 10 * SECOND, BEGIN + 160 * SECOND, 5, "a:61613", 150 * SECOND, "acked")
    still = Episode(BEGIN + 100 * SECOND, None, 2, "c", 100 * SECOND)
    back = Episode(BEGIN + 20 * SECOND, BEGIN + 100 * SECOND, 1, "a:61613", 80 * SECOND, "returned")
    assert found == [
        findings.Stuck("bob", "1", "/queue/a", [over, still]),
        findings.Stuck(None, "1", "/queue/a", [back]),
    ]
    assert [(one.still, one.worst, list(one.by_broker)) for one in found] == [
        (True, 150 * SECOND, ["a:61613", "c"]),
        (False, 80 * SECOND, ["a:61613"]),
    ]
    assert gather.read_stuck(store, ALL, 1) == (found[:1], 2)
    assert gather.read_stuck(store, Range(until=BEGIN + 90 * SECOND), 1)[0][0].episodes == [over]
    assert [one.still for one in gather.read_stuck(store, Range(BEGIN + HOUR, BEGIN + 2 * HOUR), 9)[0]] == [
        True
    ]
    assert gather.read_stuck(build(spark, tmp_path / "nothing"), ALL, 10) == ([], 0)


def test_troubles(spark: SparkSession, tmp_path: Path) -> None:
    """What brokers and the relay said, counted by their words; other events and clients' frames do not count."""
    store = build(
        spark,
        tmp_path,
        frames=[
            {"command": "ERROR", "side": "broker", "headers": {"message": "No"}, "seen_at": later(5)},
            {"command": "ERROR", "side": "broker", "headers": {"message": "No"}, "client": "bob"},
            {"command": "ERROR", "side": "broker", "headers": {"x": "y"}, "client": None},
            {"command": "ERROR", "side": "client", "headers": {"message": "odd"}},
            {"command": None, "kind": "event", "event": "error", "text": "Too long", "side": None},
            {"command": None, "kind": "event", "event": "lost", "text": "Gone", "side": None},
            {},
        ],
    )
    found, total = gather.read_troubles(store.read("frames"), 10)
    assert found == [
        findings.Trouble("No", "broker", 2, 2, BEGIN, BEGIN + 5 * SECOND),
        findings.Trouble("(no message)", "broker", 1, 0, BEGIN, BEGIN),
        findings.Trouble("Too long", "relay", 1, 1, BEGIN, BEGIN),
    ]
    assert total == 3
    assert gather.read_troubles(store.read("frames"), 1) == (found[:1], 3)


def test_damages(spark: SparkSession, tmp_path: Path) -> None:
    """Each once, the first by file and place; what is missing is counted by itself."""
    found: list[dict[str, Any]] = [{"position": 9}, {"position": 5}, {"position": 5}, {"segment": "y"}]
    found.append({"segment": "z", "length": 0})
    found += [{"segment": "zz", "length": 0, "reason": "it is missing"}]
    store = build(spark, tmp_path, quarantine=found)
    first = [QuarantineRow("x.journal", at, 1, "checksum") for at in (5, 9)]
    assert gather.read_damages(store, 2) == (first, 5, 1)
    assert gather.read_damages(build(spark, tmp_path / "nothing"), 2) == ([], 0, 0)


def test_runs(spark: SparkSession, tmp_path: Path) -> None:
    """Those that went on in the range, the killed before others, in the order of time; what the journal dropped."""
    at = [BEGIN + minute * MINUTE for minute in range(10)]
    times = [later(60 * minute) for minute in range(10)]
    dead = {"ended_at": times[3], "outcome": "killed", "dropped": 7, "torn": 5}
    runs: list[dict[str, Any]] = [
        {"run": "a", "heard_at": times[1], "ended_at": times[1], "outcome": "stopped"},
        {"run": "b", "heard_at": times[3], "segments": 2, "frames": 9, "events": 1, **dead},
        {"run": "c", "began_at": times[4], "heard_at": times[9]},
        {"run": "d", "began_at": times[5], "heard_at": times[9]},
        {"run": "e", "began_at": times[9], "heard_at": times[9]},
    ]
    told: dict[str, Any] = {"kind": "event", "command": None, "event": "journal dropped"}
    frames = [{**told, "facts": {"frames": number}} for number in ("3", "4", "many")]
    store = build(spark, tmp_path, runs=runs, frames=[*frames, {"event": "connected", "kind": "event"}])
    killed = findings.RelayRun("r1", "b", at[0], at[3], at[3], "killed", 2, 9, 1, 7, 5)
    last = findings.RelayRun("r1", "d", at[5], at[9], None, "running", 0, 0, 0, 0, 0)
    assert gather.read_runs(store, Range(at[2], at[9]), 2) == ([killed, last], 3, 1)
    assert gather.read_runs(store, Range(at[4], None), 9)[1:] == (3, 0)
    assert gather.read_dropped(store.read("frames")) == 7
    empty = build(spark, tmp_path / "nothing")
    assert (gather.read_runs(empty, ALL, 9), gather.read_dropped(empty.read("frames"))) == (([], 0, 0), 0)


def test_what_may_wait_at_brokers(spark: SparkSession, tmp_path: Path) -> None:
    """What a lost broker was sent or had back; not what was delivered again, sent to a topic, or not confirmed."""
    connected = {"command": "CONNECTED", "side": "broker", "direction": "to_client"}
    frames = [
        {**connected, "session": session, "broker": broker, "seen_at": later(at)}
        for session, broker, at in (("p", "a", 0), ("p", "b", 60), ("q", "b", 0))
    ]
    sent: dict[str, Any] = {"producer_session": "p", "outcome": "undelivered"}
    back = [(later(1), "c", "s", "1", "main", broker, "m", "client", later(2), "returned") for broker in "ab"]
    messages: list[dict[str, Any]] = [
        {**sent, "sent_at": later(5)},
        {**sent, "sent_at": later(59), "receipt": "r", "receipt_us": 900_000},
        {**sent, "sent_at": later(59), "receipt": "r", "receipt_us": 2_000_000},
        {**sent, "sent_at": later(5), "destination": "/topic/t"},
        {**sent, "sent_at": later(5), "outcome": "unconfirmed"},
        {**sent, "sent_at": later(5), "producer_session": "q"},
        {**sent, "outcome": "returned", "deliveries": [back[1], back[0]]},
        {**sent, "outcome": "acked", "deliveries": back[:1]},
    ]
    placed = [{**each, "position": at} for at, each in enumerate(messages)]
    store = build(spark, tmp_path, frames=frames, messages=placed)
    assert gather.read_waiting(store, ALL, ["a", "c"]) == {"a": 3}
    assert gather.read_waiting(store, ALL, ["b"]) == {"b": 2}
    assert gather.read_waiting(store, ALL, []) == {}


BEFORE = -86400
HOUR_OF_NOW = Range(BEGIN, BEGIN + HOUR)


def test_the_day_before(spark: SparkSession, tmp_path: Path) -> None:
    """The same figures as of the day itself, of the same hour: what is beside it does not count."""
    back = {"direction": "to_client", "client": "bob"}
    store = build(
        spark,
        tmp_path,
        traffic=[
            {"minute": later(60), "messages": 10},
            {"minute": later(60), "messages": 10, "destination": "/queue/b"},
            {"minute": later(BEFORE + 600), "messages": 4, "errors": 2},
            {"minute": later(BEFORE + 660), "messages": 3, **back},
            {"minute": later(BEFORE + 660), "destination": "/queue/b", "messages": 1},
            {"minute": later(BEFORE + 660), "destination": "/queue/gone", "messages": 9, "client": "carol"},
            {"minute": later(BEFORE + 660), "destination": "/queue/silent", "messages": 0, "client": "carol"},
            {"minute": later(BEFORE - 60), "messages": 100},
            {"minute": later(BEFORE + 3600), "messages": 100},
        ],
        messages=[
            {"seen_at": later(BEFORE + 600), "delivery_us": 1000, "redelivered": 1},
            {"seen_at": later(BEFORE + 601), "outcome": "undelivered", "destination": "/topic/t"},
            {"seen_at": later(BEFORE - 1), "outcome": "undelivered"},
        ],
        failovers=[{"began_at": later(BEFORE + 5), "ended_at": later(BEFORE + 6)}, {"began_at": later(5)}],
        stuck=[{"since": later(BEFORE + 5), "until": later(BEFORE + 99), "age_us": 94 * SECOND}],
    )
    made = gather.earlier(store, gather.gather(store, HOUR_OF_NOW, 10, BEGIN), "day")
    assert (made.since, made.until) == (BEGIN - DAY, BEGIN - DAY + HOUR)
    assert (made.first, made.last) == (made.since + 10 * MINUTE, made.since + 12 * MINUTE)
    assert made.gone == ["/queue/gone"]
    found = made.found
    assert found is not None
    assert [(one.name, one.sent, one.delivered) for one in found.destinations] == [
        ("/queue/a", 4, 3),
        ("/queue/b", 1, 0),
    ]
    assert found.clients == [ClientFigures("alice", 5, 0, 200, 2)]
    assert (list(found.errors), found.octets) == ([2], 500)
    assert found.outcomes == {"acked": 1, "unheard": 1}
    assert found.latencies["delivery"].whole.p99 == 1000
    assert found.redelivered == 1
    assert [one.began for one in found.failovers] == [BEGIN - DAY + 5 * SECOND]
    assert (found.total_stuck, found.stuck[0].worst) == (1, 94 * SECOND)


def test_nothing_before(spark: SparkSession, tmp_path: Path) -> None:
    """Is told as such, with the time that was looked at."""
    store = build(spark, tmp_path, traffic=[{}])
    week = 7 * DAY
    assert gather.earlier(store, gather.gather(store, HOUR_OF_NOW, 10, BEGIN), "week") == findings.Earlier(
        "week", BEGIN - week, BEGIN - week + HOUR
    )


@pytest.mark.deep
def test_a_few_seconds_before(spark: SparkSession, tmp_path: Path) -> None:
    """A range of seconds is compared with the same seconds, not with their minutes."""
    frames = [{"seen_at": later(at)} for at in (10, BEFORE + 10, BEFORE + 11, BEFORE + 40)]
    store = build(spark, tmp_path, frames=frames, traffic=[{}, {"minute": later(BEFORE), "messages": 3}])
    range_ = Range(BEGIN + 5 * SECOND, BEGIN + 15 * SECOND)
    made = gather.earlier(store, gather.gather(store, range_, 10, BEGIN), "day")
    assert made.found
    assert [one.sent for one in made.found.destinations] == [2]


def test_the_stretch(spark: SparkSession, tmp_path: Path) -> None:
    """Without a begin it is the last day, or week, of what there is; one that is asked for holds, to the bin."""
    store = build(spark, tmp_path / "tables", traffic=[{"minute": later(60)}])
    assert gather.stretch(store, Range(), "day") == Range(BEGIN + 10 * MINUTE - DAY, None)
    assert gather.stretch(store, Range(None, BEGIN + HOUR), "week") == Range(
        BEGIN + HOUR - 7 * DAY, BEGIN + HOUR
    )
    assert gather.stretch(store, HOUR_OF_NOW, "day") == HOUR_OF_NOW
    odd = Range(BEGIN - DAY + MINUTE, BEGIN + MINUTE)
    assert gather.stretch(store, odd, "day") == Range(BEGIN + 10 * MINUTE - DAY, odd.until)
    assert gather.stretch(build(spark, tmp_path / "nothing"), Range(), "day") == Range()


def test_the_range(spark: SparkSession, tmp_path: Path) -> None:
    """Its begin belongs to it, its end does not; other hours are not read."""
    minutes = [{"minute": later(seconds), "frames": seconds} for seconds in (-3600, -60, 0, 60, 3600, 7200)]
    traffic = build(spark, tmp_path, traffic=minutes).read("traffic")

    def within(range_: Range) -> list[int]:
        return sorted(row.frames for row in range_.within(traffic, "minute").collect())

    assert within(Range()) == [-3600, -60, 0, 60, 3600, 7200]
    assert within(Range(BEGIN, BEGIN + HOUR)) == [0, 60]
    assert within(Range(since=BEGIN + 1)) == [60, 3600, 7200]
    assert within(Range(until=BEGIN + 1)) == [-3600, -60, 0]


def test_the_extent(spark: SparkSession, tmp_path: Path) -> None:
    """Goes as far as the options say, else from the first minute to the end of the last."""
    store = build(spark, tmp_path, traffic=[{"minute": later(60)}, {"minute": later(300)}])
    assert gather.extent(store, Range()) == (BEGIN + MINUTE, BEGIN + 6 * MINUTE - 1)
    assert gather.extent(store, Range(BEGIN, BEGIN + HOUR)) == (BEGIN, BEGIN + HOUR - 1)
    assert gather.extent(store, Range(since=BEGIN)) == (BEGIN, BEGIN + 6 * MINUTE - 1)
    assert gather.extent(store, Range(until=BEGIN + 3 * MINUTE)) == (BEGIN + MINUTE, BEGIN + 3 * MINUTE - 1)
    assert gather.extent(store, Range(since=BEGIN + HOUR)) is None
    assert gather.extent(build(spark, tmp_path / "nothing"), Range()) is None


def test_names(spark: SparkSession) -> None:
    """The top by the first weight, then by the next, then by name; the others and none keep apart from any name."""
    table = spark.createDataFrame(
        [("b", 5, 0), ("a", 2, 0), ("a", 3, 0), (None, 99, 0), ("c", 1, 7), ("d", 1, 8)],
        "who string, messages bigint, octets bigint",
    )
    found = gather.top(table, "who", ["messages", "octets"], 3, F.max("messages").alias("most"))
    assert [row.most for row in found] == [3, 5, 1]
    names = [row.who for row in found]
    assert names == ["a", "b", "d"]
    codes = [row[0] for row in table.select(gather.coded("who", names)).collect()]
    assert codes == [1, 0, 0, gather.NULL, gather.OTHER, 2]


def test_names_that_mean_harm(spark: SparkSession) -> None:
    """Are values, not code."""
    names = [name for name in HOSTILE if len(name) < 100]
    table = spark.createDataFrame([(name, 1) for name in names], "who string, n bigint")
    assert sorted(row.who for row in gather.top(table, "who", ["n"], 99)) == sorted(names)
    codes = table.select(gather.coded("who", names)).collect()
    assert [row[0] for row in codes] == list(range(len(names)))


def test_bins(spark: SparkSession) -> None:
    """The same as the span's own."""
    span = Span(BEGIN, BEGIN + MINUTE, 5 * SECOND)
    instants = [BEGIN, BEGIN + 5 * SECOND - 1, BEGIN + 5 * SECOND, BEGIN + MINUTE - 1]
    table = spark.createDataFrame([(at,) for at in instants], "seen_at bigint")
    found = table.select(gather.bin_of(span, F.col("seen_at"))).collect()
    assert [row[0] for row in found] == [span.index(at) for at in instants]


def test_a_spread() -> None:
    """A percentile is the largest value of the bucket that its rank falls in."""
    buckets: gather.Buckets = {}
    assert gather.percentiles(buckets) == NOTHING
    for each in ((5, 49, 110), (5, 1, 111), (9, 45, 200), (12, 5, 300)):
        gather.add(buckets, *each)
    assert gather.percentiles(buckets) == Percentiles(100, 111, 200, 300, 300)


def test_percentiles_are_those_of_the_table(spark: SparkSession) -> None:
    """By minute they equal the columns of `latency`; over all they are as near to the exact ones."""
    chance = random.Random(3)
    values = [int(chance.lognormvariate(8, 1.5)) for _ in range(600)] + [0, 1, -7]
    took = [{"delivery_us": value, "ack_us": value if value % 2 else None} for value in values]
    many = [{"seen_at": later(chance.randrange(180)), **one} for one in took]
    messages = rows(spark, MESSAGES, MESSAGE, many).persist()
    span = Span(BEGIN, BEGIN + 4 * MINUTE, MINUTE)
    found, by_place = gather.timings(messages, span, [MESSAGE["destination"]])
    minutes = LATENCY_SUMS.rows(LATENCY_SUMS.summed(messages)).withColumn("since", F.unix_micros("minute"))
    for row in minutes.collect():
        bin_ = span.index(row.since)
        for measure in ("delivery", "ack"):
            told = [row[f"{measure}_{what}"] for what in ("count", "p50", "p95", "p99", "max")]
            assert found[measure].bins[bin_] == Percentiles(*told)
    assert found["delivery"].bins[3] == NOTHING
    assert found["receipt"].whole == NOTHING
    whole = found["delivery"].whole
    assert by_place == {0: whole}
    assert whole.count == len(values)
    assert whole.longest == max(values)
    for percent, value in ((50, whole.p50), (95, whole.p95), (99, whole.p99)):
        exact = sorted(values)[-(-percent * len(values) // 100) - 1]
        assert value is not None
        assert exact <= value <= exact * WIDTH
