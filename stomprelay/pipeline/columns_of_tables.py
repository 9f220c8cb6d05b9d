"""Tables as records: their columns, with type, unit, nullability and where each comes from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """One column. `kind` is its type as Spark SQL spells it; `about` says what it is and where it comes from."""

    name: str
    kind: str
    about: str
    unit: str = ""
    nullable: bool = True

    @property
    def ddl(self) -> str:
        """As in CREATE TABLE."""
        return f"`{self.name}` {self.kind}{'' if self.nullable else ' NOT NULL'}"


@dataclass(frozen=True)
class Table:
    """One table. Its files lie in folders named by `partitions`, columns that the files themselves do not hold.

    `incremental`: each batch adds rows of its own, under `batch=N`. Otherwise a batch writes the partitions anew that
    it has something for.
    """

    name: str
    about: str
    columns: tuple[Column, ...]
    partitions: tuple[str, ...] = ("hour",)
    incremental: bool = True

    @property
    def ddl(self) -> str:
        """The schema of its files, as Spark's readers and `createDataFrame` take it."""
        return ", ".join(column.ddl for column in self.columns)

    @property
    def names(self) -> list[str]:
        """Of the columns, in their order."""
        return [column.name for column in self.columns]
