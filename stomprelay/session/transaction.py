"""A client's open transaction."""


class Transaction:
    """What was said in a transaction that is neither committed nor aborted.

    `frames` are its BEGIN and SENDs as the client spelled them, where the session may have to say them again, and
    `size` their size; once it is `cut`, only the BEGIN is kept. `acknowledged` tells that the broker was told of an
    ACK or NACK in it; `doomed` says why it cannot be committed any more.
    """

    __slots__ = ("acknowledged", "cut", "doomed", "frames", "size")

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.size = 0
        self.cut = False
        self.acknowledged = False
        self.doomed: str | None = None

    def keep(self, wire: bytes, room: int) -> int:
        """A frame of it passes, BEGIN first. Answers by how much more is kept: what does not fit into `room` cuts the
        transaction, which then ends with its broker.
        """
        if self.cut:
            return 0
        if len(wire) <= room or not self.frames:
            self.frames.append(wire)
            self.size += len(wire)
            return len(wire)
        self.cut = True
        kept = self.size
        del self.frames[1:]
        self.size = len(self.frames[0])
        return self.size - kept

    def acknowledge(self) -> None:
        """The broker was sent an ACK or NACK in it: a next broker could not be."""
        self.acknowledged = True

    def doom(self, reason: str) -> None:
        """It cannot be committed any more; `reason` is in words that a client may read."""
        self.doomed = reason

    def lost(self) -> None:
        """The broker that had begun it is lost."""
        if self.acknowledged:
            self.doom("it acknowledged messages of a broker that was lost")
        elif self.cut:
            self.doom("its broker was lost, and it was too large to be kept")
