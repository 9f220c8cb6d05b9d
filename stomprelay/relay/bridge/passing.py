"""Which frames of a leg may pass without a look at each, and what is recorded of them. A run passes only where the
bridge would pass each of its frames with the same bytes and the same effect on the session.
"""

from collections.abc import Callable
from functools import cache

from stomprelay.relay.bridge.bridge import ACKNOWLEDGED, DELIVERED, NAMED, OWN, SAID_BESIDE, Bridge
from stomprelay.relay.bridge.negotiation import Bridges
from stomprelay.session.recent import ids_of
from stomprelay.session.session import Session
from stomprelay.session.subscriptions import AUTO
from stomprelay.wire.dialect import DeliveryNaming
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


def to_client(
    bridges: Bridges, session: Session, *, receipts: bool, ours: Callable[[list[bytes]], bool] | None = None
) -> Passing:
    """Return what may pass of a broker's frames. `receipts`: none is the relay's; `ours` records RECEIPTs that are. Ask
    again after SUBSCRIBE and UNSUBSCRIBE.
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
    """`naming`: how deliveries of which account is kept are named; None where none is."""
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
    """Take MESSAGEs between two versions: see `steps.deliver`."""
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
    """Take ACKs or NACKs between two versions: see `steps.name_delivery`."""
    names, first = NAMED[bridge.target.delivery]
    values = session.values(run.values, first, first + len(names))
    said = None if values is None else bridge.spelling.values(values)
    if said is None or not bridge.spelling.respell(run, (ID, MESSAGE_ID, SUBSCRIPTION), names, said):
        return False
    return session.acknowledged(run.values)
