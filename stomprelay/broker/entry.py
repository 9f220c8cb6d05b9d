"""A message's place in one queue."""

from typing import TYPE_CHECKING

from stomprelay.broker.message import Message

if TYPE_CHECKING:
    from stomprelay.broker.consumer import Consumer


class Entry:
    """One queue's copy of a message, from its arrival until it is settled.

    `order` is its place among the queue's, oldest first; `refusals` how often it was NACKed. `consumer` is who has
    it, or had it last, and `delivery` that consumer's number for it, in the order of its deliveries.
    """

    __slots__ = ("consumer", "delivery", "message", "order", "redelivered", "refusals")

    def __init__(self, message: Message, order: int) -> None:
        self.message = message
        self.order = order
        self.redelivered = False
        self.refusals = 0
        self.consumer: Consumer | None = None
        self.delivery = 0

    def __lt__(self, other: "Entry") -> bool:
        """Older entries come first."""
        return self.order < other.order
