"""One subscription and one delivery in all nine pairs of versions, as client and broker spell them."""

from typing import Final, NamedTuple

from stomprelay.wire.dialect import DIALECTS
from tests.playbook import PAIRS, Cut, Playbook, joined

BRIDGED = [pair for pair in PAIRS if DIALECTS[pair[0]].delivery is not DIALECTS[pair[1]].delivery]
"""The pairs whose versions name deliveries differently."""


class Conversation(NamedTuple):
    """A subscription and one delivery of it. The client sends what is in the first of two columns, the broker is
    sent what is in the second; a MESSAGE goes the other way round.
    """

    subscribe: tuple[bytes, bytes]
    message: tuple[bytes, bytes]
    ack: tuple[bytes, bytes]
    unsubscribe: tuple[bytes, bytes]


PLACE: Final = b"destination:/queue/a\n"
RAW: Final = b"message-id:ID:h-1:1\n"
ESCAPED: Final = b"message-id:ID\\ch-1\\c1\n"
CLIENTS: Final = b"subscription:0\n"
OURS: Final = b"subscription:relay-1\n"
VALUE: Final = b"ID\\ch-2\\c7\n"
"""The `ack` value of a broker of 1.2, which is not its message-id."""
TOKEN: Final = b"relay-ack-1\n"
"""The one that the relay makes where a broker has none."""

# A 1.0 client names no subscription, a 1.0 broker tells none. By client and broker: the line by which each names the
# subscription, the head of MESSAGE as the broker spells it and as the client gets it, the names in ACK of either.
_ROWS: Final = {
    (b"1.0", b"1.0"): (b"", b"", PLACE + RAW, PLACE + RAW, RAW, RAW),
    (b"1.0", b"1.1"): (b"", b"id:relay-1\n", OURS + PLACE + ESCAPED, PLACE + RAW, RAW, OURS + ESCAPED),
    (b"1.0", b"1.2"): (
        *(b"", b"id:relay-1\n", b"ack:" + VALUE + OURS + PLACE + ESCAPED, PLACE + RAW),
        *(RAW, b"id:" + VALUE),
    ),
    (b"1.1", b"1.0"): (
        *(b"id:0\n", b"id:0\n", PLACE + RAW, CLIENTS + PLACE + ESCAPED),
        *(CLIENTS + ESCAPED, CLIENTS + RAW),
    ),
    (b"1.1", b"1.1"): (
        *(b"id:0\n", b"id:0\n", CLIENTS + PLACE + ESCAPED, CLIENTS + PLACE + ESCAPED),
        *(CLIENTS + ESCAPED, CLIENTS + ESCAPED),
    ),
    (b"1.1", b"1.2"): (
        *(b"id:0\n", b"id:0\n", b"ack:" + VALUE + CLIENTS + PLACE + ESCAPED, CLIENTS + PLACE + ESCAPED),
        *(CLIENTS + ESCAPED, b"id:" + VALUE),
    ),
    (b"1.2", b"1.0"): (
        *(b"id:0\n", b"id:0\n", PLACE + RAW, CLIENTS + b"ack:" + TOKEN + PLACE + ESCAPED),
        *(b"id:" + TOKEN, CLIENTS + RAW),
    ),
    (b"1.2", b"1.1"): (
        *(b"id:0\n", b"id:0\n", CLIENTS + PLACE + ESCAPED, b"ack:" + TOKEN + CLIENTS + PLACE + ESCAPED),
        *(b"id:" + TOKEN, CLIENTS + ESCAPED),
    ),
    (b"1.2", b"1.2"): (
        *(b"id:0\n", b"id:0\n", *[b"ack:" + VALUE + CLIENTS + PLACE + ESCAPED] * 2),
        *(b"id:" + VALUE, b"id:" + VALUE),
    ),
}


def _conversation(
    said: bytes, told: bytes, message: bytes, delivered: bytes, ack: bytes, settled: bytes
) -> Conversation:
    more = PLACE + b"ack:client-individual\n"
    return Conversation(
        (b"SUBSCRIBE\n%b%b\n\0" % (said, more), b"SUBSCRIBE\n%b%b\n\0" % (told, more)),
        (b"MESSAGE\n%b\nhi\0" % message, b"MESSAGE\n%b\nhi\0" % delivered),
        (b"ACK\n%bfoo:bar\n\n\0" % ack, b"ACK\n%bfoo:bar\n\n\0" % settled),
        (b"UNSUBSCRIBE\n%b\n\0" % (said or PLACE), b"UNSUBSCRIBE\n%b\n\0" % (told or PLACE)),
    )


CONVERSATIONS: Final = {pair: _conversation(*row) for pair, row in _ROWS.items()}


def subscribed(client: bytes, broker: bytes, cut: Cut = Cut.WHOLE) -> Playbook:
    """A playbook in which the subscription of the pair's conversation is open."""
    play = joined(client, broker, cut=cut)
    said, told = CONVERSATIONS[client, broker].subscribe
    play.client_tells_broker(said, told)
    return play
