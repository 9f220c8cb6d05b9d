"""The folder of a replay, and the messages in it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from stomprelay.pipeline.replay import state as module
from stomprelay.pipeline.replay.selection import Selection, selected
from stomprelay.pipeline.replay.state import BATCH, Frozen, ReplayState, StateError
from stomprelay.pipeline.stomp.progress import JobProgress
from stomprelay.pipeline.store.store import Store
from tests.pipeline.replay import archive
from tests.pipeline.replay.archive import send

ASKED = {"where": "size > 3", "since": None, "rename": [["/a", "/b"]], "skip_incomplete": False}


def frozen(state: ReplayState, *counts: int) -> Frozen:
    """Freeze files with so many messages."""
    place = state.place()
    place.mkdir()
    paths = [place / f"part-{number}" for number in range(len(counts))]
    for path in paths:
        path.touch()
    return state.freeze(ASKED, list(zip(paths, counts, strict=True)))


def test_a_selection_is_found_again(tmp_path: Path) -> None:
    """What was asked for and the files are as they were, and nobody else may read them."""
    folder = tmp_path / "a" / "state"
    with ReplayState(folder) as state:
        assert state.frozen(ASKED) is None
        made = frozen(state, 3, 4)
    with ReplayState(folder) as state:
        found = state.frozen(ASKED)
        assert found == made
        assert found.messages == 7
        assert [(state.folder / name).is_file() for name, _ in found.files] == [True, True]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_confirmed_messages_are_counted(tmp_path: Path) -> None:
    """Over all files, as the sink's code notes them."""
    with ReplayState(tmp_path) as state:
        made = frozen(state, 3, 4)
        assert state.confirmed(made) == 0
        JobProgress(state.progress).identity(None)
        JobProgress(state.progress).advance(BATCH, 0, 3)
        JobProgress(state.progress).advance(BATCH, 1, 2)
        assert state.confirmed(made) == 5


def test_one_replay_at_a_time(tmp_path: Path) -> None:
    """A second one would send everything twice."""
    for _ in range(2):
        with ReplayState(tmp_path), pytest.raises(StateError, match="another replay is at work on it"):
            ReplayState(tmp_path).__enter__()


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    """Somebody may have named the wrong one."""
    (tmp_path / "selection-of-photos").mkdir()
    with pytest.raises(StateError, match="is not empty, and no replay's"), ReplayState(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["selection-of-photos"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """The error says why."""
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match="cannot be used: Not a directory"):
        ReplayState(tmp_path / "file" / "state").__enter__()


def test_half_a_selection_is_none(tmp_path: Path) -> None:
    """What a killed run left is removed, and a new place is one that the killed run's Java does not know."""
    with ReplayState(tmp_path) as state:
        left = state.place()
        left.mkdir()
        (left / "part-0").touch()
    with ReplayState(tmp_path) as state:
        assert state.frozen(ASKED) is None
        place = state.place()
        assert place != left
        assert not left.exists()
        assert not place.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", r"replay\.json cannot be read: "),
        ("[]", r"replay\.json cannot be read: "),
        ('{"version": 1}', r"replay\.json cannot be read: 'asked'"),
        ('{"version": 9}', "is of another version of this software"),
    ],
)
def test_a_record_that_cannot_be_read(tmp_path: Path, text: str, said: str) -> None:
    """Nothing is selected anew in its place: some of it may have been sent."""
    with ReplayState(tmp_path) as state:
        (tmp_path / "replay.json").write_text(text)
        with pytest.raises(StateError, match=said):
            state.frozen(ASKED)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    """What was frozen is not there any more."""
    with ReplayState(tmp_path) as state:
        made = frozen(state, 1)
        (tmp_path / made.files[0][0]).unlink()
        with pytest.raises(StateError, match=r"lacks the file selection-\w+/part-0"):
            state.frozen(ASKED)


def messages(path: Path, passed: int = 0) -> list[dict[str, Any]]:
    """All of a file that is not passed over."""
    found = (each for each in module.read(path, passed) if not isinstance(each, module.ConfirmedBatch))
    return [row for batch in found for row in batch.to_pylist()]


@pytest.mark.spark
def test_each_connection_has_a_file(spark: SparkSession, tmp_path: Path) -> None:
    """In it are all messages of its destinations, in their order; what cannot be sent is not there."""
    rows = archive.orders(300, 6)
    # Journals of several relays come in no order.
    rows = [*rows[200:], *rows[:200]]
    rows += [
        send(400, "/queue/d0", b"x", transaction="t"),
        {**send(401, "/queue/d0", b"cut"), "body": b"c"},
        {**send(402, "/queue/d0", b"cut"), "body": b"c"},
        send(403, "***", b"", headers={"destination": "***"}),
        send(404, "/queue/d0", b"x", headers={"token": "***"}),
    ]
    store = Store(spark, str(archive.write(tmp_path / "tables", rows)))
    files = module.write(selected(store, Selection()), tmp_path / "a place", 3)
    assert sum(count for _, count in files) == 301
    assert 1 < len(files) <= 3
    places: dict[str, set[Path]] = {}
    for path, count in files:
        said = messages(path)
        assert len(said) == count
        assert [row["number"] for row in said] == sorted(row["number"] for row in said)
        for row in said:
            places.setdefault(row["destination"], set()).add(path)
    assert set(places) == {f"/queue/d{number}" for number in range(6)}
    assert all(len(paths) == 1 for paths in places.values())


@pytest.mark.spark
def test_a_query_that_fails(spark: SparkSession, tmp_path: Path) -> None:
    """In the middle of the work, with Spark's reason."""
    store = Store(spark, str(archive.write(tmp_path / "tables", archive.orders(3, 1))))
    with pytest.raises(ValueError, match="cannot be cast"):
        module.write(selected(store, Selection(where="headers['kind'] > 1")), tmp_path / "a", 2)


def large(path: Path, count: int, group: int, body: bytes = b"") -> Path:
    """A file with several row groups."""
    table = pa.table({"number": pa.array(range(count)), "body": pa.array([body] * count, pa.binary())})
    pq.write_table(table, path, row_group_size=group, use_dictionary=False)
    return path


@pytest.mark.parametrize("passed", [0, 1, 9, 10, 11, 20, 24, 25])
def test_what_was_sent_is_not_read_again(tmp_path: Path, passed: int) -> None:
    """Groups of rows that are confirmed are passed over; the rest keeps its place."""
    path = large(tmp_path / "part", 25, 10)
    batches = list(module.read(path, passed))
    assert sum(batch.num_rows for batch in batches) == 25
    whole = sum(isinstance(batch, module.ConfirmedBatch) for batch in batches)
    assert whole == (3 if passed == 25 else passed // 10)
    rest = [row["number"] for row in messages(path, passed)]
    assert rest == list(range(whole * 10, 25))


def test_large_bodies_come_in_small_batches(tmp_path: Path) -> None:
    """What is in memory is bounded by octets."""
    path = large(tmp_path / "part", 64, 64, b"x" * (1 << 20))
    assert max(batch.num_rows for batch in module.read(path, 0)) <= 4
