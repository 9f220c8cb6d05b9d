"""Frames from one dialect to another.

A `Step` names the commands it concerns, the facts of the dialects on which it depends and the edit that it makes;
a `Bridge` is the steps whose facts differ between two dialects. The only ways a head changes are headers taken out
and headers put in front, which the specification allows an intermediary ("Repeated Header Entries"), and
respelling, where the escapes differ and the head has something to escape. All else passes as the slice that came.

Where both legs speak one version the broker judges what a client says. Where they do not, the bridge has to
understand it, so the bridge judges.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from stomprelay.relay.listener import Loss
from stomprelay.session.ledger import Delivery, Ledger
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import AUTO, MADE, MODES
from stomprelay.wire.dialect import Delivery as Naming
from stomprelay.wire.dialect import Dialect, Headers
from stomprelay.wire.errors import ProtocolError, Refused, StompError
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import (
    ABORT,
    ACK,
    ACK_HEADER,
    BEGIN,
    COMMIT,
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

_SPECIAL: Final = re.compile(rb"\n(?:%b|%b):" % (RECEIPT_HEADER, b"|".join(RESERVED)))
"""Finds what makes a SEND worth a second look: a receipt asked for, or a header that only a broker may set."""

_PERCENT: Final = {b"\n": b"%0A", b"\r": b"%0D"}


def publish(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
    """SEND: a publisher's reserved headers go, and a receipt asked for is remembered as owed."""
    if not _SPECIAL.search(frame.data, frame.head - 1, frame.body):
        return AS_IT_IS
    receipt = frame.header(RECEIPT_HEADER, bridge.source)
    if receipt is not None:
        session.owed(receipt)
    forged = tuple(name for name in RESERVED if frame.raw(name) is not None)
    if not forged:
        return AS_IT_IS
    session.tally["loss_reserved"] += len(forged)
    return Edit(forged)


def watch(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
    """What the session must know of in any case: subscriptions and transactions."""
    headers = frame.headers(bridge.source)
    if frame.command is SUBSCRIBE:
        bridge.judge_subscribe(headers, session)
    session.observed(frame.command, headers)
    return AS_IT_IS


def name_subscription(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
    """SUBSCRIBE and UNSUBSCRIBE between a side that names subscriptions and one that need not."""
    headers = frame.headers(bridge.source)
    if frame.command is SUBSCRIBE:
        bridge.judge_subscribe(headers, session)
    subscription = session.observed(frame.command, headers)
    if subscription is None:
        raise ProtocolError("UNSUBSCRIBE names no open subscription")
    if any(name == ID for name, _ in headers):
        return AS_IT_IS
    return Edit((DESTINATION,) if frame.command is UNSUBSCRIBE else (), ((ID, subscription.id),))


def name_delivery(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
    """ACK and NACK: from the name by which the client knows a delivery to the broker's."""
    source, target = bridge.source, bridge.target
    command = frame.command.decode()
    delivery = _FIND[source.delivery](frame, source, session.ledger)
    if delivery is None:
        raise ProtocolError(f"{command} names no message that awaits one")
    session.ledger.settled(delivery, frame.header(TRANSACTION, source))
    add: tuple[tuple[bytes, bytes], ...]
    if target.delivery is Naming.ACK:
        if delivery.ack is None:
            raise Refused(f"{command} is not possible", "the broker gave the message no ack header")
        add = ((ID, delivery.ack),)
    else:
        add = ((MESSAGE_ID, delivery.message_id),)
        if target.named_subscriptions or delivery.subscription.named:
            add = ((SUBSCRIPTION, delivery.subscription.id), *add)
    return Edit((ID, MESSAGE_ID, SUBSCRIPTION), add)


def _by_message(frame: Frame, source: Dialect, ledger: Ledger) -> Delivery | None:
    message_id = frame.header(MESSAGE_ID, source)
    if message_id is None:
        return None
    return ledger.by_message(message_id, frame.header(SUBSCRIPTION, source))


def _by_token(frame: Frame, source: Dialect, ledger: Ledger) -> Delivery | None:
    token = frame.header(ID, source)
    # Some clients go on saying message-id and subscription on 1.2.
    return _by_message(frame, source, ledger) if token is None else ledger.by_token(token)


_FIND: Final = {
    Naming.MESSAGE_ID: _by_message,
    Naming.SUBSCRIPTION_AND_MESSAGE_ID: _by_message,
    Naming.ACK: _by_token,
}


def deliver(bridge: "Bridge", frame: Frame, session: Session) -> Edit:
    """MESSAGE: told which subscription it is for and how to acknowledge it, the client's way."""
    source, target = bridge.source, bridge.target
    name = frame.header(SUBSCRIPTION, source)
    if name is None:
        subscription = session.subscriptions.oldest(frame.header(DESTINATION, source) or b"")
    else:
        subscription = session.subscriptions.named(name)
    drop: tuple[bytes, ...] = ()
    add: tuple[tuple[bytes, bytes], ...] = ()
    if source.delivery is not target.delivery:
        ack = frame.header(ACK_HEADER, source)
        if ack is not None:
            drop = (ACK_HEADER,)
        if subscription is not None and subscription.ack != AUTO:
            message_id = frame.header(MESSAGE_ID, source)
            if message_id is None:
                raise ProtocolError("MESSAGE without message-id")
            given = ack if source.delivery is Naming.ACK else None
            delivery = session.ledger.noted(subscription, message_id, given)
            if target.delivery is Naming.ACK:
                add = ((ACK_HEADER, delivery.token),)
    if target.named_subscriptions:
        if name is None and subscription is not None:
            add = ((SUBSCRIPTION, subscription.id), *add)
    elif name is not None and name.startswith(MADE) and not (subscription and subscription.named):
        drop = (SUBSCRIPTION, *drop)
    return Edit(drop, add) if drop or add else AS_IT_IS


def refuse(_bridge: "Bridge", frame: Frame, _session: Session) -> Edit:
    """A command that the other version does not have."""
    raise Refused(
        f"{frame.command.decode()} cannot be said to the broker", "its STOMP version has no such command"
    )


class Step(NamedTuple):
    """An edit of some commands, needed where one of the facts differs; without facts, needed always."""

    commands: frozenset[bytes]
    facts: tuple[str, ...]
    edit: Callable[["Bridge", Frame, Session], Edit]


STEPS: Final = (
    Step(frozenset({SEND}), (), publish),
    Step(frozenset({SUBSCRIBE, UNSUBSCRIBE, BEGIN, COMMIT, ABORT}), (), watch),
    Step(frozenset({SUBSCRIBE, UNSUBSCRIBE}), ("named_subscriptions",), name_subscription),
    Step(frozenset({ACK, NACK}), ("delivery",), name_delivery),
    Step(frozenset({MESSAGE}), ("delivery", "named_subscriptions"), deliver),
)
"""In order: a later step takes the place of an earlier one for its commands."""


class Bridge:
    """Frames of `source` for a leg of `target`. Stateless: one serves every session of its pair.

    `untouched` are the commands whose frames pass as they came, without a look.
    """

    def __init__(
        self,
        source: Dialect,
        target: Dialect,
        loss: Loss = Loss.REPLACE,
        *,
        selectors: bool = True,
    ) -> None:
        self.source = source
        self.target = target
        self.loss = loss
        self.selectors = selectors
        self.judges = source is not target
        self.steps = {
            command: step.edit
            for step in STEPS
            for command in step.commands
            if not step.facts or any(getattr(source, fact) != getattr(target, fact) for fact in step.facts)
        }
        self.steps |= dict.fromkeys(source.commands - target.commands, refuse)
        self.untouched = frozenset[bytes]() if self.judges else frozenset({MESSAGE})
        alike = source.padded == target.padded and source.escaped_names == target.escaped_names
        self._only_cr = alike and (source.reads ^ target.writes) <= {b"\r"}

    def carry(self, frame: Frame, session: Session) -> bytes:
        """What the other leg is written for a frame. Raises as `head` does."""
        head = self.head(frame, session)
        return frame.wire if head is None else head + frame.data[frame.body : frame.after]

    def head(self, frame: Frame, session: Session) -> bytes | None:
        """The new head of a frame, blank line included, before its body as it came; None: all of it as it came.

        Raises `ProtocolError` or `Refused` for a frame that cannot be carried.
        """
        memo = frame.memo
        if memo is not None and memo is session.memo:
            return session.memo_head
        step = self.steps.get(frame.command)
        owed = len(session.receipts)
        try:
            edit = AS_IT_IS if step is None else step(self, frame, session)
            if not (frame.plain or not self.judges or (self._only_cr and self._without_cr(frame))):
                head = self._respelled(frame, edit, session)
            elif edit is AS_IT_IS:
                head = None
            else:
                head = self._edited(frame, edit, session)
        except StompError as error:
            error.receipt = frame.header(RECEIPT_HEADER, self.source)
            raise
        if memo is not None and len(session.receipts) == owed:
            session.memo = memo
            session.memo_head = head
        return head

    @staticmethod
    def _without_cr(frame: Frame) -> bool:
        data, head, body = frame.data, frame.head, frame.body
        return data.find(b"\r", head - 2, body) < 0 and data.find(b"\\r", head, body) < 0

    def _edited(self, frame: Frame, edit: Edit, session: Session) -> bytes:
        """A new head for a frame whose lines mean the same in both dialects."""
        lines = b"\n" + frame.data[frame.head : frame.body]
        for name in edit.drop:
            needle = b"\n%b:" % name
            while (at := lines.find(needle)) >= 0:
                lines = lines[:at] + lines[lines.find(b"\n", at + 1) :]
        head = [frame.command]
        for name, value in edit.add:
            self._say(name, value, head, session)
        head.append(lines[1:])
        return b"\n".join(head)

    def _respelled(self, frame: Frame, edit: Edit, session: Session) -> bytes:
        """A new head for a frame that has something to escape, or to escape otherwise: line by line, for most
        lines are plain.
        """
        dropped = tuple([name + b":" for name in edit.drop])
        padded = self.source.padded
        crlf = frame.crlf
        lines = [frame.command]
        for name, value in edit.add:
            self._say(name, value, lines, session)
        for line in frame.head_lines.split(b"\n"):
            if dropped and line.startswith(dropped):
                continue
            if b"\\" in line or b"\r" in line or line.count(b":") != 1 or (padded and b" " in line):
                if line:
                    name, value = self.source.read_line(line, crlf=crlf)
                    self._say(name, value, lines, session)
            else:
                lines.append(line)
        lines.append(b"\n")
        return b"\n".join(lines)

    def _say(self, name: bytes, value: bytes, lines: list[bytes], session: Session) -> None:
        """Append a header line for the target; what it cannot say is settled by the policy for losses."""
        target = self.target
        if not target.nameable(name):
            self._refuse_loss(name)
            session.tally["loss_name"] += 1
            return
        if not target.speakable(value):
            self._refuse_loss(name)
            session.tally["loss_value"] += 1
            for octet in (b"\n", b"\r"):
                if octet not in target.writes:
                    value = value.replace(octet, _PERCENT[octet] if self.loss is Loss.PERCENT else b" ")
        lines.append(target.write_line(name, value))

    def _refuse_loss(self, name: bytes) -> None:
        if self.loss is Loss.REJECT:
            shown = name[:64].decode("utf-8", "backslashreplace")
            raise Refused("a header cannot be said in the other version", f"it is {shown!r}")

    def judge_subscribe(self, headers: Headers, session: Session) -> None:
        """Raise `ProtocolError` for a SUBSCRIBE that the bridge could not follow.

        A selector that the broker will ignore is counted.
        """
        names = dict(reversed(headers))
        if SELECTOR in names and not self.selectors:
            session.tally["selector_ignored"] += 1
        if not self.judges:
            return
        if DESTINATION not in names:
            raise ProtocolError("SUBSCRIBE needs a destination header")
        if names.get(ACK_HEADER, AUTO) not in MODES:
            raise ProtocolError(
                "SUBSCRIBE has an unknown ack mode", f"known: {b', '.join(sorted(MODES)).decode()}"
            )
        if ID not in names:
            if self.source.named_subscriptions:
                raise ProtocolError("SUBSCRIBE needs an id header")
        elif session.subscriptions.named(names[ID]) is not None:
            raise ProtocolError("SUBSCRIBE repeats the id of an open subscription")
