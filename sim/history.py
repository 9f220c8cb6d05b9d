"""What happened in a world, or in a run with real brokers, in the order of time: what the judge reads.

Bodies are names: each SEND has a body that no other SEND has, and which begins with the name of its client.
"""

from collections import defaultdict
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

from sim.stomp import Frame
from stomprelay.relay.model.names import NameMap, NameRow


class What(Enum):
    """The kinds of events. In brackets: what `frame` or `detail` is."""

    CONNECTED = "connected"
    """A client or the relay opened a connection to a relay or a broker."""
    SENT = "sent"
    """A client wrote a frame (`frame`)."""
    READ = "read"
    """A client read a frame (`frame`)."""
    ENDED = "ended"
    """A client's connection ended; `detail`: "closed", "reset", "refused" (there was none), or "left" where the client
    itself ended it."""
    TOOK = "took"
    """A broker took a message of a SEND into a destination (`frame`: the SEND)."""
    GAVE = "gave"
    """A broker delivered a message (`frame`: the MESSAGE)."""
    ACKED = "acked"
    """A client acknowledged or refused a message (`frame`), perhaps several with one ACK."""
    SETTLED = "settled"
    """A broker removed a message, because it was acknowledged (`detail`: its body)."""
    RETURNED = "returned"
    """A message that was delivered and not acknowledged is in its queue again (`detail`: its body)."""
    FORGOT = "forgot"
    """A broker that was killed does not have a message any more (`detail`: its body)."""
    KEPT = "kept"
    """At the end a broker has a message in a queue (`detail`: its body)."""
    MET = "met"
    """A broker accepted a connection."""
    FATE = "fate"
    """The weather: a broker or a relay was killed or started, a connection was cut (`detail` says it)."""
    LOGGED = "logged"
    """The relay wrote a line to its log (`detail`)."""
    WRONG = "wrong"
    """Something that must not be was seen at once (`detail`)."""
    CALM = "calm"
    """The weather has ended: from now on everything works."""


class Event(NamedTuple):
    """One event. `who`: the client `c1`, the broker `a`, or `relay`. `session`: the number of its connection."""

    at: float
    who: str
    what: What
    session: int = 0
    frame: Frame | None = None
    detail: str = ""

    @property
    def command(self) -> bytes:
        """Return the frame's command; nothing without a frame."""
        return b"" if self.frame is None else self.frame.command

    @property
    def headers(self) -> dict[bytes, bytes]:
        """Return the frame's headers; none without a frame."""
        return {} if self.frame is None else self.frame.headers

    @property
    def body(self) -> bytes:
        """Return the body of the frame, or what `detail` has."""
        return self.detail.encode() if self.frame is None else self.frame.body

    def __str__(self) -> str:
        text = self.detail if self.frame is None else str(self.frame)
        return f"{self.at:9.3f} {self.who}.{self.session} {self.what.value} {text}"


class Arrival(NamedTuple):
    """When the relay had read all of a frame that a client or a broker wrote, or (`frame` is None) when it saw the end
    of the connection, or made it (`behind` is 1). Else `behind` is how many SENDs a broker had taken on it when it
    read what this answers.
    """

    at: float
    frame: Frame | None
    behind: int = 0

    @property
    def command(self) -> bytes:
        """Return the frame's command; nothing without a frame."""
        return b"" if self.frame is None else self.frame.command

    @property
    def headers(self) -> dict[bytes, bytes]:
        """Return the frame's headers; none without a frame."""
        return {} if self.frame is None else self.frame.headers


class History:
    """The events. `facts` has what was known from the beginning or found out at the end: settings, counters. `arrived`
    has what the relay read on each connection, by the name and the number that its events have; `owners` by those of a
    broker's connection those of the client's for which the relay opened it; `ending`, by those of a client's, when the
    relay began to end its session, and read no more. What comes for a session that is over counts as not read. `moved`:
    how brokers spell names; the frames of their events have the clients' names.
    """

    def __init__(self, moved: tuple[NameRow, ...] = (), **facts: Any) -> None:
        self._names = NameMap(moved)
        self.events: list[Event] = []
        self.facts: dict[str, Any] = facts
        self.arrived: dict[tuple[str, int], list[Arrival]] = defaultdict(list)
        self.owners: dict[tuple[str, int], tuple[str, int]] = {}
        self.ending: dict[tuple[str, int] | None, float] = {}

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def add(
        self, at: float, who: str, what: What, session: int = 0, frame: Frame | None = None, detail: str = ""
    ) -> None:
        """Add an event, which is the last one so far."""
        if self._names.rows and frame is not None and what in (What.TOOK, What.GAVE):
            said = frame.headers[b"destination"]
            place = self._names.to_client(said)
            if place == said and said.startswith(b"/queue/"):
                place = b"a client's name: " + said
            frame = frame._replace(headers=frame.headers | {b"destination": place})
        self.events.append(Event(at, who, what, session, frame, detail))
