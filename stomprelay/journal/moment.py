"""Times of the journal as people write them: UTC, ISO 8601."""

from datetime import UTC, datetime, timedelta
from typing import Final

_SECOND: Final = 10**9
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def shown(ns: int) -> str:
    """Nanoseconds since 1970 as `2026-11-21T08:23:00.123456Z`; what is less than a microsecond is left out. Of a time
    that no calendar has, the number.
    """
    seconds, rest = divmod(ns, _SECOND)
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return f"{ns}ns"
    return f"{moment.replace(tzinfo=None).isoformat()}.{rest // 1000:06d}Z"


def read(text: str) -> int:
    """What `shown` shows, a part of it (`2026-11-21`, `2026-11-21T08:23`), or the same with an offset such as `+01:00`,
    as nanoseconds since 1970. Raises `ValueError` for anything else.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
