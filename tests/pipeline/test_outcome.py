"""Outcomes."""

from stomprelay.pipeline.schema import MESSAGES, OUTCOMES


def test_the_table_names_all_of_them() -> None:
    """In its words for `outcome`."""
    about = next(column.about for column in MESSAGES.columns if column.name == "outcome")
    assert len(OUTCOMES) == 7
    assert all(f"`{word}`" in about for word in OUTCOMES)
