"""Effects that only a relay asks of the service, the outbox that collects all effects, the notes about a session
(words for the log, facts for the journal), and the joining of frames into one write.

Facts of notes: `beats` = 1: a peer was silent for too long. `delivering` = 1: the client is gone, and what it sent is
still delivered. `possibly_lost`: a number of SENDs. A loss has a `broker` only if the session had one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from stomprelay.relay.model.group import Broker, Group
from stomprelay.relay.model.profile import Profile
from stomprelay.relay.model.rules import Claim, Refusal
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session import effects
from stomprelay.session.effects import Close, Event, Fact, Note, Send
from stomprelay.session.leg import BEAT, Leg
from stomprelay.session.refusal import complain
from stomprelay.session.session import Session
from stomprelay.wire.dialect import ESCAPES, Dialect
from stomprelay.wire.errors import StompError, visible
from stomprelay.wire.frame import Frame, compose
from stomprelay.wire.names import DISCONNECT, MESSAGE_HEADER, RECEIPT, RECEIPT_ID
from stomprelay.wire.run import Passing, Run


@dataclass(slots=True)
class Open:
    """Open a connection to `broker` for this upstream leg; report `BrokerConnected` or `NotConnected`."""

    leg: Leg
    broker: Broker


@dataclass(slots=True)
class Identify:
    """Find out who the client is. Report `Identified`, `Unwanted` or `Unknown` after these effects."""

    leg: Leg
    claim: Claim


@dataclass(slots=True)
class Pass:
    """Until the relay's next input, chunks of `leg` may be written to `to` without the relay. A chunk must consist of
    whole frames that `passing` allows, with the LF after the last frame if the peer `trails`. If a run has `instead`,
    write that in place of the run. Give all other bytes to `received`. If `passing` is None, no chunk may pass. Report
    what passed to `Relay.passed`. The service may ignore this effect.
    """

    leg: Leg
    to: Leg
    passing: Passing | None
    trails: bool = False


@dataclass(slots=True)
class Took:
    """Count that something took so many seconds. `name` is one of `TIMES`, `label` names the listener or upstream."""

    name: str
    label: str
    seconds: float


@dataclass(slots=True)
class Report:
    """Log this error with its traceback, because it is a bug of the relay. The error's text may quote a peer."""

    error: Exception


Effect = effects.Effect | Identify | Open | Pass | Report | Took


class Outbox(list[Effect]):
    """The effects of one client's relay, in order. After each input it is empty. `legs`: the client's leg, and each leg
    that an `Open` asked for and no `Close` has ended.
    """

    __slots__ = ("legs",)

    def __init__(self) -> None:
        super().__init__()
        self.legs: tuple[Leg, ...] = ()

    def put(self, *effects: Effect) -> None:
        """Append these effects."""
        for effect in effects:
            if type(effect) is Open:
                self.legs = (*self.legs, effect.leg)
            elif type(effect) is Close and effect.leg in self.legs:
                self.legs = tuple([leg for leg in self.legs if leg is not effect.leg])
        self += effects

    def drain(self) -> list[Effect]:
        """Return all effects since the last call, and forget them. The caller must perform them in order."""
        effects = [*self]
        self.clear()
        return effects

    def send(self, leg: Leg, data: bytes, now: float) -> None:
        """Write `data`, whole frames or a heart-beat, to a leg. No effect if the leg's connection has ended."""
        if not leg.gone:
            leg.heartbeat.sent_at = now
            self.append(Send(leg, data))

    def beat(self, legs: Iterable[Leg | None], now: float) -> Leg | None:
        """Write heart-beats that are due. Return the first leg whose peer is silent for too long, or None."""
        for leg in legs:
            if leg is None or not leg.beating:
                continue
            if leg.heartbeat.dead(now):
                return leg
            if leg.heartbeat.due(now):
                self.send(leg, BEAT, now)
        return None


SILENT: Final = "sent nothing for too long (heart-beat)"
"""The reason of a loss because of missing heart-beats."""


class End(Enum):
    """The side that ended a session."""

    CLIENT = "client"
    """The client sent DISCONNECT, closed its connection, or fell silent."""
    BROKER = "broker"
    """A broker sent an ERROR and closed, or a broker was lost and not replaced, or no broker was found."""
    RELAY = "relay"
    """The relay stops, or cannot go on with what the client sent."""


class Reason(NamedTuple):
    """Why a session ends. `message` and `detail` are for the client's ERROR; without a `message` there is no ERROR.
    `text` is for the log. `quoted`: the client's bytes that are the cause. `receipt`: that of the frame at fault.
    `end`: the side that ended the session.
    """

    message: str
    detail: str
    text: str
    quoted: bytes | None = None
    receipt: bytes | None = None
    end: End = End.RELAY


STOPPING: Final = Reason("the relay is stopping", "connect again", "the relay stops")
KILLED: Final = Reason(
    "the session was ended", "by an operator of the relay", "an operator ended the session"
)
REFUSED: Final = Reason(
    "access refused", "the relay does not let this client in", "the client's new token was refused"
)
CROWDED: Final = Reason(
    "the relay is short of memory",
    "more than its share is kept of this client; connect again",
    "the relay is short of memory",
)
EXPIRED: Final = Reason("the token has expired", "connect again with a new one", "the client's token expired")

ERRED: Final = Reason("", "", "the broker sent ERROR", end=End.BROKER)


def _facts(broker: Broker | None, upstream: Upstream, reason: str = "") -> dict[str, Fact]:
    facts: dict[str, Fact] = {} if broker is None else {"broker": broker.uri}
    facts["upstream"] = upstream.name
    if reason:
        facts["reason"] = reason
    if reason is SILENT:
        facts["beats"] = 1
    return facts


# Brokers

_LONGEST: Final = 200
"""How many bytes of an ERROR's words are quoted."""


def words(error: Frame, dialect: Dialect, secrets: Iterable[bytes] | None = None) -> str:
    """Return what a broker's ERROR says, as one line of text: its header `message`. `secrets`: it is the answer to a
    CONNECT with these values. They are masked, and the first line of the body is added, because RabbitMQ says only
    there what is wrong. Otherwise the body is not looked at: it may be a client's message.
    """
    text = (error.header(MESSAGE_HEADER, dialect) or b"").strip()
    if secrets is not None:
        line = error.payload.strip().partition(b"\n")[0].strip()
        if line not in text and text not in line:
            text = b"%b: %b" % (text, line)
        text = (text or line).replace(ESCAPES[b":"], b":")
        for each in sorted(filter(None, secrets), key=len, reverse=True):
            text = text.replace(each, b"***")
    return visible(text[:_LONGEST].decode("utf-8", "backslashreplace"))


def found(
    text: str,
    broker: Broker,
    before: Broker | None,
    upstream: Upstream,
    version: bytes,
    product: Profile,
    resent: int,
) -> Note:
    """Return the note that a broker answered CONNECTED. `before`: the last broker. `resent`: frames sent again."""
    facts = _facts(broker, upstream)
    facts["version"] = version.decode("ascii")
    facts["product"] = product.name
    if before is None:
        return Note(Event.CONNECTED, text, facts)
    return Note(Event.RECOVERED, text, {**facts, "lost": before.uri, "resent": resent}, detail=True)


def fault(
    event: Event, broker: Broker | None, upstream: Upstream, reason: str, *, detail: bool = True
) -> Note:
    """Return the note that a broker did not accept the session (REFUSED), or that the session lost it (LOST)."""
    return Note(event, f"broker {broker} {reason}", _facts(broker, upstream, reason), detail=detail)


def vain(group: Group, upstream: Upstream, passes: int) -> Note:
    """Return the note that no broker of the group was found in this number of passes."""
    text = f"no broker of {group} in {passes} attempts"
    return Note(Event.REFUSED, text, {**_facts(None, upstream), "group": group.name, "attempts": passes})


def left(broker: Broker | None, upstream: Upstream, reason: str) -> Note:
    """Return the note that the session leaves a broker because of a fault, and looks for another one."""
    text = f"broker {broker} is left: {reason}"
    return Note(Event.LOST, text, _facts(broker, upstream, reason), detail=True)


def moved(broker: Broker | None, upstream: Upstream) -> Note:
    """Return the note that the session leaves a broker because it was asked to move."""
    return Note(Event.MOVED, f"leaving broker {broker}", _facts(broker, upstream), detail=True)


def given_up(group: Group, broker: Broker | None, upstream: Upstream, reason: str) -> Note:
    """Return the note that a group is left out for the rest of the session. `broker`: its present or last broker."""
    facts = {**_facts(broker, upstream, reason), "group": group.name, "given_up": 1}
    return Note(Event.LOST, f"group {group.name} is given up: {reason}", facts)


def missed(group: Group, upstream: Upstream) -> Note:
    """Return the note that a group misses SENDs from now on."""
    reason = "its queue is full"
    facts = {**_facts(None, upstream, reason), "group": group.name}
    return Note(Event.LOST, f"group {group.name} misses what is sent: {reason}", facts)


def outvoted(group: Group, upstream: Upstream, reason: str) -> Note:
    """Return the note that a group's ERROR is not passed to the client, because there are other groups."""
    return Note(
        Event.IGNORED,
        f"group {group.name}: {reason}",
        {**_facts(None, upstream, reason), "group": group.name},
    )


def unconfirmed(
    brokers: list[tuple[Broker | None, Group, Upstream]], upstream: Upstream, reason: str, missing: int
) -> list[Note]:
    """Return notes that the session ends, because these brokers did not answer. `missing`: SENDs that may be lost."""
    text = f"broker {', '.join(str(broker or group) for broker, group, _ in brokers)} {reason}"
    found = [_facts(broker, where, reason) for broker, _, where in brokers if broker is not None]
    first, *others = found or [_facts(None, upstream, reason)]
    if missing:
        text = f"{text}: {missing} SENDs may be lost"
        first["possibly_lost"] = missing
    quiet = [Note(Event.LOST, f"broker {each['broker']} {reason}", each, quiet=True) for each in others]
    return [Note(Event.LOST, text, first, detail=not missing), *quiet]


# The client


def failed(side: str, error: StompError, *, detail: bool = False) -> Note:
    """Return the note that the session ends with an ERROR. `side`: the side that sent the bytes at fault. `detail`:
    True if no bytes are at fault.
    """
    text = f"{error.message} ({error.detail})" if error.detail else error.message
    return Note(Event.ERROR, f"{side}: {text}", {"side": side, "message": error.message}, detail=detail)


def turned_away(refusal: Refusal) -> Note:
    """Return the note that a client is refused, so that no session starts."""
    facts = {"side": End.CLIENT.value, "message": "access refused", "reason": refusal.ground.value}
    return Note(Event.ERROR, f"access refused ({refusal.ground.value}): {refusal.text}", facts)


def not_renewed(refusal: Refusal) -> Note:
    """Return the note that a client's new token is not valid. The session continues until the old token expires."""
    facts = {"side": End.CLIENT.value, "message": "new token refused", "reason": refusal.ground.value}
    text = (
        f"new token refused ({refusal.ground.value}): {refusal.text}; the one before counts until it expires"
    )
    return Note(Event.ERROR, text, facts)


def unheard(error: StompError) -> Note:
    """Return the note of a broker's error that the client cannot be sent, because the client is gone."""
    facts = {"side": End.BROKER.value, "message": error.message}
    return Note(Event.ERROR, f"{error.message} ({error.detail})", facts)


# Ends


def vanished(text: str, *, delivering: bool = False) -> Note:
    """Return the note that the client left without DISCONNECT. `delivering`: its frames are still being delivered."""
    facts = {"end": End.CLIENT.value} | ({"delivering": 1} if delivering else {})
    return Note(Event.VANISHED, text, facts, detail=delivering)


def ended(end: End, text: str, *, quiet: bool = True) -> Note:
    """Return the note that the session is over. `quiet`: the log already has the reason."""
    return Note(Event.DISCONNECTED, text, {"end": end.value}, quiet=quiet)


def with_loss(note: Note, lost: int) -> Note:
    """Return the note that the session is over with the number of SENDs that may be lost, if there are any."""
    text = f"{note.text}; {lost} SEND{'s'[: lost != 1]} may be lost"
    return replace(note, text=text, facts={**note.facts, "possibly_lost": lost}) if lost else note


def ended_with(broker: Broker | None, upstream: Upstream, reason: str, *, settled: bool) -> Note:
    """Return the note that the session ended with its broker. `settled`: the client had sent DISCONNECT."""
    end = End.CLIENT if settled else End.BROKER
    text = "the client sent DISCONNECT" if settled else f"broker {reason}"
    return Note(Event.DISCONNECTED, text, {**_facts(broker, upstream, reason), "end": end.value})


NewHead = Callable[[Frame], bytes | None]
"""Returns a frame's new head. None: the frame passes as it came. `NOTHING`: the frame does not pass. `NO_MORE`: this
frame does not pass, and no later one is looked at. May raise `StompError`.
"""

NOTHING: Final = b""
NO_MORE: Final = bytes(bytearray(b"\0"))
"""Compare with `is`: no other head is the same object."""

TURN: Final = 512
"""The number of frames of one leg in one turn: some milliseconds' work, so that no peer holds up the others."""


class Joiner:
    """Collects what is written to one leg, in as few slices as possible. Call `carry`, `add`, `write`, then `take`."""

    __slots__ = ("_data", "_done", "_start", "_stop", "frames")

    def __init__(self) -> None:
        self._done: list[bytes] = []
        self._data = b""
        self._start = self._stop = 0
        self.frames = 0
        """How many frames the last `carry` looked at."""

    def carry(self, frames: Iterator[Frame | Run], new_head: NewHead) -> None:
        """Add frames, up to a DISCONNECT. Raises as `frames` and `new_head` do; frames before the error are added."""
        count = 0
        data, stop = self._data, self._stop
        try:
            for found in frames:
                frame = found
                if type(found) is Run:
                    count += found.count
                    frame = found.instead or found
                    head = NOTHING if found.rule.stays else None
                else:
                    count += 1
                    head = new_head(found)
                if head is None and frame.start == stop and frame.data is data:
                    stop = frame.after
                elif head is None and not stop:
                    data, self._start, stop = frame.data, frame.start, frame.after
                    self._data = data
                elif head is NO_MORE:
                    break
                elif head is None or head:
                    self._stop = stop
                    self.add(frame, head)
                    data, stop = self._data, self._stop
                if frame.command is DISCONNECT:
                    break
        finally:
            self._stop = stop
            self.frames = count

    def add(self, frame: Frame | Run, head: bytes | None, extra: bytes = b"") -> None:
        """Add a frame, with another `head` if that is not None, and with the header lines `extra` in front. In a run
        only the last frame gets `extra`.
        """
        if type(frame) is Run:
            frame = frame.instead or frame
        data = self._data
        if frame.data is not data or frame.start != self._stop:
            if self._stop > self._start:
                self._end()
            data = self._data = frame.data
            self._start = frame.start
        if head is not None:
            assert type(frame) is not Run
            if extra:
                at = head.find(b"\n") + 1
                head = head[:at] + extra + head[at:]
            self._done += (data[self._start : frame.start], head)
            self._start = frame.body
        elif extra:
            self._done += (data[self._start : frame.head], extra)
            self._start = frame.head
        self._stop = frame.after

    def write(self, wire: bytes) -> None:
        """Add whole frames of the relay's own."""
        self._end()
        self._done.append(wire)

    def take(self, *, trails: bool = False) -> bytes:
        """Return everything that was collected, and forget it. If the peer `trails`, and the LF after its last frame
        has not come yet, this LF is added, because clients may wait for it.
        """
        data, start, stop, done = self._data, self._start, self._stop, self._done
        if trails and stop and stop == len(data) and data[-1] == 0:
            self.write(b"\n")
        elif done:
            self._end()
        self._data = b""
        self._start = self._stop = 0
        if not done:
            return data[start:stop]  # a whole chunk is not copied by that
        self._done = []
        return b"".join(done)

    def _end(self) -> None:
        """Append the slice that passes unchanged, if there is one."""
        if self._stop > self._start:
            self._done.append(self._data[self._start : self._stop])
        self._start = self._stop


def give_receipts(receipts: Sequence[bytes], client: Leg, outbox: Outbox, now: float) -> None:
    """If the client is connected, write a RECEIPT frame for each of these ids, because no broker will send it."""
    if receipts and not client.gone:
        frames = [compose(RECEIPT, [(RECEIPT_ID, each)], client.dialect) for each in receipts]
        outbox.send(client, b"".join(frames), now)
        for receipt in receipts:
            spelled = receipt.decode("utf-8", "backslashreplace")
            text = f"receipt {spelled} is given by the relay"
            outbox.put(Note(Event.ANSWERED, text, {"receipt": spelled}, quiet=True))


def give_error(error: StompError, client: Leg, session: Session, outbox: Outbox, now: float) -> None:
    """If the client is connected, write the ERROR frame for an error behind which its session goes on."""
    outbox.put(failed(End.CLIENT.value, error))
    session.received(error.receipt)
    if not (client.gone or client.closed):
        session.counters["errors_sent"] += 1
        outbox.send(client, complain(error, session.dialect), now)
