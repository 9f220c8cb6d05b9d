"""A client's frames on their way to the broker that is there: what is written, what is kept, what is asked for."""

import re
from typing import Final

from stomprelay.relay.bridge.bridge import Bridge
from stomprelay.relay.effects import Outbox
from stomprelay.relay.forward import Joiner
from stomprelay.relay.resend.offline import Offline
from stomprelay.relay.resend.unconfirmed import Kept
from stomprelay.session.leg import Leg
from stomprelay.session.session import Session
from stomprelay.wire.dialect import Headers
from stomprelay.wire.errors import Refused
from stomprelay.wire.frame import Frame
from stomprelay.wire.names import ABORT, BEGIN, COMMIT, RECEIPT_HEADER, SEND, TRANSACTION
from stomprelay.wire.run import Run

AGAIN: Final = b"relay-resent:true\n"
"""The header line of a SEND that a lost broker may have had already."""

_MARKED: Final = re.compile(rb"\n(?:%b|%b):" % (RECEIPT_HEADER, TRANSACTION))


class Sender:
    """Writes frames to the broker at `leg`, keeps them, and asks for receipts. `send`, `repeat`, `repeat_inside` and
    `compose` put frames in; `flush` writes them.
    """

    __slots__ = (
        "_batch",
        "_bridge",
        "_confirm",
        "_joiner",
        "_last",
        "_offline",
        "_outbox",
        "_owing",
        "_plain",
        "_sends",
        "_session",
        "_unconfirmed",
        "leg",
    )

    def __init__(
        self, leg: Leg, bridge: Bridge, session: Session, offline: Offline, outbox: Outbox, *, confirm: bool
    ) -> None:
        self.leg = leg
        self._bridge = bridge
        self._session = session
        self._offline = offline
        self._unconfirmed = offline.unconfirmed
        self._outbox = outbox
        self._confirm = confirm
        self._owing = True
        self._joiner = Joiner()
        self._plain: bytes | None = None
        self._batch: list[Frame | Run] = []
        self._sends = 0
        self._last: tuple[Frame | Run, bytes | None, bytes] | None = None

    @property
    def names_subscriptions(self) -> bool:
        """Whether the broker has to be told an id of each subscription, also of those that the client gave none."""
        return self._bridge.judges and self._bridge.target.named_subscriptions

    # Frames

    def send(self, frame: Frame, extra: bytes = b"") -> None:
        """Put in a frame, with `extra` header lines in front of a SEND's. Raises `StompError` if it cannot be sent."""
        if frame.command is not SEND:
            self._send_other(frame)
            return
        head = self._bridge.head(frame, self._session)
        memo = frame.memo
        if memo is None or memo is not self._plain:
            if _MARKED.search(frame.data, frame.head - 1, frame.body):
                self._send_marked(frame, head, extra)
                return
            self._plain = memo
        if not self._confirm:
            self._unconfirmed.pass_unkept()
        elif self._unconfirmed.cumulative:
            self._add(frame, head, extra)
            return
        else:
            receipt = self._unconfirmed.ask()
            self._unconfirmed.keep(frame.wire, receipt)
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._joiner.add(frame, head, extra)

    def send_run(self, run: Run) -> None:
        """Put in a run whose frames are accounted for; its SENDs are kept. For single receipts it needs `parts`."""
        if not self._confirm or run.command is not SEND:
            self.close()
            self._joiner.add(run, None)
        elif self._unconfirmed.cumulative:
            self._add(run, None, b"", run.count)
        else:
            receipts = self._unconfirmed.ask_each(run.count)
            self._unconfirmed.keep_run(run, receipts)
            self._joiner.write(run.asking(receipts))

    def _send_marked(self, frame: Frame, head: bytes | None, extra: bytes) -> None:
        """A SEND that asks for a receipt, or belongs to a transaction."""
        receipt, name = self._offline.marks(frame)
        if receipt is not None and self._owing:
            self._unconfirmed.owe(receipt)
        transaction = None if name is None else self._session.transactions.get(name)
        if transaction is not None:
            self.close()
            self._offline.keep(transaction, frame)
            extra += self._asking_inside(receipt, name)
        elif receipt is not None:
            self.close(batch=False)
            self._batch.append(frame)
            self._sends += 1
            self._keep(receipt)
        elif self._confirm:
            self.close()
            receipt = self._unconfirmed.ask()
            self._unconfirmed.keep(frame.wire, receipt)
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._joiner.add(frame, head, extra)

    def _send_other(self, frame: Frame) -> None:
        """Any frame but SEND."""
        self.close()
        session, unconfirmed, command = self._session, self._unconfirmed, frame.command
        receipt = name = None
        if _MARKED.search(frame.data, frame.head - 1, frame.body):
            receipt, name = self._offline.marks(frame)
        transaction = None if name is None else session.transactions.get(name)
        if command is COMMIT and transaction is not None and transaction.doomed is not None:
            raise Refused("the transaction cannot be committed", transaction.doomed, receipt=receipt)
        head = self._bridge.head(frame, session)
        extra = b""
        if head == b"":
            if receipt is not None:
                unconfirmed.give(receipt)
            return
        if receipt is not None and self._owing:
            unconfirmed.owe(receipt)
        if command is COMMIT:
            asked = receipt
            if asked is None:
                asked = unconfirmed.ask()
                extra = b"receipt:%b\n" % asked
            unconfirmed.commit(asked, ours=receipt is None, name=name)
        elif command is ABORT and name is not None:
            unconfirmed.committing.aborted(name)
        elif command is BEGIN and name is not None:
            self._offline.keep(session.transactions[name], frame)
        self._joiner.add(frame, head, extra)

    def _asking_inside(self, receipt: bytes | None, name: bytes | None) -> bytes:
        """A SEND in a transaction passes. Returns the header line to put in front of it."""
        ours = self._unconfirmed.pass_inside(name or b"", receipt, confirm=self._confirm)
        return b"" if ours is None else b"receipt:%b\n" % ours

    # Frames that are sent again

    def repeat(self, kept: Kept) -> int:
        """Put in again what was kept. Returns how many frames that are. Raises as `send` does."""
        count = 0
        self._owing = False
        try:
            for frame in self._offline.read(kept.wire):
                count += 1
                self.send(frame, AGAIN if kept.sent else b"")
        finally:
            self._owing = True
        return count

    def repeat_inside(self, wire: bytes) -> None:
        """Put in again a frame of an open transaction. Raises as `send` does."""
        for frame in self._offline.read(wire):
            extra = b"" if frame.command is BEGIN else self._asking_inside(*self._offline.marks(frame))
            self._joiner.add(frame, self._bridge.head(frame, self._session), extra)

    def compose(self, command: bytes, headers: Headers) -> None:
        """Put in a frame of the relay's own."""
        self._joiner.write(self._bridge.compose(command, headers, self._session))

    # Writing

    def flush(self, now: float) -> None:
        """Write what was put in since the last time, in one piece."""
        self.close()
        data = self._joiner.take()
        if data:
            self._outbox.send(self.leg, data, now)

    def spelled(self, wire: bytes) -> bytes:
        """Return a frame of the client as the broker is sent it; nothing is kept or asked for."""
        return b"".join([self._bridge.carry(frame, self._session) for frame in self._offline.read(wire)])

    def _add(self, frame: Frame | Run, head: bytes | None, extra: bytes, sends: int = 1) -> None:
        """More for the batch, whose last SEND will ask for the receipt: so each waits for the next."""
        self.close(batch=False)
        self._batch.append(frame)
        self._sends += sends
        self._last = (frame, head, extra)

    def close(self, *, batch: bool = True) -> None:
        """The SEND that waits goes out. With it the batch is complete, unless it goes on (not `batch`)."""
        if self._last is None:
            return
        frame, head, extra = self._last
        self._last = None
        if batch:
            receipt = self._unconfirmed.ask()
            self._keep(receipt)
            extra = b"%breceipt:%b\n" % (extra, receipt)
        self._joiner.add(frame, head, extra)

    def _keep(self, receipt: bytes) -> None:
        """Keep the frames of the batch until this receipt confirms them; the next batch begins."""
        wire = b"".join([each.wire for each in self._batch])
        self._unconfirmed.keep(wire, receipt, sends=self._sends)
        self._batch = []
        self._sends = 0
