"""The copy of a message: what the new broker is sent of a MESSAGE of the old one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stomprelay.relay.model.profile import ACTIVEMQ, ARTEMIS, RABBITMQ, Profile
from stomprelay.wire import names
from stomprelay.wire.dialect import Headers
from stomprelay.wire.errors import visible

RESENT: Final = b"relay-resent"
"""The header of a copy that NEW may have already. A relay marks what it sends again in the same way."""
DRAINED: Final = b"relay-drained"
"""The header of every copy: the `message-id` of the first message that was drained. ActiveMQ and Artemis deliver a
message again with the same id, so all copies of one message have the same value.
"""


class Refusal(NamedTuple):
    """A message that NEW refused, by its `message-id` at OLD, and the reason. It is still at OLD."""

    message: str
    reason: str


@dataclass(slots=True, eq=False)
class Queue:
    """A queue by its clients' name, and what became of its messages. `moved`: acknowledged at OLD. `bytes`: those of
    their bodies. `marked`: copies of these with `RESENT`. `repliless`: copies of these without `reply-to`, which named
    a temporary queue of OLD. `shadows`: messages that were acknowledged and not copied, because they are themselves
    copies of a move's phase `shadow`; their originals went to another broker.
    """

    name: str
    moved: int = 0
    bytes: int = 0
    marked: int = 0
    repliless: int = 0
    shadows: int = 0
    refused: list[Refusal] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Copy:
    """A message of OLD. `session`: the number of the session of OLD that delivered it. `marked`: NEW may have it.
    `sent`: it was sent to NEW. `alone`: it is sent only when nothing else is under way. `strikes`: how often NEW was
    lost then.
    """

    queue: Queue
    session: int
    ack: bytes
    headers: Headers
    body: bytes
    marked: bool
    sent: bool = False
    alone: bool = False
    strikes: int = 0

    @property
    def key(self) -> int:
        """A number that is equal for equal messages."""
        carried = [each for each in self.headers if each[0] not in _OF_OLD]
        return hash((self.queue.name, tuple(carried), self.body))

    @property
    def name(self) -> str:
        """The `message-id` at OLD."""
        return spell(first(self.headers, names.MESSAGE_ID) or b"")


# Headers

_OF_OLD: Final = frozenset(
    {
        *names.RESERVED,
        names.DESTINATION,
        names.RECEIPT_HEADER,
        names.TRANSACTION,
        names.CONTENT_LENGTH,
        b"destination-type",
        RESENT,
        DRAINED,
    }
)
"""Headers of a MESSAGE that are not copied: those of the broker and of the delivery, and those that are made anew."""
_EXPIRY: Final = {ACTIVEMQ.name: b"expires", ARTEMIS.name: b"expires", RABBITMQ.name: b"expiration"}
"""The header for the end of a message's life, by product: an absolute time, for RabbitMQ a duration; both in ms."""
_TEMPORARY: Final = (b"/temp-", b"/remote-temp-", b"/reply-queue/")


def carried(copy: Copy, old: Profile, new: Profile, now: float) -> Headers:
    """Return the headers of a copy for NEW. `now`: seconds since 1970."""
    made: Headers = [(names.DESTINATION, copy.queue.name.encode())]
    if copy.marked or first(copy.headers, RESENT) is not None:
        made.append((RESENT, b"true"))
    drained = first(copy.headers, DRAINED) or first(copy.headers, names.MESSAGE_ID)
    if drained is not None:
        made.append((DRAINED, drained))
    if new is ARTEMIS:
        # Otherwise Artemis drops it if nobody is subscribed.
        made.append((b"destination-type", b"ANYCAST"))
    expiry = _expiry(copy.headers, old, new, int(now * 1000))
    left_out = {*_OF_OLD, *expiry}
    if temporary_reply(copy.headers):
        left_out.add(b"reply-to")
    if new is RABBITMQ:
        left_out.add(b"user-id")  # RabbitMQ refuses it, unless it is the login
    made += [each for each in copy.headers if each[0] not in left_out]
    made += [(name, value) for name, value in expiry.items() if value is not None]
    if first(copy.headers, names.CONTENT_LENGTH) is not None:
        made.append((names.CONTENT_LENGTH, b"%d" % len(copy.body)))
    return made


def _expiry(headers: Headers, old: Profile, new: Profile, now: int) -> Mapping[bytes, bytes | None]:
    """Return the expiry as NEW spells it, if OLD spells it otherwise; None: a header that is left out. RabbitMQ does
    not say when the life of a message began, so it begins again.
    """
    theirs, ours = _EXPIRY.get(old.name), _EXPIRY.get(new.name)
    if theirs is None or ours is None or theirs == ours:
        return {}
    value = first(headers, theirs) or b""
    end = int(value) if value.isdigit() else 0
    if not end:
        return {theirs: None, ours: None}
    return {theirs: None, ours: b"%d" % (max(end - now, 0) if new is RABBITMQ else end + now)}


def temporary_reply(headers: Headers) -> bool:
    """Return whether `reply-to` names a temporary queue of the old broker."""
    return (first(headers, b"reply-to") or b"").startswith(_TEMPORARY)


def first(headers: Headers, name: bytes) -> bytes | None:
    """Return the first value of a header; None without it."""
    return next((value for key, value in headers if key == name), None)


def spell(value: bytes) -> str:
    """Return a value as text of one line."""
    return visible(value.decode("utf-8", "replace"))
