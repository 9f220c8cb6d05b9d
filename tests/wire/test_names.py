"""The words of STOMP against the specification's own lists."""

from stomprelay.wire import names

CLIENT_SAYS = "SEND SUBSCRIBE UNSUBSCRIBE BEGIN COMMIT ABORT ACK NACK DISCONNECT CONNECT STOMP"
BROKER_SAYS = "CONNECTED MESSAGE RECEIPT ERROR"
"""STOMP 1.2, "Augmented BNF": client-command and server-command."""


def words(text: str) -> set[bytes]:
    """The words of a line, as they are on the wire."""
    return set(text.encode().split())


def test_a_client_can_say_what_the_grammar_lets_it_say() -> None:
    """Opening and client commands together are the BNF's client-command."""
    assert words(CLIENT_SAYS) == names.OPENING | names.CLIENT_COMMANDS


def test_a_broker_can_say_what_the_grammar_lets_it_say() -> None:
    """CONNECTED and the broker's commands together are the BNF's server-command."""
    assert names.BROKER_COMMANDS | {names.CONNECTED} == words(BROKER_SAYS)


def test_three_frames_may_have_a_body() -> None:
    """STOMP 1.2, "Body": only SEND, MESSAGE and ERROR."""
    assert words("SEND MESSAGE ERROR") == names.BODIES


def test_three_heads_are_never_escaped() -> None:
    """STOMP 1.2, "Value Encoding": CONNECT and CONNECTED; STOMP is CONNECT by another name."""
    assert words("CONNECT STOMP CONNECTED") == names.UNESCAPED


def test_what_only_a_broker_may_set() -> None:
    """The headers by which a publisher could pretend to be the broker, to a consumer behind it."""
    assert set(names.RESERVED) == words("message-id subscription ack redelivered receipt-id JMSXUserID")
    assert len(names.RESERVED) == len(set(names.RESERVED))
