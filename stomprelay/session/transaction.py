"""A client's open transaction."""


class Transaction:
    """What was said in a transaction that is neither committed nor aborted.

    `frames` are its BEGIN and SENDs as the client spelled them, where the session may have to say them again, and
    `octets` their size; once it is `cut`, only the BEGIN is kept. `acknowledged` tells that the broker was told of an
    ACK or NACK in it; `doomed` says why it cannot be committed any more.
    """

    __slots__ = ("acknowledged", "cut", "doomed", "frames", "octets")

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.octets = 0
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
            self.octets += len(wire)
            return len(wire)
        self.cut = True
        kept = self.octets
        del self.frames[1:]
        self.octets = len(self.frames[0])
        return self.octets - kept

    def lost(self) -> None:
        """The broker is gone, which had begun it."""
        if self.acknowledged:
            self.doomed = "it acknowledged messages of a broker that was lost"
        elif self.cut:
            self.doomed = "its broker was lost, and it was too large to be kept"
