"""What is written to one leg in answer to one input: everything at once, when the input is done."""

from math import inf

from stomprelay.session.leg import Leg


class Outbox:
    """What waits to be written to a leg, and whether messages may be added.

    `ready`: they may. They may not while the transport is full, after the leg was closed, and once the octets of
    one turn, `most`, are reached. `touched` is shared by a broker's outboxes: those that the present input filled.
    """

    __slots__ = (
        "_open",
        "_pieces",
        "_size",
        "_touched",
        "_writable",
        "leg",
        "most",
        "ready",
        "sated",
        "unread",
    )

    def __init__(self, leg: Leg, touched: "list[Outbox]") -> None:
        self.leg = leg
        self.most: float = inf
        self.ready = True
        self.sated = False
        self.unread = 0
        self._open = True
        self._writable = True
        self._pieces: list[bytes] = []
        self._size = 0
        self._touched = touched

    def deliver(self, head: bytes, body: bytes) -> None:
        """Add a message, while `ready`."""
        pieces = self._pieces
        if not pieces:
            self._touched.append(self)
        pieces.append(head)
        pieces.append(body)
        self._size += len(head) + len(body)
        if self._size >= self.most:
            self.sated = True
            self.ready = False

    def reply(self, data: bytes) -> None:
        """Add what cannot wait: a receipt, an error, a beat. `unread` counts it while the transport is full."""
        if not self._pieces:
            self._touched.append(self)
        self._pieces.append(data)
        if not self._writable:
            self.unread += len(data)

    def drained(self) -> bytes:
        """What is to be written now; it is no longer here."""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        return data

    def began(self, most: float) -> None:
        """A turn begins in which so many octets of messages may be added."""
        self.most = most
        self.sated = False
        self.ready = self._open and self._writable

    def paused(self) -> None:
        """The transport is full."""
        self._writable = False
        self.ready = False

    def resumed(self) -> None:
        """The transport has room again; `began` says when to use it."""
        self._writable = True
        self.unread = 0

    def closed(self) -> None:
        """The leg gets no more messages."""
        self._open = False
        self.ready = False
