"""Which frames of a leg may pass as they came without a look at each, and what has to be recorded of them.

It says of whole runs what the steps say of single frames: a run passes only where each of its frames would, and leaves
the session as they would have left it. What is not certain is left to the steps.
"""

from collections.abc import Callable
from functools import cache
from typing import Final, cast

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.bridge.negotiation import Bridges
from stomprelay.relay.bridge.steps import DELIVERED
from stomprelay.session.recent import Name, Row
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import AUTO
from stomprelay.wire.dialect import DeliveryNaming, Dialect
from stomprelay.wire.names import (
    ACK,
    ACK_HEADER,
    ID,
    MESSAGE,
    MESSAGE_ID,
    NACK,
    RECEIPT,
    RECEIPT_HEADER,
    RECEIPT_ID,
    RESERVED,
    SEND,
    SUBSCRIPTION,
    TRANSACTION,
)
from stomprelay.wire.run import Passing, Rule, Rules, Run

_ACKNOWLEDGED: Final[dict[DeliveryNaming, Rule]] = {
    DeliveryNaming.MESSAGE_ID: Rule(ACK, (TRANSACTION, RECEIPT_HEADER, SUBSCRIPTION), (MESSAGE_ID,)),
    DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID: Rule(
        ACK, (TRANSACTION, RECEIPT_HEADER), (SUBSCRIPTION, MESSAGE_ID)
    ),
    DeliveryNaming.ACK: Rule(ACK, (TRANSACTION, RECEIPT_HEADER), (ID,)),
}
"""What has to be known of an ACK, as `session.recent.Name` has it."""


def _decoded(values: list[bytes], dialect: Dialect) -> list[bytes] | None:
    """Return raw values decoded; None where that has to be done one by one."""
    text = b"\n".join(values)
    if not dialect.spells_once(text):
        return None
    return dialect.decode(RECEIPT_ID, text).split(b"\n") if b"\\" in text else values


def to_client(
    bridges: Bridges, session: Session, *, receipts: bool, ours: Callable[[list[bytes]], bool] | None = None
) -> Passing:
    """Return what may pass of what a broker sends. `receipts`: no RECEIPT is for the relay itself; `ours` is told of
    RECEIPTs, and returns whether they are, and recorded. Ask again after each SUBSCRIBE and UNSUBSCRIBE.
    """
    bridge = bridges.to_client
    naming = bridge.source.delivery if bridge.tracked and session.subscriptions.acknowledging else None
    rules = _rules_to_client(bridge, naming, receipts=receipts, ours=ours is not None)

    def takes(run: Run) -> bool:
        if run.rule.command == RECEIPT:
            given = _decoded(cast("list[bytes]", run.values), bridges.broker)
            if ours is not None:
                return given is not None and ours(given)
            if given is not None:
                session.received_all(given)
            return given is not None
        if bridge.judges:
            return _needs_no_account(cast("list[bytes]", run.values), session)
        if not run.rule.wants:
            return True
        return session.delivered(cast("list[Row]", run.values))

    return Passing(rules, takes)


@cache
def _rules_to_client(bridge: Bridge, naming: DeliveryNaming | None, *, receipts: bool, ours: bool) -> Rules:
    """`naming`: how deliveries of which account is kept are named; None where none is."""
    if bridge.judges:
        message = Rule(MESSAGE, (ACK_HEADER, *bridge.takes_out), (SUBSCRIPTION,), plain=True)
    else:
        message = Rule(MESSAGE, bridge.takes_out, () if naming is None else DELIVERED[naming])
    if ours:
        return message, Rule(RECEIPT, (), (RECEIPT_ID,), stays=True)
    receipt = Rule(RECEIPT, (), (RECEIPT_ID,), needs=False, plain=bridge.judges)
    return (message, receipt) if receipts else (message,)


def _needs_no_account(ids: list[bytes], session: Session) -> bool:
    """Whether MESSAGEs with these `subscription` headers stay as they are between two versions."""
    found = [session.subscriptions.named(id) for id in set(ids)]
    return all(each is not None and each.named and each.ack == AUTO for each in found)


def to_broker(
    bridges: Bridges,
    session: Session,
    *,
    sends: bool,
    parts: bool = False,
    unkept: Callable[[int], None] | None = None,
) -> Passing:
    """Return what may pass of what a client sends. `sends`: SENDs are among it, with their `parts` where these are
    needed; `unkept` is told how many pass that nobody keeps.
    """
    bridge = bridges.to_broker
    rules = _rules_to_broker(bridge, sends=sends, parts=parts)

    def takes(run: Run) -> bool:
        if unkept is not None and run.rule.command == SEND:
            unkept(run.count)
        if not run.rule.wants:
            return True
        if run.rule.command != SEND:
            return session.acknowledged(cast("list[Name]", run.values))
        asked = _decoded(cast("list[bytes]", run.values), bridge.source)
        return asked is not None and session.owed_all(asked)

    return Passing(rules, takes)


@cache
def _rules_to_broker(bridge: Bridge, *, sends: bool, parts: bool) -> Rules:
    rules: list[Rule] = []
    if sends and bridge.tracked:
        rules.append(Rule(SEND, (RECEIPT_HEADER, TRANSACTION, *RESERVED), plain=bridge.judges, parts=parts))
    elif sends:
        rules.append(Rule(SEND, RESERVED, (RECEIPT_HEADER,), needs=False, plain=bridge.judges))
    if not bridge.judges:
        acknowledged = _ACKNOWLEDGED[bridge.source.delivery] if bridge.tracked else Rule(ACK)
        rules += [
            acknowledged._replace(command=each) for each in (ACK, NACK) if each in bridge.target.commands
        ]
    return tuple(rules)
