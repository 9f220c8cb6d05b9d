"""Segments that are missing: rows of `quarantine`, and sentences for the user.

A segment is missing if a later segment of its run is there. Then the missing segment gets a row. If the missing segment
comes while later segments wait for it, its row is removed. If it comes afterwards, its frames are used, and its row
says that the segment came late.

All rows of a run are in one part, `batch=gaps-SINCE-RUN`, which is written anew when a row changes. So a batch that is
done again writes the same rows.
"""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from stomprelay.journal.schema import SegmentHeader
from stomprelay.journal.segment import CLOSED, name_of, parse_name, read
from stomprelay.pipeline.read.frames import QuarantineRow, SegmentToRead
from stomprelay.pipeline.read.runs import RunGap, Runs, number_of, run_of
from stomprelay.pipeline.schema import QUARANTINE
from stomprelay.pipeline.store.store import Batch, batch_name
from stomprelay.pipeline.store.volume import absolute, local

MISSING: Final = "missing"
"""This word is in the reason of each row about segments that did not come."""
LATE: Final = "came late"
_INCOMPLETE: Final = "messages, sessions and figures of that time may be incomplete"


def first_of_each(
    arrivals: Iterable[SegmentToRead], runs: Runs
) -> tuple[list[SegmentToRead], list[SegmentToRead]]:
    """Return the files to read, and the files to leave out. A file is left out if its segment arrived before, or if
    `_rank` prefers another file of the same segment.
    """
    best: dict[tuple[str, int], SegmentToRead] = {}
    again = []
    for arrival in arrivals:
        name = _name(arrival)
        of = run_of(name), number_of(name)
        known = best.get(of)
        if runs.had(name) or (known is not None and _rank(known) >= _rank(arrival)):
            again.append(arrival)
            continue
        if known is not None:
            again.append(known)
        best[of] = arrival
    return list(best.values()), again


def _rank(arrival: SegmentToRead) -> tuple[bool, int]:
    """Return a sort key. The file to read has the greatest key: files with a segment's name first, then the largest."""
    return parse_name(posixpath.basename(arrival.path)) is not None, arrival.size


def _name(arrival: SegmentToRead) -> str:
    """Return the segment's name. A file on this machine with another name has the segment's name in its header."""
    file = posixpath.basename(arrival.path)
    path = local(arrival.path)
    if path is None or parse_name(file) is not None:
        return file.removesuffix(CLOSED)
    first = next(read(path), None)
    return str(
        name_of(file, first if isinstance(first, SegmentHeader) else None) or file.removesuffix(CLOSED)
    )


def advance(batch: Batch, runs: Runs) -> list[str]:
    """Write the rows of the runs whose gaps have changed. Return a sentence for each row that is new."""
    told: list[str] = []
    patience = round(batch.settings.patience)
    for run, gaps in sorted(runs.gaps.items()):
        part = f"gaps-{batch_name(runs.since(run))}-{run}"
        rows = list(missing_rows(batch.settings.journal, run, gaps, patience))
        before = list(missing_rows(batch.settings.journal, run, runs.before(run), patience))
        told += [row.reason for row in rows if row not in before]
        if rows:
            frame = batch.spark.createDataFrame(rows, QUARANTINE.ddl)
            batch.store.append(QUARANTINE.name, part, frame.coalesce(1))
        else:
            batch.store.remove(QUARANTINE.name, part)
    return told


def missing_rows(journal: str, run: str, gaps: Iterable[RunGap], patience: int) -> Iterator[QuarantineRow]:
    """Yield the rows of `quarantine` about these gaps of a run. The column `segment` is the path of the first missing
    segment, with `*` in place of the unknown time. `patience` is in seconds.
    """
    folder = local(absolute(journal)) or absolute(journal).rstrip("/")
    relay, _, digits = run.rpartition("-")
    for gap in gaps:
        for before, after in pairwise((gap.first - 1, *gap.came, gap.last + 1)):
            first, last = before + 1, after - 1
            if first > last:
                continue
            several = _several(first, last)
            words = f"{several} of run {digits} of {relay} {'is' if first == last else 'are'} {MISSING}"
            yield QuarantineRow(
                f"{folder}/*-{run}-{first:06d}{CLOSED}", 0, 0, f"{words}: {_why(gap, last, patience)}"
            )
        for first, last in _ranges(gap.came):
            words = (
                f"{_several(first, last)} of run {digits} of {relay} {LATE}, after what follows had been read"
            )
            why = f"{words}: what is in there is used, but what was final before may lack it"
            yield QuarantineRow(f"{folder}/*-{run}-{first:06d}{CLOSED}", 0, 0, why)


def _why(gap: RunGap, last: int, patience: int) -> str:
    if gap.waits:
        return f"what follows is kept until it comes, for {patience} s of the journal's time at most"
    if gap.first == 1 and not gap.came:
        return f"what was read of the run begins at segment {last + 1}, the rest may have been removed for its age"
    return _INCOMPLETE


def _several(first: int, last: int) -> str:
    return f"segment {first}" if first == last else f"segments {first} to {last}"


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    first: int | None = None
    for number, after in pairwise((*numbers, None)):
        assert number is not None
        first = number if first is None else first
        if after != number + 1:
            yield first, number
            first = None
