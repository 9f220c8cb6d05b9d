"""A STOMP 1.2 client on a `RelayThread`: it connects, subscribes, sends and receives at brokers of any version."""

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, Self

from stomprelay.pipeline.stomp.relay_thread import RelayThread
from stomprelay.pipeline.stomp.sockets import endpoint
from stomprelay.relay.model.listener import Listener
from stomprelay.relay.model.upstream import Upstream
from stomprelay.wire import names
from stomprelay.wire.decoder import Decoder
from stomprelay.wire.dialect import V1_2
from stomprelay.wire.errors import StompError
from stomprelay.wire.frame import Frame, compose_raw

Headers = Mapping[bytes, bytes]

BYE: Final = b"bye"
"""The receipt id that DISCONNECT asks for."""
CLOSE_WITHIN: Final = 0.5
"""Seconds that `close` waits for a session to end in order. After that `close` aborts the session."""
_ABORT_WITHIN: Final = 5.0


class SessionLost(Exception):
    """The session has ended, or could not be opened. The error's text has the reason, without secrets."""


class Client:
    """One STOMP session. The constructor raises `sockets.Unreachable`. Call `connect` first and `close` at the end.
    Every method that waits raises `SessionLost` when the session ends.
    """

    def __init__(self, upstream: Upstream, role: str, *, client_id: str | None = None) -> None:
        self.name = f"{role}-{os.urandom(4).hex()}"
        self._upstream = upstream
        self.client_id = client_id
        endpoints = {each: endpoint(each, upstream.tls) for each in upstream.brokers}
        self.relay_thread = RelayThread(Listener.own("spark", upstream), self.name, endpoints)
        self._decoder = Decoder(V1_2, frozenset({names.CONNECTED, names.ERROR}), upstream.limits)
        self._chunks: deque[bytes] = deque()
        self._started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, within: float) -> None:
        """Send CONNECT and wait for CONNECTED, up to `within` seconds. Call this method once. Raises `SessionLost`."""
        headers = [(names.ACCEPT_VERSION, V1_2.version), (names.HOST, b"/"), (names.HEART_BEAT, b"0,0")]
        if self.client_id is not None:
            headers.append((b"client-id", self.client_id.encode()))
        self._started = True
        self.relay_thread.start()
        self.relay_thread.feed(compose_raw(names.CONNECT, headers, end=b"\0"))
        deadline = time.monotonic() + within
        while (left := deadline - time.monotonic()) > 0:
            for _ in self.frames(left):
                self._decoder.expect(V1_2, names.BROKER_COMMANDS)
                return
        raise self._lost(f"no broker within {within:g} s")

    def send(self, data: bytes) -> None:
        """Send bytes, which must be whole STOMP 1.2 frames. Waits while too many bytes are unsent."""
        self.relay_thread.feed(data)

    def subscribe(self, number: bytes, destination: bytes, headers: Headers) -> None:
        """Send SUBSCRIBE with the id `number`. An ACK on this subscription also acknowledges all earlier deliveries."""
        lines = [(b"id", number), (b"destination", destination), (b"ack", b"client"), *headers.items()]
        self.send(b"%b\n%b\n\0" % (names.SUBSCRIBE, V1_2.write(lines)))

    def acknowledge(self, acks: Mapping[bytes, bytes]) -> None:
        """Send an ACK for each subscription in `acks`, which has for each subscription id the `ack` header of a
        delivery. The ACK also acknowledges all deliveries of the subscription before that delivery.
        """
        if acks:
            self.send(b"".join([b"%b\nid:%b\n\n\0" % (names.ACK, V1_2.encode(ack)) for ack in acks.values()]))

    def frames(self, timeout: float) -> Iterator[Frame]:
        """Yield the frames that were received. A frame is valid until the next frame is yielded. Waits up to `timeout`
        seconds for the first frame. Raises `SessionLost`.
        """
        waiting = self._chunks
        waiting.extend(self.relay_thread.take(0.0 if waiting else timeout))
        if not waiting and self.relay_thread.over:
            raise self._lost("")
        try:
            while True:
                for frame in self._decoder.frames():
                    if frame.command is names.ERROR:
                        raise self._lost(_told(frame))
                    yield frame
                if not waiting:
                    return
                self._decoder.feed(waiting.popleft())
        except StompError as error:
            raise self._lost(f"{error.message} ({error.detail})") from None

    def disconnect(self, within: float) -> list[bytes]:
        """Send DISCONNECT and wait for its RECEIPT. Return the ids of other RECEIPTs received meanwhile. Raises
        `SessionLost` if the RECEIPT does not come within `within` seconds.
        """
        self.send(b"%b\nreceipt:%b\n\n\0" % (names.DISCONNECT, BYE))
        receipts: list[bytes] = []
        deadline = time.monotonic() + within
        while (left := deadline - time.monotonic()) > 0:
            for frame in self.frames(left):
                if frame.command is not names.RECEIPT:
                    continue
                receipt = frame.header(names.RECEIPT_ID, V1_2) or b""
                if receipt == BYE:
                    return receipts
                receipts.append(receipt)
        raise self._lost(f"DISCONNECT was not confirmed within {within:g} s")

    def close(self) -> None:
        """End the session in any state, and wait for its thread. Calling this method again does no harm."""
        if self._started:
            self.relay_thread.disconnect()
            if not self.relay_thread.join(CLOSE_WITHIN):
                self.relay_thread.abort()
                self.relay_thread.join(_ABORT_WITHIN)

    def _lost(self, what: str) -> SessionLost:
        brokers = ", ".join(map(str, self._upstream.brokers))
        said = "; ".join(dict.fromkeys(filter(None, [what, self.relay_thread.why])))
        return SessionLost(f"STOMP session with {brokers}: {said}")


def _told(error: Frame) -> str:
    """Return the content of an ERROR frame as text for people: the frame's message, its body and its receipt id."""
    message = (error.header(names.MESSAGE_HEADER, V1_2) or b"ERROR").decode("utf-8", "replace")
    receipt = error.header(names.RECEIPT_ID, V1_2)
    body = " ".join(error.payload[:500].decode("utf-8", "replace").split())
    about = f", about {names.RECEIPT_HEADER.decode()} {receipt.decode('utf-8', 'replace')}" if receipt else ""
    return f"{message}{f': {body}' if body and body != message else ''}{about}"
