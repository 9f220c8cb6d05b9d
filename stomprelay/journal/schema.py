"""What the journal says of each record. Relay and pipeline share this module, and nothing else.

A segment describes itself: its header names the fields of the contexts in it, in their order. A reader fills fields
that an older segment has not with None and skips those of a newer one that it does not know. VERSION changes only when
an older reader would misunderstand; a segment of a higher one is not read.
"""

import json
from enum import Enum
from typing import Any, Final, NamedTuple

VERSION: Final = 1
_LONGEST: Final = 0xFFFF
"""Octets that a block has room for."""
_CUT: Final = 1000


class Side(Enum):
    """Whose leg it was. Frames of clients go to brokers, frames of brokers to clients."""

    CLIENT = "client"
    BROKER = "broker"


class Context(NamedTuple):
    """What holds for all frames of a block, or for an event. An empty text: there is none, or not yet.

    `listener`: where the client came in, as the configuration calls it. `session`: the session's name, unique among
    all relays. `peer`: the client's address. `client`: who it is, its `client-id`, else its `login`, else the host
    of `peer`. `side`: whose leg (a `Side`), nobody's for an event. `upstream`, `broker`: the upstream's name and the
    broker's address; empty for what came from a client. `version`: the STOMP version that was spoken on the leg.
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
        """As it stands in a block. Keep the bytes: they hold for many. Names that are too long for any block, as only
        somebody who means harm has them, are cut.
        """
        data = json.dumps(self, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        return data if len(data) <= _LONGEST else Context(*[value[:_CUT] for value in self]).encode()


class Happening(NamedTuple):
    """An event: its name, a sentence for people, and what a machine should know (texts and numbers by name).

    The names are those of `stomprelay.session.effects.Event`, and of `JournalEvent` for what only the journal tells.
    """

    event: str
    text: str
    facts: dict[str, Any]

    def encode(self) -> bytes:
        """As it stands in a block."""
        return json.dumps(
            {"event": self.event, "text": self.text, "facts": self.facts},
            ensure_ascii=False,
            separators=(",", ":"),
        ).encode("utf-8", "replace")


class JournalEvent(Enum):
    """Events that no session's core tells."""

    BEGUN = "journal begun"
    """The relay started to write. Facts: `software`, `pid`."""
    ENDED = "journal ended"
    """It stopped in good order."""
    DROPPED = "journal dropped"
    """Records were left out because the queue was full or the disk failed. Facts: `blocks`, `frames`, `octets`."""
    HELD = "back-pressure on"
    """A leg is not read from. Facts: `side`; `reason`: "pressure" where what comes from it cannot be written fast
    enough, "relay" where too much of it waits in the relay. Without a session: no leg is, for the journal has no
    room; `reason` is "journal".
    """
    RELEASED = "back-pressure off"
    """It is read from again, and was for a second. Facts: `side`; `seconds`: for how long it was not, altogether."""
    PAUSED = "broker paused"
    """An operator took a broker out of service. Facts: `upstream`, `broker`."""
    RESUMED = "broker resumed"
    """It is in service again. Facts: `upstream`, `broker`."""


class Newer(ValueError):
    """A segment of a higher VERSION, which we might misunderstand."""


class Header(NamedTuple):
    """The first block of a segment. `created`: nanoseconds since 1970. `age`: seconds after which the relay ends a
    segment, so one that is open and was not written to for much longer has lost its relay.
    """

    version: int
    relay: str
    run: str
    number: int
    created: int
    age: float
    software: str
    context: tuple[str, ...] = Context._fields

    def encode(self) -> bytes:
        """As it stands in a segment."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode("utf-8")

    @classmethod
    def decode(cls, data: bytes) -> "Header":
        """Of what `encode` made; raises `Newer` for a higher VERSION and `ValueError` for anything else."""
        values = json.loads(data)
        if not isinstance(values, dict) or not isinstance(values.get("version"), int):
            raise ValueError("not the header of a journal segment")
        if values["version"] > VERSION:
            raise Newer(f"version {values['version']} of the format; this software reads up to {VERSION}")
        known = {name: values[name] for name in cls._fields if name in values}
        known["context"] = tuple(known.get("context", Context._fields))
        try:
            return cls(**known)
        except TypeError:
            raise ValueError("the header of a journal segment lacks fields") from None

    def contexts(self, data: bytes) -> Context:
        """The context in a block of this segment. Raises `ValueError` for what is none."""
        values = json.loads(data)
        if not isinstance(values, list):
            raise ValueError("not a context")
        named = dict(zip(self.context, values, strict=False))
        return Context(**{name: named[name] for name in Context._fields if name in named})
