"""Findings made up at random, from a seed: three brokers, a failover, a stuck consumer, names that mean harm."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from stomprelay.pipeline.read.frames import QuarantineRow
from stomprelay.pipeline.report import findings as report
from stomprelay.pipeline.report.findings import Episode, Findings, Name, Percentiles, Rest, Span
from stomprelay.pipeline.report.text import DAY, HOUR, SECOND, Micros

BEGIN: Micros = 1_795_248_000 * SECOND  # 21 November 2026, 08:00 UTC
BROKERS = ("10.0.0.11:61613", "10.0.0.12:61613", "10.0.0.13:61613")
DESTINATIONS = (
    "/queue/orders",
    "/topic/prices.eu",
    "/queue/payments",
    "/topic/audit",
    "/queue/mail.outgoing",
    "/queue/stock.changes",
    "/queue/returns",
    "/topic/heartbeat",
    "/queue/invoices",
    "/queue/labels",
)
PRODUCERS = ("shop-1", "shop-2", "pricing", "backoffice", "warehouse")
CONSUMERS = ("billing", "fulfilment-1", "fulfilment-2", "mailer", "audit-writer", "dashboard")
HOSTILE = (
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert('2')>",
    "</style></title></script><svg onload=alert(3)>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&amp;",
    "\u202egnp.exe\u2066/queue/\u200b\u0430\x00\x1b[31m",
    "שלום/queue/مرحبا",
    "/queue/" + "a-very-long-name." * 400,
    "javascript:alert(4)//https://example.org/x.js",
    "'; DROP TABLE messages; --",
    "",
    "🦊" * 80,
)
"""Names as nobody would choose them who means well."""


def sample(
    seed: int = 1, length: Micros = 6 * HOUR, names: Sequence[str] = DESTINATIONS, begin: Micros = BEGIN
) -> Findings:
    """Traffic of so long, with a failover after two fifths of it, and a pause in the records towards its end."""
    chance = random.Random(seed)
    span = Span.over(begin, begin + length - 1)
    lost = begin + 2 * length // 5
    recovered = lost + min(int(4.2 * SECOND), length // 20)
    recorded = [not 0.8 <= bin_ / span.bins < 0.86 for bin_ in range(span.bins)]
    series = _series(chance, span, names, recorded)
    latencies = {
        measure: _latency(chance, span, base, recorded, lost)
        for measure, base in (("receipt", 900), ("delivery", 2_400), ("ack", 18_000))
    }
    outcomes = Counter({"acked": 0})
    destinations = []
    for rank, name in enumerate(names[:10], start=1):
        made = _outcomes(chance, 400_000 // rank**2)
        outcomes += Counter(made)
        sent = sum(made.values())
        times = Percentiles(100, 1_900 + 400 * rank, 9_000, 34_000 * rank, 4_300_000)
        sparks = [chance.randrange(100) for _ in range(40)]
        told = (made, times, lost, 4_000_000 // rank, sparks)
        destinations.append(
            report.Destination(name, sent, sent * (3 if "topic" in name else 1), sent * 310, *told)
        )
    return Findings(
        span=span,
        relays=("relay-a", "relay-b"),
        recorded=recorded,
        series=series,
        latencies=latencies,
        outcomes=outcomes,
        redelivered=412,
        unsettled=17,
        failovers=_failovers(lost, recovered, length),
        stuck=_stuck(begin, length),
        total_stuck=3,
        ways=_ways(chance, names),
        total_ways=40,
        destinations=destinations,
        total_destinations=len(names),
        clients=[
            report.ClientFigures(name, 90_000 // at, 70_000 // (13 - at), 9_000_000 // at, 7 * (at == 4))
            for at, name in enumerate((*PRODUCERS, *CONSUMERS)[:10], start=1)
        ],
        total_clients=len(PRODUCERS) + len(CONSUMERS),
        errors=[chance.choice((0, 0, 0, 0, 1)) + 9 * (span.index(lost) == n) for n in range(span.bins)],
        troubles=[
            report.Trouble("The broker went and no other is there", "relay", 31, 31, lost, recovered),
            report.Trouble(
                "not authorized to access: /queue/payments", "broker", 7, 1, begin, begin + length // 2
            ),
        ],
        total_troubles=2,
        octets=sum(one.octets for one in destinations),
    )


def _series(
    chance: random.Random, span: Span, names: Sequence[str], recorded: Sequence[bool]
) -> list[report.Series]:
    made = []
    all_names: list[Name] = [*names[:6], Rest.OTHERS]
    for rank, name in enumerate(all_names):
        size = 60.0 * span.seconds / (rank + 1) ** 1.3
        phase = chance.random() * 6
        waves = [1 + 0.5 * math.sin(phase + 6 * n / span.bins) for n in range(span.bins)]
        sent = [
            int(size * wave * chance.uniform(0.85, 1.15)) * known
            for wave, known in zip(waves, recorded, strict=True)
        ]
        fan = 3 if isinstance(name, str) and "topic" in name else 1
        made.append(report.Series(name, sent, [fan * number for number in sent]))
    return made


def _latency(
    chance: random.Random, span: Span, base: float, recorded: Sequence[bool], lost: Micros
) -> report.Latency:
    bins = []
    for n, known in enumerate(recorded):
        slow = 900.0 if n == span.index(lost) else 1 + 0.4 * math.sin(n / 9)
        p50 = base * (1 + 0.1 * chance.random()) * (1 if slow > 100 else slow)
        times = [int(p50 * factor) for factor in (1, 2.5 + slow / 9, 6 + slow, 1200)]
        bins.append(Percentiles(100, *times) if known else Percentiles(0))
    return report.Latency(bins, Percentiles(1000, int(base), int(base * 3), int(base * 14), int(base * 1100)))


def _outcomes(chance: random.Random, total: int) -> dict[str, int]:
    shares = {"delivered": 0.08, "returned": 0.004, "nacked": 0.003, "undelivered": 0.012, "unheard": 0.02}
    made = {name: int(total * share * chance.random()) for name, share in shares.items()}
    return {"acked": total - sum(made.values()), **made, "unconfirmed": chance.choice((0, 0, 2))}


def _failovers(lost: Micros, recovered: Micros, length: Micros) -> list[report.Failover]:
    a, b, c = BROKERS
    moved, gone = lost + length // 4, lost + length // 2
    return [
        report.Failover(
            "main", a, (b, c), lost, recovered, False, 37, 36, 1, 2_100_000, 4_180_000, 128, 19, 6
        ),
        report.Failover(
            "main", b, (c,), moved, moved + 30 * SECOND, True, 12, 12, 0, 220_000, 410_000, 9, 0, 0
        ),
        report.Failover("main", c, (), gone, None, False, 2, 0, 0, None, None, 0, 0, 0),
    ]


def _stuck(begin: Micros, length: Micros) -> list[report.Stuck]:
    a, b, c = BROKERS
    third, half = begin + length // 3, begin + length // 2
    mailer = Episode(third, None, 500, c, begin + length - third)
    dashboard = [
        Episode(begin + length // 9, begin + length // 7, 30, a, length // 30, "returned"),
        Episode(begin + length // 8, begin + length // 6, 2, b, length // 24, "acked"),
        Episode(half, half + length // 20, 1, b, length // 20, "returned"),
    ]
    audit = Episode(third, third + 70 * SECOND, 4, a, 70 * SECOND, "acked")
    return [
        report.Stuck("mailer", "mail-1", "/queue/mail.outgoing", [mailer]),
        report.Stuck("dashboard", "0", "/topic/prices.eu", dashboard),
        report.Stuck("audit-writer", None, "/topic/audit", [audit]),
    ]


def _ways(chance: random.Random, names: Sequence[str]) -> list[report.Way]:
    ways = []
    for rank, name in enumerate(names[:8]):
        for producer in chance.sample(PRODUCERS, 2):
            for consumer in chance.sample(CONSUMERS, 2 if "topic" in name else 1):
                ways.append(report.Way(producer, name, consumer, 90_000 // (rank + 1) ** 2))
    ways.append(report.Way(None, names[0], CONSUMERS[0], 9_000))
    ways.append(report.Way(PRODUCERS[0], names[0], None, 2_500))
    return ways


def compared(findings: Findings) -> Findings:
    """The same, with a day before that was calmer: made up from another seed, for half of the destinations."""
    span = findings.span
    since, until = span.since - DAY, span.until - DAY
    before = sample(2, until - since, begin=since)
    before = replace(before, destinations=before.destinations[::2], clients=before.clients[::2])
    before = replace(before, failovers=[], stuck=[], total_stuck=0, errors=[0] * span.bins)
    earlier = report.Earlier("day", since, until, since, until, before, ("/queue/old", "/queue/older"))
    return replace(findings, earlier=earlier)


def damaged(count: int = 2) -> list[QuarantineRow]:
    """Rows of the quarantine."""
    name = "/var/lib/stomprelay/journal/20261121T0{}0000-relay-a-5f3c01ab-000{}17.journal"
    return [QuarantineRow(name.format(n, n), 65_536 * n, 812, "checksum") for n in range(1, count + 1)]
