"""What a replay would send."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stomprelay.pipeline.replay.selection import DestinationTotal, Preview, Selection, preview, selected
from stomprelay.pipeline.store.store import Store
from tests.pipeline.replay import archive
from tests.pipeline.replay.archive import send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_by_destination(spark: "SparkSession", tmp_path: Path) -> None:
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
    Preview(
        [
            DestinationTotal("/queue/orders", 2000, 7, "then", "now"),
            DestinationTotal("/b", 1, 12345, "a", "b"),
        ],
        {},
        [],
    ).show(out)
    assert out.getvalue() == (
        "destination    messages  octets  first  last\n"
        "-------------  --------  ------  -----  ----\n"
        "/queue/orders     2,000       7  then   now\n"
        "/b                    1  12,345  a      b\n"
    )
