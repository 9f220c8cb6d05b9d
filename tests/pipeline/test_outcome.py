"""Outcomes."""

from stomprelay.pipeline.schema import MESSAGES


def test_the_table_names_all_of_them() -> None:
    """In its words for `outcome`."""
    about = next(column.about for column in MESSAGES.columns if column.name == "outcome")
    words = [value for name, value in vars(schema).items() if name.isupper()]
    assert len(words) == 7
    assert all(f"`{word}`" in about for word in words)
