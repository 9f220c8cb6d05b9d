"""Which segments and which records."""

from pathlib import Path

import pytest

from stomprelay.journal.records import Record, RecordFilter, records, segments
from tests.journal.made import BROKER, CLIENT, NAME, NOW, SEND, event, frames, put


def found(tmp_path: Path) -> list[Record]:
    """A SEND, a frame without a destination, an event, a MESSAGE."""
    path = put(
        tmp_path,
        frames((SEND, b""), at=NOW),
        frames((b"ACK\nid:1\n\n", b""), at=NOW + 1),
        event(at=NOW + 2),
        frames((b"MESSAGE\ndestination:/topic/b\\cc\n\n", b""), at=NOW + 3, context=BROKER),
        event(at=NOW + 4, context=CLIENT._replace(session="eu-1.8")),
    )
    return [record for record in records(path) if isinstance(record, Record)]


@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (RecordFilter(), [0, 1, 2, 3, 4]),
        (RecordFilter(sessions=frozenset({"eu-1.7"})), [0, 1, 2, 3]),
        (RecordFilter(sessions=frozenset({"eu-1.8", "eu-1.9"})), [4]),
        (RecordFilter(commands=frozenset({"ACK", "MESSAGE"})), [1, 3]),
        (RecordFilter(destinations=("/queue/a",)), [0]),
        (RecordFilter(destinations=("/queue",)), []),
        (RecordFilter(destinations=("/queue/*", "/topic/?:[c]")), [0, 3]),
        (RecordFilter(destinations=("*",)), [0, 3]),
        (RecordFilter(destinations=("*",), commands=frozenset({"MESSAGE"})), [3]),
        (RecordFilter(since=NOW + 1), [1, 2, 3, 4]),
        (RecordFilter(until=NOW + 1), [0]),
        (RecordFilter(since=NOW + 1, until=NOW + 3), [1, 2]),
    ],
)
def test_what_is_taken(tmp_path: Path, selection: RecordFilter, taken: list[int]) -> None:
    """All conditions hold together; of one condition, any value will do."""
    assert [index for index, record in enumerate(found(tmp_path)) if selection.matches(record)] == taken


def test_segments(tmp_path: Path) -> None:
    """Those of folders in order, and files of any name."""
    late = put(tmp_path, name=NAME.replace("000001", "000002") + ".journal.open")
    early = put(tmp_path)
    other = put(tmp_path, name="copy")
    assert list(segments([str(tmp_path)])) == [early, late]
    assert list(segments([str(other), str(tmp_path)])) == [other, early, late]


def test_a_place_that_is_not_there(tmp_path: Path) -> None:
    """The error names it."""
    with pytest.raises(FileNotFoundError) as raised:
        list(segments([str(tmp_path / "absent")]))
    assert raised.value.filename in (tmp_path / "absent", str(tmp_path / "absent"))
