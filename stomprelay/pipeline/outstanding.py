"""What a subscription owes: its deliveries that have no answer yet."""

from typing import Final

from stomprelay.pipeline.table import Column, Table

OUTSTANDING: Final = Table(
    "outstanding",
    "a subscription with deliveries that wait for an ACK or NACK, as of the newest record of its relay",
    (
        Column(
            "as_of_ns",
            "bigint",
            "the newest record that was read of that relay",
            "ns since 1970",
            nullable=False,
        ),
        Column("relay", "string", "the relay that saw it, from the segment's header", nullable=False),
        Column("session", "string", "the session's name, unique among all relays", nullable=False),
        Column("client", "string", "the consumer"),
        Column("subscription", "string", "its id, or its destination where it has none"),
        Column("destination", "string", "what it is subscribed to"),
        Column("broker", "string", "where it is"),
        Column(
            "oldest_ns", "bigint", "when its oldest unanswered MESSAGE came", "ns since 1970", nullable=False
        ),
        Column("outstanding", "bigint", "MESSAGEs without an answer", nullable=False),
    ),
)
