"""What the tables of listeners and upstreams have in common: how one leg beats, and what it takes."""

from typing import Final

from stomprelay.config.table import Table
from stomprelay.config.values import count, headers, heart_beat, multiple, share
from stomprelay.session.heartbeat import Terms
from stomprelay.wire.limits import Limits

BEATS: Final = ("heart_beat", "heart_beat_idle", "heart_beat_tolerance")
LIMITS: Final = ("headers", "header_line", "body")


def terms(table: Table, default: Terms) -> Terms:
    """The heart-beats of a leg, from BEATS."""
    can_send, wants = table.get("heart_beat", heart_beat, (default.can_send, default.wants))
    return Terms(
        can_send,
        wants,
        table.get("heart_beat_idle", share, default.idle),
        table.get("heart_beat_tolerance", multiple, default.tolerance),
    )


def limits(table: Table, default: Limits) -> Limits:
    """What the decoder of a leg takes, from LIMITS."""
    return Limits(
        table.get("headers", headers, default.headers),
        table.get("header_line", count, default.header_line),
        table.get("body", count, default.body),
    )
