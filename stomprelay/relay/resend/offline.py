"""What a client says while there is no broker to be told."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

from stomprelay.relay.resend.unconfirmed import Unconfirmed
from stomprelay.session.session import Session
from stomprelay.session.transaction import Transaction
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.errors import Refused
from stomprelay.wire.frame import Frame
from stomprelay.wire.limits import Limits
from stomprelay.wire.names import (
    ABORT,
    ACK,
    BEGIN,
    CLIENT_COMMANDS,
    COMMIT,
    NACK,
    RECEIPT_HEADER,
    SEND,
    TRANSACTION,
    UNSUBSCRIBE,
)

_MOOT: Final = frozenset({ACK, NACK, UNSUBSCRIBE, ABORT})


_LINE: Final = 256
"""More octets than any line of the relay's has."""


@lru_cache
def _roomier(limits: Limits) -> Limits:
    """Limits for what the relay put into a client's frames beside all that the client may."""
    return replace(limits, headers=limits.headers + 2, header_line=max(limits.header_line, _LINE))


class Offline:
    """Keeps what the next broker has to be told: SENDs and transactions in the unconfirmed, orders in the session.

    `answers` are receipts of frames that no broker will be told of: the relay gives them. `most` is how many octets
    of open transactions are kept.
    """

    __slots__ = ("_limits", "_most", "answers", "session", "unconfirmed")

    def __init__(self, session: Session, limits: Limits, most: int) -> None:
        self.session = session
        self.unconfirmed = Unconfirmed(session.name, most)
        self.answers: list[bytes] = []
        self._limits = _roomier(limits)
        self._most = most

    def read(self, wire: bytes) -> Iterator[Frame]:
        """The client's frames, as they were read when they came."""
        decoder = Decoder(self.session.dialect, CLIENT_COMMANDS, self._limits)
        decoder.feed(wire)
        return decoder.frames()

    def marks(self, frame: Frame) -> tuple[bytes | None, bytes | None]:
        """The receipt that a frame asks for, and the transaction that it belongs to."""
        dialect = self.session.dialect
        return frame.header(RECEIPT_HEADER, dialect), frame.header(TRANSACTION, dialect)

    def keep(self, transaction: Transaction, frame: Frame) -> None:
        """All open transactions together may keep as many octets as everything else that is not confirmed."""
        others = sum(each.octets for each in self.session.transactions.values())
        transaction.keep(frame.wire, self._most - others)

    def given(self) -> list[bytes]:
        """The `answers`, none of them twice."""
        given = list(self.answers)
        self.answers.clear()
        return given

    def say(self, frame: Frame) -> None:
        """What is only an order to a broker is remembered, all else is kept to be said. Raises `Refused` for the
        COMMIT of a transaction that is lost.
        """
        session, unconfirmed, command = self.session, self.unconfirmed, frame.command
        receipt, name = self.marks(frame)
        transaction = None if name is None else session.transactions.get(name)
        if command is ACK or command is NACK:
            session.lose("acks_stale")
            if transaction is not None:
                transaction.doomed = "it acknowledges messages of a broker that was lost"
        elif command is COMMIT and transaction is not None:
            if transaction.doomed is not None:
                raise Refused("the transaction cannot be committed", transaction.doomed, receipt=receipt)
            unconfirmed.keep(
                b"".join([*transaction.frames, frame.wire]), receipt or unconfirmed.ask(), said=False
            )
        elif command is SEND and transaction is not None:
            if receipt is not None:
                unconfirmed.owe(receipt)
            self._join(transaction, frame)
            return
        elif command is SEND or command is COMMIT:
            unconfirmed.keep(frame.wire, receipt or unconfirmed.ask(), said=False)
        if command in Session.WATCHED:
            self._observe(frame, name)
        if receipt is not None:
            if command in _MOOT:
                self.answers.append(receipt)
            else:
                unconfirmed.owe(receipt)

    def _join(self, transaction: Transaction, frame: Frame) -> None:
        """A SEND in a transaction. One that is too large is doomed: what it drops, no broker is asked to confirm."""
        dropped = [*transaction.frames[1:], frame.wire]
        self.keep(transaction, frame)
        if transaction.cut:
            transaction.doomed = "there was no broker, and it was too large to be kept"
            for each in self.read(b"".join(dropped)):
                self._pay(each.header(RECEIPT_HEADER, self.session.dialect))

    def _observe(self, frame: Frame, name: bytes | None) -> None:
        session, command = self.session, frame.command
        ended = session.transactions.get(name or b"")
        subscription = session.observed(command, frame.headers(session.dialect))
        if command is BEGIN and name is not None:
            self.keep(session.transactions[name], frame)
        elif command is ABORT and ended is not None:
            for each in self.read(b"".join(ended.frames)):
                self._pay(each.header(RECEIPT_HEADER, session.dialect))
        elif command is UNSUBSCRIBE and subscription is not None:
            self._pay(next((value for key, value in subscription.headers if key == RECEIPT_HEADER), None))

    def _pay(self, receipt: bytes | None) -> None:
        """No broker will be told of what asked for this receipt."""
        if receipt is not None and self.unconfirmed.owes(receipt):
            self.unconfirmed.refused(receipt)
            self.session.received(receipt)
            self.answers.append(receipt)
