"""One subscription and one delivery in all nine pairs of versions, as client and broker spell them."""

from typing import NamedTuple

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


# A 1.0 client names no subscription, a 1.0 broker tells none; ids have colons, and the ack value of 1.2 is not the
# message-id.
CONVERSATIONS = {
    (b"1.0", b"1.0"): Conversation(
        (
            b"SUBSCRIBE\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\ndestination:/queue/a\nmessage-id:ID:h-1:1\n\nhi\0",
            b"MESSAGE\ndestination:/queue/a\nmessage-id:ID:h-1:1\n\nhi\0",
        ),
        (
            b"ACK\nmessage-id:ID:h-1:1\nfoo:bar\n\n\0",
            b"ACK\nmessage-id:ID:h-1:1\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\ndestination:/queue/a\n\n\0",
            b"UNSUBSCRIBE\ndestination:/queue/a\n\n\0",
        ),
    ),
    (b"1.0", b"1.1"): Conversation(
        (
            b"SUBSCRIBE\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:relay-1\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\nsubscription:relay-1\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
            b"MESSAGE\ndestination:/queue/a\nmessage-id:ID:h-1:1\n\nhi\0",
        ),
        (
            b"ACK\nmessage-id:ID:h-1:1\nfoo:bar\n\n\0",
            b"ACK\nsubscription:relay-1\nmessage-id:ID\\ch-1\\c1\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\ndestination:/queue/a\n\n\0",
            b"UNSUBSCRIBE\nid:relay-1\n\n\0",
        ),
    ),
    (b"1.0", b"1.2"): Conversation(
        (
            b"SUBSCRIBE\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:relay-1\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\nack:ID\\ch-2\\c7\nsubscription:relay-1\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
            b"MESSAGE\ndestination:/queue/a\nmessage-id:ID:h-1:1\n\nhi\0",
        ),
        (
            b"ACK\nmessage-id:ID:h-1:1\nfoo:bar\n\n\0",
            b"ACK\nid:ID\\ch-2\\c7\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\ndestination:/queue/a\n\n\0",
            b"UNSUBSCRIBE\nid:relay-1\n\n\0",
        ),
    ),
    (b"1.1", b"1.0"): Conversation(
        (
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\ndestination:/queue/a\nmessage-id:ID:h-1:1\n\nhi\0",
            b"MESSAGE\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
        ),
        (
            b"ACK\nsubscription:0\nmessage-id:ID\\ch-1\\c1\nfoo:bar\n\n\0",
            b"ACK\nsubscription:0\nmessage-id:ID:h-1:1\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\nid:0\n\n\0",
            b"UNSUBSCRIBE\nid:0\n\n\0",
        ),
    ),
    (b"1.1", b"1.1"): Conversation(
        (
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
            b"MESSAGE\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
        ),
        (
            b"ACK\nsubscription:0\nmessage-id:ID\\ch-1\\c1\nfoo:bar\n\n\0",
            b"ACK\nsubscription:0\nmessage-id:ID\\ch-1\\c1\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\nid:0\n\n\0",
            b"UNSUBSCRIBE\nid:0\n\n\0",
        ),
    ),
    (b"1.1", b"1.2"): Conversation(
        (
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\nack:ID\\ch-2\\c7\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
            b"MESSAGE\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
        ),
        (
            b"ACK\nsubscription:0\nmessage-id:ID\\ch-1\\c1\nfoo:bar\n\n\0",
            b"ACK\nid:ID\\ch-2\\c7\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\nid:0\n\n\0",
            b"UNSUBSCRIBE\nid:0\n\n\0",
        ),
    ),
    (b"1.2", b"1.0"): Conversation(
        (
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\ndestination:/queue/a\nmessage-id:ID:h-1:1\n\nhi\0",
            b"MESSAGE\nsubscription:0\nack:relay-ack-1\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
        ),
        (
            b"ACK\nid:relay-ack-1\nfoo:bar\n\n\0",
            b"ACK\nsubscription:0\nmessage-id:ID:h-1:1\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\nid:0\n\n\0",
            b"UNSUBSCRIBE\nid:0\n\n\0",
        ),
    ),
    (b"1.2", b"1.1"): Conversation(
        (
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
            b"MESSAGE\nack:relay-ack-1\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
        ),
        (
            b"ACK\nid:relay-ack-1\nfoo:bar\n\n\0",
            b"ACK\nsubscription:0\nmessage-id:ID\\ch-1\\c1\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\nid:0\n\n\0",
            b"UNSUBSCRIBE\nid:0\n\n\0",
        ),
    ),
    (b"1.2", b"1.2"): Conversation(
        (
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
            b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client-individual\n\n\0",
        ),
        (
            b"MESSAGE\nack:ID\\ch-2\\c7\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
            b"MESSAGE\nack:ID\\ch-2\\c7\nsubscription:0\ndestination:/queue/a\nmessage-id:ID\\ch-1\\c1\n\nhi\0",
        ),
        (
            b"ACK\nid:ID\\ch-2\\c7\nfoo:bar\n\n\0",
            b"ACK\nid:ID\\ch-2\\c7\nfoo:bar\n\n\0",
        ),
        (
            b"UNSUBSCRIBE\nid:0\n\n\0",
            b"UNSUBSCRIBE\nid:0\n\n\0",
        ),
    ),
}


def subscribed(client: bytes, broker: bytes, cut: Cut = Cut.WHOLE) -> Playbook:
    """A playbook in which the subscription of the pair's conversation is open."""
    play = joined(client, broker, cut=cut)
    said, told = CONVERSATIONS[client, broker].subscribe
    play.client_says(said)
    play.broker_gets(told)
    return play
