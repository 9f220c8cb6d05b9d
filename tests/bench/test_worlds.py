"""Journals of whole worlds, made up: what is said of them is in them, and comes out of them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.journals import Truth, World, make
from stomprelay.journal.folder import Folder
from stomprelay.pipeline.settings import TimeLimits
from tests.pipeline.journals import Tables

SAME: list[tuple[str, dict[str, Any]]] = [
    ("traced", {"nacked": 0.02}),
    ("a backlog", {"backlog": 700, "relays": 2, "deaths": 1}),
    ("nobody dies", {"deaths": 0, "runs": 3}),
    ("by order", {"relays": 1, "deaths": 0, "nacked": 0.0, "trace": False}),
    ("by order and body", {"relays": 1, "deaths": 0, "nacked": 0.0, "trace": False, "bodies": 100}),
]


@pytest.mark.parametrize("changes", [changes for _, changes in SAME], ids=[name for name, _ in SAME])
def test_the_pipeline_says_the_same(tmp_path: Path, changes: dict[str, Any]) -> None:
    """What became of messages, by destination, what came again, and what brokers that were lost cost."""
    truth = make(tmp_path, World(9000, unanswered=0.02, **changes))
    Folder(tmp_path).recover(0)
    tables = Tables(tmp_path / "tables", TimeLimits())
    tables.advance([entry.path for entry in Folder(tmp_path).segments()])
    assert_same(tables.rows, truth)
    deaths = any(truth.died.values())
    losses = outages(tables.outages.values(), deaths=deaths)
    assert losses == outages(map(vars, truth.outages), deaths=deaths)


def assert_same(rows: list[dict[str, Any]], truth: Truth) -> None:
    """Compare rows of `messages`."""
    outcomes: Counter[tuple[str, str]] = Counter()
    sent: Counter[str] = Counter()
    deliveries: Counter[str] = Counter()
    redelivered: Counter[str] = Counter()
    for row in rows:
        where = row["destination"]
        outcomes[where, row["outcome"]] += 1
        sent[where] += row["producer"] is not None
        deliveries[where] += len(row["deliveries"])
        redelivered[where] += row["redelivered"]
    assert outcomes == truth.outcomes
    assert sent == truth.destinations
    assert +deliveries == truth.deliveries
    assert +redelivered == truth.redelivered
    assert sum(row["receipt_us"] is not None for row in rows) == truth.receipts
    assert sum(row["size"] for row in rows) == truth.octets


Losses = dict[tuple[str, bool], Counter[str]]


def outages(found: Iterable[Mapping[str, Any]], *, deaths: bool) -> Losses:
    """The sums of each broker's. What was delivered again is known when nobody is waited for."""
    sums: Losses = {}
    for row in found:
        counted = {name: row[name] for name in ("resent", "stale_acks", "duplicates")[: 2 + (not deaths)]}
        counted["sessions"] = row.get("sessions", 1)
        sums.setdefault((row["broker"], row["planned"]), Counter()).update(counted)
    return sums
