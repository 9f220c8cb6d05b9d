"""Tables and columns as records."""

from stomprelay.pipeline.schema import Column, Table


def test_a_column_as_sql_has_it() -> None:
    """The name is quoted, for it may be a word of SQL; what cannot be null says so."""
    assert Column("at", "timestamp", "when", nullable=False).ddl == "`at` timestamp NOT NULL"
    assert Column("offset", "bigint", "where").ddl == "`offset` bigint"


def test_a_table_as_sql_has_it() -> None:
    """Its columns in their order."""
    table = Table("t", "a thing", (Column("a", "int", "x"), Column("b", "string", "y")))
    assert table.ddl == "`a` int, `b` string"
    assert table.names == ["a", "b"]
