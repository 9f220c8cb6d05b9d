"""Which frames of a leg may pass without a look at each, what has to be recorded of them, and between two versions what
bytes they go out in.

It says of whole runs what the bridge and its steps say of single frames: a run passes only where each of its frames
would, in the same bytes, and leaves the session as they would have left it. What is not certain is left to them.
"""

from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Final, cast

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.bridge.negotiation import Bridges
from stomprelay.relay.bridge.steps import DELIVERED
from stomprelay.session.recent import Name, Row, text_of
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


def _both(rows: list[Row]) -> bytes:
    return text_of([row[:2] for row in rows])


_BY_MESSAGE: Final = b"subscription:%b\nmessage-id:%b\n", _both
_NAMED: Final[dict[DeliveryNaming, tuple[bytes, Callable[[list[Row]], bytes]]]] = {
    DeliveryNaming.MESSAGE_ID: _BY_MESSAGE,
    DeliveryNaming.SUBSCRIPTION_AND_MESSAGE_ID: _BY_MESSAGE,
    DeliveryNaming.ACK: (b"id:%b\n", lambda rows: b"\n".join(map(itemgetter(2), rows))),
}
"""The header lines by which a broker is told which delivery is meant, and what they say of rows, as `text_of`."""


def _decoded(run: Run, dialect: Dialect) -> list[bytes] | None:
    """Return a run's values, of one name, decoded; None where that has to be done one by one."""
    text = run.lines[:-1] if run.rule.parts else b"\n".join(cast("list[bytes]", run.values))
    if not dialect.spells_once(text):
        return None
    if run.rule.parts:
        return dialect.decode_once(text).split(b"\n") if run.lines else []
    return dialect.decode_once(text).split(b"\n") if b"\\" in text else cast("list[bytes]", run.values)


def _rows(text: bytes, width: int) -> list[Row]:
    """Return as many values a row, with LFs between them all, as rows."""
    values = iter(text.split(b"\n"))
    return list(zip(*[values] * width, strict=True))


def to_client(
    bridges: Bridges, session: Session, *, receipts: bool, ours: Callable[[list[bytes]], bool] | None = None
) -> Passing:
    """Return what may pass of what a broker sends. `receipts`: no RECEIPT is for the relay itself; `ours` is told of
    RECEIPTs, and returns whether they are, and recorded. Ask again after each SUBSCRIBE and UNSUBSCRIBE.
    """
    bridge = bridges.to_client
    accounted = (bridge.tracked or _names(bridge)) and session.subscriptions.acknowledging > 0
    naming = bridge.source.delivery if accounted else None
    rules = _rules_to_client(bridge, naming, receipts=receipts, ours=ours is not None)

    def takes(run: Run) -> bool:
        if run.rule.command == RECEIPT:
            given = _decoded(run, bridges.broker)
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
        return session.delivered(cast("list[Row]", run.values))

    return Passing(rules, takes)


def _names(bridge: Bridge) -> bool:
    """Whether a client of another version names deliveries by what they came with, not by tokens of ours."""
    return bridge.judges and bridge.target.delivery is not DeliveryNaming.ACK


@cache
def _rules_to_client(bridge: Bridge, naming: DeliveryNaming | None, *, receipts: bool, ours: bool) -> Rules:
    """`naming`: how deliveries of which account is kept are named; None where none is."""
    if bridge.judges:
        wants = (SUBSCRIPTION,) if naming is None or not _names(bridge) else DELIVERED[naming]
        unless = bridge.takes_out if ACK_HEADER in wants else (ACK_HEADER, *bridge.takes_out)
        message = Rule(MESSAGE, unless, wants, parts=True)
    else:
        message = Rule(MESSAGE, bridge.takes_out, () if naming is None else DELIVERED[naming])
    if ours:
        return message, Rule(RECEIPT, (), (RECEIPT_ID,), stays=True)
    receipt = Rule(RECEIPT, (), (RECEIPT_ID,), needs=False, parts=bridge.judges)
    return (message, receipt) if receipts else (message,)


def _delivered(run: Run, bridge: Bridge, session: Session) -> bool:
    """Take MESSAGEs between two versions: see `steps.deliver`."""
    wants, rows = run.rule.wants, None
    text = bridge.spelling.values(run.lines[:-1])
    if text is None:
        return False
    if len(wants) > 1:
        rows = _rows(text, len(wants))
        ids = set(map(itemgetter(0), rows))
    else:
        ids = set(text.split(b"\n"))
    found = [session.subscriptions.named(bridge.target.decode(SUBSCRIPTION, id)) for id in ids]
    drop: tuple[bytes, ...] = (ACK_HEADER,) if ACK_HEADER in wants else ()
    if None in found or (rows is None and any(each.ack != AUTO for each in found if each is not None)):
        return False
    if not bridge.target.named_subscriptions:
        named = {each.named for each in found if each is not None}
        if len(named) > 1:
            return False
        drop = drop if True in named else (SUBSCRIPTION, *drop)
    if not bridge.spelling.respell(run, drop):
        return False
    return rows is None or session.delivered(rows, text, unnamed=True)


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
        if run.rule.command != SEND:
            if bridge.judges:
                return _acknowledged(run, bridge, session)
            return not run.rule.wants or session.acknowledged(cast("list[Name]", run.values))
        if bridge.judges and not bridge.spelling.respell(run):
            return False
        if unkept is not None:
            unkept(run.count)
        if not run.values and not run.lines:
            return True
        asked = _decoded(run, bridge.source)
        return asked is not None and session.owed_all(asked)

    return Passing(rules, takes)


@cache
def _rules_to_broker(bridge: Bridge, *, sends: bool, parts: bool) -> Rules:
    rules: list[Rule] = []
    if sends and bridge.tracked:
        unless = RECEIPT_HEADER, TRANSACTION, *RESERVED
        rules.append(Rule(SEND, unless, plain=bridge.judges and parts, parts=bridge.judges or parts))
    elif sends:
        rules.append(Rule(SEND, RESERVED, (RECEIPT_HEADER,), needs=False, parts=bridge.judges))
    if bridge.judges and bridge.source.delivery is DeliveryNaming.ACK:
        return tuple(rules)
    acknowledged = _ACKNOWLEDGED[bridge.source.delivery] if bridge.tracked or bridge.judges else Rule(ACK)
    rules += [
        acknowledged._replace(command=each, parts=bridge.judges)
        for each in (ACK, NACK)
        if each in bridge.target.commands
    ]
    return tuple(rules)


def _acknowledged(run: Run, bridge: Bridge, session: Session) -> bool:
    """Take ACKs or NACKs between two versions: see `steps.name_delivery`."""
    width, text = len(run.rule.wants), run.lines[:-1]
    names: list[Name] = [*(text.split(b"\n") if width == 1 else _rows(text, width))]
    rows = session.rows(names)
    lines, values = _NAMED[bridge.target.delivery]
    if rows is None or len(rows[0]) < len(DELIVERED[bridge.target.delivery]):
        return False
    said = bridge.spelling.values(values(rows))
    if said is None:
        return False
    adds = lines * len(rows) % tuple(said.split(b"\n"))
    return bridge.spelling.respell(run, (ID, MESSAGE_ID, SUBSCRIPTION), adds) and session.acknowledged(names)
