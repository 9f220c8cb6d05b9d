"""The codec of a run's sessions."""

import pytest

from chaos.client import Codec, Frame

VALUES = {"1.0": "plain", "1.1": "a:b\\c\nd", "1.2": "a:b\\c\nd\re"}


@pytest.mark.parametrize("version", VALUES)
def test_there_and_back(version: str) -> None:
    """What is written is read again, whole, byte by byte, and with the beginning of the next frame behind it."""
    frame = Frame("MESSAGE", {"destination": "/queue/a", "note": VALUES[version]}, b"bo\0dy")
    data = Codec(version).encode(frame)
    expected = [Frame(frame.command, {**frame.headers, "content-length": "5"}, frame.body)]
    assert Codec(version).decode(data) == expected
    assert Codec(version).decode(b"\n\r\n" + data + b"\nMESS") == expected
    reader = Codec(version)
    assert [each for at in range(len(data)) for each in reader.decode(data[at : at + 1])] == expected


def test_the_octets() -> None:
    """Escapes are those of the specification, and CONNECT has none."""
    assert Codec("1.2").encode(Frame("SEND", {"a": ":\r\n\\"}, b"")) == b"SEND\na:\\c\\r\\n\\\\\n\n\0"
    assert (
        Codec("1.1").encode(Frame("SEND", {"a": ":\\"}, b"x")) == b"SEND\na:\\c\\\\\ncontent-length:1\n\nx\0"
    )
    assert Codec("1.0").encode(Frame("SEND", {"a": "\\"}, b"")) == b"SEND\na:\\\n\n\0"
    assert Codec("1.2").encode(Frame("CONNECT", {"host": "a:b"}, b"")) == b"CONNECT\nhost:a:b\n\n\0"


def test_several_at_once() -> None:
    """Frames come in order, with or without their length; of repeated headers the first counts."""
    data = b"RECEIPT\nreceipt-id:1\nreceipt-id:2\n\n\0\n\nMESSAGE\ncontent-length:1\n\n\0\0MESSAGE\n\nhi\0"
    assert Codec("1.2").decode(data) == [
        Frame("RECEIPT", {"receipt-id": "1"}),
        Frame("MESSAGE", {"content-length": "1"}, b"\0"),
        Frame("MESSAGE", {}, b"hi"),
    ]


@pytest.mark.parametrize("data", [b"MESSAGE\ncontent-length:1\n\nab\0", b"MESSAGE\na:\\x\n\n\0"])
def test_what_must_not_be(data: bytes) -> None:
    """A frame that does not end where it says, and an undefined escape, are not passed over in silence."""
    with pytest.raises((ValueError, KeyError)):
        Codec("1.2").decode(data)
