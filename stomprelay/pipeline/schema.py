"""The tables that the pipeline makes: their columns, and the words that stand in them.

Every table is a folder of Parquet files, or a Delta table. All times are UTC. `date` and `hour` are those of the
table's own time. Durations are whole microseconds. A journal's times are the relay's, taken when it had dealt with the
chunk in which the frame came.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Column:
    """One column. `kind` is its type in Spark SQL; `about` says what it holds and where it comes from."""

    name: str
    kind: str
    about: str
    unit: str = ""
    nullable: bool = True

    @property
    def ddl(self) -> str:
        """Return the column's definition as in CREATE TABLE."""
        return f"`{self.name}` {self.kind}{'' if self.nullable else ' NOT NULL'}"


HOURLY: Final = (
    Column("date", "date", "the day of the table's own time, UTC", nullable=False),
    Column("hour", "int", "the hour of that day, 0 to 23", nullable=False),
)


@dataclass(frozen=True)
class Table:
    """A table. `partitions`: columns in folder names. `incremental`: batches add `batch=N`, else replace partitions."""

    name: str
    about: str
    columns: tuple[Column, ...]
    partitions: tuple[Column, ...] = HOURLY
    incremental: bool = True

    @property
    def ddl(self) -> str:
        """Return the schema of its files, as Spark's readers and `createDataFrame` take it."""
        return ", ".join(column.ddl for column in self.columns)

    @property
    def names(self) -> list[str]:
        """Return the names of the columns, in order."""
        return [column.name for column in self.columns]

    @property
    def hourly(self) -> bool:
        """Return whether its rows lie in folders by date and hour."""
        return self.partitions == HOURLY


ACKED: Final = "acked"
DELIVERED: Final = "delivered"
RETURNED: Final = "returned"
NACKED: Final = "nacked"
UNDELIVERED: Final = "undelivered"
UNCONFIRMED: Final = "unconfirmed"
ABORTED: Final = "aborted"
OUTCOMES: Final = (ACKED, DELIVERED, RETURNED, NACKED, UNDELIVERED, UNCONFIRMED, ABORTED)
"""What becomes of a message, or of one delivery of it, the good outcomes first; `MESSAGES` says what each means."""
TOPICS: Final = ("/topic/", "/exchange/", "/temp-topic/", "topic://", "jms.topic.", "topic.")
"""Prefixes of destinations whose messages go to every subscriber. Any other destination is treated as a queue."""

_RELAY: Final = Column("relay", "string", "the relay that saw it, from the segment's header", nullable=False)
_SESSION: Final = Column("session", "string", "the session's name, unique among all relays")

FRAMES: Final = Table(
    "frames",
    "a frame that came on a leg, or an event",
    (
        Column("seen_at", "timestamp", "when the relay had it", nullable=False),
        Column("ns", "bigint", "the same, exactly", "ns since 1970", nullable=False),
        _RELAY,
        Column("listener", "string", "where the client came in, as the relay's configuration calls it"),
        _SESSION,
        Column("peer", "string", "the client's address"),
        Column("client", "string", "who the client is: its client-id, else its login, else its host"),
        Column("side", "string", "whose leg it came on: `client` or `broker`; null for events"),
        Column(
            "direction",
            "string",
            "`to_broker` for a client's frames, `to_client` for a broker's; null for events",
        ),
        Column(
            "upstream", "string", "the broker's upstream, as the configuration calls it; null for a client's"
        ),
        Column("broker", "string", "the broker's address; null for a client's"),
        Column("version", "string", "the STOMP version of the leg"),
        Column("kind", "string", "`frame` or `event`", nullable=False),
        Column("command", "string", "the frame's command; null for events"),
        Column("destination", "string", "header `destination`"),
        Column(
            "subscription", "string", "header `subscription` of MESSAGE, ACK and NACK; `id` of (UN)SUBSCRIBE"
        ),
        Column("message_id", "string", "header `message-id`"),
        Column("ack", "string", "header `ack` of MESSAGE and SUBSCRIBE; `id` of ACK and NACK"),
        Column("receipt", "string", "header `receipt`; `receipt-id` of RECEIPT and ERROR"),
        Column("transaction", "string", "header `transaction`"),
        Column(
            "headers",
            "map<string,string>",
            "all headers, unescaped; of repeated ones the first; secrets are blank",
        ),
        Column("size", "bigint", "the whole frame on the wire, its NUL included", "octets"),
        Column("body_size", "bigint", "its body", "octets"),
        Column("body", "binary", "what the journal kept of the body; null when nothing of a body was kept"),
        Column("event", "string", "what happened; null for frames"),
        Column("text", "string", "the same in a sentence"),
        Column("facts", "map<string,string>", "the same for machines"),
        Column("segment", "string", "the segment's name, without its ending", nullable=False),
        Column("position", "bigint", "where its block begins in the segment", "octets", nullable=False),
        Column("number", "bigint", "frames of the leg before it; 0 for events", nullable=False),
    ),
)

QUARANTINE: Final = Table(
    "quarantine",
    "something in the journal that could not be read, or is missing; all around it was read",
    (
        Column(
            "segment",
            "string",
            "the file's path; of segments that are missing that of the first, with a `*` for the time in its name",
            nullable=False,
        ),
        Column("position", "bigint", "from where", "octets", nullable=False),
        Column("length", "bigint", "how much; 0 for what is missing", "octets", nullable=False),
        Column("reason", "string", "why", nullable=False),
    ),
    partitions=(),
)

KILLED: Final = "killed"
STOPPED: Final = "stopped"
SILENT: Final = "silent"
RUNNING: Final = "running"

RUNS: Final = Table(
    "runs",
    "a run of a relay's process, of each worker where there are several",
    (
        _RELAY,
        Column("run", "string", "8 hexadecimal digits, others for each start", nullable=False),
        Column("began_at", "timestamp", "the first record that was read of it"),
        Column("heard_at", "timestamp", "the last one"),
        Column("ended_at", "timestamp", "the same where it is known to be over; null otherwise"),
        Column(
            "outcome",
            "string",
            "how it ended: `stopped`, `killed` (somebody closed what it had left open), `silent` (it said nothing for "
            "much longer than it promised), or `running`",
            nullable=False,
        ),
        Column("found_at", "timestamp", "when somebody found that it had been killed"),
        Column("segments", "bigint", "segments that were read", nullable=False),
        Column("missing", "bigint", "segments that are missing before or between these", nullable=False),
        Column("frames", "bigint", "frames in them", nullable=False),
        Column("events", "bigint", "events in them", nullable=False),
        Column("dropped", "bigint", "frames that it says it dropped", nullable=False),
        Column("torn", "bigint", "what was cut off its torn end", "octets", nullable=False),
    ),
    partitions=(),
)

_DELIVERY: Final = (
    "array<struct<seen_at: timestamp, client: string, session: string, subscription: string, upstream: string, "
    "broker: string, message_id: string, mode: string, settled_at: timestamp, outcome: string>>"
)

MESSAGES: Final = Table(
    "messages",
    "a message, from its SEND to its last outcome; one that is not settled yet is a row, too",
    (
        Column(
            "seen_at",
            "timestamp",
            "when it was sent, or first delivered where no SEND was seen",
            nullable=False,
        ),
        _RELAY,
        Column("destination", "string", "of the SEND, else of the MESSAGE"),
        Column("producer", "string", "the client that sent it; null where no SEND was seen"),
        Column("producer_session", "string", "its session"),
        Column("sent_at", "timestamp", "the SEND; of one in a transaction, too"),
        Column("size", "bigint", "the body", "octets"),
        Column("receipt", "string", "the receipt that the client asked for"),
        Column("transaction", "string", "the transaction that it was sent in"),
        Column(
            "headers",
            "map<string,string>",
            "of its SEND those that `--keep-headers` names; secrets are blank; null where it has none of them",
        ),
        Column("key", "string", "what carries through the broker: the trace, or the publisher's own id"),
        Column(
            "matched", "string", "how its deliveries were found: `trace`, `id`, `order`; null without any"
        ),
        Column(
            "outcome",
            "string",
            "`acked`, `nacked`, `delivered` (no answer yet), `returned` (session or broker went before an answer), "
            "`undelivered`, `unconfirmed` (neither delivered nor the receipt given), `aborted`",
            nullable=False,
        ),
        Column(
            "deliveries",
            _DELIVERY,
            "its MESSAGEs in order; `mode` is the subscription's, `outcome` as above",
            nullable=False,
        ),
        Column(
            "redelivered",
            "int",
            "deliveries after the first to the same subscription or after a nack or return",
            nullable=False,
        ),
        Column("receipt_us", "bigint", "SEND to RECEIPT", "µs"),
        Column("delivery_us", "bigint", "SEND to its first MESSAGE", "µs"),
        Column("ack_us", "bigint", "the acknowledged MESSAGE to its ACK; null in mode auto", "µs"),
        Column("final", "boolean", "false while the row may still change", nullable=False),
        Column("segment", "string", "of its SEND, else of its first MESSAGE", nullable=False),
        Column("position", "bigint", "the same", "octets", nullable=False),
        Column("number", "bigint", "the same", nullable=False),
    ),
)

TRAFFIC: Final = Table(
    "traffic",
    "a minute, destination, client, upstream and direction",
    (
        Column("minute", "timestamp", "when it began", nullable=False),
        Column("destination", "string", "null for frames without one"),
        Column("client", "string", "who the client is"),
        Column("upstream", "string", "null for a client's frames"),
        Column("direction", "string", "`to_broker` or `to_client`", nullable=False),
        Column("frames", "bigint", "of all commands", nullable=False),
        Column("messages", "bigint", "SENDs, or MESSAGEs", nullable=False),
        Column("octets", "bigint", "on the wire", "octets", nullable=False),
        Column("body_octets", "bigint", "bodies", "octets", nullable=False),
        Column("errors", "bigint", "ERROR frames of brokers, and events `error`", nullable=False),
    ),
    incremental=False,
)

_MEASURES: Final = (
    ("receipt", "SEND to RECEIPT"),
    ("delivery", "SEND to MESSAGE"),
    ("ack", "MESSAGE to ACK"),
)

LATENCY: Final = Table(
    "latency",
    "a minute (of the SEND) and destination",
    (
        Column("minute", "timestamp", "when it began", nullable=False),
        Column("destination", "string", "the message's"),
        *(
            column
            for name, about in _MEASURES
            for column in (
                Column(f"{name}_count", "bigint", f"messages with a {about}", nullable=False),
                Column(f"{name}_p50", "bigint", f"{about}, at most 2.2 % above the exact percentile", "µs"),
                Column(f"{name}_p95", "bigint", "the same", "µs"),
                Column(f"{name}_p99", "bigint", "the same", "µs"),
                Column(f"{name}_max", "bigint", "the longest, exactly", "µs"),
            )
        ),
    ),
    incremental=False,
)

STUCK: Final = Table(
    "stuck",
    "a time in which a subscription left deliveries of a broker unanswered, each for longer than `stuck_after`",
    (
        Column("since", "timestamp", "when the oldest of these MESSAGEs came", nullable=False),
        Column(
            "until",
            "timestamp",
            "when the last of them was answered or returned, or no more was heard of the relay; null while some wait",
        ),
        _RELAY,
        _SESSION,
        Column("client", "string", "the consumer"),
        Column("subscription", "string", "its id, or its destination where it has none"),
        Column("destination", "string", "what it is subscribed to"),
        Column("upstream", "string", "the broker's upstream, as the configuration calls it"),
        Column("broker", "string", "whose deliveries they are, its address"),
        Column(
            "age_us",
            "bigint",
            "the longest wait of one of them; where it has no answer, up to the newest record of its relay",
            "µs",
            nullable=False,
        ),
        Column("deliveries", "bigint", "how many waited for longer than `stuck_after`", nullable=False),
        Column(
            "outcome",
            "string",
            "of the last of them: `acked`, `nacked`, `returned` (session or broker went); null without an answer",
        ),
    ),
    incremental=False,
)

FAILOVERS: Final = Table(
    "failovers",
    "one outage of a broker, as its sessions saw it",
    (
        Column("upstream", "string", "the upstream"),
        Column("broker", "string", "the broker that was lost", nullable=False),
        Column(
            "moved_to", "array<string>", "where its sessions went on, most sessions first", nullable=False
        ),
        Column("began_at", "timestamp", "the first session's loss", nullable=False),
        Column("ended_at", "timestamp", "the last session's recovery; null while some are without a broker"),
        Column("planned", "boolean", "whether it was asked for (pause, rebalance)", nullable=False),
        Column("sessions", "bigint", "sessions that lost it", nullable=False),
        Column("recovered", "bigint", "of these, those that found another broker", nullable=False),
        Column(
            "given_up", "bigint", "those that were told that there is none, or left before", nullable=False
        ),
        Column("silence_p50_us", "bigint", "from a session's loss to its recovery, the median", "µs"),
        Column("silence_max_us", "bigint", "the longest", "µs"),
        Column("resent", "bigint", "frames said again to the next broker", nullable=False),
        Column("stale_acks", "bigint", "ACKs and NACKs for deliveries of the lost broker", nullable=False),
        Column(
            "duplicates", "bigint", "deliveries of the lost broker that were delivered again", nullable=False
        ),
    ),
    incremental=False,
)

FLOW: Final = Table(
    "flow",
    "an hour, producer, destination and consumer",
    (
        Column("producer", "string", "the client that sent; null where no SEND was seen"),
        Column("destination", "string", "the message's"),
        Column("consumer", "string", "the client that got it; null for messages that nobody got"),
        Column("messages", "bigint", "messages", nullable=False),
        Column("deliveries", "bigint", "MESSAGEs, redeliveries included", nullable=False),
        Column(
            "octets", "bigint", "bodies delivered (sent, where nobody got them)", "octets", nullable=False
        ),
        Column("delivery_mean_us", "bigint", "SEND to first MESSAGE, the mean", "µs"),
        Column("delivery_max_us", "bigint", "the longest", "µs"),
    ),
    incremental=False,
)

VIEW: Final = "messages_with_heads"
WITH_HEADS: Final = """SELECT m.*, f.headers AS head
FROM messages m LEFT JOIN frames f
    ON f.segment = m.segment AND f.position = m.position AND f.number = m.number AND f.kind = 'frame'"""
"""The view of that name, for any engine: messages with all headers of their SEND, else of their first MESSAGE."""

TABLES: Final = {
    table.name: table
    for table in (FRAMES, MESSAGES, TRAFFIC, LATENCY, STUCK, FAILOVERS, FLOW, RUNS, QUARANTINE)
}
"""All tables by name."""
