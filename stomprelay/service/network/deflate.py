"""Compressed messages of WebSocket: `permessage-deflate` (RFC 7692) without context takeover. wsproto's own extension
inflates without a bound, and fails where a ping is between the frames of a message.
"""

import re
import zlib
from collections.abc import Iterable
from typing import Final

from wsproto.extensions import Extension
from wsproto.frame_protocol import CloseReason, FrameDecoder, FrameProtocol, Opcode, RsvBits

PIECE: Final = 1024
"""Bytes that are inflated at once. They become at most a little more than a thousand times as many bytes."""
SMALLEST: Final = 256
"""Messages with fewer bytes are not compressed."""
COMPRESSED: Final = 0x40
"""The bit in a message's first byte that marks a compressed message."""

_TAIL: Final = b"\x00\x00\xff\xff"
_EMPTY_BLOCK: Final = b"\x00"
_LEVEL: Final = 6
_BITS: Final = 15
_OFFER: Final = re.compile(
    rb"permessage-deflate"
    rb"(?:[ \t]*;[ \t]*(?:client_no_context_takeover|server_no_context_takeover|client_max_window_bits(?:=[0-9]+)?"
    rb"|server_max_window_bits=(?P<bits>9|1[0-5])))*"
)


def agree(offers: Iterable[bytes]) -> tuple[bytes, int]:
    """Accept the first of a client's offers that is possible. Return the header of the answer and the logarithm of our
    window's size; b"" and 0 if no offer is possible.
    """
    for offer in offers:
        found = _OFFER.fullmatch(offer)
        if found is not None:
            bits = found["bits"]
            window = b"" if bits is None else b"; server_max_window_bits=%b" % bits
            header = (
                b"Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; "
                b"client_no_context_takeover%b\r\n" % window
            )
            return header, _BITS if bits is None else int(bits)
    return b"", 0


def compressed(payload: bytes, bits: int) -> bytes:
    """Return a whole message compressed with a window of this size."""
    deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, -bits)
    return (deflater.compress(payload) + deflater.flush(zlib.Z_SYNC_FLUSH)).removesuffix(_TAIL)


class Inflation(Extension):
    """Inflates compressed messages. Give wsproto `PIECE` bytes at a time."""

    name = "permessage-deflate"

    def __init__(self) -> None:
        self._inflater: zlib._Decompress | None = None
        self._control = False

    def enabled(self) -> bool:
        """Return True: compression was agreed."""
        return True

    def offer(self) -> bool | str:
        """Return False: only brokers would get an offer, and the relay makes none."""
        return False

    def frame_inbound_header(
        self, proto: FrameDecoder | FrameProtocol, opcode: Opcode, rsv: RsvBits, payload_length: int
    ) -> CloseReason | RsvBits:
        """A frame begins: prepare to inflate it if it is compressed. Return which extension bits the frame may have."""
        self._control = opcode.iscontrol()
        if self._control or opcode is Opcode.CONTINUATION:
            return RsvBits(False, False, False)
        self._inflater = zlib.decompressobj(-zlib.MAX_WBITS) if rsv.rsv1 else None
        return RsvBits(True, False, False)

    def frame_inbound_payload_data(
        self, proto: FrameDecoder | FrameProtocol, data: bytes
    ) -> bytes | CloseReason:
        """Return the payload, inflated if the message is compressed, or the close code if it cannot be inflated."""
        return data if self._control or self._inflater is None else self._inflated(self._inflater, data)

    def frame_inbound_complete(
        self, proto: FrameDecoder | FrameProtocol, fin: bool
    ) -> bytes | CloseReason | None:
        """Return the rest of a compressed message, or the close code, if this frame ends the message; else None."""
        inflater = self._inflater
        if self._control or inflater is None or not fin:
            return None
        self._inflater = None
        return None if inflater.eof else self._inflated(inflater, _TAIL)

    def _inflated(self, inflater: "zlib._Decompress", data: bytes) -> bytes | CloseReason:
        try:
            inflated = inflater.decompress(data)
        except zlib.error:
            return CloseReason.PROTOCOL_ERROR
        # A sender may end its stream. Only an empty block may follow the end.
        return inflated if inflater.unused_data in (b"", _EMPTY_BLOCK) else CloseReason.PROTOCOL_ERROR
