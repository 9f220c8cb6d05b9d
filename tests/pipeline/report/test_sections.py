"""The sections of the page: charts, and the tables behind them."""

from dataclasses import replace
from typing import Any

import pytest

from stomprelay.pipeline.report import findings as report
from stomprelay.pipeline.report.findings import NOTHING as UNKNOWN
from stomprelay.pipeline.report.findings import Destination, Findings, Latency, Percentiles, Rest, Series
from stomprelay.pipeline.report.page import PageOptions, page
from stomprelay.pipeline.report.text import DAY, HOUR, MINUTE, SECOND
from tests.pipeline.report.outline import Element, cells, outline
from tests.pipeline.report.sample import BEGIN, BROKERS, damaged, sample
from tests.pipeline.report.test_findings import NOTHING

BINS = NOTHING.span.bins
SOME = Percentiles(10, 1_000, 2_000, 3_000, 4_000_000)
FINDINGS = sample()
RECORDED = replace(NOTHING, recorded=[True] * BINS)


def section(key: str, findings: Findings = RECORDED, **more: Any) -> Element:
    """The section of the page of these findings."""
    root = outline(page(replace(findings, **more), PageOptions(made=BEGIN)))
    (found,) = (one for one in root.all("section") if one.attributes["id"] == key)
    return found


def said(element: Element) -> str:
    """Its text with usual spaces."""
    return " ".join(element.text.split())


def note(found: Element) -> str:
    """What the section says below its title."""
    return said(found.one("figcaption").one("p"))


def table(found: Element, which: str = "sheet") -> list[list[str]]:
    """The cells of its table."""
    (box,) = (one for one in found.all() if one.attributes.get("id", "").endswith(f"-{which}"))
    return [[" ".join(cell.split()) for cell in row] for row in cells(box)]


def heads(found: Element) -> list[str]:
    """The headings of its table."""
    return [each.text for each in found.one("thead").all("th")]


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("traffic", "No messages were sent or delivered."),
        ("latency", "No latency is known: nothing was confirmed, delivered or acknowledged."),
        ("failovers", "No broker was lost while sessions were on it."),
        ("stuck", "No consumer left a delivery unanswered for too long."),
        ("outcomes", "No messages."),
        ("flow", "No message was sent from one client to another."),
        ("destinations", "No destinations."),
        ("clients", "No clients."),
        ("errors", "No errors, neither from brokers nor from the relay."),
    ],
)
def test_nothing(key: str, told: str) -> None:
    """Is said in a sentence, without a chart."""
    found = section(key)
    assert note(found) == told
    assert found.all("table") == found.all("svg") == []


def test_traffic() -> None:
    """Two charts of rates, with a legend and the counts behind them; what is silent is left out."""
    series = [
        Series("/queue/a", [120] * BINS, [0] * 30 + [600] + [0] * 29),
        Series("/queue/silent", [0] * BINS, [0] * BINS),
        Series(Rest.OTHERS, [60] * BINS, [0] * BINS),
    ]
    found = section("traffic", series=series)
    legend = [(entry.all("span")[0].classes, entry.text) for entry in found.all("li")]
    assert legend == [({"swatch", "c1"}, "/queue/a"), ({"swatch", "c0"}, "all others")]
    panels = found.all("div", "panel")
    assert [panel.one("h3").text for panel in panels] == ["Sent by clients", "Delivered to clients"]
    assert [panel.one("p").text for panel in panels] == ["at most 3/s, at 08:00", "at most 10/s, at 08:30"]
    assert [panel.one("div", "plot").attributes["data-columns"] for panel in panels] == ["1 2", "3 4"]
    assert [[path.classes for path in panel.all("path", "area")] for panel in panels] == [
        [{"area", "c1"}, {"area", "c0"}],
        [{"area", "c1"}],
    ]
    assert [each.text for each in panels[0].one("div", "ys").all("span")] == ["0", "1/s", "2/s", "3/s"]
    assert panels[0].one("svg").attributes["aria-label"] == (
        "Sent by clients: 10,800 messages, at most 3/s, at 08:00"
    )
    assert heads(found) == ["Time", "/queue/a in", "all others in", "/queue/a out", "all others out"]
    assert len(table(found)) == BINS
    assert table(found)[30] == ["08:30", "120", "60", "600", "0"]


def test_outages_and_gaps_lie_behind_the_traffic() -> None:
    """So that a dent explains itself, in the legend and in the table too; pauses that were asked for do not."""
    found = section("traffic", FINDINGS)
    assert [entry.text for entry in found.all("li")][-2:] == ["nothing recorded", "a broker was out"]
    for plot in found.all("div", "plot"):
        assert [band.attributes["title"] for band in plot.all("div", "band")] == [
            "nothing recorded",
            f"{BROKERS[0]} was out",
            f"{BROKERS[2]} was out",
        ]
        (gap,) = plot.all("div", "gap")
        assert gap.attributes["style"] == "left:80%;width:6.11%"
    assert heads(found)[-1] == "Meanwhile"
    assert table(found)[-1][-1] == f"{BROKERS[2]} was out"


def test_the_time_axis() -> None:
    """Marks of both ranks; those near an end say so by their class, so that they stay inside."""
    found = section("errors", sample(length=MINUTE))
    ticks = found.one("div", "xs").all("time")
    assert [tick.text for tick in ticks] == [f"08:00:{second}0" for second in range(6)]
    assert [tick.classes for tick in ticks] == [{"main", "start"}, set(), set(), {"main"}, set(), set()]


def test_errors() -> None:
    """When, and what they said."""
    told = report.Trouble("No <b> here", "broker", 12, 3, BEGIN, BEGIN + 90 * SECOND)
    found = section("errors", errors=[0] * 59 + [12], troubles=[told], total_troubles=1)
    assert note(found) == "12 errors, at most 12 in 1 min."
    assert table(found, "listing") == [
        ["No <b> here", "broker", "12", "3", "21 Nov 2026, 08:00:00", "21 Nov 2026, 08:01:30"]
    ]
    assert [row[1] for row in table(found)] == ["0"] * 59 + ["12"]


def test_latency() -> None:
    """One panel for each latency, on one axis, with its figures."""
    latencies = {"receipt": Latency([SOME] * 30 + [UNKNOWN] * 30, SOME), "ack": Latency([UNKNOWN] * BINS)}
    found = section("latency", latencies=latencies)
    panels = found.all("div", "panel")
    assert [panel.one("h3").text for panel in panels] == [
        "Until confirmed SEND to RECEIPT",
        "Until delivered SEND to MESSAGE",
        "Until acknowledged MESSAGE to ACK",
    ]
    assert said(panels[0].all("p")[0]) == "p50 1 ms, p95 2 ms, p99 3 ms, longest 4 s"
    assert panels[1].one("p").text == panels[2].one("p").text == "Nothing to measure."
    assert panels[0].one("div", "plot").attributes["data-columns"] == "1 2 3"
    paths = [path.classes - {"line"} for path in panels[0].all("path")][-4:]
    assert paths == [{"between", "spread"}, {"line-p99"}, {"line-p95"}, {"line-p50"}]
    assert table(found)[0] == ["08:00", "1 ms", "2 ms", "3 ms"] + ["\u2013"] * 6
    assert table(found)[59] == ["08:59"] + ["\u2013"] * 9


def test_failovers() -> None:
    """A row for each broker with a bar for each outage, and each cell of the table."""
    found = section("failovers", FINDINGS, waiting={"tcp://a:1": 1200, "tcp://b:1": 1})
    assert note(found) == (
        "3 outages under 51 sessions; 48 went on at another broker; 1 gave up; the longest silence was 4.2 s. "
        "about 1,200 may wait at tcp://a:1, about 1 may wait at tcp://b:1."
    )
    assert [who.text for who in found.all("div", "who")] == [f"{broker}main" for broker in BROKERS]
    bars = found.all("div", "bar")
    assert [bar.classes for bar in bars] == [{"bar", "outage"}, {"bar", "planned"}, {"bar", "outage", "open"}]
    assert " ".join(bars[0].attributes["title"].split()) == (
        f"{BROKERS[0]}, 21 Nov 2026, 10:24:00 UTC, 4.2 s: 37 sessions · 4.2 s, 128 frames sent again"
    )
    first, second, third = table(found)
    assert first[:4] == ["21 Nov 2026, 10:24:00", f"{BROKERS[0]}main", "".join(BROKERS[1:]), "4.2 s"]
    assert first[4:] == ["37", "36", "1", "2.1 s", "4.2 s", "128", "19", "6"]
    assert second[3] == "30 s (planned)"
    assert third[2:] == ["\u2013", "not over", "2", "0", "0", "\u2013", "\u2013", "0", "0", "0"]


def test_outages_of_one_broker() -> None:
    """Share a row, in the order of time; that no session found another broker is said."""
    first = replace(FINDINGS.failovers[2], given_up=2)
    again = replace(first, began=first.began - HOUR, ended=first.began - HOUR + SECOND)
    found = section("failovers", FINDINGS, failovers=[first, again])
    assert note(found) == "2 outages under 4 sessions; none found another broker; 4 gave up."
    (track,) = found.all("div", "track")
    assert [bar.classes for bar in track.all("div", "bar")] == [{"bar", "outage"}, {"bar", "outage", "open"}]


def test_stuck() -> None:
    """A line for each subscription and broker, a bar for each time, and for each bar a row of the table."""
    found = section("stuck", FINDINGS)
    assert note(found) == (
        "3 subscriptions left deliveries unanswered, the longest for 4 h; 1 still did when the journal was last read."
    )
    assert [len(track.all("div", "bar")) for track in found.all("div", "track")] == [1, 1, 2, 1]
    bars = found.all("div", "bar")
    assert [("open" in bar.classes, bar.attributes["title"].partition(": ")[2]) for bar in bars[:2]] == [
        (True, "from 21 Nov 2026, 10:00:00 UTC, not over"),
        (False, "from 21 Nov 2026, 08:40:00 to 21 Nov 2026, 08:51:25 UTC"),
    ]
    rows = table(found)
    assert rows[0] == [
        *("mailermail-1", "/queue/mail.outgoing", "10.0.0.13:61613", "21 Nov 2026, 10:00:00"),
        *("still waiting", "4 h", "4 h", "500", "\u2013"),
    ]
    assert [row[2] for row in rows] == [BROKERS[2], BROKERS[0], BROKERS[1], BROKERS[1], BROKERS[0]]
    assert rows[4][:2] == ["audit-writer", "/topic/audit"]
    assert rows[4][3:] == [f"21 Nov 2026, 10:0{at}" for at in ("0:00", "1:10")] + [
        *["1 min 10 s"] * 2,
        "4",
        "acked",
    ]


def test_more_stuck_than_shown() -> None:
    """Says how many there are; what has no name is told in words."""
    episode = report.Episode(BEGIN, BEGIN + MINUTE, 1, None, 70 * SECOND, "acked")
    one = replace(FINDINGS.stuck[2], episodes=[episode], client=None, destination=None)
    found = section("stuck", FINDINGS, stuck=[one], total_stuck=200)
    assert note(found) == (
        "200 subscriptions left deliveries unanswered, the longest for 1 min 10 s; none still does. Shown: the 1 worst."
    )
    assert table(found)[0][:3] == ["unnamed client", "\u2013", "\u2013"]


def test_outcomes() -> None:
    """Shares of all and of each destination, with the figures."""
    found = section(
        "outcomes",
        outcomes={"acked": 900, "undelivered": 99, "unconfirmed": 1},
        redelivered=1,
        unsettled=5,
        destinations=[
            Destination("/queue/a", 900, 900, 1, {"acked": 900}),
            Destination("/queue/b", 100, 0, 1, {"undelivered": 99, "unconfirmed": 1}),
            Destination("/queue/nothing", 0, 0, 1, {}),
        ],
    )
    assert note(found) == (
        "90.0 % of 1,000 messages reached a consumer; 1 delivery was made again; 5 may still change."
    )
    rows = found.all("div", "row")
    assert [row.one("div", "who").text for row in rows] == ["All messages", "/queue/a", "/queue/b"]
    widths = [part.attributes["style"] for part in rows[0].all("span", "outcome")]
    assert widths == ["width:90%", "width:9.9%", "width:0.1%"]
    assert " ".join(rows[2].one("div", "share").attributes["aria-label"].split()) == (
        "not delivered yet 99.0 %, neither delivered nor confirmed 1.0 %"
    )
    assert table(found) == [
        ["All messages", "1,000", "900 90.0 %", "99 9.9 %", "1 0.1 %"],
        ["/queue/a", "900", "900 100 %", "0", "0"],
        ["/queue/b", "100", "0", "99 99.0 %", "1 1.0 %"],
    ]
    assert found.all("p", "remark") == []


def test_topics_without_subscribers_are_told_apart() -> None:
    """Nothing of theirs waits to be delivered, and their messages are in no share that a consumer should have got."""
    found = section("outcomes", outcomes={"acked": 9, "undelivered": 1, "unheard": 30})
    assert note(found) == (
        "90.0 % of 10 messages reached a consumer; 30 more went to topics, where nobody got them."
    )
    assert "kept for nobody else" in found.one("p", "remark").text


def test_the_flow() -> None:
    """A row for each way, destinations in their colours."""
    ways = [report.Way("a", "/queue/a", None, 5), report.Way(None, None, "b", 1)]
    found = section("flow", ways=ways, total_ways=3, series=[Series("/queue/a", [1] * BINS, [0] * BINS)])
    assert [each.children[0].classes for each in found.all("span", "keyed")] == [
        {"swatch", "c1"},
        {"swatch", "c0"},
    ]
    assert [row[:4] for row in table(found)] == [
        ["a", "/queue/a", "nobody", "5"],
        ["not seen sending", "no destination", "b", "1"],
    ]
    assert "The 2 busiest of 3 ways." in found.one("figcaption").text
    assert found.all("p", "remark") == []
    assert "by the hour" in section("flow", ways=ways, whole_hours=False).one("p", "remark").text


def test_destinations_and_clients() -> None:
    """Each cell; small charts have a table as well; errors stand out."""
    timed = Percentiles(9, 2_300, 5_000, 34_000, 40_000)
    found = replace(
        RECORDED,
        destinations=[
            Destination("/queue/a", 1200, 800, 2048, {}, timed, BEGIN, 1_250_000, [1, 2]),
            Destination("/queue/<b>", 1, 0, 20, {}),
        ],
        total_destinations=1000,
        clients=[report.ClientFigures("shop", 5, 0, 100, 0), report.ClientFigures("", 0, 1, 3000, 7)],
        total_clients=2,
    )
    listed = section("destinations", found)
    assert note(listed) == "The 2 busiest of 1,000 destinations."
    assert table(listed, "listing") == [
        ["/queue/a", "1,200", "800", "", "2 KiB", "2.3 ms", "34 ms", "1.2 s", "21 Nov 08:00"],
        ["/queue/<b>", "1", "0", "", "20 B", "\u2013", "\u2013", "\u2013", "\u2013"],
    ]
    meters = [one.children[0].attributes["style"] for one in listed.all("span", "meter")]
    assert meters == ["width:100%", "width:0.05%"]
    assert len(listed.all("svg", "spark")) == 1
    assert table(listed) == [["08:00", "1", "0"], ["08:01", "2", "0"]]
    people = section("clients", found)
    assert note(people) == "2 clients, the busiest first."
    assert table(people) == [["shop", "5", "0", "", "100 B", "0"], ["unnamed", "0", "1", "", "2.9 KiB", "7"]]
    assert people.one("b", "alarmed").text == "7"


def test_changes_since_the_week_before() -> None:
    """In a column of their own, where there is anything to compare with."""
    before = replace(
        NOTHING,
        destinations=[Destination("/queue/a", 50, 50, 1, {})],
        clients=[report.ClientFigures("shop", 15, 15, 1, 0)],
    )
    found = replace(
        RECORDED,
        destinations=[Destination("/queue/a", 100, 50, 1, {}), Destination("/queue/new", 1, 0, 1, {})],
        clients=[report.ClientFigures("shop", 30, 0, 1, 0)],
        earlier=report.Earlier("week", BEGIN - 7 * DAY, BEGIN, BEGIN - 7 * DAY, BEGIN, before),
    )
    assert heads(section("clients", found))[-1] == "Since the week before"
    assert [row[-1] for row in table(section("destinations", found), "listing")] == ["+50 %", "none before"]
    assert [row[-1] for row in table(section("clients", found))] == ["the same"]
    nothing = replace(found, earlier=report.Earlier("week", BEGIN - 7 * DAY, BEGIN))
    assert heads(section("destinations", nothing))[-1] == "In the minute"


def test_the_moves() -> None:
    """Differences are named, and a size alone is said to be no more."""
    one = report.Compared("/queue/a", "alice", 1000, 996, 0, 1, 2, 1, 0, 1500)
    good = report.Compared("/queue/b", "", 5, 5, 5, 0, 0, 0, 0, None)
    found = section("moves", compared=[one, good], total_compared=3)
    assert note(found).endswith("4 differences. Shown: 2 of 3, those with the most differences first.")
    assert table(found) == [
        ["/queue/a", "alice", "1,000", "996", "1", "2", "1", "0", "1.5 ms"],
        ["/queue/b", "unnamed client", "5", "5 5 by their size", "0", "0", "0", "0", "\u2013"],
    ]
    assert note(section("moves", compared=[good], total_compared=1)).endswith("both sides are the same.")


def test_the_runs() -> None:
    """Of each how it ended, and what it lacks."""
    one = report.RelayRun("r1", "0000000a", BEGIN, BEGIN, None, "running", 1, 2, 3, 0, 0)
    dead = replace(one, run="0000000b", ended=BEGIN, outcome="killed", dropped=1114, torn=7)
    found = section("runs", runs=[one, dead], total_runs=3, killed=1)
    assert note(found) == (
        "3 runs of relays' processes, 1 of them killed. Shown: 2, those that were killed first."
    )
    at = "21 Nov 2026, 08:00:00"
    assert table(found) == [
        ["r1", "0000000a", at, "\u2013", "running", "1", "2", "3", "0", "0 B"],
        ["r1", "0000000b", at, at, "killed", "1", "2", "3", "1,114", "7 B"],
    ]


@pytest.mark.parametrize(
    ("total", "missing", "told"),
    [
        (1, 0, "1 stretch of the journal could not be read. What was"),
        (1, 1, "1 stretch of the journal is missing, or came late. What was"),
        (3, 2, "1 stretch of the journal could not be read. 2 stretches of the journal are missing, or came"),
    ],
)
def test_the_quarantine(total: int, missing: int, told: str) -> None:
    """Names file and place; what is missing is told apart, with what may be incomplete by it."""
    found = section("quarantine", damages=damaged(1), total_damages=total, total_missing=missing)
    assert note(found).startswith(told)
    assert ("incomplete" in note(found)) == bool(missing)
    ((segment, *rest),) = table(found)
    assert segment.endswith(".journal")
    assert rest == ["65,536", "812 B", "checksum"]
