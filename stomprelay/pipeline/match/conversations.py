"""Conversations side by side: what runs in Spark's Python processes, on records sorted by session."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa

from stomprelay.pipeline.match import record as r
from stomprelay.pipeline.match import sighting as s
from stomprelay.pipeline.match.conversation import Conversation
from stomprelay.pipeline.match.outage import OUTAGE
from stomprelay.pipeline.match.waits import WAIT
from stomprelay.pipeline.read.runs import run_of
from stomprelay.pipeline.spark import arrow
from stomprelay.pipeline.terms import Terms

_SCHEMA: Final = arrow.schema(s.FIELDS)


class Said(IntEnum):
    """What a row is that is no sighting; its `text` says it, as JSON, and its `key` is the session."""

    STATE = 20
    """The conversation, for the next batch."""
    OUTAGE = 21
    WAIT = 22


@dataclass(frozen=True)
class Conversations:
    """Call it with the records of some sessions, each with the state that the last batch left of it in front. It yields
    rows of `sighting.FIELDS`: sightings, and what `Said` names.

    `newest`: up to when each run has been read; sessions of others are forgotten, those of runs that are `gone` since
    this batch with a last word. `present`: the runs that still say something; in sessions of others nobody waits.
    """

    terms: Terms
    newest: dict[str, int]
    present: frozenset[str]
    gone: dict[str, int] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Arrow in, Arrow out."""
        with arrow.uncollected():
            yield from self._followed(arrow.rows(batches))

    def _followed(self, records: Iterator[r.Record]) -> Iterator[pa.RecordBatch]:
        rows: list[Any] = []
        talk: _Talk | None = None
        for record in records:
            if talk is None or talk.name != record[r.SESSION]:
                if talk is not None:
                    rows += self._ended(talk)
                    if len(rows) >= arrow.ROWS:
                        yield arrow.batch(rows, _SCHEMA)
                        rows = []
                talk = _Talk(record, self.terms)
                if talk.text is not None:
                    continue
            talk.taken += 1
            conversation = talk.conversation
            conversation.take(record)
            if len(conversation.out) >= arrow.ROWS:
                yield arrow.batch([*rows, *conversation.out], _SCHEMA)
                rows = []
                conversation.flush()
        if talk is not None:
            rows += self._ended(talk)
        if rows:
            yield arrow.batch(rows, _SCHEMA)

    def _ended(self, talk: "_Talk") -> Iterator[s.Sighting]:
        """There are no more records of a session in this batch."""
        conversation, run = talk.conversation, talk.run
        yield from conversation.out
        for row in conversation.outages():
            yield _said(Said.OUTAGE, talk.name, json.dumps(dict(zip(OUTAGE.names, row, strict=True))))
        now = self.newest.get(run)
        over = now is None or conversation.over(now)
        until = self.gone.get(run, 0) if now is None else now
        for row in conversation.waits(until, present=run in self.present, over=over):
            yield _said(Said.WAIT, talk.name, json.dumps(dict(zip(WAIT.names, row, strict=True))))
        if now is None or over:
            return
        same = None if talk.taken else talk.text
        yield _said(Said.STATE, talk.name, same or f"{run}\n{conversation.dump(now)}")


class _Talk:
    """A conversation in this batch: `text` is what the last one left of it, `taken` counts the records since."""

    __slots__ = ("conversation", "name", "run", "taken", "text")

    def __init__(self, first: r.Record, terms: Terms) -> None:
        self.name: str = first[r.SESSION]
        self.taken = 0
        self.text: str | None = None
        if first[r.TURN] != r.SAID:
            self.run = run_of(first[r.SEGMENT])
            self.conversation = Conversation(first[r.RELAY], self.name, terms)
        else:
            self.text = str(first[r.TEXT])
            self.run, state = self.text.split("\n", 1)
            self.conversation = Conversation.load(self.name, state, terms)


def _said(what: Said, session: str, text: str) -> s.Sighting:
    row: s.Sighting = [None] * len(s.FIELDS)
    row[s.KEY], row[s.KIND], row[s.TEXT] = session, int(what), text
    return row
