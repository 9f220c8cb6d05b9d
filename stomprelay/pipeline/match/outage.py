"""An outage of a broker as one session saw it."""

from typing import Final

from stomprelay.pipeline.columns_of_tables import Column, Table

OUTAGE: Final = Table(
    "outages",
    "one session's loss of a broker; with the same (session, broker, lost_ns) it comes again in later batches, the"
    " last one counts",
    (
        Column("relay", "string", "the relay that saw it, from the segment's header", nullable=False),
        Column("session", "string", "the session's name, unique among all relays", nullable=False),
        Column("client", "string", "who the client is"),
        Column("upstream", "string", "the upstream, as the configuration calls it"),
        Column("broker", "string", "the broker that was lost, its address", nullable=False),
        Column("moved_to", "string", "where the session went on; null while it is without a broker"),
        Column("lost_ns", "bigint", "the loss", "ns since 1970", nullable=False),
        Column(
            "recovered_ns",
            "bigint",
            "when the next broker was found; null for not yet, or never",
            "ns since 1970",
        ),
        Column("planned", "boolean", "whether it was asked for (pause, rebalance)", nullable=False),
        Column("given_up", "boolean", "the session ended before another broker was found", nullable=False),
        Column("resent", "bigint", "frames said again to the next broker", nullable=False),
        Column("stale_acks", "bigint", "ACKs and NACKs for deliveries of the lost broker", nullable=False),
        Column(
            "duplicates",
            "bigint",
            "deliveries of the lost broker whose message was delivered again",
            nullable=False,
        ),
    ),
)
