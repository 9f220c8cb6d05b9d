"""The rows before and between the steps of matching."""

import pytest

from stomprelay.pipeline.schema import FRAMES
from stomprelay.pipeline.sessions import record
from stomprelay.pipeline.sessions import transfer as s


@pytest.mark.parametrize(
    ("trace", "own", "carried"),
    [("t", "7", "t"), (None, "7", "7"), (None, "a\x1fb", "a\x1fb"), (None, None, None)],
)
def test_what_carries_through_the_broker(trace: str | None, own: str | None, carried: str | None) -> None:
    """The trace before the publisher's own id, and nothing otherwise."""
    assert s.carried(s.key_of(trace, own, "/queue/a", 5, None)) == carried


def test_what_makes_a_difference() -> None:
    """To a trace nothing, to an id the destination, else all that is known of the body."""
    assert s.key_of("t", None, "a", 1, 2) == s.key_of("t", "x", "b", 3, 4)
    assert s.key_of(None, "x", "a", 1, 2) == s.key_of(None, "x", "a", 3, 4) != s.key_of(None, "x", "b", 1, 2)
    keys = {
        s.key_of(None, None, where, size, digest) for where in "ab" for size in (1, 2) for digest in (None, 1)
    }
    assert len(keys) == 8


def test_places_and_names_agree() -> None:
    """The constants are the fields' places."""
    assert [name for name, _ in s.FIELDS][s.KIND] == "kind"
    assert [name for name, _ in s.FIELDS][s.OUTCOME] == "outcome"
    assert len(s.DDL.split(", ")) == len(s.FIELDS)


def test_pieces() -> None:
    """They have the place and say that there was more before."""
    row: s.Transfer = ["k", 1, "segment", 2, 3, s.Kind.SENT, *"x" * (len(s.FIELDS) - 6)]
    first = s.continuation(row)
    assert first[: s.KIND] == row[: s.KIND]
    assert first[s.KIND] == s.Kind.SENT_MORE + s.LATER
    assert set(first[s.KIND + 1 :]) == {None}
    assert s.continuation(first)[s.KIND] == first[s.KIND]
    row[s.KIND] = s.Kind.DELIVERED
    assert s.continuation(row)[s.KIND] == s.Kind.DELIVERED_MORE + s.LATER


def test_places_and_names_of_records_agree() -> None:
    """The constants are the fields' places."""
    for name in record.NAMES:
        assert record.NAMES[getattr(record, name.upper())] == name
    assert set(record.SORTED) <= set(record.NAMES)


def test_most_of_it_is_as_in_frames() -> None:
    """With the same types."""
    frames = {column.name: column.kind for column in FRAMES.columns}
    made = {"turn", "digest", "trace", "own", "copy", "redelivered", "kept", "facts"}
    assert {name: kind for name, kind in record.FIELDS if name not in made}.items() <= frames.items()
    assert set(record.NAMES) - made <= frames.keys()
