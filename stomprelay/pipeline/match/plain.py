"""Messages of which nothing but the usual is known, column by column: what `Matching` says of them, without it.

That is a SEND, its RECEIPT if one was asked for, one MESSAGE and its ACK, all in time. Most messages are so; any other
is left to `Matching`, and where both could be asked they say the same.
"""

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stomprelay.pipeline.match.matching import (
    DELIVERIES,
    METHODS,
    OF_DELIVERY,
    SCHEMA,
    MatchRow,
    headers_of,
)
from stomprelay.pipeline.schema import ACKED
from stomprelay.pipeline.sessions.transfer import AUTO, BY_ORDER, BY_TRACE, Kind
from stomprelay.pipeline.settings import TimeLimits
from stomprelay.pipeline.spark import arrow

_PAIR: Final = 2


def plain(
    rows: pa.RecordBatch, limits: TimeLimits, until: int
) -> tuple[pa.RecordBatch | None, pa.RecordBatch]:
    """Take rows of `transfer.FIELDS` as `Matchings` does. Return rows of `matching.DDL` for the plain messages among
    them that are final at `until` (ns), None if there are none; and the rows of all others, in their order.
    """
    sends, gets = _pairs(rows)
    if len(sends):
        sent, got = rows.take(pa.array(sends)), rows.take(pa.array(gets))
        usual = _usual(sent, got, limits, until)
        if not usual.all():
            sends, gets, usual = sends[usual], gets[usual], pa.array(usual)
            sent, got = sent.filter(usual), got.filter(usual)
    if not len(sends):
        return None, rows
    others = np.ones(len(rows), np.bool_)
    others[sends] = others[gets] = False
    return _found(sent, got), rows.filter(pa.array(others))


def _pairs(rows: pa.RecordBatch) -> tuple[Any, Any]:
    """Return the places of SENDs, and of the MESSAGEs that are all that there is besides of their keys, which are by
    trace or order. Keys at the ends of the batch may go on beyond it.
    """
    if len(rows) < 2 * _PAIR:
        return np.array([], np.int64), np.array([], np.int64)
    keys, kinds = rows.column("key"), _numbers(rows.column("kind"))
    same = _bools(pc.equal(keys.slice(1), keys.slice(0, len(rows) - 1)).fill_null(False))
    known = pc.or_(pc.starts_with(keys, BY_TRACE), pc.starts_with(keys, BY_ORDER)).fill_null(False)
    pairs = same[1:-1] & ~same[:-2] & ~same[2:] & _bools(known)[1:-2]
    one, other = kinds[1:-2], kinds[2:-1]
    places = np.arange(1, len(rows) - 2)
    in_order = pairs & (one == Kind.SENT) & (other == Kind.DELIVERED)
    reverse = pairs & (one == Kind.DELIVERED) & (other == Kind.SENT)
    sends = np.concatenate([places[in_order], places[reverse] + 1])
    gets = np.concatenate([places[in_order] + 1, places[reverse]])
    return sends, gets


def _usual(sent: pa.RecordBatch, got: pa.RecordBatch, limits: TimeLimits, until: int) -> Any:
    """Return which of these pairs are plain, and final."""
    ns, at = _numbers(sent.column("ns")), _numbers(got.column("ns"))
    times = [ns, at, *(_numbers(got.column(name), ns) for name in ("known_ns", "settled_ns"))]
    times += [_numbers(sent.column(name), ns) for name in ("receipt_ns", "ended_ns")]
    first, last = np.minimum.reduce(times), np.maximum.reduce(times)
    confirmed = pc.equal(pc.is_valid(sent.column("receipt")), pc.is_valid(sent.column("receipt_ns")))
    acked = pc.and_(
        pc.equal(got.column("outcome"), ACKED).fill_null(False), pc.is_valid(got.column("settled_ns"))
    )
    usual = _bools(pc.and_(pc.and_(confirmed, acked), pc.is_valid(got.column("known_ns"))))
    usual &= ~_bools(sent.column("aborted").fill_null(False)) & (_numbers(got.column("known_ns"), ns) >= at)
    # Until it is settled it counts for longer than afterwards.
    alone = _bools(pc.is_null(sent.column("ended_ns"))) & (ns == first)
    soon = (last - first <= limits.linger) | (alone & (last - first <= limits.give_up))
    return usual & soon & (until > last + limits.linger)


def _found(sent: pa.RecordBatch, got: pa.RecordBatch) -> pa.RecordBatch:
    count = len(sent)
    ns, at = _numbers(sent.column("ns")), _numbers(got.column("ns"))
    keys = _texts(sent.column("key"))
    traced = pc.starts_with(keys, BY_TRACE)
    mode = _texts(got.column("mode"))
    answered = pc.and_(pc.is_valid(mode), pc.not_equal(mode, AUTO).fill_null(False))
    delivery = {
        "seen_at": arrow.times(got.column("ns")),
        "settled_at": arrow.times(got.column("settled_ns")),
        "mode": mode,
        "outcome": _texts(got.column("outcome")),
    }
    for name in ("client", "session", "subscription", "upstream", "broker", "message_id"):
        delivery[name] = _texts(got.column(name))
    structs = pa.StructArray.from_arrays(
        [delivery[field.name] for field in OF_DELIVERY], fields=list(OF_DELIVERY)
    )
    ends = pa.array(np.arange(count + 1, dtype=np.int32))
    receipt = sent.column("receipt_ns")
    took = (_numbers(got.column("settled_ns")) - at) // 1000
    made: dict[str, Any] = {
        "seen_at": arrow.times(sent.column("ns")),
        "producer": _texts(sent.column("client")),
        "producer_session": _texts(sent.column("session")),
        "sent_at": arrow.times(sent.column("ns")),
        "headers": headers_of(sent.column("headers").to_pylist()),
        "key": pc.if_else(traced, pc.utf8_slice_codeunits(keys, 1), pa.scalar(None, pa.string())),
        "matched": pc.if_else(traced, METHODS[BY_TRACE], "order"),
        "outcome": delivery["outcome"],
        "deliveries": pa.ListArray.from_arrays(ends, structs, type=DELIVERIES),
        "redelivered": pa.array(np.zeros(count, np.int32)),
        "receipt_us": pa.array(np.maximum(_numbers(receipt) - ns, 0) // 1000, mask=_bools(receipt.is_null())),
        "delivery_us": pa.array(np.maximum(at - ns, 0) // 1000),
        "ack_us": pa.array(took, mask=~_bools(answered)),
        "final": pa.array(np.ones(count, np.bool_)),
        "what": pa.array(np.full(count, int(MatchRow.FINAL), np.int32)),
        "hour": arrow.hours(ns),
    }
    for name in ("relay", "destination", "size", "receipt", "transaction", "segment", "position", "number"):
        made[name] = _texts(sent.column(name))
    arrays = [made[field.name] if field.name in made else pa.nulls(count, field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _texts(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _numbers(column: pa.Array, others: Any = 0) -> Any:
    """Return the numbers of a column, with `others` in place of nulls."""
    if not column.null_count:
        return column.to_numpy(zero_copy_only=False)
    return np.where(_bools(column.is_null()), others, column.fill_null(0).to_numpy(zero_copy_only=False))


def _bools(column: pa.Array) -> Any:
    return column.to_numpy(zero_copy_only=False)
