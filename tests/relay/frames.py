"""Frames that scripts of several files say, as bytes and as functions."""

import re

SEND = b"SEND\ndestination:/queue/a\n\n%b\0"
ASKING = b"SEND\ndestination:/queue/a\nreceipt:%b\n\n%b\0"
ASKING_AGAIN = b"SEND\nrelay-resent:true\ndestination:/queue/a\nreceipt:%b\n\n%b\0"
INSIDE = b"SEND\ndestination:/queue/a\ntransaction:t\n\n%b\0"
RECEIPT = b"RECEIPT\nreceipt-id:%b\n\n\0"
SUBSCRIBE = b"SUBSCRIBE\nid:1\ndestination:/queue/a\nack:client\n\n\0"
OURS = b"relay-session-receipt-%d"
GOODBYE = b"DISCONNECT\nreceipt:relay-session-goodbye\n\n\0\n"


def send(body: bytes = b"", destination: bytes = b"/queue/a", **headers: str) -> bytes:
    """A SEND of the client."""
    lines = b"".join([f"{name}:{value}\n".encode() for name, value in headers.items()])
    return b"SEND\ndestination:%b\n%b\n%b\0" % (destination, lines, body)


def copied(number: int, wire: bytes) -> bytes:
    """What brokers get of a SEND."""
    return wire.replace(b"SEND\n", b"SEND\nrelay-copy:relay-session-%d\n" % number, 1)


def tell(command: bytes, **headers: str) -> bytes:
    """A frame without a body; `_` in names stands for `-`."""
    lines = b"".join([f"{name.replace('_', '-')}:{value}\n".encode() for name, value in headers.items()])
    return b"%b\n%b\n\0" % (command, lines)


def receipt(*ids: str) -> bytes:
    """RECEIPTs."""
    return b"".join([tell(b"RECEIPT", receipt_id=id) for id in ids])


def message(body: bytes = b"", **headers: str) -> bytes:
    """A MESSAGE of subscription 1."""
    lines = b"".join([f"{name.replace('_', '-')}:{value}\n".encode() for name, value in headers.items()])
    return b"MESSAGE\nsubscription:1\n%bdestination:/queue/a\n\n%b\0" % (lines, body)


def header(frame: bytes, name: bytes) -> bytes:
    """The first value of a header."""
    match = re.search(rb"\n%b:([^\n]*)\n" % name, frame)
    assert match, frame
    return match[1]


def settle(version: bytes, command: bytes, delivered: bytes, more: bytes = b"") -> bytes:
    """ACK or NACK of a MESSAGE that the client read, its version's way."""
    if version == b"1.2":
        return b"%b\nid:%b\n%b\n\0" % (command, header(delivered, b"ack"), more)
    if version == b"1.1":
        named = header(delivered, b"subscription"), header(delivered, b"message-id")
        return b"%b\nsubscription:%b\nmessage-id:%b\n%b\n\0" % (command, *named, more)
    return b"%b\nmessage-id:%b\n%b\n\0" % (command, header(delivered, b"message-id"), more)


BEGIN, COMMIT, ABORT = (tell(command, transaction="t") for command in (b"BEGIN", b"COMMIT", b"ABORT"))
