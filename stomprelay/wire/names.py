"""The words of STOMP as bytes: commands, header names, and which frames may carry a body."""

from typing import Final

CONNECT: Final = b"CONNECT"
STOMP: Final = b"STOMP"
CONNECTED: Final = b"CONNECTED"
SEND: Final = b"SEND"
SUBSCRIBE: Final = b"SUBSCRIBE"
UNSUBSCRIBE: Final = b"UNSUBSCRIBE"
ACK: Final = b"ACK"
NACK: Final = b"NACK"
BEGIN: Final = b"BEGIN"
COMMIT: Final = b"COMMIT"
ABORT: Final = b"ABORT"
DISCONNECT: Final = b"DISCONNECT"
MESSAGE: Final = b"MESSAGE"
RECEIPT: Final = b"RECEIPT"
ERROR: Final = b"ERROR"

OPENING: Final = frozenset({CONNECT, STOMP})
"""What a client may send first."""

CLIENT_COMMANDS: Final = frozenset(
    {SEND, SUBSCRIBE, UNSUBSCRIBE, ACK, NACK, BEGIN, COMMIT, ABORT, DISCONNECT},
)
"""What a connected client may send. STOMP 1.0 has no NACK, but several brokers accept it there."""

BROKER_COMMANDS: Final = frozenset({MESSAGE, RECEIPT, ERROR})
"""What a broker may send after CONNECTED."""

BODIES: Final = frozenset({SEND, MESSAGE, ERROR})
"""The only frames that may have a body (STOMP 1.1 and 1.2, "Body")."""

UNESCAPED: Final = frozenset({CONNECT, STOMP, CONNECTED})
"""Frames whose heads are never escaped, in any version (STOMP 1.2, "Value Encoding")."""

ACCEPT_VERSION: Final = b"accept-version"
ACK_HEADER: Final = b"ack"
CONTENT_LENGTH: Final = b"content-length"
CONTENT_TYPE: Final = b"content-type"
DESTINATION: Final = b"destination"
HEART_BEAT: Final = b"heart-beat"
HOST: Final = b"host"
ID: Final = b"id"
LOGIN: Final = b"login"
MESSAGE_HEADER: Final = b"message"
MESSAGE_ID: Final = b"message-id"
PASSCODE: Final = b"passcode"
RECEIPT_HEADER: Final = b"receipt"
RECEIPT_ID: Final = b"receipt-id"
REDELIVERED: Final = b"redelivered"
SELECTOR: Final = b"selector"
SERVER: Final = b"server"
SESSION: Final = b"session"
SUBSCRIPTION: Final = b"subscription"
TRANSACTION: Final = b"transaction"
VERSION: Final = b"version"

CONNECT_HEADERS: Final = frozenset(
    {ACCEPT_VERSION, HEART_BEAT, HOST, LOGIN, PASSCODE, RECEIPT_HEADER, CONTENT_LENGTH, CONTENT_TYPE, VERSION}
    | {SERVER, SESSION}
)
"""Headers that mean something in CONNECT or CONNECTED, or in every frame."""

PLACE: Final = DESTINATION, b"persistent"
"""Headers of a SEND: which queue gets the message, if it is a queue, and whether the broker stores the message."""

RESERVED: Final = (MESSAGE_ID, SUBSCRIPTION, ACK_HEADER, REDELIVERED, RECEIPT_ID, b"JMSXUserID")
"""Headers that only a broker may set. They are removed from a SEND, because consumers trust them as a broker's."""
