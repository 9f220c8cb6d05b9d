"""The options of `format("stomp")`: strings with names in any case. See `docs/pipeline.md` for each option."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar, overload

from stomprelay.config import upstream as config
from stomprelay.config.table import ConfigError, ConfigTable, nearest
from stomprelay.config.values import (
    OptionText,
    Reader,
    count,
    delay,
    flag,
    longest,
    per_second,
    seconds_or_none,
    text,
)
from stomprelay.pipeline.stomp.client import Client
from stomprelay.pipeline.stomp.sockets import Unreachable, plain_endpoint
from stomprelay.relay.model.upstream import Upstream

T = TypeVar("T")
D = TypeVar("D")

HEADER: Final = "header."
"""The prefix of the name of an option that sets a header."""

_SPELLED: Final = {
    name.lower(): name
    for name in (
        "activemq.dispatchAsync",
        "activemq.maximumPendingMessageLimit",
        "activemq.noLocal",
        "activemq.prefetchSize",
        "activemq.subcriptionName",
        "activemq.subscriptionName",
        "AMQ_SCHEDULED_CRON",
        "AMQ_SCHEDULED_DELAY",
        "AMQ_SCHEDULED_PERIOD",
        "AMQ_SCHEDULED_REPEAT",
        "JMSXGroupID",
        "JMSXGroupSeq",
        "JMSType",
    )
}
"""The names of brokers' headers that have capital letters. The keys are the same names in small letters, because Spark
passes names of options in small letters.
"""


class OptionError(ValueError):
    """An option that is missing or wrong. The error's text names the option."""


class GivenOptions:
    """The options of one reader or writer. Call `only` first: it rejects unknown options. Then call `get` for each."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._said = {name.lower(): value for name, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._said

    def only(self, names: str, foreign: Mapping[str, str]) -> None:
        """Raise `OptionError` for an option that is not in `names`. `foreign` has the error's text for some unknown
        options. A name in `foreign` that ends in a dot is for all options that begin with this name.
        """
        known = {name.lower(): name for name in names.split()}
        words = {name.lower(): said for name, said in foreign.items()}
        for name in self._said:
            if name in known or name.startswith(HEADER):
                continue
            told = words.get(name) or words.get(name.partition(".")[0] + ".")
            raise wrong(name, told or f"unknown option; {nearest(name, known.values())}")

    @overload
    def get(self, name: str, read: Callable[[str], T]) -> T | None: ...
    @overload
    def get(self, name: str, read: Callable[[str], T], default: D) -> T | D: ...
    def get(self, name: str, read: Callable[[str], T], default: D | None = None) -> T | D | None:
        """Return the option's value as `read` returns it, or `default` if the option is not given. Raises `OptionError`
        if `read` raises `ValueError`.
        """
        if name not in self:
            return default
        try:
            return read(self._said[name.lower()].strip())
        except ValueError as error:
            raise wrong(name, str(error)) from None

    def either(self, name: str, other: str, read: Callable[[str], T]) -> T | None:
        """Return the value of an option with two names, as `get` does. Raises `OptionError` if both names are given."""
        if name in self and other in self:
            raise wrong(other, f"is another name for {name}: say one of them")
        return self.get(other if other in self else name, read)

    def headers(self) -> dict[bytes, bytes]:
        """Return the headers that are given as `header.NAME` and in the JSON object `headers`. Raises `OptionError`."""
        found = {
            _SPELLED.get(name := key.removeprefix(HEADER), name): value
            for key, value in self._said.items()
            if key.startswith(HEADER)
        }
        found |= self.get("headers", _object, {})
        return {name.encode(): value.encode() for name, value in found.items()}


def wrong(name: str, text: str) -> OptionError:
    """Return an error about the option `name`. The caller must raise it."""
    return OptionError(f'format "stomp", option {name}: {text}')


def plain(read: Reader[T]) -> Callable[[str], T]:
    """Return a reader of a number or a flag, in upper or lower case, from one of options in URIs: it takes
    milliseconds, and returns seconds.
    """
    return lambda value: read(OptionText(value.lower()))


def choice(*known: str) -> Callable[[str], str]:
    """Return a function that reads one of `known`, in upper or lower case. It raises `ValueError` for other texts."""

    def read(value: str) -> str:
        if value.lower() not in known:
            raise ValueError(f'must be one of {", ".join(known)}, not "{value}"')
        return value.lower()

    return read


def listed(value: str) -> tuple[str, ...]:
    """Return the texts in a JSON array, or between commas, each text once. Raises `ValueError`."""
    if value.startswith("["):
        try:
            found = json.loads(value)
        except ValueError:
            raise ValueError("must be a JSON array of texts, or texts between commas") from None
        if not all(isinstance(each, str) for each in found):
            raise ValueError("must be a JSON array of texts")
        parts = [str(each) for each in found]
    else:
        parts = [part.strip() for part in value.split(",")]
    if not parts or "" in parts:
        raise ValueError("must name at least one, and none of them may be empty")
    return tuple(dict.fromkeys(parts))


def _object(value: str) -> dict[str, str]:
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ValueError('must be a JSON object of texts, as in {"persistent": "true"}')
    return {str(name): str(each) for name, each in found.items()}


_NAMES: Final = {
    "passcode": "password",
    "passcode_file": "passcodeFile",
    "heart_beat": "heartBeatMs",
    "connect_timeout": "connectTimeoutMs",
}
"""For each key of the relay's configuration whose option has a different name, the name of this option."""
_ROOT: Final = "stomp"

BOTH: Final = (
    "uri path login password passcode passcodeFile host clientId profile versions policy heartBeatMs connectTimeoutMs"
    " timeoutMs headers destination checkpointLocation tls.ca tls.certificate tls.key tls.name "
)
"""Options that readers and writers have. Spark also gives `checkpointLocation` to writers, which do not use it."""
READING: Final = (
    "subscribe selector spool ack prefetch receivers groupSize groupMs backlog maxOffsetsPerTrigger"
    " maxMessagesPerTrigger minPartitions idleMs drainMs startingOffsets failOnDataLoss includeHeaders retain readId"
)
WRITING: Final = "persistent window rate keyHeader id progress"

_NO_TIMES: Final = "a broker finds no messages by their time: filter the rows by the column received"
_NO_OFFSETS: Final = "a broker tells no offsets: see timeoutMs for how long is waited for one"
_NO_MINIMUM: Final = "the query's trigger says when a batch is: trigger(processingTime=...)"
_NO_GROUPS: Final = (
    "a broker knows no consumer groups: all who read a queue share it, and clientId names who has a durable"
    " subscription"
)
FOREIGN: Final = {
    "kafka.": "is Kafka's: the broker is uri, and all about the connection has an option of its own",
    "kafka.bootstrap.servers": "is Kafka's: say uri, such as failover:(tcp://a:61613,tcp://b:61613)",
    "kafka.group.id": _NO_GROUPS,
    "groupIdPrefix": _NO_GROUPS,
    "kafkaConsumer.pollTimeoutMs": _NO_OFFSETS,
    "fetchOffset.numRetries": _NO_OFFSETS,
    "fetchOffset.retryIntervalMs": _NO_OFFSETS,
    "assign": "a queue has no partitions to choose from: say subscribe, and receivers for several connections",
    "subscribePattern": "the broker's own wildcards go into subscribe, such as /topic/orders.*",
    "startingTimestamp": _NO_TIMES,
    "startingOffsetsByTimestamp": _NO_TIMES,
    "startingOffsetsByTimestampStrategy": _NO_TIMES,
    "endingTimestamp": _NO_TIMES,
    "endingOffsetsByTimestamp": _NO_TIMES,
    "endingOffsets": "a batch ends when nothing more comes: see idleMs and drainMs",
    "minOffsetsPerTrigger": _NO_MINIMUM,
    "maxTriggerDelay": _NO_MINIMUM,
    "maxRecordsPerPartition": "say minPartitions: a batch is cut into so many",
}
"""Options of Spark's Kafka connector that have no meaning here. The value is the error's text for the user."""
_READERS_FOREIGN: Final = FOREIGN | {"topic": "is of Kafka's writers: what is read is subscribe"}
_WRITERS_FOREIGN: Final = FOREIGN | {
    "topic": "say destination: at a broker of STOMP a topic is one kind of destination, as in /topic/orders",
    "subscribe": "is for reading: where rows go is destination",
    "includeHeaders": "is for reading: the column headers is sent wherever it is",
}

SPOOL: Final = "stomp-spool"
"""The name of the spool's folder within a checkpoint."""
RESEND: Final = 64 * 1024 * 1024
"""Bytes of unconfirmed frames that a writer's session keeps to send again after a failover."""


@dataclass(frozen=True)
class ConnectionOptions:
    """Where to connect and how. `values`: an upstream's settings by key, and secrets. `timeout` is in seconds."""

    values: Mapping[str, Any] = field(repr=False)
    client_id: str | None
    timeout: float

    @classmethod
    def read(cls, given: GivenOptions, confirmed: Mapping[str, Any]) -> "ConnectionOptions":
        """Return the connection that the options describe. If the options name a list of brokers, the values in
        `confirmed` are added. Raises `OptionError`.
        """
        uri, path = given.get("uri", text), given.get("path", text)
        if uri is not None and path is not None and uri != path:
            raise wrong("uri", "is said twice, as an option and as the path")
        place = uri or path
        if place is None:
            raise wrong("uri", "is missing: tcp://host:61613, ssl://host:61614 or failover:(tcp://a,tcp://b)")
        values: dict[str, Any] = {"uri": place}
        if "passcode" in given:
            raise wrong("passcode", "would be shown in Spark's plans: call it password, or say passcodeFile")
        for key in ("login", "passcode", "host", "profile", "policy", "passcode_file"):
            if (said := given.get(_NAMES.get(key, key), text if key == "passcode_file" else str)) is not None:
                values[key] = said
        if (versions := given.get("versions", listed)) is not None:
            values["versions"] = list(versions)
        beat = round(given.get("heartBeatMs", plain(delay), 10.0) * 1000)
        values["heart_beat"] = [beat, beat]
        values["connect_timeout"] = given.get("connectTimeoutMs", plain(longest), 10.0)
        secured = {key: given.get(f"tls.{key}", text) for key in ("ca", "certificate", "key", "name")}
        if tls := {key: value for key, value in secured.items() if value is not None}:
            values["tls"] = tls
        if place.lower().startswith(("failover:", "fanout:")):
            values |= confirmed
        made = cls(values, given.get("clientId", text), given.get("timeoutMs", plain(longest), 120.0))
        checked = dict(values)
        if checked.pop("passcode_file", None) is not None:
            if "passcode" in checked:
                raise wrong("passcodeFile", "excludes password: say one of them")
            checked["passcode"] = ""  # the file may be on other machines
        for broker in _upstream(checked).brokers:
            try:
                plain_endpoint(broker)
            except Unreachable as error:
                raise wrong("uri", str(error)) from None
        return made

    def upstream(self) -> Upstream:
        """Return the upstream for the relay's core. Reads the file of the passcode. Raises `OptionError`."""
        return _upstream(self.values)

    def client(self, role: str, number: int = 0) -> Client:
        """Return a client without a connection. `number` counts a reader's clients, from 0. Raises `OptionError`."""
        client_id = f"{self.client_id}-{number}" if self.client_id and number else self.client_id
        try:
            return Client(self.upstream(), role, client_id=client_id)
        except Unreachable as error:
            raise wrong("uri", str(error)) from None


def _upstream(values: Mapping[str, Any]) -> Upstream:
    try:
        return config.read(ConfigTable(_ROOT, os.getcwd(), {_ROOT: values}).table(_ROOT))
    except ConfigError as error:
        said = str(error).removeprefix(f"{_ROOT}: {_ROOT}").removeprefix(".")
        key, _, text = said.partition(": ")
        raise wrong(_NAMES.get(key, key), text) from None


@dataclass(frozen=True)
class ReaderOptions:
    """The options of a reader; times are in seconds. `late`: ACKs are sent only for messages that Spark has committed.
    `most`: the most rows of a micro-batch. `earliest`: None if the option was not given. `strict`: the query fails if
    messages are missing from the spool.
    """

    connection: ConnectionOptions
    destinations: tuple[str, ...]
    headers: Mapping[bytes, bytes]
    spool: Path
    late: bool
    prefetch: int
    receivers: int
    group_size: int
    group_age: float
    backlog: int
    most: int | None
    partitions: int | None
    idle: float
    drain: float | None
    earliest: bool | None
    strict: bool
    include_headers: bool
    retain: float
    read_id: str | None

    @classmethod
    def read(cls, options: Mapping[str, str]) -> "ReaderOptions":
        """Return the options of a reader, from Spark's option map. Raises `OptionError`."""
        given = GivenOptions(options)
        given.only(BOTH + READING, _READERS_FOREIGN)
        connection = ConnectionOptions.read(given, {})
        destinations = given.either("subscribe", "destination", listed)
        if destinations is None:
            raise wrong("subscribe", "is missing: one or several destinations, such as /queue/orders")
        receivers = given.get("receivers", plain(count), 1)
        if receivers > 1 and any(each.startswith("/topic/") for each in destinations):
            raise wrong("receivers", "must be 1 for a topic: each receiver would get every message")
        prefetch = given.get("prefetch", plain(count), 10000)
        headers = {b"prefetch-count": b"%d" % prefetch, b"activemq.prefetchSize": b"%d" % prefetch}
        if (selector := given.get("selector", text)) is not None:
            headers[b"selector"] = selector.encode()
        start = given.get("startingOffsets", choice("earliest", "latest"))
        return cls(
            connection=connection,
            destinations=destinations,
            headers=headers | given.headers(),
            spool=_spool(given),
            late=given.get("ack", choice("spool", "commit"), "spool") == "commit",
            prefetch=prefetch,
            receivers=receivers,
            group_size=given.get("groupSize", plain(count), 2000),
            group_age=given.get("groupMs", plain(delay), 0.1),
            backlog=given.get("backlog", plain(count), 5_000_000),
            most=given.either("maxOffsetsPerTrigger", "maxMessagesPerTrigger", plain(count)),
            partitions=given.get("minPartitions", plain(count)),
            idle=given.get("idleMs", plain(longest), 2.0),
            drain=given.get("drainMs", plain(longest)),
            earliest=None if start is None else start == "earliest",
            strict=given.get("failOnDataLoss", plain(flag), True),
            include_headers=given.get("includeHeaders", plain(flag), True),
            retain=given.get("retain", plain(seconds_or_none), 7 * 24 * 3600.0),
            read_id=given.get("readId", text),
        )


def _spool(given: GivenOptions) -> Path:
    spool, checkpoint = given.get("spool", text), given.get("checkpointLocation", text)
    if spool is None and checkpoint is None:
        raise wrong(
            "spool",
            "is missing: a folder, shared by driver and executors, for messages that the broker has let go and Spark"
            " has not committed yet. Spark tells no source where its checkpoint is; say the query's"
            f" checkpointLocation to the reader too, to have it in there as {SPOOL}",
        )
    name, place = ("spool", spool) if spool is not None else ("checkpointLocation", f"{checkpoint}/{SPOOL}")
    assert place is not None
    if place.startswith("file:"):
        place = "/" + place.removeprefix("file:").lstrip("/")
    if "://" in place:
        raise wrong(name, "must be a folder of a file system; give the spool one of its own")
    return Path(place).absolute()


@dataclass(frozen=True)
class Sink:
    """The options of a writer; times are in seconds."""

    connection: ConnectionOptions
    destination: str | None
    headers: Mapping[bytes, bytes]
    window: int
    rate: float | None
    key_header: str
    id: str | None
    progress: Path | None

    @classmethod
    def read(cls, options: Mapping[str, str]) -> "Sink":
        """Return the options of a writer, from Spark's option map. Raises `OptionError`."""
        given = GivenOptions(options)
        given.only(BOTH + WRITING, _WRITERS_FOREIGN)
        connection = ConnectionOptions.read(given, {"confirm": True, "resend_buffer": RESEND})
        persistent = {b"persistent": b"true"} if given.get("persistent", plain(flag), True) else {}
        progress = given.get("progress", text)
        return cls(
            connection=connection,
            destination=given.get("destination", text),
            headers=persistent | given.headers(),
            window=given.get("window", plain(count), 2000),
            rate=given.get("rate", plain(per_second)),
            key_header=given.get("keyHeader", text, "relay-key"),
            id=given.get("id", text),
            progress=None if progress is None else Path(progress).absolute(),
        )
