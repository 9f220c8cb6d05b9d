"""Records."""

from stomprelay.pipeline.match import record
from stomprelay.pipeline.schema import FRAMES


def test_places_and_names_agree() -> None:
    """The constants are the fields' places."""
    for name in record.NAMES:
        assert record.NAMES[getattr(record, name.upper())] == name
    assert set(record.SORTED) <= set(record.NAMES)


def test_most_of_it_is_as_in_frames() -> None:
    """With the same types."""
    frames = {column.name: column.kind for column in FRAMES.columns}
    made = {"turn", "digest", "trace", "own", "copy", "redelivered", "facts"}
    assert {name: kind for name, kind in record.FIELDS if name not in made}.items() <= frames.items()
    assert set(record.NAMES) - made <= frames.keys()
