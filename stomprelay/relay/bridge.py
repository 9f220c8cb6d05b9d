"""Frames from one dialect to another.

Headers are taken out, put in front, or respelled where their escapes differ; all else passes as it came. Between equal
versions the broker judges a client's frames, else the bridge does. `STEPS` say which headers, by command.

Relays put headers of their own into clients' SENDs: `receipt` and `relay-trace`. Brokers hand them on in MESSAGEs, so
every relay takes them out there, whichever relay put them in. A trace is unique to a SEND, and put in first; the
journal recognises the SEND by it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from stomprelay.relay.effects import NewHead
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.model.profile import AUTO as AUTO_PROFILE
from stomprelay.relay.model.profile import GENERIC, PROFILES, Profile, detect
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.delivery import Delivery
from stomprelay.session.handshake import Accord, Credentials, Offer, OwnHeader
from stomprelay.session.ledger import Ledger
from stomprelay.session.recent import ids_of
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import AUTO, MADE, MODES
from stomprelay.wire.decoder import compiled
from stomprelay.wire.dialect import DIALECTS, PROTOCOL_HEADERS, V1_1, DeliveryNaming, Dialect, Headers, up_to
from stomprelay.wire.errors import FrameError, ProtocolError, Refused, StompError
from stomprelay.wire.frame import END, Frame
from stomprelay.wire.names import (
    ACK,
    ACK_HEADER,
    BEGIN,
    CLIENT_COMMANDS,
    CONTENT_LENGTH,
    DESTINATION,
    DISCONNECT,
    ID,
    MESSAGE,
    MESSAGE_ID,
    NACK,
    RECEIPT,
    RECEIPT_HEADER,
    RECEIPT_ID,
    RESERVED,
    SELECTOR,
    SEND,
    SUBSCRIBE,
    SUBSCRIPTION,
    TRANSACTION,
    UNSUBSCRIBE,
)
from stomprelay.wire.run import Passing, Rule, Rules, Run

if TYPE_CHECKING:
    from stomprelay.wire._respell import Speller

Table = list[bytes | None]

_OCTETS: Final = [bytes([octet]) for octet in range(256)]


_COMPILED: Final = compiled("stomprelay.wire._respell")
SPELLER: "Final[type[Speller] | None]" = None if _COMPILED is None else _COMPILED.Speller
"""What writes many frames anew; None where it was not built, or nothing compiled is wanted."""


class Spelling:
    """How frames of `source` are spelled for `target`. `alike`: both have the same escapes, except that of CR."""

    def __init__(self, source: Dialect, target: Dialect, *, alike: bool) -> None:
        self._source = source
        self._target = target
        escapes: Table | None = None
        if alike:
            octets: Table = [None if each == b"\r" else each for each in _OCTETS]
            escapes = [None if each in b"\\\r" else b"\\" + each for each in _OCTETS]
            escapes[ord("r")] = None
        else:
            octets = [self._becomes(each) for each in _OCTETS]
            if source.reads:
                escapes = [self._becomes(b"\\" + each) for each in _OCTETS]
        self._speller = None
        if SPELLER is not None:
            self._speller = SPELLER(octets, escapes, source.padded, tuple(PROTOCOL_HEADERS))

    def _becomes(self, spelled: bytes) -> bytes | None:
        """Return the target's spelling of a byte or an escape in a value; None if the value needs a look."""
        try:
            value = self._source.decode(b"", b"." + spelled)[1:]
        except FrameError:
            return None
        if b"\r" in value + spelled or not self._target.speakable(value):
            return None
        return self._target.encode(value)

    def respell(
        self, run: Run, drop: tuple[bytes, ...] = (), names: tuple[bytes, ...] = (), values: bytes = b""
    ) -> bool:
        """Let the run be sent in the target's spelling, without the headers `drop`, and with headers of these `names`
        and `values` in front. Return whether that is possible.
        """
        if run.plain and not drop and not names:
            return True
        if self._speller is None or run.parts is None:
            return False
        made = self._speller.frames(run.data, run.start, run.parts, drop, names, values)
        if made is None:
            return False
        run.replace(*made)
        return True

    def values(self, text: bytes) -> bytes | None:
        """Return raw values, each with an LF behind it, in the target's spelling; None if each value needs a look."""
        if self._speller is None or (self._source.padded and b" " in text):
            return None
        spelled = self._speller.values(text)
        return None if spelled is None or not self._target.spells_once(spelled) else spelled


class Edit(NamedTuple):
    """Headers to take out, and decoded headers to put in front."""

    drop: tuple[bytes, ...] = ()
    add: tuple[tuple[bytes, bytes], ...] = ()


AS_IT_IS: Final = Edit()
NOTHING: Final = Edit(())
"""The frame is not for the other leg."""


Editing = Callable[["Bridge", Frame, Session], Edit]
"""Returns what a bridge changes in a frame of a session."""

_SPECIAL: Final = re.compile(rb"\n(%b|%b):" % (RECEIPT_HEADER, b"|".join(RESERVED)))
"""Finds what makes a SEND worth a second look: a receipt asked for, or a header that only a broker may set."""
_RECEIPT_ALONE: Final = [RECEIPT_HEADER]


def publish(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
    """SEND: remove the headers that only a broker may set, and record a receipt that is asked for as owed; where the
    session is `tracked`, its resender knows of it.
    """
    found = _SPECIAL.findall(frame.data, frame.head - 1, frame.body)
    if not found:
        return AS_IT_IS
    if RECEIPT_HEADER in found:
        receipt = frame.header(RECEIPT_HEADER, bridge.source)
        assert receipt is not None
        if not bridge.tracked:
            session.owed(receipt)
        if found == _RECEIPT_ALONE:
            return AS_IT_IS
    forged = tuple([name for name in RESERVED if name in found])
    if not forged:
        return AS_IT_IS
    session.lose("loss_reserved", len(forged))
    return Edit(forged)


def watch(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
    """Record what the frame opens or closes. Raises `ProtocolError` for a SUBSCRIBE it cannot follow, or too many."""
    headers = frame.headers(bridge.source)
    if frame.command is SUBSCRIBE:
        _judge_subscribe(bridge, headers, session)
    session.observed(frame.command, headers)
    return AS_IT_IS


def count_selector(bridge: "Bridge", headers: Headers, session: Session) -> None:
    """Count a SUBSCRIBE whose selector the broker will ignore."""
    if not bridge.selectors and any(name == SELECTOR for name, _ in headers):
        session.counters["selector_ignored"] += 1


def _judge_subscribe(bridge: "Bridge", headers: Headers, session: Session) -> None:
    """Raise `ProtocolError` for a SUBSCRIBE that the bridge could not follow."""
    count_selector(bridge, headers, session)
    if not bridge.judges:
        return
    names = dict(reversed(headers))
    if DESTINATION not in names:
        raise ProtocolError("SUBSCRIBE needs a destination header")
    if names.get(ACK_HEADER, AUTO) not in MODES:
        raise ProtocolError(
            "SUBSCRIBE has an unknown ack mode", f"known: {b', '.join(sorted(MODES)).decode()}"
        )
    if ID not in names:
        if bridge.source.named_subscriptions:
            raise ProtocolError("SUBSCRIBE needs an id header")
    elif session.subscriptions.named(names[ID]) is not None:
        raise ProtocolError("SUBSCRIBE repeats the id of an open subscription")


def name_subscription(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
    """SUBSCRIBE and UNSUBSCRIBE: add or remove the `id`, where only one side names subscriptions."""
    headers = frame.headers(bridge.source)
    if frame.command is SUBSCRIBE:
        _judge_subscribe(bridge, headers, session)
    subscription = session.observed(frame.command, headers)
    if subscription is None:
        raise ProtocolError("UNSUBSCRIBE names no open subscription")
    if any(name == ID for name, _ in headers):
        return AS_IT_IS
    return Edit((DESTINATION,) if frame.command is UNSUBSCRIBE else (), ((ID, subscription.id),))


def name_delivery(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
    """ACK and NACK: use the broker's name for the delivery. The next broker gets none for a lost broker's delivery."""
    source, target, ledger = bridge.source, bridge.target, session.ledger
    within = frame.header(TRANSACTION, source) if session.transactions else None
    transaction = None if within is None else session.transactions.get(within)
    if transaction is None and bridge.carries(frame.command):
        edit = _acknowledge(bridge, frame, session)
        if edit is not None:
            return edit
    delivery = _FIND[source.delivery](frame, source, ledger)
    stale = ledger.unsure if delivery is None else delivery.lost
    if delivery is None and not stale and not bridge.judges and not ledger.hides(said(frame, source)):
        return AS_IT_IS
    if not stale and (delivery is None or not bridge.carries(frame.command)):
        return refuse(bridge, frame, session)
    if delivery is None:
        whole = not ledger.forgot
    else:
        whole = ledger.settled(delivery, None if transaction is None else within)
    if transaction is not None and not whole:
        transaction.doomed = "it acknowledges messages of a broker that was lost"
    if delivery is None or stale:
        session.lose("acks_stale")
        return NOTHING
    if transaction is not None:
        transaction.acknowledged = True
    if bridge.alike:
        return _renamed(frame, delivery, source)
    if target.delivery is DeliveryNaming.ACK:
        if delivery.ack is None:
            command = frame.command.decode()
            raise Refused(f"{command} is not possible", "the broker gave the message no ack header")
        return Edit((MESSAGE_ID, SUBSCRIPTION, ID), ((ID, delivery.ack),))
    return Edit(
        (ID, MESSAGE_ID, SUBSCRIPTION),
        ((SUBSCRIPTION, delivery.subscription.id), (MESSAGE_ID, delivery.message_id)),
    )


ACKNOWLEDGED: Final = {
    DeliveryNaming.MESSAGE_ID: (MESSAGE_ID,),
    DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID: (SUBSCRIPTION, MESSAGE_ID),
    DeliveryNaming.ACK: (ID,),
}
"""By naming: the headers with which an ACK or NACK names a delivery, see `session.recent`."""
SAID_BESIDE: Final = {DeliveryNaming.MESSAGE_ID: (SUBSCRIPTION,)}
"""By naming: headers that an ACK may have besides, and that tell more about the delivery."""


_BY_MESSAGE: Final = (SUBSCRIPTION, MESSAGE_ID), 0
NAMED: Final[dict[DeliveryNaming, tuple[tuple[bytes, ...], int]]] = {
    DeliveryNaming.MESSAGE_ID: _BY_MESSAGE,
    DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID: _BY_MESSAGE,
    DeliveryNaming.ACK: ((ID,), 2),
}
"""By naming: the headers that tell a broker which delivery an ACK is for, and the place in a row (see `session.recent`)
where their values begin.
"""


def _acknowledge(bridge: "Bridge", frame: Frame, session: Session) -> Edit | None:
    """Settle an ACK or NACK by its names alone. Return the edit; None if the ledger has to be asked."""
    source = bridge.source
    more = any(frame.raw(each) is not None for each in SAID_BESIDE.get(source.delivery, ()))
    name = None if more else _row(frame, ACKNOWLEDGED[source.delivery])
    if name is None:
        return None
    if not bridge.judges:
        return AS_IT_IS if session.acknowledged(name) else None
    headers, first = NAMED[bridge.target.delivery]
    values = session.values(name, first, first + len(headers))
    if values is None or not session.acknowledged(name):
        return None
    said = source.decode_once(values).split(b"\n")[:-1]
    return Edit((ID, MESSAGE_ID, SUBSCRIPTION), tuple(zip(headers, said, strict=True)))


def _row(frame: Frame, names: tuple[bytes, ...]) -> bytes | None:
    """Return the raw values of these headers, each with an LF behind it; None if one of them is missing."""
    values = [frame.raw(name) for name in names]
    return None if None in values else b"%b\n" * len(values) % tuple(values)


def _renamed(frame: Frame, delivery: Delivery, source: Dialect) -> Edit:
    """Return the edit of an ACK or NACK where both sides use the same name. Two brokers may have given this name."""
    if source.delivery is not DeliveryNaming.ACK:
        if frame.header(MESSAGE_ID, source) == delivery.message_id:
            return AS_IT_IS
        return Edit((MESSAGE_ID,), ((MESSAGE_ID, delivery.message_id),))
    if delivery.ack is None or frame.header(ID, source) in (None, delivery.ack):
        return AS_IT_IS  # one without an id is the broker's to judge
    return Edit((MESSAGE_ID, SUBSCRIPTION, ID), ((ID, delivery.ack),))


def said(frame: Frame, source: Dialect) -> bytes | None:
    """Return the name of the delivery in a client's ACK or NACK; None if the frame has none."""
    name = frame.header(ID, source) if source.delivery is DeliveryNaming.ACK else None
    return frame.header(MESSAGE_ID, source) if name is None else name


def _by_message(frame: Frame, source: Dialect, ledger: Ledger) -> Delivery | None:
    message_id = frame.header(MESSAGE_ID, source)
    if message_id is None:
        return None
    return ledger.by_message(message_id, frame.header(SUBSCRIPTION, source))


def _by_message_alone(frame: Frame, source: Dialect, ledger: Ledger) -> Delivery | None:
    """Return the delivery of a message-id, even if the subscription that an ACK names is another one."""
    message_id = frame.header(MESSAGE_ID, source)
    if message_id is None:
        return None
    return _by_message(frame, source, ledger) or ledger.by_message(message_id)


def _by_token(frame: Frame, source: Dialect, ledger: Ledger) -> Delivery | None:
    token = frame.header(ID, source)
    # Some clients go on saying message-id and subscription on 1.2.
    return _by_message(frame, source, ledger) if token is None else ledger.by_token(token)


def named(frame: Frame, source: Dialect, ledger: Ledger) -> Delivery | None:
    """Return the delivery that a client's ACK or NACK names; None where there is none."""
    return _FIND[source.delivery](frame, source, ledger)


_FIND: Final = {
    DeliveryNaming.MESSAGE_ID: _by_message_alone,
    DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID: _by_message,
    DeliveryNaming.ACK: _by_token,
}


DELIVERED: Final = {
    DeliveryNaming.MESSAGE_ID: (SUBSCRIPTION, MESSAGE_ID),
    DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID: (SUBSCRIPTION, MESSAGE_ID),
    DeliveryNaming.ACK: (SUBSCRIPTION, MESSAGE_ID, ACK_HEADER),
}
"""By naming: the headers of a MESSAGE that name its delivery, see `session.recent`."""


def deliver(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
    """MESSAGE: add the names of its subscription and of the delivery that the client's version needs."""
    source, target = bridge.source, bridge.target
    if bridge.tracked and not bridge.judges:
        names = DELIVERED[source.delivery]
        row = _row(frame, names)
        if row is not None and session.delivered(row, len(names), 1):
            return AS_IT_IS
    name = frame.header(SUBSCRIPTION, source)
    destination = frame.header(DESTINATION, source) or b""
    subscription = session.subscriptions.delivered(name, destination)
    drop: tuple[bytes, ...] = ()
    add: tuple[tuple[bytes, bytes], ...] = ()
    alike = bridge.alike
    if not alike or bridge.tracked:
        ack = frame.header(ACK_HEADER, source)
        if ack is not None and not alike:
            drop = (ACK_HEADER,)
        if subscription is not None and subscription.ack != AUTO:
            message_id = frame.header(MESSAGE_ID, source)
            if message_id is None:
                if not bridge.judges:
                    return AS_IT_IS
                raise ProtocolError("MESSAGE without message-id")
            given = ack if source.delivery is DeliveryNaming.ACK else None
            taken = alike and given is not None and session.taken(given)
            clashes = target.delivery is not DeliveryNaming.ACK and session.clashes(message_id)
            delivery = session.ledger.noted(subscription, message_id, given, tokened=taken, hidden=clashes)
            if target.delivery is DeliveryNaming.ACK and (taken or not alike):
                drop = (ACK_HEADER,)
                add = ((ACK_HEADER, delivery.token),)
            elif clashes:
                drop = (MESSAGE_ID, *drop)
                add = ((MESSAGE_ID, delivery.token),)
    if target.named_subscriptions:
        if name is None and subscription is not None and bridge.judges:
            add = ((SUBSCRIPTION, subscription.id), *add)
    elif name is not None and name.startswith(MADE) and not (subscription and subscription.named):
        drop = (SUBSCRIPTION, *drop)
    return Edit(drop, add) if drop or add else AS_IT_IS


def refuse(bridge: "Bridge", frame: Frame, _session: Session) -> Edit:
    """Raise `Refused` or `ProtocolError` for a command that the other version lacks, or an unknown name in it."""
    command = frame.command.decode()
    if bridge.carries(frame.command):
        raise ProtocolError(f"{command} names no message that awaits one")
    raise Refused(f"{command} cannot be said to the broker", "its STOMP version has no such command")


class Step(NamedTuple):
    """An edit of `commands`: always, or where the dialects differ in one of `facts`, or account is kept (`tracks`)."""

    commands: frozenset[bytes]
    facts: tuple[str, ...]
    edit: Editing
    tracks: bool = False


STEPS: Final = (
    Step(frozenset({SEND}), (), publish),
    Step(Session.WATCHED, (), watch),
    Step(frozenset({SUBSCRIBE, UNSUBSCRIBE}), ("named_subscriptions",), name_subscription),
    Step(frozenset({ACK, NACK}), ("delivery",), name_delivery, tracks=True),
    Step(frozenset({MESSAGE}), ("delivery", "named_subscriptions"), deliver, tracks=True),
)
"""In order: a later step takes the place of an earlier one for its commands."""


_ORDINARY: Final = bytes(byte for byte in range(256) if byte not in b":\n\\\r")


def _blank(unfit: bytes) -> bytes:
    return b" " * len(unfit)


def _percent(unfit: bytes) -> bytes:
    return b"".join([b"%%%02X" % byte for byte in unfit])


@cache
def _having(names: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """Matches a header line with one of these names, and the LF in front of it."""
    return re.compile(rb"\n(?:%b):[^\n]*" % b"|".join(map(re.escape, names)))


class Bridge:
    """Frames of `source` for a leg of `target`. Stateless: one serves every session of its bridge.

    `selectors`: the broker honours them. `tracked`: account is kept of MESSAGEs, because the session may move.
    `judges`: the bridge has to refuse what it cannot follow; between equal versions the broker judges. `alike`: both
    sides name deliveries alike. `spelling`: for runs where it judges. `facing`: the dialect of a broker that is sent
    frames as they came. `names`: a client of another version names deliveries by the broker's own names, not by tokens
    of ours. `names_subscriptions`: the target has to be told an id of each subscription, also of those that the client
    gave none. `misreads`: the other side may take a receipt with a backslash for another receipt, because it reads it
    as it came.
    """

    def __init__(
        self,
        source: Dialect,
        target: Dialect,
        loss: LossPolicy = LossPolicy.REPLACE,
        *,
        selectors: bool = True,
        tracked: bool = False,
        facing: Dialect | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.loss = loss
        self.tracked = tracked
        self.steps: dict[bytes, Editing] = {
            command: step.edit
            for step in STEPS
            for command in step.commands
            if not step.facts
            or (tracked and step.tracks)
            or any(getattr(source, fact) != getattr(target, fact) for fact in step.facts)
        }
        for command in source.commands - target.commands:
            if not tracked or command not in self.steps:
                self.steps[command] = refuse
        self.selectors = selectors
        self.judges = source.version != target.version
        self.alike = source.delivery is target.delivery
        self.names = self.judges and target.delivery is not DeliveryNaming.ACK
        self.names_subscriptions = self.judges and target.named_subscriptions
        alike = not source.padded and source.escaped_names == target.escaped_names
        # Both versions escape names, but one of the sides leaves them as they are.
        self._raw_names = (
            source.escaped_names != target.escaped_names and bool(source.reads) and bool(target.reads)
        )
        self._only_cr = alike and (source.reads ^ target.writes) <= {b"\r"}
        self.spelling = Spelling(source, target, alike=self._only_cr)
        self._heard: Dialect | None = None
        trimmed = facing is not None and facing.trims_cr and not source.crlf
        if facing is not None and (trimmed or b"\\" in facing.writes - source.reads):
            self._heard = replace(facing, reads=facing.writes)
        self.misreads = self._heard is not None

    def carries(self, command: bytes) -> bool:
        """Whether the other leg may be sent this command: between equal versions any, and the broker judges it."""
        return not self.judges or command in self.target.commands

    def with_steps(self, steps: dict[bytes, Editing]) -> "Bridge":
        """Return the same bridge with other steps, by command."""
        other = Bridge(self.source, self.target, self.loss, selectors=self.selectors, tracked=self.tracked)
        other.steps = steps
        return other

    def carry(self, frame: Frame, session: Session) -> bytes:
        """Return the bytes for the other leg, empty where the frame is not for it. Raises as `head` does."""
        head = self.head(frame, session)
        if not head:
            return frame.wire if head is None else b""
        return head + frame.data[frame.body : frame.after]

    def compose(self, command: bytes, headers: Headers, session: Session) -> bytes:
        """Return a frame of the relay's in the client's name, without a body and `content-length`. Raises `Refused`."""
        if command is SUBSCRIBE:
            count_selector(self, headers, session)
        if self._heard is not None:
            asked = next((value for name, value in headers if name == RECEIPT_HEADER), None)
            self._note(asked, self._heard, session)
        lines = [
            self._line(name, value, command, session) for name, value in headers if name != CONTENT_LENGTH
        ]
        return b"\n".join([command, *filter(None, lines), b""]) + b"\n" + END

    def leave(self, receipt: bytes, session: Session) -> bytes:
        """Return the frame by which the relay leaves a broker, whose RECEIPT says that it has read all before."""
        return self.compose(DISCONNECT, [(RECEIPT_HEADER, receipt)], session)

    def without(self, frame: Frame, name: bytes, session: Session) -> bytes:
        """Return the bytes of a frame's new head, without its header `name`. Raises as `head` does."""
        edit = Edit((name,))
        if frame.crlf or (self.judges and not frame.plain):
            return self._respelled(frame, edit, session)
        return self._opening(frame, edit, session) + self._cut(frame, edit)

    def head(self, frame: Frame, session: Session) -> bytes | None:
        """Return a frame's new head with its blank line; None: it passes as it came; b"": it is not for the other leg.
        Raises `ProtocolError` or `Refused`.
        """
        memo = frame.memo
        if memo is not None and memo is session.memo:
            return session.memo_head
        step = self.steps.get(frame.command)
        traces = session.traces
        try:
            edit = AS_IT_IS if step is None else step(self, frame, session)
            if edit is NOTHING:
                return b""
            alike = frame.plain or not self.judges or (self._only_cr and self._without_cr(frame))
            if alike and edit is AS_IT_IS:
                head = None
            elif not alike or frame.crlf:
                head = self._respelled(frame, edit, session)
            else:
                head = self._opening(frame, edit, session) + self._cut(frame, edit)
            if self._heard is not None and not frame.plain:
                self._note(frame.header(RECEIPT_HEADER, self.source), self._heard, session)
        except StompError as error:
            raise error.asked_for(frame.header(RECEIPT_HEADER, self.source)) from None
        if memo is not None and session.traces == traces:
            session.memo, session.memo_head = memo, head
        return head

    def _note(self, receipt: bytes | None, heard: Dialect, session: Session) -> None:
        """Record a receipt that the broker will read as another one, and so answer with another spelling."""
        if receipt is None:
            return
        taken = heard.decode(RECEIPT_HEADER, self.target.encode(receipt))
        if taken != receipt:
            session.misread(receipt, taken)

    @staticmethod
    def _without_cr(frame: Frame) -> bool:
        data, head, body = frame.data, frame.head, frame.body
        return data.find(b"\r", head - 2, body) < 0 and data.find(b"\\r", head, body) < 0

    def _respelled(self, frame: Frame, edit: Edit, session: Session) -> bytes:
        """Return the head with those values respelled that the target escapes differently."""
        crlf = frame.crlf
        head = self._cut(frame, edit)
        lines = head.split(b"\n")
        marks = head.translate(None, _ORDINARY).split(b"\n")
        padded = self.source.padded and b" " in head
        for at in range(1, len(lines) - 2):
            if marks[at] != b":" or (padded and b" " in lines[at]):
                name, value = self.source.read_line(lines[at], crlf=crlf)
                lines[at] = self._line(name, value, frame.command, session)
        lines[0] = self._opening(frame, edit, session)
        lines[-2] = b""
        if b"" in lines[1:-2]:
            lines[1:-2] = filter(None, lines[1:-2])
        return b"\n".join(lines)

    @staticmethod
    def _cut(frame: Frame, edit: Edit) -> bytes:
        """Return the header lines and blank line that the edit keeps, without the command line."""
        lines = frame.data[frame.head - 1 : frame.body]
        return _having(edit.drop).sub(b"", lines) if edit.drop else lines

    def _opening(self, frame: Frame, edit: Edit, session: Session) -> bytes:
        """Return the command line and the headers that the edit puts in front, without the last LF."""
        if not edit.add:
            return frame.command
        added = [self._line(name, value, frame.command, session) for name, value in edit.add]
        return b"\n".join([frame.command, *added])

    def _line(self, name: bytes, value: bytes, command: bytes, session: Session) -> bytes:
        """Return a header line without its LF; empty if it is left out: see `LossPolicy` for what is inexpressible."""
        target = self.target
        if not self.judges:
            return target.write_line(name, value)  # as a peer of the same version spelled it
        spelled = self.spell_name(name)
        if spelled is None:
            self._refuse_loss(name)
            session.lose("loss_name")
            return b""
        if not target.speakable(value):
            # A changed id or destination would be another one.
            self._refuse_loss(name, always=name in PROTOCOL_HEADERS and command in CLIENT_COMMANDS)
            session.lose("loss_value")
            value = target.replace_line_ends(value, _percent if self.loss is LossPolicy.PERCENT else _blank)
        return b"%b:%b" % (spelled, target.encode(value))

    def spell_name(self, name: bytes) -> bytes | None:
        """Return a decoded header name in the target's spelling; None where it has none. Where both versions have the
        source's spelling it is kept, as consumers may know it.
        """
        target = self.target
        if self._raw_names:
            if target.escaped_names:
                if target.spelled(name):
                    return name
            elif name and target.encode(name) == self.source.encode(name):
                return target.encode(name)
        if not target.nameable(name):
            return None
        return target.encode(name) if target.escaped_names else name

    def _refuse_loss(self, name: bytes, *, always: bool = False) -> None:
        if always or self.loss is LossPolicy.REJECT:
            raise Refused("a header cannot be said in the other version", "it is", quoted=name)


_PARTING: Final = b"%b\ntransaction:relay-parting" % BEGIN


class Parting(Bridge):
    """A bridge to a broker that gives no RECEIPT for DISCONNECT. If the client asks for one, BEGIN is sent instead."""

    def head(self, frame: Frame, session: Session) -> bytes | None:
        """As `Bridge.head`."""
        head = super().head(frame, session)
        if frame.command is not DISCONNECT or frame.raw(RECEIPT_HEADER) is None:
            return head
        return _PARTING + (
            frame.data[frame.head - 1 : frame.body] if head is None else head[len(DISCONNECT) :]
        )

    def leave(self, receipt: bytes, session: Session) -> bytes:
        """As `Bridge.leave`."""
        return b"%b\nreceipt:%b\n\n%b" % (_PARTING, receipt, END)


TRACE: Final = b"relay-trace"
"""The header's name."""
RECEIPTS: Final = b"-receipt-"
"""In the middle of the relay's own receipt ids, between the session's name (`relay-...`) and a number."""

OWN: Final = TRACE, b"%b:relay-" % RECEIPT_HEADER
"""Headers, as `Rule` has them, one of which is in each MESSAGE that something is taken out of."""

_LINES: Final = re.compile(
    rb"\n(?:%b:[^\n]*|%b:relay-[\w-]+%b[0-9]+\r?)(?=\n)" % (TRACE, RECEIPT_HEADER, RECEIPTS)
)


class ToClient(Bridge):
    """A bridge to a client. It first removes from a MESSAGE the headers that relays add for themselves."""

    def head(self, frame: Frame, session: Session) -> bytes | None:
        """As `Bridge.head`."""
        if frame.command is not MESSAGE:
            return super().head(frame, session)
        data, start, body = frame.data, frame.head - 1, frame.body
        bare = frame
        if _LINES.search(data, start, body):
            bare = frame.with_lines(_LINES.sub(b"", data[start:body]), body=False)
        head = None
        if self.judges or (self.tracked and session.subscriptions.acknowledging):
            head = super().head(bare, session)
        return bare.data if head is None and bare is not frame else head


_NEEDLE: Final = b"\n%b:" % TRACE
_LINE: Final = re.compile(rb"\n%b:[^\n]*" % TRACE)


@dataclass(slots=True, eq=False, repr=False)
class Tracer:
    """Marks the SENDs of the session with this name, numbered from 1."""

    _name: bytes
    _number: int = 0

    def _marked(self, frame: Frame) -> bytes:
        """Return the header lines of a SEND with a new trace, from the LF of the command line on."""
        self._number += 1
        trace = b"%b-%d" % (self._name, self._number)
        frame.trace = trace
        lines = frame.data[frame.head - 1 : frame.body]
        return b"%b%b%b" % (_NEEDLE, trace, _LINE.sub(b"", lines) if _NEEDLE in lines else lines)

    def frames(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yield a client's frames, each SEND with a trace, in bytes of its own."""
        for frame in frames:
            yield frame.with_lines(self._marked(frame)) if frame.command is SEND else frame

    def headed(self, headed: NewHead) -> NewHead:
        """Return a function as `headed` for `Joiner.carry`: it returns a frame's new head, with the trace of a SEND."""

        def traced(frame: Frame) -> bytes | None:
            if frame.command is not SEND:
                return headed(frame)
            marked = frame.with_lines(self._marked(frame), body=False)
            head = headed(marked)
            return marked.data if head is None else head

        return traced


class Bridges(NamedTuple):
    """The two bridges of a session, and the dialect in which the frames of its broker are read."""

    to_broker: Bridge
    to_client: Bridge
    broker: Dialect


@cache
def bridges_between(
    client: bytes,
    broker: bytes,
    profile: str,
    loss: LossPolicy,
    *,
    tracked: bool = False,
    parting: bool = False,
) -> Bridges:
    """Return the bridges between two versions; between equal versions nothing is translated. `tracked`: the relay
    keeps account of all deliveries. `parting`: see `Parting`.
    """
    product = PROFILES[profile]
    ours = DIALECTS[client]
    spoken = product.dialects[broker]
    equal = client == broker
    to_broker = Parting if parting else Bridge
    target, facing = (ours, spoken) if equal else (spoken, None)
    return Bridges(
        to_broker(ours, target, loss, selectors=product.selectors, tracked=tracked, facing=facing),
        ToClient(GENERIC.dialects[client] if equal else spoken, ours, loss, tracked=tracked),
        spoken,
    )


def asked(upstream: Upstream, broker: Broker, client: Dialect) -> frozenset[bytes]:
    """Return the versions to ask a broker for: the configured ones, else the client's and lower ones that it knows."""
    if upstream.versions is not None:
        return upstream.versions
    wanted = up_to(client)
    known = broker.versions
    return wanted if known is None else (wanted & known or known)


def profile(upstream: Upstream, broker: Broker, accord: Accord, offer: Offer) -> Profile:
    """Return the broker's profile: the configured one, or by CONNECTED, unless its `session` is the client's."""
    session = b"" if offer.has_value(accord.session) else accord.session
    found = detect(accord.server, session) if upstream.profile is AUTO_PROFILE else upstream.profile
    broker.profile = found
    return found


def credentials(upstream: Upstream, broker: Broker, client: Credentials | None = None) -> Credentials | None:
    """Return the relay's credentials for this `client`, or the upstream's, escaped. None: the client's are used."""
    own = client or upstream.credentials
    if own is None or not _escapes(upstream, broker):
        return own
    return Credentials(V1_1.encode(own.login), own.passcode and V1_1.encode(own.passcode))


def client_address(upstream: Upstream, broker: Broker, address: str | None) -> OwnHeader | None:
    """Return CONNECT's header with the client's IP address, escaped; None where it is unknown or not told."""
    name = upstream.client_address_header
    if name is None:
        return None
    if address is None:
        return OwnHeader(name, None)
    value = address.partition("%")[0].encode("ascii")
    return OwnHeader(name, V1_1.encode(value) if _escapes(upstream, broker) else value)


def _escapes(upstream: Upstream, broker: Broker) -> bool:
    """Whether a broker unescapes the values of CONNECT, as far as that is known."""
    if upstream.connect_escape is not None:
        return upstream.connect_escape
    return (broker.profile or upstream.profile).connect_escape


def to_client(
    bridges: Bridges, session: Session, *, receipts: bool, ours: Callable[[list[bytes]], bool] | None = None
) -> Passing:
    """Return which frames of a broker may pass in runs. `receipts`: no RECEIPT is for the relay. `ours` records
    RECEIPTs that are all for the relay. Call this again after SUBSCRIBE and UNSUBSCRIBE.
    """
    bridge = bridges.to_client
    accounted = (bridge.tracked or bridge.names) and session.subscriptions.acknowledging > 0
    naming = bridge.source.delivery if accounted else None
    rules = _rules_to_client(bridge, naming, receipts=receipts, ours=ours is not None)

    def takes(run: Run) -> bool:
        if run.rule.command == RECEIPT:
            given = None if session.misreads else bridges.broker.decode_all(run.values)
            if ours is not None:
                return given is not None and ours(given)
            if given is None or (bridge.judges and not bridge.spelling.respell(run)):
                return False
            session.received_all(given)
            return True
        if bridge.judges:
            return _delivered(run, bridge, session)
        if not run.rule.wants:
            return True
        return session.delivered(run.values, len(run.rule.wants), run.count)

    return Passing(rules, takes)


@cache
def _rules_to_client(bridge: Bridge, naming: DeliveryNaming | None, *, receipts: bool, ours: bool) -> Rules:
    """Return the rules. `naming`: how deliveries are named, if account is kept of them; otherwise None."""
    if bridge.judges:
        wants = (SUBSCRIPTION,) if naming is None or not bridge.names else DELIVERED[naming]
        unless = OWN if ACK_HEADER in wants else (ACK_HEADER, *OWN)
        message = Rule(MESSAGE, unless, wants, parts=True)
    else:
        message = Rule(MESSAGE, OWN, () if naming is None else DELIVERED[naming])
    if ours:
        return message, Rule(RECEIPT, (), (RECEIPT_ID,), stays=True)
    receipt = Rule(RECEIPT, (), (RECEIPT_ID,), needs=False, parts=bridge.judges)
    return (message, receipt) if receipts else (message,)


def _delivered(run: Run, bridge: Bridge, session: Session) -> bool:
    """Record MESSAGEs between two versions, and respell them. Return False if each needs a look: see `deliver`."""
    wants = run.rule.wants
    rows, width = bridge.spelling.values(run.values), len(wants)
    if rows is None:
        return False
    found = [
        session.subscriptions.named(bridge.target.decode(SUBSCRIPTION, id)) for id in ids_of(rows, width)
    ]
    drop: tuple[bytes, ...] = (ACK_HEADER,) if ACK_HEADER in wants else ()
    if None in found or (width == 1 and any(each.ack != AUTO for each in found if each is not None)):
        return False
    if not bridge.target.named_subscriptions:
        named = {each.named for each in found if each is not None}
        if len(named) > 1:
            return False
        drop = drop if True in named else (SUBSCRIPTION, *drop)
    if not bridge.spelling.respell(run, drop):
        return False
    return width == 1 or session.delivered(rows, width, run.count, unnamed=True)


def to_broker(
    bridges: Bridges,
    session: Session,
    *,
    sends: bool,
    parts: bool = False,
    unkept: Callable[[int], None] | None = None,
) -> Passing:
    """Return what may pass of a client: `sends`, with `parts` if needed, of which `unkept` counts those not kept."""
    bridge = bridges.to_broker
    rules = _rules_to_broker(bridge, sends=sends, parts=parts)

    def takes(run: Run) -> bool:
        if run.rule.command != SEND:
            if bridge.judges:
                return _acknowledged(run, bridge, session)
            return not run.rule.wants or session.acknowledged(run.values)
        if bridge.judges and not bridge.spelling.respell(run):
            return False
        unasked = run.count
        if run.values:
            asked = None if bridge.misreads and b"\\" in run.values else bridge.source.decode_all(run.values)
            if asked is None or not session.owed_all(asked):
                return False
            unasked -= len(asked)
        if unkept is not None and unasked:
            unkept(unasked)
        return True

    return Passing(rules, takes)


@cache
def _rules_to_broker(bridge: Bridge, *, sends: bool, parts: bool) -> Rules:
    rules: list[Rule] = []
    unless: tuple[bytes, ...] = ()
    wants: tuple[bytes, ...] = ()
    if sends and bridge.tracked:
        judged = RECEIPT_HEADER, TRANSACTION, *RESERVED
        rules.append(Rule(SEND, judged, plain=bridge.judges and parts, parts=bridge.judges or parts))
    elif sends:
        rules.append(Rule(SEND, RESERVED, (RECEIPT_HEADER,), needs=False, parts=bridge.judges))
    if bridge.judges and bridge.source.delivery is DeliveryNaming.ACK:
        return tuple(rules)
    naming = bridge.source.delivery
    if bridge.tracked or bridge.judges:
        unless = TRANSACTION, RECEIPT_HEADER, *SAID_BESIDE.get(naming, ())
        wants = ACKNOWLEDGED[naming]
    commands = [each for each in (ACK, NACK) if each in bridge.target.commands]
    return *rules, *(Rule(each, unless, wants, parts=bridge.judges) for each in commands)


def _acknowledged(run: Run, bridge: Bridge, session: Session) -> bool:
    """Settle ACKs or NACKs between two versions. Return False if each needs a look: see `name_delivery`."""
    names, first = NAMED[bridge.target.delivery]
    values = session.values(run.values, first, first + len(names))
    said = None if values is None else bridge.spelling.values(values)
    if said is None or not bridge.spelling.respell(run, (ID, MESSAGE_ID, SUBSCRIPTION), names, said):
        return False
    return session.acknowledged(run.values)
