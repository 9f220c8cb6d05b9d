"""The account of what the broker keeps. A message counts once, however many places keep it."""

from stomprelay.broker.message import Message
from stomprelay.wire.errors import LimitError


class Memory:
    """`used` octets of messages are kept, of `most`. Nothing is kept that was not held, nothing held for ever:
    who holds a message has to release it.
    """

    __slots__ = ("most", "used")

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0

    def fits(self, message: Message) -> bool:
        """Whether a message can be held without going over the bound."""
        return message.holds > 0 or self.used + message.size <= self.most

    def admit(self, message: Message) -> None:
        """Raise `LimitError` when a message cannot be held without going over the bound."""
        if not self.fits(message):
            raise LimitError("the broker's memory is full", f"it keeps messages of {self.most} bytes at most")

    def hold(self, message: Message) -> None:
        """One more place keeps the message. Whether it may is asked before, by `admit` or `fits`."""
        if not message.holds:
            self.used += message.size
        message.holds += 1

    def release(self, message: Message) -> None:
        """One place less keeps the message."""
        message.holds -= 1
        if not message.holds:
            self.used -= message.size
