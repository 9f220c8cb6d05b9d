"""A small batch in one task: all steps of `messages` one after the other, and the files that they make.

To shuffle, sort and write some thousand rows, Spark takes several times as long as our own functions take to process
them. So the task sorts with Arrow, and reads and writes slices itself.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from stomprelay.pipeline.match.matching import COLUMNS, SCHEMA, UNLIKE, Matchings, MatchRow
from stomprelay.pipeline.match.order import JournalOrders
from stomprelay.pipeline.match.slices import KEPT, ROWS, SPECIAL, Done, Slice, loaded, plan, special, touched
from stomprelay.pipeline.read.runs import Runs, Segment
from stomprelay.pipeline.schema import MESSAGES
from stomprelay.pipeline.sessions import record, transfer
from stomprelay.pipeline.sessions.conversation import Conversations, SessionRow
from stomprelay.pipeline.sessions.reading import files_of, reading_of, shared
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.spark.bundles import Key, Rows, sorting
from stomprelay.pipeline.spark.tasks import is_single
from stomprelay.pipeline.store import layout
from stomprelay.pipeline.store.files import NewFile, parted
from stomprelay.pipeline.store.store import OPEN, Batch, batch_name

_RECORDS: Final = arrow.schema(record.FIELDS)
_TRANSFERS: Final = arrow.schema(transfer.FIELDS)
_STATE: Final = f"_state/{KEPT}"
_MOST: Final = 10 * ROWS
"""If the slices whose time is over have more rows than this, one task is too slow, and Spark does the batch."""


@dataclass(frozen=True)
class AtOnce:
    """Call it with all records of a batch, as `record.FIELDS`. It writes rows of `messages` and of slices to files,
    below the folders `messages` and `slices`. It yields one row with a JSON object. `made`, `gone` and `final` in this
    object are as in `Done`; `messages` and `slices` are the paths of the files.

    `number` is the number of the batch, `rows` counts the frames and events of the batch, `known` has the slices of
    the last batch.
    """

    number: int
    rows: int
    conversations: Conversations
    orders: JournalOrders
    matchings: Matchings
    known: Mapping[str, Slice]
    messages: Path
    slices: Path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take batches of records and yield one batch with one column, as `mapInArrow` requires."""
        with arrow.uncollected():
            yield self._done(pa.Table.from_batches([each.cast(_RECORDS) for each in batches], _RECORDS))

    def _done(self, records: pa.Table) -> pa.RecordBatch:
        state = self._said(SessionRow.STATE)
        state = _made(_RECORDS, state, session=state["match"], turn=_same(state, record.SAID))
        told = _after(self.conversations, _TRANSFERS, [records, state], record.SORTED)
        orders = self._said(SessionRow.ORDER)
        orders = _made(_TRANSFERS, orders, key=orders["match"], ns=_same(orders, 0), kind=_kept(orders))
        told = _after(self.orders, _TRANSFERS, [told, orders], transfer.PHASED)
        keys = told["key"].filter(pc.less(told["kind"], int(SessionRow.STATE))).unique()
        masks = {}
        for name in self.known:
            index = self._read(name, ("match", "due"))
            mask = touched(index["match"], index["due"], keys, self.matchings.until)
            if pc.any(mask).as_py():
                masks[name] = mask
        counts = {name: pc.sum(mask).as_py() for name, mask in masks.items()}
        doing = plan(batch_name(self.number), self.known, counts, self.rows // 3)
        out = _Files(self.messages, self.slices, batch_name(self.number))
        before = []
        for name in doing.gone:
            rows = self._read(name)
            if name in masks:
                before.append(rows.filter(masks[name]))
                rows = rows.filter(pc.invert(masks[name]))
            out.add(doing.into[name], rows)
        kept = pa.concat_tables([SCHEMA.empty_table(), *before])
        kept = kept.filter(pc.is_valid(kept["text"]))
        kept = _made(_TRANSFERS, kept, key=kept["match"], ns=kept["turn"], kind=_kept(kept))
        found = _after(self.matchings, SCHEMA, [told, kept], transfer.SORTED)
        what = found["what"]
        out.add(None, found.filter(pc.equal(what, int(MatchRow.FINAL))))
        kept = found.filter(pc.is_in(what, pa.array([MatchRow.OPEN, MatchRow.KEPT], pa.int32())))
        out.add(doing.fresh[0], kept)
        for each in SPECIAL:
            out.add(special(self.number, each), found.filter(pc.equal(what, int(each))))
        made = {name: out.slice(name) for name in doing.made}
        made = {name: each for name, each in made.items() if each.rows}
        done = {"made": made, "gone": [*doing.gone], **out.written()}
        return pa.RecordBatch.from_pydict({"text": [json.dumps(done)]})

    def _said(self, what: int) -> pa.Table:
        return self._read(special(self.number - 1, what), ("match", "turn", "text"))

    def _read(self, name: str, columns: Sequence[str] = SCHEMA.names) -> pa.Table:
        """Return the rows of a slice, read from files on this machine. A slice that does not exist has no rows."""
        wanted = pa.schema([SCHEMA.field(each) for each in columns])
        tables = [
            parquet.ParquetFile(path).read([*columns]).select([*columns]).cast(wanted)
            for path in sorted((self.slices.parent / f"slice={name}").glob("part-*"))
        ]
        return pa.concat_tables(tables) if tables else wanted.empty_table()


def _same(rows: pa.Table, value: int) -> pa.Array:
    return pa.repeat(value, len(rows))


def _kept(rows: pa.Table) -> pa.Array:
    return _same(rows, int(transfer.RowKind.KEPT))


def _made(schema: pa.Schema, rows: pa.Table, **made: Any) -> pa.Table:
    """Return a table with the columns of `schema` and with as many rows as `rows`. The columns in `made` have the
    values given there. The column `text` is copied from `rows`. All other columns are null.
    """
    made["text"] = rows["text"]
    columns = [
        made[field.name].cast(field.type) if field.name in made else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _after(does: Rows, schema: pa.Schema, parts: Sequence[pa.Table], by: Sequence[Key]) -> pa.Table:
    """Sort the rows of `parts` by `by` and give them to `does`. Return the rows that `does` yields, as `schema`."""
    rows = pa.concat_tables(parts).combine_chunks()
    order = pa.array(sorting(rows, by))
    return pa.Table.from_batches(does(iter(rows.take(order).to_batches(arrow.ROWS))), schema)


class _Files:
    """The rows that a batch writes. Call `add` for all rows, then `written` once."""

    def __init__(self, messages: Path, slices: Path, batch: str) -> None:
        self._messages = messages
        self._slices = slices
        self._batch = batch
        self._rows: dict[str, list[pa.Table]] = {}
        self._final: list[pa.Table] = []

    def add(self, name: str | None, rows: pa.Table) -> None:
        """Add rows of the slice `name`, or final rows if `name` is None."""
        if len(rows):
            (self._final if name is None else self._rows.setdefault(name, [])).append(rows)

    def slice(self, name: str) -> Slice:
        """Return the description of a slice. Call it after all rows of the slice were added."""
        rows = self._rows.get(name, [])
        hours = {hour for each in rows for hour in each["hour"].unique().to_pylist()} - {None}
        due = min((pc.min(each["due"]).as_py() for each in rows), default=0)
        return Slice(sum(map(len, rows)), due, sorted(hours))

    def written(self) -> dict[str, list[str]]:
        """Write the files. Return the hours of final rows, and the paths of each table's files. Raises `OSError`."""
        files: dict[str, list[str]] = {"final": [], "messages": [], "slices": []}
        if self._final:
            files["final"] = self._message(self._batch, pa.concat_tables(self._final), files["messages"])
        for name, tables in self._rows.items():
            rows = pa.concat_tables(tables)
            files["slices"].append(_file(self._slices / f"slice={name}", rows, SCHEMA))
            self._message(f"{OPEN}-{name}", rows.filter(pc.is_valid(rows["final"])), files["messages"])
        return files

    def _message(self, which: str, rows: pa.Table, files: list[str]) -> list[str]:
        """Write rows of `messages` to one file for each hour. Add the paths to `files` and return the hours."""
        by_hour = sorted(parted(rows, "hour"), key=lambda each: each[0])
        for hour, same in by_hour:
            place = self._messages / layout.place(hour) / f"batch={which}"
            files.append(_file(place, same, COLUMNS, by="seen_at"))
        return [hour for hour, _ in by_hour]


def _file(folder: Path, rows: pa.Table, schema: pa.Schema, by: str | None = None) -> str:
    file = NewFile(folder, schema, UNLIKE, by=by)
    file.add(rows)
    return file.close()


def advance(
    batch: Batch,
    runs: Runs,
    ready: Sequence[Segment],
    known: Mapping[str, Slice],
    rows: int,
) -> Done | None:
    """Do all steps in one task and return the result. Return None if Spark must do the steps, because the batch is too
    large for one task, has segments of earlier batches, or has files that only Spark can read or write.
    """
    store, number = batch.store, batch.number
    fits = 0 < rows <= ROWS and is_single(batch.spark)
    fits = fits and any(each.newest_ns is not None for each in ready)
    over = sum(each.rows for each in known.values() if each.due < runs.until)
    if not fits or over > _MOST or {each.batch for each in ready} != {number}:
        return None
    files = files_of(batch, number, batch.frame_hours())
    folder, kept = store.stage(MESSAGES.name, number), store.stage(_STATE, number)
    if files is None or folder is None or kept is None:
        return None
    does = AtOnce(
        number,
        rows,
        Conversations(runs.limits, runs.newest, runs.present, runs.gone, runs.ended),
        JournalOrders(runs.limits, runs.until),
        Matchings(runs.limits, runs.until),
        known,
        folder,
        kept,
    )
    told = (
        batch.spark.range(0, 1, 1, 1).mapInArrow(_reading(batch, ready, files, does), "text string").collect()
    )
    done = json.loads(told[0].text)
    found = Done(loaded(done["made"]), {name: known[name] for name in done["gone"]}, done["final"])
    store.adopt(MESSAGES.name, number, map(Path, done["messages"]))
    store.drop_slices({name: each.hours for name, each in found.gone.items()})
    store.adopt(_STATE, number, map(Path, done["slices"]))
    return found


def _reading(batch: Batch, ready: Sequence[Segment], files: Sequence[Path], does: Rows) -> Rows:
    reading = reading_of(batch, ready)
    shares = [share for task in shared(files, 1, ready) for share in task]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from does(reading(rows for share in shares for rows in share.rows()))

    return read
