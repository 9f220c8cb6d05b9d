"""What there is to query."""

import re

import pytest

from stomprelay.pipeline.schema import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_well_described(name: str) -> None:
    """Its name is its key, its columns are told apart, and each says in a few words what it is."""
    table = TABLES[name]
    assert table.name == name
    assert len(set(table.names)) == len(table.names)
    for column in table.columns:
        assert re.fullmatch("[a-z][a-z0-9_]*", column.name)
        assert column.about


@pytest.mark.parametrize("name", TABLES)
def test_a_duration_names_its_unit(name: str) -> None:
    """A column that ends in _us is of microseconds."""
    for column in TABLES[name].columns:
        if column.name.endswith("_us"):
            assert (column.kind, column.unit) == ("bigint", "µs")
