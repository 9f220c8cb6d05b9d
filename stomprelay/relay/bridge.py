"""Frames from one dialect to another.

A bridge removes headers, puts headers in front, or respells headers that the two sides escape differently. Everything
else passes as it came. `STEPS` says which headers change, by command. Between equal versions the broker judges a
client's frames; otherwise the bridge judges them.

Relays put headers of their own into clients' SENDs: `receipt` and `relay-trace`. Brokers pass these headers on in
MESSAGEs, so every relay removes them there, also those of other relays. Each SEND has a trace of its own, as its first
header. By the trace the journal recognises the SEND's MESSAGEs.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from stomprelay.relay.effects import NewHead
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.model.mapping import MAPPED, PLACED, PLACING, BrokerMap
from stomprelay.relay.model.names import LONGEST
from stomprelay.relay.model.profile import AUTO as AUTO_PROFILE
from stomprelay.relay.model.profile import GENERIC, PROFILES, Profile, detect
from stomprelay.relay.model.selector import First
from stomprelay.relay.model.upstream import Upstream
from stomprelay.session.delivery import Delivery
from stomprelay.session.handshake import Accord, Credentials, Offer, OwnHeader
from stomprelay.session.ledger import Ledger
from stomprelay.session.recent import ids_of
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import AUTO, CUMULATIVE, MADE, MODES, Subscription
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
    PLACE,
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
"""The compiled class that respells many frames at once; None if it was not built or nothing compiled is wanted."""


class Spelling:
    """How frames of `source` are spelled for `target`. `alike`: both escape alike, perhaps except for CR."""

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
        """Return the target's spelling of a byte or escape; None if a value with it must be decoded as a whole."""
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
        """Change the run to the target's spelling, without the headers `drop`, and with headers of these `names` and
        `values` in front: see `Spelled`. Return whether that is possible.
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
        """Return raw values, each before an LF, in the target's spelling; None if they must be read one by one."""
        if self._speller is None or (self._source.padded and b" " in text):
            return None
        spelled = self._speller.values(text)
        return None if spelled is None or not self._target.spells_once(spelled) else spelled


class Edit(NamedTuple):
    """Headers to remove, and decoded headers to put in front; perhaps another command."""

    drop: tuple[bytes, ...] = ()
    add: tuple[tuple[bytes, bytes], ...] = ()
    command: bytes | None = None


AS_IT_IS: Final = Edit()
NOTHING: Final = Edit(())
"""The edit of a frame that the other leg is not sent."""


Editing = Callable[["Bridge", Frame, Session], Edit]
"""A function that returns what a bridge changes in a frame of a session."""

_SPECIAL: Final = re.compile(rb"\n(%b|%b):" % (RECEIPT_HEADER, b"|".join(RESERVED)))
"""Finds the headers of a SEND that need work: a receipt, or a header that only a broker may set."""
_RECEIPT_ALONE: Final = [RECEIPT_HEADER]


def publish(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
    """SEND: remove headers that only a broker may set. Record the receipt, if there is one, as owed, unless the session
    `resends`: then its resender does so.
    """
    found = _SPECIAL.findall(frame.data, frame.head - 1, frame.body)
    if not found:
        return AS_IT_IS
    if RECEIPT_HEADER in found:
        receipt = frame.header(RECEIPT_HEADER, bridge.source)
        assert receipt is not None
        if not bridge.resends:
            opened = session.transactions
            session.owed(receipt, frame.header(TRANSACTION, bridge.source) if opened else None)
        if found == _RECEIPT_ALONE:
            return AS_IT_IS
    forged = tuple([name for name in RESERVED if name in found])
    if not forged:
        return AS_IT_IS
    session.lose("loss_reserved", len(forged))
    return Edit(forged)


def watch(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
    """Record what the frame opens or closes. Raises `ProtocolError`, and `LimitError` if too much is kept."""
    headers = frame.headers(bridge.source)
    if frame.command is SUBSCRIBE:
        _judge_subscribe(bridge, headers, session)
    session.observed(frame.command, headers)
    return AS_IT_IS


def count_selector(bridge: "Bridge", headers: Headers, session: Session) -> None:
    """Count a SUBSCRIBE whose selector the broker will ignore."""
    if bridge.selectors:
        return
    names = dict(reversed(headers))
    applied = bridge.spoken is not None and bridge.spoken.applies(names.get(DESTINATION, b""))
    session.counters["selector_ignored"] += SELECTOR in names and not applied


def _judge_subscribe(bridge: "Bridge", headers: Headers, session: Session) -> None:
    """Count an ignored selector. Raise `ProtocolError` for an invalid SUBSCRIBE, if the bridge `judges`."""
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
    """SUBSCRIBE and UNSUBSCRIBE: add the `id` of the subscription if the client gave none."""
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
    """ACK and NACK: put in the broker's name for the delivery. An ACK for a lost broker's delivery is not sent on."""
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
    message_id, ack = delivery.message_id, delivery.ack
    if frame.command is ACK and delivery.covers is not None:
        message_id, ack = delivery.covers
    if bridge.alike:
        return _renamed(frame, message_id, ack, source)
    if target.delivery is DeliveryNaming.ACK:
        if ack is None:
            command = frame.command.decode()
            raise Refused(f"{command} is not possible", "the broker gave the message no ack header")
        return Edit((MESSAGE_ID, SUBSCRIPTION, ID), ((ID, ack),))
    return Edit(
        (ID, MESSAGE_ID, SUBSCRIPTION),
        ((SUBSCRIPTION, delivery.subscription.id), (MESSAGE_ID, message_id)),
    )


ACKNOWLEDGED: Final = {
    DeliveryNaming.MESSAGE_ID: (MESSAGE_ID,),
    DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID: (SUBSCRIPTION, MESSAGE_ID),
    DeliveryNaming.ACK: (ID,),
}
"""For each way of naming: the headers by which an ACK or NACK names a delivery, see `session.recent`."""
SAID_BESIDE: Final = {DeliveryNaming.MESSAGE_ID: (SUBSCRIPTION,)}
"""For each way of naming: further headers of an ACK that tell more about the delivery."""


_BY_MESSAGE: Final = (SUBSCRIPTION, MESSAGE_ID), 0
NAMED: Final[dict[DeliveryNaming, tuple[tuple[bytes, ...], int]]] = {
    DeliveryNaming.MESSAGE_ID: _BY_MESSAGE,
    DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID: _BY_MESSAGE,
    DeliveryNaming.ACK: ((ID,), 2),
}
"""For each way of naming: the headers by which an ACK names a delivery to the broker, and the index in a row (see
`session.recent`) at which the values of these headers begin.
"""


def _acknowledge(bridge: "Bridge", frame: Frame, session: Session) -> Edit | None:
    """Settle an ACK or NACK without a look at its `Delivery`. Return the edit; None if the `Delivery` is needed."""
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


def _renamed(frame: Frame, message_id: bytes, ack: bytes | None, source: Dialect) -> Edit:
    """Both versions name deliveries alike: return the edit that puts the broker's name in place of the client's."""
    if source.delivery is not DeliveryNaming.ACK:
        if frame.header(MESSAGE_ID, source) == message_id:
            return AS_IT_IS
        return Edit((MESSAGE_ID,), ((MESSAGE_ID, message_id),))
    if ack is None or frame.header(ID, source) in (None, ack):
        return AS_IT_IS  # one without an id is the broker's to judge
    return Edit((MESSAGE_ID, SUBSCRIPTION, ID), ((ID, ack),))


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
    """Return the delivery with the ACK's message-id, on the ACK's subscription or, if there is none, on another one."""
    message_id = frame.header(MESSAGE_ID, source)
    if message_id is None:
        return None
    return _by_message(frame, source, ledger) or ledger.by_message(message_id)


def _by_token(frame: Frame, source: Dialect, ledger: Ledger) -> Delivery | None:
    token = frame.header(ID, source)
    # Some clients still use message-id and subscription on 1.2.
    return _by_message(frame, source, ledger) if token is None else ledger.by_token(token)


def named(frame: Frame, source: Dialect, ledger: Ledger) -> Delivery | None:
    """Return the delivery that a client's ACK or NACK names; None if there is none."""
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
"""For each way of naming: the headers by which a MESSAGE names its delivery, see `session.recent`."""


def deliver(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
    """MESSAGE: record the delivery; give delivery and subscription the names that the client's version needs."""
    source, target = bridge.source, bridge.target
    if bridge.tracked and not bridge.judges:
        names = DELIVERED[source.delivery]
        row = _row(frame, names)
        if row is not None and session.delivered(row, len(names), 1):
            return AS_IT_IS
    name = frame.header(SUBSCRIPTION, source)
    destination = frame.header(DESTINATION, source) or b""
    if bridge.spoken is not None:
        destination = bridge.spoken.to_client(destination, session)
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


def settle(frame: Frame, subscription: Subscription, source: Dialect, session: Session) -> None:
    """Settle a MESSAGE that its client is not sent: by an ACK in `Session.own`, or by the client's next ACK. Behind the
    end of the subscription the broker takes no ACK, and keeps the message for others.
    """
    if subscription.ack == AUTO or not subscription.open:
        return
    if subscription.ack == CUMULATIVE:
        message_id, ack = frame.header(MESSAGE_ID, source), frame.header(ACK_HEADER, source)
        if session.ledger.passed_over(subscription, message_id or b"", ack):
            return
    names = [(each, ACK_HEADER if each == ID else each) for each in ACKNOWLEDGED[source.delivery]]
    lines = [b"%b:%b\n" % (name, frame.raw(header) or b"") for name, header in names]
    session.own += b"%b\n%b\n%b" % (ACK, b"".join(lines), END)


def _passes_over(bridge: "Bridge", frame: Frame, mapped: Edit, session: Session) -> bool:
    """Whether a MESSAGE does not fit its client's selector. Then it is settled. `mapped`: as the client knows it."""
    spoken, source = bridge.spoken, bridge.source
    if spoken is None or not (bridge.filters and session.subscriptions.selecting):
        return False
    known = dict.fromkeys(mapped.drop) | dict(reversed(mapped.add))

    def first(name: bytes) -> bytes | None:
        return known[name] if name in known else frame.header(name, source)

    subscription = session.subscriptions.delivered(first(SUBSCRIPTION), first(DESTINATION) or b"")
    if subscription is None or spoken.wanted(subscription, first, session.kept):
        return False
    session.counters["messages_filtered"] += 1
    settle(frame, subscription, source, session)
    return True


def refuse(bridge: "Bridge", frame: Frame, _session: Session) -> Edit:
    """Raise `Refused` if the other version lacks the command; otherwise `ProtocolError`, for an unknown delivery."""
    command = frame.command.decode()
    if bridge.carries(frame.command):
        raise ProtocolError(f"{command} names no message that awaits one")
    raise Refused(f"{command} cannot be said to the broker", "its STOMP version has no such command")


def _mapped(step: Editing | None) -> Editing:
    """Return a step that also says the frame as the other side knows places and headers."""

    def map_frame(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
        source = bridge.source
        mapped = bridge.mapped(frame.command, lambda name: frame.header(name, source), session)
        if frame.command is MESSAGE and _passes_over(bridge, frame, mapped, session):
            return NOTHING
        edit = AS_IT_IS if step is None else step(bridge, frame, session)
        if edit is NOTHING or mapped == AS_IT_IS:
            return edit
        add = [each for each in mapped.add if each[0] not in edit.drop]
        return Edit((*edit.drop, *mapped.drop), (*add, *edit.add), mapped.command)

    return map_frame


class Step(NamedTuple):
    """An edit of `commands`. The edit is made if there are no `facts`, if the dialects differ in one of the facts, or
    if the bridge is `tracked` and the step `tracks`.
    """

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
"""The steps, in order. A later step replaces an earlier one for the commands that both have."""


_MOST_PLACES: Final = 1024
"""How many destinations a bridge remembers, each with its spelling for the other side."""
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
    """Translates frames of `source` for a leg of `target`. It has no state, so one bridge serves many sessions.

    `selectors`: the broker applies selectors. `resends`: the session may move. `tracked`: the relay records MESSAGEs,
    because of that, or because it applies selectors (`filters`).
    `judges`: the versions differ, so the bridge must refuse frames that it cannot translate. Between equal versions the
    broker decides. `alike`: both sides name deliveries alike. `spelling` respells runs, if the bridge judges. `facing`:
    the broker's dialect, if frames pass to the broker as they came. `names`: the versions differ, and the target names
    deliveries by the broker's own names, not by tokens of ours. `names_subscriptions`: the target must be told an id of
    each subscription, even if the client gave none. `misreads`: the other side may read a receipt with a backslash or a
    CR as a different receipt. `spoken`: how the broker's product says places and headers; None: as the clients do.
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
        spoken: BrokerMap | None = None,
    ) -> None:
        self.source = source
        self.target = target
        self.loss = loss
        self.filters = spoken is not None and spoken.filter is not None
        self.resends = tracked
        self.tracked = tracked = tracked or self.filters
        unnamed = not (source.named_subscriptions and target.named_subscriptions)
        identifies = unnamed and spoken is not None and spoken.identifies
        self.steps: dict[bytes, Editing] = {
            command: step.edit
            for step in STEPS
            for command in step.commands
            if not step.facts
            or (tracked and step.tracks)
            or (identifies and "named_subscriptions" in step.facts)
            or any(getattr(source, fact) != getattr(target, fact) for fact in step.facts)
        }
        for command in source.commands - target.commands:
            if not tracked or command not in self.steps:
                self.steps[command] = refuse
        if spoken is not None:
            self.steps |= {command: _mapped(self.steps.get(command)) for command in MAPPED}
        self.selectors = selectors
        self.spoken = spoken
        self.stripped = () if spoken is None else spoken.stripped
        self._places: dict[bytes, SpelledPlace] = {}
        self.judges = source.version != target.version
        self.alike = source.delivery is target.delivery
        self.names = self.judges and target.delivery is not DeliveryNaming.ACK
        self.names_subscriptions = identifies or (self.judges and target.named_subscriptions)
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
        """Whether this command may be sent to the other leg. Between equal versions every command may."""
        return not self.judges or command in self.target.commands

    def with_steps(self, steps: dict[bytes, Editing]) -> "Bridge":
        """Return a bridge like this one, but with these steps by command."""
        other = Bridge(
            self.source,
            self.target,
            self.loss,
            selectors=self.selectors,
            tracked=self.resends,
            spoken=self.spoken,
        )
        other.steps = steps
        return other

    def mapped(self, command: bytes, first: First, session: Session, *, known: bool = False) -> Edit:
        """Return what the broker's places and headers change in a frame. Raises `Refused`. See `BrokerMap.change`."""
        spoken = self.spoken
        if spoken is None:
            return AS_IT_IS
        drop, add, said = spoken.change(command, first, session, known=known)
        for name in PLACED if command in PLACING else ():
            value = None if name in drop else first(name)
            if value is not None and (renamed := spoken.to_broker(value, session, command)) != value:
                drop, add = (*drop, name), ((name, renamed), *add)
        return Edit(drop, add, said)

    def placed(
        self, command: bytes, place: bytes, session: Session
    ) -> tuple[bytes, tuple[tuple[bytes, bytes], ...]] | None:
        """Return the broker's name of a frame's destination, and the headers that the frame gets for it; None if the
        frame must be looked at. Raises `Refused`.
        """
        spoken = self.spoken
        if spoken is None or spoken.refuses(command, place):
            return None
        return spoken.to_broker(place, session, command), spoken.added(command, place)

    def spelled_place(self, command: bytes, line: bytes, session: Session) -> "SpelledPlace | None":
        """Return how frames of a run with this destination (raw, with its LF) are said to the other side; None if each
        must be looked at.
        """
        known = self._places.get(line)
        if known is not None:
            return known
        read = self.source.decode_all(line)
        if read is None:
            return None
        try:
            found = self.placed(command, read[0], session)
        except StompError:
            return None
        if found is None or not self.target.speakable(found[0]):
            return None
        place, added = found
        values = b"".join([b"%b\n" % self.target.encode(value) for _, value in added])
        same = place == read[0]
        spelled = line if same else self.target.encode(place) + b"\n"
        names = tuple([name for name, _ in added])
        stripped = self.stripped if command is MESSAGE else ()
        if max(len(names), len(stripped)) > _MOST_SPELLED:
            return None
        alone = Spelled(stripped, names, values)
        if not same:
            alone = Spelled((DESTINATION, *stripped), (DESTINATION, *names), spelled + values)
        made = SpelledPlace(spelled, names, values, same, alone)
        if self.spoken is not None and len(line) <= LONGEST and not self.spoken.own(read[0]):
            if len(self._places) >= _MOST_PLACES:
                self._places.clear()
            self._places[line] = made
        return made

    def carry(self, frame: Frame, session: Session) -> bytes:
        """Return the bytes for the other leg; empty if that leg is not sent the frame. Raises as `head` does."""
        head = self.head(frame, session)
        if not head:
            return frame.wire if head is None else b""
        return head + frame.data[frame.body : frame.after]

    def compose(self, command: bytes, headers: Headers, session: Session) -> bytes:
        """Return a frame that the relay sends for the client. It has no body, no `content-length`. Raises `Refused`."""
        if command is SUBSCRIBE:
            count_selector(self, headers, session)
        if self._heard is not None:
            asked = next((value for name, value in headers if name == RECEIPT_HEADER), None)
            self._note(asked, self._heard, session)
        if self.spoken is not None:
            drop, add, said = self.mapped(command, dict(reversed(headers)).get, session, known=True)
            command, headers = said or command, [*add, *[each for each in headers if each[0] not in drop]]
        lines = [
            self._line(name, value, command, session) for name, value in headers if name != CONTENT_LENGTH
        ]
        return b"\n".join([command, *filter(None, lines), b""]) + b"\n" + END

    def asking(self, run: Run, receipts: list[bytes]) -> bytes:
        """Return the frames of a run of SENDs, each with one of these receipts in front; see `Run.added`."""
        drop, names, values = run.added
        if not names:
            return run.asking(receipts)
        lines, width = values.split(b"\n")[:-1], len(names)
        step = 0 if len(lines) == width else width
        said = [
            b"\n".join([receipt, *lines[at * step : at * step + width], b""])
            for at, receipt in enumerate(receipts)
        ]
        if (
            not self.spelling.respell(run, drop, (RECEIPT_HEADER, *names), b"".join(said))
            or run.instead is None
        ):
            raise AssertionError("a plain frame cannot be spelled")
        return run.instead.wire

    def leave(self, receipt: bytes, session: Session) -> bytes:
        """Return the frame with which the relay leaves a broker. Its RECEIPT shows that earlier frames were read."""
        return self.compose(DISCONNECT, [(RECEIPT_HEADER, receipt)], session)

    def without(self, frame: Frame, name: bytes, session: Session) -> bytes:
        """Return the bytes of a frame's new head, without its header `name`. Raises as `head` does."""
        edit = Edit((name,))
        if frame.crlf or (self.judges and not frame.plain):
            return self._respelled(frame, edit, session)
        return self._opening(frame, edit, session) + self._cut(frame, edit)

    def head(self, frame: Frame, session: Session) -> bytes | None:
        """Return a frame's new head with its blank line. None: the frame passes as it came. b"": the other leg is not
        sent the frame. Raises `ProtocolError`, `Refused` or `LimitError`.
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
            # RabbitMQ hands the `receipt` of a SEND on in the MESSAGE.
            asked = None if frame.command is MESSAGE else frame.header(RECEIPT_HEADER, self.source)
            raise error.asked_for(asked) from None
        if memo is not None and session.traces == traces:
            session.memo, session.memo_head = memo, head
        return head

    def _note(self, receipt: bytes | None, heard: Dialect, session: Session) -> None:
        """If the broker will read this receipt as a different text, and so will answer with that text, record both."""
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
        """Return the frame's new head. Values that the target escapes differently are respelled."""
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
        """Return the header lines that the edit keeps, and the blank line; not the command line."""
        lines = frame.data[frame.head - 1 : frame.body]
        return _having(edit.drop).sub(b"", lines) if edit.drop else lines

    def _opening(self, frame: Frame, edit: Edit, session: Session) -> bytes:
        """Return the command line and the headers that the edit puts in front, without the last LF."""
        command = edit.command or frame.command
        if not edit.add:
            return command
        added = [self._line(name, value, frame.command, session) for name, value in edit.add]
        return b"\n".join([command, *added])

    def _line(self, name: bytes, value: bytes, command: bytes, session: Session) -> bytes:
        """Return a header line without its LF; empty if the header is left out, see `LossPolicy`."""
        target = self.target
        if not self.judges:
            return target.write_line(name, value)  # as a peer of the same version spelled it
        spelled = self.spell_name(name)
        if spelled is None:
            self._refuse_loss(name)
            session.lose("loss_name")
            return b""
        if not target.speakable(value):
            # A changed id or destination would name something else.
            self._refuse_loss(name, always=name in PROTOCOL_HEADERS and command in CLIENT_COMMANDS)
            session.lose("loss_value")
            value = target.replace_line_ends(value, _percent if self.loss is LossPolicy.PERCENT else _blank)
        return b"%b:%b" % (spelled, target.encode(value))

    def spell_name(self, name: bytes) -> bytes | None:
        """Return a decoded header name in the target's spelling; None if the target cannot express the name. The
        source's spelling is kept if both versions have it, because consumers may know it.
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
        """See `Bridge.head`."""
        head = super().head(frame, session)
        if frame.command is not DISCONNECT or frame.raw(RECEIPT_HEADER) is None:
            return head
        return _PARTING + (
            frame.data[frame.head - 1 : frame.body] if head is None else head[len(DISCONNECT) :]
        )

    def leave(self, receipt: bytes, session: Session) -> bytes:
        """See `Bridge.leave`."""
        return b"%b\nreceipt:%b\n\n%b" % (_PARTING, receipt, END)


TRACE: Final = b"relay-trace"
"""The header that holds the trace of a SEND."""
RECEIPTS: Final = b"-receipt-"
"""The middle of the relay's own receipt ids, between the session's name (`relay-...`) and a number."""

OWN: Final = TRACE, b"%b:relay-" % RECEIPT_HEADER
"""Headers of relays, in the form that `Rule` uses. A MESSAGE with one of these headers needs an edit."""

_NEEDLE: Final = b"\n%b:" % TRACE
_LINES: Final = re.compile(
    rb"\n(?:%b:[^\n]*|%b:relay-[\w-]+%b[0-9]+\r?)(?=\n)" % (TRACE, RECEIPT_HEADER, RECEIPTS)
)


class ToClient(Bridge):
    """A bridge to a client. It first removes from a MESSAGE the headers that relays add for themselves."""

    def mapped(self, command: bytes, first: First, session: Session, *, known: bool = False) -> Edit:
        """See `Bridge.mapped`."""
        spoken = self.spoken
        if spoken is None or command is not MESSAGE:
            return AS_IT_IS
        drop, add, _ = spoken.change_back(first, session)
        for name in PLACED:
            value = first(name)
            if value is not None and (renamed := spoken.to_client(value, session)) != value:
                drop, add = (*drop, name), ((name, renamed), *add)
        place = first(DESTINATION)
        if place is not None and spoken.subscriptions(place):
            subscription = session.subscriptions.delivered(
                first(SUBSCRIPTION), spoken.to_client(place, session)
            )
            if subscription is not None and spoken.subscribes(subscription.destination):
                added = [each for each in add if each[0] != DESTINATION]
                drop, add = (*drop, DESTINATION), ((DESTINATION, subscription.destination), *added)
        return Edit(drop, add)

    def placed(
        self, command: bytes, place: bytes, session: Session
    ) -> tuple[bytes, tuple[tuple[bytes, bytes], ...]] | None:
        """See `Bridge.placed`."""
        spoken = self.spoken
        return (
            None if spoken is None or spoken.subscriptions(place) else (spoken.to_client(place, session), ())
        )

    def head(self, frame: Frame, session: Session) -> bytes | None:
        """See `Bridge.head`."""
        if frame.command is not MESSAGE:
            return super().head(frame, session)
        data, start, body = frame.data, frame.head - 1, frame.body
        bare = frame
        if _LINES.search(data, start, body):
            lines = data[start:body]
            if self.spoken is not None and self.spoken.sender_id is not None:
                lines = lines.replace(_NEEDLE, b"\n%b:" % self.spoken.sender_id, 1)
            bare = frame.with_lines(_LINES.sub(b"", lines), body=False)
        head = None
        if self.judges or self.spoken or (self.tracked and session.subscriptions.acknowledging):
            head = super().head(bare, session)
        return bare.data if head is None and bare is not frame else head


_LINE: Final = re.compile(rb"\n%b:[^\n]*" % TRACE)


@dataclass(slots=True, eq=False, repr=False)
class Tracer:
    """Puts a trace into each SEND of one session: the session's name and a number, from 1 on."""

    _name: bytes
    _number: int = 0

    def _marked(self, frame: Frame) -> bytes:
        """Return the header lines of a SEND with a new trace. They begin with the LF of the command line."""
        self._number += 1
        trace = b"%b-%d" % (self._name, self._number)
        frame.trace = trace
        lines = frame.data[frame.head - 1 : frame.body]
        return b"%b%b%b" % (_NEEDLE, trace, _LINE.sub(b"", lines) if _NEEDLE in lines else lines)

    def frames(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Yield a client's frames. Each SEND gets a trace. For this it is copied into new bytes."""
        for frame in frames:
            yield frame.with_lines(self._marked(frame)) if frame.command is SEND else frame

    def headed(self, headed: NewHead) -> NewHead:
        """Return a function for `Joiner.carry` that does what `headed` does, and puts a trace into each SEND."""

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


@lru_cache(1024)
def bridges_between(
    client: bytes,
    broker: bytes,
    profile: str,
    loss: LossPolicy,
    *,
    tracked: bool = False,
    parting: bool = False,
    spoken: BrokerMap | None = None,
) -> Bridges:
    """Return the bridges between two versions. Between equal versions they translate nothing. `tracked`: the relay
    records all deliveries. `parting`: see `Parting`. `spoken`: how the broker says places and headers, if otherwise.
    """
    product = PROFILES[profile]
    ours = DIALECTS[client]
    theirs = product.dialects[broker]
    equal = client == broker
    to_broker = Parting if parting else Bridge
    target, facing = (ours, theirs) if equal else (theirs, None)
    selectors, source = product.selectors, GENERIC.dialects[client] if equal else theirs
    return Bridges(
        to_broker(ours, target, loss, selectors=selectors, tracked=tracked, facing=facing, spoken=spoken),
        ToClient(source, ours, loss, tracked=tracked, spoken=spoken),
        theirs,
    )


def asked(upstream: Upstream, broker: Broker, client: Dialect) -> frozenset[bytes]:
    """Return the versions to ask a broker for: the configured versions, if there are any. Otherwise these are the
    client's version and all lower versions, except versions that the broker is known to lack. If no version is left,
    these are all versions of the broker.
    """
    if upstream.versions is not None:
        return upstream.versions
    wanted = up_to(client)
    known = broker.versions
    return wanted if known is None else (wanted & known or known)


def profile(upstream: Upstream, broker: Broker, accord: Accord, offer: Offer) -> Profile:
    """Return and record the broker's profile: the configured one, otherwise what CONNECTED shows. If a header of the
    client has the same value as `session`, the broker may have copied it, so `session` is ignored.
    """
    session = b"" if offer.has_value(accord.session) else accord.session
    found = detect(accord.server, session) if upstream.profile is AUTO_PROFILE else upstream.profile
    broker.profile = found
    return found


def credentials(upstream: Upstream, broker: Broker, client: Credentials | None = None) -> Credentials | None:
    """Return the credentials for a broker: `client`, or without it the upstream's. They are escaped if the broker
    unescapes them. If the result is None, the broker gets the credentials in the client's CONNECT.
    """
    own = client or upstream.credentials
    if own is None or not _escapes(upstream, broker):
        return own
    return Credentials(V1_1.encode(own.login), own.passcode and V1_1.encode(own.passcode))


def client_address(upstream: Upstream, broker: Broker, name: bytes, address: str | None) -> OwnHeader:
    """Return the header of this name with the client's IP address for CONNECT, escaped."""
    if address is None:
        return OwnHeader(name, None)
    value = address.partition("%")[0].encode("ascii")
    return OwnHeader(name, V1_1.encode(value) if _escapes(upstream, broker) else value)


def _escapes(upstream: Upstream, broker: Broker) -> bool:
    """Whether CONNECT is escaped for this broker: as the upstream says or, if it says nothing, as the profile says."""
    if upstream.connect_escape is not None:
        return upstream.connect_escape
    return (broker.profile or upstream.profile).connect_escape


def to_client(
    bridges: Bridges, session: Session, *, receipts: bool, ours: Callable[[list[bytes]], bool] | None = None
) -> Passing:
    """Return which frames of a broker may pass in runs. `receipts`: RECEIPTs may pass, because none is for the relay.
    `ours`: if it is given, it records RECEIPTs, and returns whether all of them are for the relay. Call `to_client`
    again after SUBSCRIBE and UNSUBSCRIBE.
    """
    bridge = bridges.to_client
    accounted = (bridge.tracked or bridge.names) and session.subscriptions.acknowledging > 0
    naming = bridge.source.delivery if accounted else None
    selecting = bridge.filters and session.subscriptions.selecting > 0
    rules = _rules_to_client(bridge, naming, receipts=receipts, ours=ours is not None, selecting=selecting)

    def takes(run: Run) -> bool:
        if run.rule.command == RECEIPT:
            given = None if session.misreads else bridges.broker.decode_all(run.values)
            if ours is not None:
                return given is not None and ours(given)
            if given is None or (bridge.judges and not bridge.spelling.respell(run)):
                return False
            session.received_all(given)
            return True
        width = len(run.rule.wants)
        if selecting and any(
            session.subscriptions.selects(bridge.source.decode(SUBSCRIPTION, id))
            for id in ids_of(run.values, width)
        ):
            return False
        if bridge.spoken is not None:
            width -= 1
            if not _renamed_back(run, bridge, session, width):
                return False
        if bridge.judges:
            return _delivered(run, bridge, session, width)
        return not accounted or session.delivered(run.values, width, run.count)

    return Passing(rules, takes)


@cache
def _rules_to_client(
    bridge: Bridge, naming: DeliveryNaming | None, *, receipts: bool, ours: bool, selecting: bool
) -> Rules:
    """Return the rules of `to_client`. `naming`: how deliveries are named; None if deliveries are not recorded."""
    if bridge.judges:
        wants = (SUBSCRIPTION,) if naming is None or not bridge.names else DELIVERED[naming]
        unless = OWN if ACK_HEADER in wants else (ACK_HEADER, *OWN)
        message = Rule(MESSAGE, unless, wants, parts=True)
    else:
        selected = (SUBSCRIPTION,) if selecting else ()
        message = Rule(MESSAGE, OWN, selected if naming is None else DELIVERED[naming])
    if bridge.spoken is not None:
        made = (b"%b:%b" % (SUBSCRIPTION, MADE),) if bridge.names_subscriptions and not bridge.judges else ()
        placed = (*message.unless, *PLACED[1:], *bridge.spoken.touched(MESSAGE), *made)
        message = message._replace(unless=placed, wants=(*message.wants, DESTINATION), parts=True)
    if ours:
        return message, Rule(RECEIPT, (), (RECEIPT_ID,), stays=True)
    receipt = Rule(RECEIPT, (), (RECEIPT_ID,), needs=False, parts=bridge.judges)
    return (message, receipt) if receipts else (message,)


def _renamed_back(run: Run, bridge: Bridge, session: Session, width: int) -> bool:
    """Give MESSAGEs the clients' names of their places, and take these out of the run's values, which then have `width`
    columns. Return False if each frame must be looked at.
    """
    table, step = [each + b"\n" for each in run.values.split(b"\n")[:-1]], width + 1
    spelled = _spelled(MESSAGE, b"".join(table[width::step]), run.count, bridge, session)
    if spelled is None:
        return False
    del table[width::step]
    run.values = b"".join(table)
    return not spelled.drop or (not bridge.judges and bridge.spelling.respell(run, *spelled))


def _delivered(run: Run, bridge: Bridge, session: Session, width: int) -> bool:
    """Record and respell MESSAGEs between two versions. Return False if each must go through `deliver`."""
    wants = run.rule.wants[:width]
    rows = bridge.spelling.values(run.values)
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
    alike: bool = False,
    unkept: Callable[[int], None] | None = None,
) -> Passing:
    """Return which frames of a client may pass in runs. `sends`: SENDs may pass in runs, too. `parts`: the caller needs
    the `parts` of their runs. `alike`: SENDs in a run must have the same values of `PLACE`; the run has these values.
    `unkept` is called with the number of SENDs without a receipt.
    """
    bridge = bridges.to_broker
    rules = _rules_to_broker(bridge, sends=sends, parts=parts, alike=alike)

    def takes(run: Run) -> bool:
        if run.rule.command != SEND:
            if bridge.judges:
                return _acknowledged(run, bridge, session)
            return not run.rule.wants or session.acknowledged(run.values)
        if alike and not (run.values and run.values.startswith(run.place * run.count)):
            return False
        spelled: Spelled | None = _AS_SPELLED
        if bridge.spoken is not None:
            place = run.last_frame(bridge.source).raw(DESTINATION) if alike else None
            places = run.values if place is None else b"%b\n" % place * run.count
            spelled = _spelled(SEND, places, run.count, bridge, session)
        if spelled is None:
            return False
        if bridge.tracked and parts:
            run.added = spelled.drop, spelled.names, spelled.values
        elif (bridge.judges or spelled.names) and not bridge.spelling.respell(run, *spelled):
            return False
        if bridge.spoken is not None and not alike:
            run.values = b""  # receipts stand in none of these frames
        unasked = run.count
        if run.values and not alike:
            asked = None if bridge.misreads and b"\\" in run.values else bridge.source.decode_all(run.values)
            if asked is None or not session.owed_all(asked):
                return False
            unasked -= len(asked)
        if unkept is not None and unasked:
            unkept(unasked)
        return True

    return Passing(rules, takes)


@cache
def _rules_to_broker(bridge: Bridge, *, sends: bool, parts: bool, alike: bool) -> Rules:
    rules: list[Rule] = []
    unless: tuple[bytes, ...] = ()
    wants: tuple[bytes, ...] = ()
    asks, judged = (RECEIPT_HEADER,), (TRANSACTION, *RESERVED)
    spoken = bridge.spoken
    if spoken is not None and sends:
        wants = PLACE if alike else PLACE[:1]
        looked = (*asks, *judged, *PLACED[1:], *spoken.touched(SEND))
        rules.append(Rule(SEND, looked, wants, not alike, bridge.tracked and parts, parts=True))
    elif sends and bridge.tracked:
        exact, places = bridge.judges and parts, PLACE if alike else ()
        rules.append(Rule(SEND, asks + judged, places, False, plain=exact, parts=bridge.judges or parts))
    elif sends:
        rules.append(Rule(SEND, judged, asks, needs=False, parts=bridge.judges))
    if bridge.judges and bridge.source.delivery is DeliveryNaming.ACK:
        return tuple(rules)
    naming = bridge.source.delivery
    if bridge.tracked or bridge.judges:
        unless = TRANSACTION, RECEIPT_HEADER, *SAID_BESIDE.get(naming, ())
        wants = ACKNOWLEDGED[naming]
    commands = [each for each in (ACK, NACK) if each in bridge.target.commands]
    if spoken is not None:
        commands = [ACK] if spoken.nack is not None else commands
        unless = (*unless, *spoken.touched(ACK))
    return *rules, *(Rule(each, unless, wants, parts=bridge.judges) for each in commands)


class Spelled(NamedTuple):
    """Headers that frames of a run lose, and names of headers that they get. `values`: the values of the new headers,
    each with an LF behind it: those of one frame if all frames get the same, otherwise those of each frame in turn.
    """

    drop: tuple[bytes, ...] = ()
    names: tuple[bytes, ...] = ()
    values: bytes = b""


_AS_SPELLED: Final = Spelled()
_MOST_SPELLED: Final = 14
"""How many headers the speller adds or removes, beside the destination and a receipt: `NAMES` in `_respell.pyx`."""


class SpelledPlace(NamedTuple):
    """How a run's frames with one destination are said to the other side. `place`: the destination there, with its LF.
    `names`: further headers; `values`: their values, each with its LF. `same`: the destination stays as it is. `alone`:
    how a run is said whose frames all have this destination.
    """

    place: bytes
    names: tuple[bytes, ...]
    values: bytes
    same: bool
    alone: Spelled


def _spelled(command: bytes, values: bytes, count: int, bridge: Bridge, session: Session) -> Spelled | None:
    """Return how frames with these destinations, each with its LF, are said to the other side; None if each must be
    looked at.
    """
    first = values[: values.find(b"\n") + 1]
    if values == first * count:
        single = bridge.spelled_place(command, first, session)
        return None if single is None else single.alone
    lines = [each + b"\n" for each in values.split(b"\n")[:-1]]
    found: dict[bytes, SpelledPlace] = {}
    for line in dict.fromkeys(lines):
        spelled = bridge.spelled_place(command, line, session)
        if spelled is None:
            return None
        found[line] = spelled
    if any(each.names != found[first].names for each in found.values()):
        return None
    other = next((each for each in found.values() if not each.same), None)
    made = {line: each.values if other is None else each.place + each.values for line, each in found.items()}
    drop, names, _ = (other or found[first]).alone
    return Spelled(drop, names, b"".join([made[line] for line in lines]))


def _acknowledged(run: Run, bridge: Bridge, session: Session) -> bool:
    """Settle ACKs or NACKs between two versions. Return False if each must go through `name_delivery`."""
    names, first = NAMED[bridge.target.delivery]
    values = session.values(run.values, first, first + len(names))
    said = None if values is None else bridge.spelling.values(values)
    if said is None or not bridge.spelling.respell(run, (ID, MESSAGE_ID, SUBSCRIPTION), names, said):
        return False
    return session.acknowledged(run.values)
