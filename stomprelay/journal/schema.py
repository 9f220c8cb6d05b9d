"""What each record of the journal holds. This module, `block` and `segment` are the contract between relay and
pipeline.

A segment describes itself: its header has the names of the fields of its contexts, in their order. If an older segment
lacks fields, they are empty for the reader. If a newer segment has unknown fields, the reader skips them. VERSION
changes only if an older reader would misunderstand a segment. A segment of a higher version is not read.
"""

import json
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from json.encoder import encode_basestring as _quoted
from typing import Any, Final, NamedTuple

VERSION: Final = 2
_LONGEST: Final = 0xFFFF // 2
"""The most bytes of one of the two halves of a context: a block's context has at most 65535 bytes."""
_CUT: Final = 1000
_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class JournalSide(Enum):
    """The kind of a frame's leg: a client's (the frame goes to brokers) or a broker's (the frame goes to clients)."""

    CLIENT = "client"
    BROKER = "broker"


def _texts(one: str, two: str, three: str, four: str) -> bytes:
    data = f"{_quoted(one)},{_quoted(two)},{_quoted(three)},{_quoted(four)}".encode("utf-8", "replace")
    return data if len(data) <= _LONGEST else _texts(one[:_CUT], two[:_CUT], three[:_CUT], four[:_CUT])


def context_start(listener: str, session: str, peer: str, client: str) -> bytes:
    """Return the beginning of all contexts of a session, encoded; `context_end` returns what makes it a `Context`."""
    return b"[" + _texts(listener, session, peer, client)


@lru_cache(1024)
def context_end(side: str = "", upstream: str = "", broker: str = "", version: str = "") -> bytes:
    """Return the end of a context, encoded. Many sessions have the same end."""
    return b"," + _texts(side, upstream, broker, version) + b"]"


class Context(NamedTuple):
    """The context of all frames of a block, or of an event. An empty text means that there is no value, or none yet.

    `listener`: the name of the listener that the client connected to. `session`: the session's name, unique among all
    relays. `peer`: the client's address. `client`: the client's `client-id`, else its `login`, else the host of `peer`.
    `side`: a `JournalSide`; empty for an event. `upstream`, `broker`: the upstream's name and the broker's address;
    empty for frames of a client. `version`: the STOMP version of the leg.
    """

    listener: str = ""
    session: str = ""
    peer: str = ""
    client: str = ""
    side: str = ""
    upstream: str = ""
    broker: str = ""
    version: str = ""

    def encode(self) -> bytes:
        """Return the context as JSON bytes for a block. If the texts are too long, each is cut to 1000 characters."""
        return context_start(*self[:4]) + context_end(*self[4:])


class EventRecord(NamedTuple):
    """An event in the journal. `event`: the name of an `Event` of a session or of a `JournalEvent`. `text`: a sentence.
    `facts`: values by name.
    """

    event: str
    text: str
    facts: Mapping[str, Any]

    def encode(self) -> bytes:
        """Return the event as JSON bytes for a block."""
        return _json(self._asdict() | {"facts": dict(self.facts)}).encode("utf-8", "replace")


class JournalEvent(Enum):
    """Events of the journal itself, not of a session."""

    BEGUN = "journal begun"
    """The relay started to write. Facts: `software`, `pid`, and `within` as for `ALIVE`."""
    ALIVE = "journal alive"
    """The relay is alive. Fact: `within`, the most seconds until the relay records this event again."""
    ENDED = "journal ended"
    """The run has ended. If the relay stopped in good order, there are no facts. If the relay died, another process
    closed its segment. Then `by` is `RECOVERY`, `found` is the time of the closing, `cut` is the number of torn bytes,
    and the event has the time of the relay's last record.
    """
    DROPPED = "journal dropped"
    """Records were left out, because the queue was full or the disk failed. Facts: `blocks`, `frames`, `octets`, and
    `since`, the time of the first such record.
    """
    HELD = "back-pressure on"
    """The relay stopped reading from a leg. Facts: `side`; `reason`: "pressure" if the other side takes bytes too
    slowly, "relay" if too many bytes wait in the relay. Without a session, the reason is "journal": the journal is
    full, and the relay reads from no leg.
    """
    RELEASED = "back-pressure off"
    """The relay has read from the leg again for a second. Facts: `side`; `seconds`: how long the relay did not read."""
    PAUSED = "broker paused"
    """An operator took a broker out of service. Facts: `upstream`, `broker`."""
    RESUMED = "broker resumed"
    """The broker is in service again. Facts: `upstream`, `broker`."""


RECOVERY: Final = "recovery"
"""The fact `by` of an event that another process wrote, because the relay itself could not write it."""


class NewerVersion(ValueError):
    """A segment has a higher `VERSION`. The segment is not read, because it might be misunderstood."""


class SegmentHeader(NamedTuple):
    """The first block of a segment. `created`: ns since 1970. A living relay ends the segment after `age` seconds."""

    version: int
    relay: str
    run: str
    number: int
    created: int
    age: float
    software: str
    context: tuple[str, ...] = Context._fields

    def encode(self) -> bytes:
        """Return the header as JSON bytes for the first block of a segment."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode("utf-8")

    @classmethod
    def decode(cls, data: bytes) -> "SegmentHeader":
        """Return the header encoded in these bytes. Raises `NewerVersion` for a higher `VERSION`, else `ValueError`."""
        values = json.loads(data)
        if not isinstance(values, dict) or not isinstance(values.get("version"), int):
            raise ValueError("not the header of a journal segment")
        if values["version"] > VERSION:
            raise NewerVersion(
                f"version {values['version']} of the format; this software reads up to {VERSION}"
            )
        known = {name: values[name] for name in cls._fields if name in values}
        known["context"] = tuple(known.get("context", Context._fields))
        try:
            return cls(**known)
        except TypeError:
            raise ValueError("the header of a journal segment lacks fields") from None

    def contexts(self, data: bytes) -> Context:
        """Return the context that these bytes of a block encode. Raises `ValueError`."""
        values = json.loads(data)
        if not isinstance(values, list):
            raise ValueError("not a context")
        named = dict(zip(self.context, values, strict=False))
        return Context(**{name: named[name] for name in Context._fields if name in named})
