"""What is recorded of one session: the frames of its legs and its events, each with its context, in their order."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from stomprelay.journal.block import BlockKind
from stomprelay.journal.capture import Capture, LegRecorder
from stomprelay.journal.schema import JournalSide, context_end, context_start, encode_event
from stomprelay.session.leg import Leg
from stomprelay.wire.dialect import V1_0
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import LOGIN

_CLIENT: Final = JournalSide.CLIENT.value
_BROKER: Final = JournalSide.BROKER.value
_EVENT: Final = int(BlockKind.EVENT)
_OF_EVENTS: Final = context_end()
_CLIENT_ID: Final = b"client-id"
_ID_LINE: Final = b"\n%b:" % _CLIENT_ID
_LOGIN_LINE: Final = b"\n%b:" % LOGIN
_LONGEST: Final = 1000


class Client(Protocol):
    """What is known of a session's client."""

    @property
    def peer(self) -> str:
        """Its address, `host:port`."""

    @property
    def host(self) -> str:
        """The host of that."""

    @property
    def version(self) -> str:
        """The version of STOMP that was agreed with it; empty until one was."""


class Records(Protocol):
    """The journal, as a session sees it: `record` and `record_leg` take blocks, see `JournalQueue`."""

    @property
    def capture(self) -> Capture:
        """What is recorded of each frame."""

    @property
    def record(self) -> Callable[[bytes, int, bytes, bytes, int], None]:
        """Take a block."""

    @property
    def record_leg(self) -> Callable[[LegRecorder], None]:
        """Take what the recorder of a leg has."""


def _headers(connect: Frame) -> dict[bytes, bytes]:
    try:
        return dict(reversed(connect.headers(V1_0)))
    except StompError:
        return {}


def _plain_value(connect: Frame, needle: bytes) -> bytes:
    """What `Frame.raw` returns, empty where there is nothing: not called from what is compiled, where it takes thrice
    the time.
    """
    data = connect.data
    at = data.find(needle, connect.head - 1, connect.body)
    if at < 0:
        return b""
    at += len(needle)
    return data[at : data.find(b"\n", at)]


def _name(connect: Frame) -> str:
    """The name that a client gives itself in its CONNECT: its client-id, else its login; empty where it has neither."""
    if connect.plain:
        name = _plain_value(connect, _ID_LINE) or _plain_value(connect, _LOGIN_LINE)
    else:
        headers = _headers(connect)
        name = headers.get(_CLIENT_ID) or headers.get(LOGIN) or b""
    return name.strip().decode("utf-8", "replace")[:_LONGEST]


class SessionRecorder:
    """Records the session of this name on a listener; `leg` is its client's.

    `recorders` has one for each leg that was `added` and is not `closed`: call `record` when what came on them was
    acted upon. `traced`: the relay may give frames a trace.
    """

    __slots__ = (
        "_brokers",
        "_leg",
        "_name",
        "_of_events",
        "_records",
        "_start",
        "_traced",
        "recorders",
    )

    def __init__(self, records: Records, leg: Leg, listener: str, session: str, *, traced: bool) -> None:
        self.recorders: tuple[LegRecorder, ...] = ()
        self._records = records
        self._leg = leg
        self._name = (listener, session)
        self._traced = traced
        self._brokers: dict[Leg, tuple[str, str]] = {}
        self._start = b""
        self._of_events = b""

    def opening(self, leg: Leg, upstream: str, broker: str) -> None:
        """Record of this leg, which will be added, that it leads to a broker of an upstream."""
        self._brokers[leg] = (upstream, broker)

    def added(self, leg: Leg) -> None:
        """Record what comes on a leg from now on."""
        self.recorders = (*self.recorders, LegRecorder(leg, self._records.capture, traced=self._traced))

    def recorder(self, leg: Leg) -> LegRecorder:
        """Return what records a leg that was added."""
        for recorder in self.recorders:
            if recorder.leg is leg:
                return recorder
        raise LookupError("a leg that nobody records")

    def record(self, client: Client) -> bool:
        """Record the frames that came since the last call. Return whether there were any."""
        some = False
        for recorder in self.recorders:
            if recorder.frames:
                self._take(recorder, client)
                some = True
        return some

    def _take(self, recorder: LegRecorder, client: Client) -> None:
        if not recorder.context:
            self._identify(recorder, client)
        self._records.record_leg(recorder)

    def event(self, client: Client, event: str, text: str, facts: Mapping[str, Any]) -> bool:
        """Record an event of this session, behind the frames that led to it. Return whether there were any."""
        some = self.record(client)
        if not self._of_events:
            self._of_events = self._begun(client) + _OF_EVENTS
        self._records.record(self._of_events, 0, b"", encode_event(event, text, facts), _EVENT)
        return some

    def closed(self, client: Client, leg: Leg) -> bool:
        """Record the frames that came on a leg that is closed now, and no more. Return whether there were any."""
        some = False
        left: list[LegRecorder] = []
        for recorder in self.recorders:
            if recorder.leg is not leg:
                left.append(recorder)
            elif recorder.frames:
                self._take(recorder, client)
                some = True
        self.recorders = tuple(left)
        self._brokers.pop(leg, None)
        return some

    def _identify(self, recorder: LegRecorder, client: Client) -> None:
        """Set the context of a leg's frames, with the client's name and the version of STOMP: it has its first."""
        leg = recorder.leg
        if leg is self._leg:
            connect = recorder.frames[0]
            assert isinstance(connect, Frame)
            self._start = self._of_events = b""
            start = self._begun(client, _name(connect) or client.host)
            recorder.context = start + context_end(_CLIENT, "", "", client.version)
        else:
            upstream, broker = self._brokers[leg]
            version = leg.dialect.version.decode("ascii")
            recorder.context = self._begun(client) + context_end(_BROKER, upstream, broker, version)

    def _begun(self, client: Client, name: str = "") -> bytes:
        """Return what the contexts of this session begin with; the client's name counts where there is none yet."""
        if not self._start:
            listener, session = self._name
            self._start = context_start(listener, session, client.peer, name)
        return self._start
