"""Old hours of the tables removed."""

from datetime import datetime, timedelta

from stomprelay.pipeline.schema import TABLES
from stomprelay.pipeline.store.store import FILES, Store


def hour_name(time: datetime) -> str:
    """The `hour` that a time in UTC is in."""
    return f"{time:%Y-%m-%d-%H}"


def expire(store: Store, now: datetime, keep: float) -> dict[str, list[str]]:
    """Drop the hours of all tables, and the deltas of them, that ended more than `keep` seconds before `now` (UTC, of
    the clock: a journal that is not written any more grows old, too). Answers which, by table.

    What the pipeline needs to go on with messages that are open is never dropped. Records of such an hour that come
    after that, as from a relay that was cut off for days, make it again until the next time. A format that keeps a
    log of its own (Delta, Iceberg) keeps its rows; it has its own means.
    """
    before = hour_name(now - timedelta(seconds=keep))
    gone = {}
    if store.format in FILES:
        for table in TABLES.values():
            if "hour" in table.partitions:
                gone[table.name] = store.expire(table.name, before)
    store.expire_deltas(before)
    return {name: hours for name, hours in gone.items() if hours}
