"""The tables that the pipeline makes: their columns, and the fixed words in some columns.

Every table is a folder of Parquet files, or a Delta table. All times are UTC. `date` and `hour` are the day and the
hour of a row's own time, such as `seen_at` in `messages`. Durations are whole microseconds. Times in the journal come
from the relay's clock. The relay reads the clock after it has handled the chunk of bytes in which a frame came.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

from stomprelay.relay.model.move import SHADOW


@dataclass(frozen=True)
class Column:
    """One column. `kind` is its type in Spark SQL; `about` says what the column holds and its source."""

    name: str
    kind: str
    about: str
    unit: str = ""
    nullable: bool = True

    @property
    def ddl(self) -> str:
        """Return the column's definition as in CREATE TABLE."""
        return f"`{self.name}` {self.kind}{'' if self.nullable else ' NOT NULL'}"


_always: Final = partial(Column, nullable=False)
"""A column that is never null."""
HOURLY: Final = (
    _always("date", "date", "the day of the table's own time, UTC"),
    _always("hour", "int", "the hour of that day, 0 to 23"),
)


@dataclass(frozen=True)
class Table:
    """A table. `partitions` are the columns whose values are in the names of folders. If `incremental`, each batch
    adds a folder `batch=N` of its own. Otherwise a batch writes whole partitions anew.
    """

    name: str
    about: str
    columns: tuple[Column, ...]
    partitions: tuple[Column, ...] = HOURLY
    incremental: bool = True

    @property
    def ddl(self) -> str:
        """Return the schema of the table's files, as Spark's readers and `createDataFrame` take it."""
        return ", ".join(column.ddl for column in self.columns)

    @property
    def names(self) -> list[str]:
        """Return the names of the columns, in order."""
        return [column.name for column in self.columns]

    @property
    def hourly(self) -> bool:
        """Return whether the table's rows are in folders by date and hour."""
        return self.partitions == HOURLY


ACKED: Final = "acked"
DELIVERED: Final = "delivered"
RETURNED: Final = "returned"
NACKED: Final = "nacked"
UNDELIVERED: Final = "undelivered"
UNCONFIRMED: Final = "unconfirmed"
ABORTED: Final = "aborted"
OUTCOMES: Final = (ACKED, DELIVERED, RETURNED, NACKED, UNDELIVERED, UNCONFIRMED, ABORTED)
"""Outcomes of a message, or of one delivery of a message, the good outcomes first. `MESSAGES` says what each means."""
TOPICS: Final = ("/topic/", "/exchange/", "/temp-topic/", "topic://", "jms.topic.", "topic.")
"""Prefixes of destinations whose messages go to every subscriber. Any other destination is treated as a queue."""

_RELAY: Final = _always("relay", "string", "the relay that saw it, from the segment's header")
_SESSION: Final = Column("session", "string", "the session's name, unique among all relays")

FRAMES: Final = Table(
    "frames",
    "a frame that came on a leg, or an event",
    (
        _always("seen_at", "timestamp", "when the relay received it"),
        _always("ns", "bigint", "the same, exactly", "ns since 1970"),
        _RELAY,
        Column("listener", "string", "the client's listener, by its name in the configuration"),
        _SESSION,
        Column("peer", "string", "the client's address"),
        Column("client", "string", "who the client is: its client-id, else its login, else its host"),
        Column("side", "string", "the sender: `client` or `broker`; null for events"),
        Column(
            "direction",
            "string",
            "`to_broker` for a client's frames, `to_client` for a broker's; null for events",
        ),
        Column(
            "upstream",
            "string",
            "the broker's upstream, by its name in the configuration; null for a client's frames",
        ),
        Column("broker", "string", "the broker's address; null for a client's frames"),
        Column("version", "string", "the STOMP version of the leg"),
        _always("kind", "string", "`frame` or `event`"),
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
            "all headers, unescaped; the first of repeated headers; secrets are blank",
        ),
        Column("size", "bigint", "the whole frame on the wire, its NUL included", "octets"),
        Column("body_size", "bigint", "its body", "octets"),
        Column("body", "binary", "the part of the body that the journal has; null if it has none"),
        Column("event", "string", "what happened; null for frames"),
        Column("text", "string", "the same in a sentence"),
        Column("facts", "map<string,string>", "the same for machines"),
        _always("segment", "string", "the segment's name, without its ending"),
        _always("position", "bigint", "where its block begins in the segment", "octets"),
        _always("number", "bigint", "frames of the leg before it; 0 for events"),
    ),
)

QUARANTINE: Final = Table(
    "quarantine",
    "something in the journal that could not be read, or is missing; all around it was read",
    (
        _always(
            "segment",
            "string",
            "the file's path; of segments that are missing that of the first, with a `*` for the time in its name",
        ),
        _always("position", "bigint", "from where", "octets"),
        _always("length", "bigint", "how much; 0 for what is missing", "octets"),
        _always("reason", "string", "why"),
    ),
    partitions=(),
)

KILLED: Final = "killed"
STOPPED: Final = "stopped"
SILENT: Final = "silent"
RUNNING: Final = "running"

RUNS: Final = Table(
    "runs",
    "a run of a relay's process; each worker has runs of its own",
    (
        _RELAY,
        _always("run", "string", "8 hexadecimal digits, different at each start"),
        Column("began_at", "timestamp", "the time of its first record that was read"),
        Column("heard_at", "timestamp", "the time of its last record that was read"),
        Column("ended_at", "timestamp", "the same, if the run is known to be over; otherwise null"),
        _always(
            "outcome",
            "string",
            "how it ended: `stopped`, `killed` (another process closed its last segment), `silent` (it wrote nothing "
            "for much longer than `segment_age`), or `running`",
        ),
        Column("found_at", "timestamp", "when another process found that it had been killed"),
        _always("segments", "bigint", "segments that were read"),
        _always("missing", "bigint", "segments that are missing before these or between them"),
        _always("frames", "bigint", "frames in them"),
        _always("events", "bigint", "events in them"),
        _always("dropped", "bigint", "frames that it dropped, by its own events"),
        _always("torn", "bigint", "the incomplete block that was cut off its last segment", "octets"),
    ),
    partitions=(),
)

_DELIVERY: Final = (
    "array<struct<seen_at: timestamp, client: string, session: string, subscription: string, upstream: string, "
    "broker: string, message_id: string, mode: string, settled_at: timestamp, outcome: string>>"
)

MESSAGES: Final = Table(
    "messages",
    "a message, from its SEND to its last outcome; an unsettled message is a row, too",
    (
        _always("seen_at", "timestamp", "when it was sent; when it was first delivered, if no SEND was seen"),
        _RELAY,
        Column("destination", "string", "the destination of the SEND, else of the MESSAGE"),
        Column("producer", "string", "the client that sent it; null if no SEND was seen"),
        Column("producer_session", "string", "its session"),
        Column("sent_at", "timestamp", "the time of the SEND, also in a transaction"),
        Column("size", "bigint", "the body", "octets"),
        Column("receipt", "string", "the receipt that the client asked for"),
        Column("transaction", "string", "the transaction that it was sent in"),
        Column(
            "headers",
            "map<string,string>",
            "the headers of its SEND that `--keep-headers` names; secrets are blank; null if it has none",
        ),
        Column("key", "string", "what SEND and MESSAGE have in common: the trace, or the publisher's own id"),
        Column(
            "matched",
            "string",
            "how its deliveries were found: `trace`, `id`, `order`; null without a delivery",
        ),
        _always(
            "outcome",
            "string",
            "`acked`, `nacked`, `delivered` (no answer yet), `returned` (session or broker ended before an answer), "
            "`undelivered`, `unconfirmed` (not delivered, and no RECEIPT), `aborted`",
        ),
        _always(
            "deliveries", _DELIVERY, "its MESSAGEs in order; `mode` is the subscription's, `outcome` as above"
        ),
        _always(
            "redelivered",
            "int",
            "deliveries after the first one to the same subscription, or after a NACK or a return",
        ),
        Column("receipt_us", "bigint", "SEND to RECEIPT", "µs"),
        Column("delivery_us", "bigint", "SEND to its first MESSAGE", "µs"),
        Column("ack_us", "bigint", "the acknowledged MESSAGE to its ACK; null in mode auto", "µs"),
        _always("final", "boolean", "false while the row may still change"),
        _always("segment", "string", "the segment of its SEND, else of its first MESSAGE"),
        _always("position", "bigint", "the same", "octets"),
        _always("number", "bigint", "the same"),
    ),
)

TRAFFIC: Final = Table(
    "traffic",
    "a minute, destination, client, upstream and direction",
    (
        _always("minute", "timestamp", "when it began"),
        Column("destination", "string", "null for frames without one"),
        Column("client", "string", "who the client is"),
        Column("upstream", "string", "null for a client's frames"),
        _always("direction", "string", "`to_broker` or `to_client`"),
        _always("frames", "bigint", "of all commands"),
        _always("messages", "bigint", "SENDs, or MESSAGEs"),
        _always("octets", "bigint", "on the wire", "octets"),
        _always("body_octets", "bigint", "bodies", "octets"),
        _always("errors", "bigint", "ERROR frames of brokers, and events `error`"),
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
        _always("minute", "timestamp", "when it began"),
        Column("destination", "string", "the message's"),
        *(
            column
            for name, about in _MEASURES
            for column in (
                _always(f"{name}_count", "bigint", f"messages with a {about}"),
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
        _always("since", "timestamp", "when the oldest of these MESSAGEs was delivered"),
        Column(
            "until",
            "timestamp",
            "when the last of them was answered or returned, or the relay's last record; null while some wait",
        ),
        _RELAY,
        _SESSION,
        Column("client", "string", "the consumer"),
        Column("subscription", "string", "its id, or its destination where it has none"),
        Column("destination", "string", "the destination of its subscription"),
        Column("upstream", "string", "the broker's upstream, by its name in the configuration"),
        Column("broker", "string", "the address of the broker that delivered them"),
        _always(
            "age_us",
            "bigint",
            "the longest wait of one of them; without an answer, up to the newest record of its relay",
            "µs",
        ),
        _always("deliveries", "bigint", "how many waited for longer than `stuck_after`"),
        Column(
            "outcome",
            "string",
            "the outcome of the last one: `acked`, `nacked`, `returned` (session or broker ended); null without any",
        ),
    ),
    incremental=False,
)

FAILOVERS: Final = Table(
    "failovers",
    "one outage of a broker, as its sessions saw it",
    (
        Column("upstream", "string", "the upstream"),
        _always("broker", "string", "the broker that was lost"),
        _always(
            "moved_to", "array<string>", "the brokers with which its sessions continued, most sessions first"
        ),
        _always("began_at", "timestamp", "the first session's loss"),
        Column("ended_at", "timestamp", "the last session's recovery; null while some are without a broker"),
        _always("planned", "boolean", "whether it was asked for (pause, rebalance)"),
        _always("sessions", "bigint", "sessions that lost it"),
        _always("recovered", "bigint", "the sessions of these that found another broker"),
        _always("given_up", "bigint", "the sessions of these that got an ERROR, or left before"),
        Column("silence_p50_us", "bigint", "from a session's loss to its recovery, the median", "µs"),
        Column("silence_max_us", "bigint", "the longest", "µs"),
        _always("resent", "bigint", "frames that were sent again to the next broker"),
        _always("stale_acks", "bigint", "ACKs and NACKs for deliveries of the lost broker"),
        _always("duplicates", "bigint", "deliveries of the lost broker that were delivered again"),
    ),
    incremental=False,
)

FLOW: Final = Table(
    "flow",
    "an hour, producer, destination and consumer",
    (
        Column("producer", "string", "the client that sent; null if no SEND was seen"),
        Column("destination", "string", "the message's"),
        Column("consumer", "string", "the client that got it; null for messages that no client got"),
        _always("messages", "bigint", "messages"),
        _always("deliveries", "bigint", "MESSAGEs, redeliveries included"),
        _always("octets", "bigint", "bodies that were delivered (or sent, if no client got them)", "octets"),
        Column("delivery_mean_us", "bigint", "SEND to first MESSAGE, the mean", "µs"),
        Column("delivery_max_us", "bigint", "the longest", "µs"),
    ),
    incremental=False,
)

VIEW: Final = "messages_with_heads"
WITH_HEADS: Final = """SELECT m.*, f.headers AS head
FROM messages m LEFT JOIN frames f
    ON f.segment = m.segment AND f.position = m.position AND f.number = m.number AND f.kind = 'frame'"""
"""The query of the view `VIEW`, for any engine. It adds to each message all headers of the SEND or, if the SEND was
not seen, of the first MESSAGE.
"""

COMPARED: Final = "compared"
_COMPARED: Final = f"""WITH taken AS (
    SELECT *, max(number) OVER (PARTITION BY session, destination ORDER BY at
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS greatest
    FROM (
        SELECT ns, destination, body, body_size, struct(ns, number) AS at,
            regexp_extract(headers['relay-copy'], '{SHADOW}', 1) AS session,
            CAST(regexp_extract(headers['relay-copy'], '{SHADOW}', 2) AS bigint) AS number,
            conv(regexp_extract(headers['relay-copy'], '{SHADOW}', 3), 16, 10) AS crc,
            'true' IN (headers['redelivered'], headers['relay-resent']) AS again
        FROM frames
        WHERE relay = 'compare' AND listener = 'compare' AND command = 'MESSAGE'
            AND headers['relay-copy'] RLIKE '{SHADOW}'
    )
),
copies AS (
    SELECT session, number, min(ns) AS came, count(*) AS copies, count_if(again) AS marked,
        min_by(number < greatest AND NOT coalesce(again, false), at) AS late, min_by(body_size, at) AS copied,
        min_by(if(length(body) = body_size, crc32(body) = CAST(crc AS bigint), NULL), at) AS whole
    FROM taken GROUP BY session, number
),
sends AS (
    SELECT seen_at, destination, producer, producer_session AS session, number, size,
        unix_micros(sent_at) * 1000 AS ns
    FROM messages WHERE sent_at IS NOT NULL AND outcome <> 'aborted'
),
pairs AS (
    SELECT s.*, c.came, c.copies, c.marked, c.late, c.copied, c.whole,
        min(if(c.copies IS NULL, NULL, number)) OVER (PARTITION BY session, destination) AS begin
    FROM sends s LEFT JOIN copies c USING (session, number)
),
times AS (
    SELECT facts['destination'] AS destination, CAST(facts['since'] AS bigint) AS since,
        CAST(facts['until'] AS bigint) AS until
    FROM frames WHERE relay = 'compare' AND event = 'compared'
)
SELECT seen_at, destination, producer, session, number, size, coalesce(copies, 0) AS copies,
    coalesce(marked, 0) AS marked, coalesce(late, false) AS late,
    CASE WHEN copies IS NULL THEN 'missing' WHEN size <> copied OR NOT whole THEN 'other'
        WHEN whole THEN 'same' ELSE 'size' END AS body,
    CAST((came - ns) / 1000 AS bigint) AS lag_us
FROM pairs p
WHERE copies IS NOT NULL OR EXISTS (
    SELECT 1 FROM times t
    WHERE t.destination = p.destination AND p.ns < t.until AND (p.ns >= t.since OR p.number > p.begin)
)"""

VIEWS: Final = {VIEW: WITH_HEADS, COMPARED: _COMPARED}
"""The queries of all views by name. `COMPARED` has a row for each SEND that `stomprelay move compare` compared, from
the journal that it kept and that of the relay; only Spark takes its query.
"""

TABLES: Final = {
    table.name: table
    for table in (FRAMES, MESSAGES, TRAFFIC, LATENCY, STUCK, FAILOVERS, FLOW, RUNS, QUARANTINE)
}
"""All tables by name."""
