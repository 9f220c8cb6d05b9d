"""What has to change in a frame when facts of two dialects differ. STEPS is all there is to bridging versions."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from stomprelay.session.delivery import Delivery
from stomprelay.session.ledger import Ledger
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import AUTO, MADE, MODES
from stomprelay.wire.dialect import DeliveryNaming, Dialect, Headers
from stomprelay.wire.errors import ProtocolError, Refused
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import (
    ACK,
    ACK_HEADER,
    DESTINATION,
    ID,
    MESSAGE,
    MESSAGE_ID,
    NACK,
    RECEIPT_HEADER,
    RESERVED,
    SELECTOR,
    SEND,
    SUBSCRIBE,
    SUBSCRIPTION,
    TRANSACTION,
    UNSUBSCRIBE,
)


class Edit(NamedTuple):
    """Headers to take out, and decoded headers to put in front."""

    drop: tuple[bytes, ...] = ()
    add: tuple[tuple[bytes, bytes], ...] = ()


AS_IT_IS: Final = Edit()
NOTHING: Final = Edit(())
"""The frame is not for the other leg."""


class Pair(NamedTuple):
    """The dialects that a frame passes between. `selectors`: the broker honours them. `tracked`: account is kept of
    deliveries, because the session may move.
    """

    source: Dialect
    target: Dialect
    selectors: bool
    tracked: bool = False

    @property
    def judges(self) -> bool:
        """Whether the bridge has to refuse what it cannot follow; between equal versions the broker judges."""
        return self.source.version != self.target.version

    @property
    def alike(self) -> bool:
        """Whether both sides name deliveries alike."""
        return self.source.delivery is self.target.delivery

    def carries(self, command: bytes) -> bool:
        """Whether the other leg can be sent this command: between equals all are, and the broker judges."""
        return not self.judges or command in self.target.commands


_SPECIAL: Final = re.compile(rb"\n(?:%b|%b):" % (RECEIPT_HEADER, b"|".join(RESERVED)))
"""Finds what makes a SEND worth a second look: a receipt asked for, or a header that only a broker may set."""


def publish(pair: Pair, frame: Frame, session: Session) -> Edit:
    """SEND: a publisher's reserved headers go, and a receipt asked for is remembered as owed."""
    if not _SPECIAL.search(frame.data, frame.head - 1, frame.body):
        return AS_IT_IS
    receipt = frame.header(RECEIPT_HEADER, pair.source)
    if receipt is not None:
        session.owed(receipt)
    forged = tuple(name for name in RESERVED if frame.raw(name) is not None)
    if not forged:
        return AS_IT_IS
    session.lose("loss_reserved", len(forged))
    return Edit(forged)


def watch(pair: Pair, frame: Frame, session: Session) -> Edit:
    """Record subscriptions and transactions. Raises `ProtocolError` for a SUBSCRIBE it cannot follow, or too many."""
    headers = frame.headers(pair.source)
    if frame.command is SUBSCRIBE:
        _judge_subscribe(pair, headers, session)
    session.observed(frame.command, headers)
    return AS_IT_IS


def count_selector(pair: Pair, headers: Headers, session: Session) -> None:
    """Count a SUBSCRIBE whose selector the broker will ignore."""
    if not pair.selectors and any(name == SELECTOR for name, _ in headers):
        session.counters["selector_ignored"] += 1


def _judge_subscribe(pair: Pair, headers: Headers, session: Session) -> None:
    """Raise `ProtocolError` for a SUBSCRIBE that the bridge could not follow."""
    count_selector(pair, headers, session)
    if not pair.judges:
        return
    names = dict(reversed(headers))
    if DESTINATION not in names:
        raise ProtocolError("SUBSCRIBE needs a destination header")
    if names.get(ACK_HEADER, AUTO) not in MODES:
        raise ProtocolError(
            "SUBSCRIBE has an unknown ack mode", f"known: {b', '.join(sorted(MODES)).decode()}"
        )
    if ID not in names:
        if pair.source.named_subscriptions:
            raise ProtocolError("SUBSCRIBE needs an id header")
    elif session.subscriptions.named(names[ID]) is not None:
        raise ProtocolError("SUBSCRIBE repeats the id of an open subscription")


def name_subscription(pair: Pair, frame: Frame, session: Session) -> Edit:
    """SUBSCRIBE and UNSUBSCRIBE between a side that names subscriptions and one that need not."""
    headers = frame.headers(pair.source)
    if frame.command is SUBSCRIBE:
        _judge_subscribe(pair, headers, session)
    subscription = session.observed(frame.command, headers)
    if subscription is None:
        raise ProtocolError("UNSUBSCRIBE names no open subscription")
    if any(name == ID for name, _ in headers):
        return AS_IT_IS
    return Edit((DESTINATION,) if frame.command is UNSUBSCRIBE else (), ((ID, subscription.id),))


def name_delivery(pair: Pair, frame: Frame, session: Session) -> Edit:
    """ACK and NACK: use the broker's name of the delivery. An ACK of a lost broker's is not for the next one."""
    source, target, ledger = pair.source, pair.target, session.ledger
    within = frame.header(TRANSACTION, source) if session.transactions else None
    transaction = None if within is None else session.transactions.get(within)
    if transaction is None and pair.carries(frame.command):
        edit = _acknowledge(pair, frame, session)
        if edit is not None:
            return edit
    delivery = _FIND[source.delivery](frame, source, ledger)
    stale = ledger.unsure if delivery is None else delivery.lost
    if delivery is None and not stale and not pair.judges and not ledger.hides(said(frame, source)):
        return AS_IT_IS
    if not stale and (delivery is None or not pair.carries(frame.command)):
        return refuse(pair, frame, session)
    if delivery is None:
        whole = not ledger.forgot
    else:
        whole = ledger.settled(delivery, None if transaction is None else within)
    if transaction is not None and not whole:
        transaction.doom("it acknowledges messages of a broker that was lost")
    if delivery is None or stale:
        session.lose("acks_stale")
        return NOTHING
    if transaction is not None:
        transaction.acknowledge()
    if pair.alike:
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
"""By what an ACK or NACK names a delivery, see `session.recent`."""
SAID_BESIDE: Final = {DeliveryNaming.MESSAGE_ID: (SUBSCRIPTION,)}
"""What may stand beside that, and tells more."""


_BY_MESSAGE: Final = (SUBSCRIPTION, MESSAGE_ID), 0
NAMED: Final[dict[DeliveryNaming, tuple[tuple[bytes, ...], int]]] = {
    DeliveryNaming.MESSAGE_ID: _BY_MESSAGE,
    DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID: _BY_MESSAGE,
    DeliveryNaming.ACK: ((ID,), 2),
}
"""The headers by which a broker is told which delivery is meant, and from which value of a row on theirs are."""


def _acknowledge(pair: Pair, frame: Frame, session: Session) -> Edit | None:
    """Settle an ACK or NACK by its names alone. Return the edit; None where the ledger has to be asked."""
    name = _name(frame, pair.source)
    if name is None:
        return None
    if not pair.judges:
        return AS_IT_IS if session.acknowledged(name) else None
    headers, first = NAMED[pair.target.delivery]
    values = session.values(name, first, first + len(headers))
    if values is None or not session.acknowledged(name):
        return None
    said = pair.source.decode_once(values).split(b"\n")[:-1]
    return Edit((ID, MESSAGE_ID, SUBSCRIPTION), tuple(zip(headers, said, strict=True)))


def _name(frame: Frame, source: Dialect) -> bytes | None:
    """Return by what an ACK or NACK names a delivery, where that is no more and no less; else None."""
    more = any(frame.raw(each) is not None for each in SAID_BESIDE.get(source.delivery, ()))
    return None if more else _row(frame, ACKNOWLEDGED[source.delivery])


def _row(frame: Frame, names: tuple[bytes, ...]) -> bytes | None:
    """Return the values of these headers as they stand there, each with an LF; None where one is missing."""
    values = [frame.raw(name) for name in names]
    return None if None in values else b"%b\n" * len(values) % tuple(values)


def _renamed(frame: Frame, delivery: Delivery, source: Dialect) -> Edit:
    """Return the edit of an ACK or NACK where both sides use one name, which two brokers may have given."""
    if source.delivery is not DeliveryNaming.ACK:
        if frame.header(MESSAGE_ID, source) == delivery.message_id:
            return AS_IT_IS
        return Edit((MESSAGE_ID,), ((MESSAGE_ID, delivery.message_id),))
    if delivery.ack is None or frame.header(ID, source) in (None, delivery.ack):
        return AS_IT_IS  # one without an id is the broker's to judge
    return Edit((MESSAGE_ID, SUBSCRIPTION, ID), ((ID, delivery.ack),))


def said(frame: Frame, source: Dialect) -> bytes | None:
    """Return the name that a client's ACK or NACK says; None where it says none."""
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
"""What a MESSAGE says of its delivery, see `session.recent`."""


def deliver(pair: Pair, frame: Frame, session: Session) -> Edit:
    """MESSAGE: gets the names of its subscription and of the delivery that the client's version needs."""
    source, target = pair.source, pair.target
    if pair.tracked and not pair.judges and _noted_by_names(frame, source, session):
        return AS_IT_IS
    name = frame.header(SUBSCRIPTION, source)
    destination = frame.header(DESTINATION, source) or b""
    subscription = session.subscriptions.delivered(name, destination)
    drop: tuple[bytes, ...] = ()
    add: tuple[tuple[bytes, bytes], ...] = ()
    alike = pair.alike
    if not alike or pair.tracked:
        ack = frame.header(ACK_HEADER, source)
        if ack is not None and not alike:
            drop = (ACK_HEADER,)
        if subscription is not None and subscription.ack != AUTO:
            message_id = frame.header(MESSAGE_ID, source)
            if message_id is None:
                if not pair.judges:
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
        if name is None and subscription is not None and pair.judges:
            add = ((SUBSCRIPTION, subscription.id), *add)
    elif name is not None and name.startswith(MADE) and not (subscription and subscription.named):
        drop = (SUBSCRIPTION, *drop)
    return Edit(drop, add) if drop or add else AS_IT_IS


def _noted_by_names(frame: Frame, source: Dialect, session: Session) -> bool:
    """Record a MESSAGE by what its head has, if that is all there is to do; return whether it is."""
    names = DELIVERED[source.delivery]
    row = _row(frame, names)
    return row is not None and session.delivered(row, len(names), 1)


def refuse(pair: Pair, frame: Frame, _session: Session) -> Edit:
    """Raise `Refused` or `ProtocolError` for a command that the other version lacks, or an unknown name in it."""
    command = frame.command.decode()
    if pair.carries(frame.command):
        raise ProtocolError(f"{command} names no message that awaits one")
    raise Refused(f"{command} cannot be said to the broker", "its STOMP version has no such command")


class Step(NamedTuple):
    """An edit of some commands: for facts that differ, where account is kept (`tracks`), or without facts always."""

    commands: frozenset[bytes]
    facts: tuple[str, ...]
    edit: Callable[[Pair, Frame, Session], Edit]
    tracks: bool = False


STEPS: Final = (
    Step(frozenset({SEND}), (), publish),
    Step(Session.WATCHED, (), watch),
    Step(frozenset({SUBSCRIBE, UNSUBSCRIBE}), ("named_subscriptions",), name_subscription),
    Step(frozenset({ACK, NACK}), ("delivery",), name_delivery, tracks=True),
    Step(frozenset({MESSAGE}), ("delivery", "named_subscriptions"), deliver, tracks=True),
)
"""In order: a later step takes the place of an earlier one for its commands."""


def steps_between(
    source: Dialect, target: Dialect, *, tracked: bool = False
) -> dict[bytes, Callable[[Pair, Frame, Session], Edit]]:
    """Return by command the edits needed between two dialects."""
    edits = {
        command: step.edit
        for step in STEPS
        for command in step.commands
        if not step.facts
        or (tracked and step.tracks)
        or any(getattr(source, fact) != getattr(target, fact) for fact in step.facts)
    }
    unknown = source.commands - target.commands
    return edits | {
        command: edits[command] if tracked and command in edits else refuse for command in unknown
    }
