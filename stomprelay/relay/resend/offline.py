"""What a client sends while there is no broker to send it to."""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

from stomprelay.relay.resend.unconfirmed import Unconfirmed
from stomprelay.session.session import Session, Transaction
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.errors import LimitError, Refused, StompError
from stomprelay.wire.frame import Frame, Limits
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

_WITHOUT_EFFECT: Final = frozenset({ACK, NACK, UNSUBSCRIBE, ABORT})
"""Commands that mean nothing to a broker that was not there when they came."""

_LINE: Final = 256
"""More bytes than any header line of the relay's has."""


@lru_cache
def _with_room(limits: Limits) -> Limits:
    """Return limits that also admit what the relay puts into a client's frames, beside all that the client may."""
    return replace(limits, headers=limits.headers + 2, header_line=max(limits.header_line, _LINE))


class Offline:
    """Keeps what the next broker has to be sent, in `unconfirmed` and the session. `most`: bytes of transactions."""

    __slots__ = ("_limits", "_most", "_session", "unconfirmed")

    def __init__(self, session: Session, limits: Limits, most: int) -> None:
        self.unconfirmed = Unconfirmed(session.name, most)
        self._session = session
        self._limits = _with_room(limits)
        self._most = most

    def read(self, wire: bytes) -> Iterator[Frame]:
        """Return the client's frames in bytes that were kept, as they were read when they came."""
        decoder = Decoder(self._session.dialect, CLIENT_COMMANDS, self._limits)
        decoder.feed(wire)
        return decoder.frames()

    def marks(self, frame: Frame) -> tuple[bytes | None, bytes | None]:
        """Return the receipt that a frame asks for, and the name of the transaction that it belongs to."""
        dialect = self._session.dialect
        return frame.header(RECEIPT_HEADER, dialect), frame.header(TRANSACTION, dialect)

    def keep(self, transaction: Transaction, frame: Frame) -> None:
        """Keep a frame of an open transaction, of all of which `most` bytes are kept. Raises `LimitError` for more."""
        try:
            self._session.keep(transaction, frame.wire, self._most)
        except LimitError as error:
            raise error.asked_for(self.marks(frame)[0]) from None

    def send(self, frame: Frame) -> None:
        """Keep a frame for the next broker. Raises `Refused` for the COMMIT of a transaction that is lost."""
        session, unconfirmed, command = self._session, self.unconfirmed, frame.command
        receipt, name = self.marks(frame)
        transaction = None if name is None else session.transactions.get(name)
        if command is ACK or command is NACK:
            session.lose("acks_stale")
            if transaction is not None:
                transaction.doom("it acknowledges messages of a broker that was lost")
        elif command is COMMIT and transaction is not None:
            if transaction.doomed is not None:
                raise Refused("the transaction cannot be committed", transaction.doomed, receipt=receipt)
            wire = b"".join([*transaction.frames, frame.wire])
            sends = len(transaction.frames) - 1
            confirmed_by = unconfirmed.ask() if receipt is None else receipt
            unconfirmed.keep(wire, confirmed_by, sent=False, sends=sends)
        elif command is SEND and transaction is not None:
            if receipt is not None:
                unconfirmed.owe(receipt)
            self._join(transaction, frame)
            return
        elif command is SEND or command is COMMIT:
            confirmed_by = unconfirmed.ask() if receipt is None else receipt
            unconfirmed.keep(frame.wire, confirmed_by, sent=False, sends=int(command is SEND))
        if command in Session.WATCHED:
            self._observe(frame, name)
        if receipt is not None:
            if command in _WITHOUT_EFFECT:
                unconfirmed.given.append(receipt)
            else:
                unconfirmed.owe(receipt)

    def _join(self, transaction: Transaction, frame: Frame) -> None:
        """A SEND in a transaction. One that is too large is doomed: what it drops, no broker is asked to confirm."""
        before = transaction.frames
        self.keep(transaction, frame)
        if transaction.cut:
            dropped = [frame.wire] if before is transaction.frames else [*before[1:], frame.wire]
            transaction.doom("there was no broker, and it was too large to be kept")
            for each in self.read(b"".join(dropped)):
                self._give_up(each.header(RECEIPT_HEADER, self._session.dialect))

    def _observe(self, frame: Frame, name: bytes | None) -> None:
        session, command = self._session, frame.command
        ended = None if name is None else session.transactions.get(name)
        try:
            subscription = session.observed(command, frame.headers(session.dialect))
        except StompError as error:
            raise error.asked_for(self.marks(frame)[0]) from None
        if command is BEGIN and name is not None:
            self.keep(session.transactions[name], frame)
        elif command is ABORT and ended is not None:
            for each in self.read(b"".join(ended.frames)):
                self._give_up(each.header(RECEIPT_HEADER, session.dialect))
        elif command is UNSUBSCRIBE and subscription is not None:
            self._give_up(next((value for key, value in subscription.headers if key == RECEIPT_HEADER), None))

    def _give_up(self, receipt: bytes | None) -> None:
        """No broker will be sent what asked for this receipt."""
        if receipt is not None and self.unconfirmed.owes(receipt):
            self.unconfirmed.refused(receipt)
            self._session.received(receipt)
            self.unconfirmed.given.append(receipt)
