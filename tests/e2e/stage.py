"""Where a script is played: one client library, one version, one place to connect to."""

import hashlib
import itertools
import re
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.e2e.clients.client import Client, ConnectionLost, Frame
from tests.e2e.facts import (
    BROKERS,
    LEGAL,
    UNDELIVERABLE,
    VALUES,
    BrokerFacts,
    LibraryFacts,
    Nack,
    arrives,
    nack,
)

_numbers = itertools.count(1)

_VOLATILE = {"message-id", "ack", "session", "timestamp", "receipt-id", "receipt"}
"""Headers whose values differ from one run to the next."""
_OWN = re.compile("e2e-[0-9a-f]{12}-")
"""What tells a destination from those of other runs. Artemis has its name in ids of subscriptions as well."""
CLOSED_AT_ONCE = b"broker not available"
"""The relay's own message where a broker closed before it answered CONNECT."""


@dataclass(frozen=True)
class Place:
    """An address to connect to and what is behind it."""

    port: int
    broker: str
    upstream: str | None = None
    """The version that is forced on the broker's side; None: the client's own."""
    relayed: bool = False
    """Whether it is the relay's, in front of the broker."""


class Conversation:
    """A connected client: frames are taken by kind, in order, and each wait is bounded."""

    def __init__(self, client: Client, facts: LibraryFacts, connected: Frame, *, may_vanish: bool) -> None:
        self._client = client
        self._facts = facts
        self._may_vanish = may_vanish
        self._waiting: deque[Frame] = deque()
        self.connected = connected

    def send(self, destination: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        """SEND without a receipt."""
        self._client.send(destination, body, headers or {})

    def publish(self, destination: str, *bodies: bytes, headers: Mapping[str, str] | None = None) -> None:
        """SEND each body and wait for its receipt.

        A library that takes receipts itself gets none: messages that come before a receipt it would hand out in
        the wrong order.
        """
        for body in bodies:
            receipt = {} if self._facts.takes_receipts_itself else _receipt()
            self._client.send(destination, body, {**(headers or {}), **receipt})
            self._confirm(receipt)

    def publish_together(self, destination: str, *bodies: bytes) -> None:
        """SEND all bodies, each with a receipt as in `publish`, before waiting for the receipts."""
        receipts = [{} if self._facts.takes_receipts_itself else _receipt() for _ in bodies]
        for body, receipt in zip(bodies, receipts, strict=True):
            self._client.send(destination, body, receipt)
        for receipt in receipts:
            self._confirm(receipt)

    def subscribe(self, destination: str, id: str | None = None, ack: str = "auto") -> None:
        """SUBSCRIBE and wait for the receipt."""
        receipt = _receipt()
        self._client.subscribe(destination, {**({} if id is None else {"id": id}), "ack": ack, **receipt})
        self._confirm(receipt)

    def unsubscribe(self, destination: str, id: str | None = None) -> None:
        """UNSUBSCRIBE by id, or by destination where there is none, and wait for the receipt where it is shown."""
        receipt = {} if self._facts.unsubscribes_unconfirmed else _receipt()
        self._client.unsubscribe(destination, {**({} if id is None else {"id": id}), **receipt})
        if receipt:
            self._confirm(receipt)

    def ack(self, message: Frame, transaction: str | None = None) -> None:
        """ACK and wait for the receipt."""
        receipt = _receipt()
        self._client.ack(
            message, {**({} if transaction is None else {"transaction": transaction}), **receipt}
        )
        self._confirm(receipt)

    def nack(self, message: Frame) -> None:
        """NACK without a receipt."""
        self._client.nack(message, {})

    def begin(self, transaction: str) -> None:
        self._asked(self._client.begin, transaction)

    def commit(self, transaction: str) -> None:
        self._asked(self._client.commit, transaction)

    def abort(self, transaction: str) -> None:
        self._asked(self._client.abort, transaction)

    def message(self) -> Frame:
        return self._next(lambda frame: frame.command == "MESSAGE")

    def messages(self, count: int) -> list[Frame]:
        return [self.message() for _ in range(count)]

    def bodies(self, count: int) -> list[bytes]:
        return [self.message().body for _ in range(count)]

    def error(self) -> Frame:
        return self._next(lambda frame: frame.command == "ERROR")

    def ends(self) -> None:
        """Wait for the end of the connection, made by the other side."""
        try:
            frame = self._client.receive()
        except ConnectionLost:
            return
        raise AssertionError(frame)

    def disconnect(self) -> None:
        """End in order; nothing must have come that the script did not ask for."""
        assert not self._waiting, self._waiting
        self._client.disconnect()

    def drop(self) -> None:
        """End without DISCONNECT, unless what is not acknowledged may be lost then; nothing must have come that the
        script did not ask for.
        """
        assert not self._waiting, self._waiting
        if self._may_vanish:
            self._client.drop()
        else:
            self._client.disconnect()

    def _asked(self, do: Callable[[str, Mapping[str, str]], None], transaction: str) -> None:
        receipt = _receipt()
        do(transaction, receipt)
        self._confirm(receipt)

    def _confirm(self, receipt: Mapping[str, str]) -> None:
        if not self._facts.takes_receipts_itself:
            id = receipt["receipt"]
            self._next(lambda frame: frame.command == "RECEIPT" and frame.headers["receipt-id"] == id)

    def _next(self, wanted: Callable[[Frame], bool]) -> Frame:
        for index, frame in enumerate(self._waiting):
            if wanted(frame):
                del self._waiting[index]
                return frame
        while True:
            frame = self._client.receive()
            if wanted(frame):
                return frame
            assert frame.command != "ERROR", frame
            self._waiting.append(frame)


class Stage:
    """One run of a script: gives connections and destinations of its own, keeps what the script has seen."""

    def __init__(
        self, place: Place, client: Callable[[], Client], library: LibraryFacts, version: str
    ) -> None:
        self.library = library
        self.version = version
        self.seen: list[tuple[object, ...]] = []
        self._place = place
        self._client = client
        self._clients: list[Client] = []

    @property
    def broker(self) -> BrokerFacts:
        return BROKERS[self._place.broker, self._place.upstream or self.version]

    @property
    def nack(self) -> Nack:
        """What NACK does here."""
        return nack(self.version, self._place.broker, self._place.upstream or self.version)

    @property
    def header_values(self) -> list[tuple[str, str, str]]:
        """The header values to try: name, value to send and value to receive."""
        upstream = self._place.upstream or self.version
        tried = []
        for name in LEGAL[self.version]:
            expected = arrives(self.library, self.version, self._place.broker, upstream, name)
            if expected != UNDELIVERABLE and name not in self.library.cannot_send.get(self.version, ()):
                tried.append((name, VALUES[name], expected))
        return tried

    def connect(self) -> Conversation:
        """Connect as guest; the answer must be CONNECTED with the client's version."""
        client = self._client()
        self._clients.append(client)
        connected = client.connect(self._place.port, self.version, "guest", "guest")
        assert connected.command == "CONNECTED", connected
        assert self.library.hides_connected or connected.headers.get("version", "1.0") == self.version, (
            connected
        )
        kept = self.broker.keeps_abandoned
        may_vanish = kept == "always" or (kept == "with the relay" and self._place.relayed)
        return Conversation(client, self.library, connected, may_vanish=may_vanish)

    def behind(self, last: Frame, client: Conversation) -> Frame:
        """Return the next MESSAGE but a copy of the last one before an UNSUBSCRIBE, where the broker may give it."""
        message = client.message()
        again = self.broker.settles_late and message.body == last.body
        return client.message() if again else message

    def refused(self, passcode: str) -> Frame:
        """Connect with a wrong passcode; the answer must be ERROR.

        ActiveMQ itself closes without its ERROR once in about a thousand times: then it is asked again.
        """
        for _ in range(3):
            client = self._client()
            self._clients.append(client)
            error = client.connect(self._place.port, self.version, "guest", passcode)
            assert error.command == "ERROR", error
            if error.headers["message"] != CLOSED_AT_ONCE.decode():
                break
        return error

    def queue(self, name: str = "q") -> str:
        return self._destination("queue", name)

    def topic(self, name: str = "t") -> str:
        return self._destination("topic", name)

    def saw(self, what: str, *frames: Frame) -> None:
        """Keep `frames` for the comparison with another run, without what differs between runs."""
        for frame in frames:
            volatile = _VOLATILE if self.broker.marks_redelivered else {*_VOLATILE, "redelivered"}
            if self.library.asks_for_silence:
                volatile = {*volatile, "heart-beat"}
            # No heart-beat in CONNECTED is one of 0,0 (STOMP 1.2, "Heart-beating").
            silent = {"heart-beat": "0,0"} if frame.command == "CONNECTED" else {}
            headers = {
                name: "*" if name in volatile else _OWN.sub("", value)
                for name, value in {**silent, **frame.headers}.items()
            }
            body = hashlib.sha256(frame.body).hexdigest() if len(frame.body) > 200 else frame.body
            self.seen.append((what, frame.command, sorted(headers.items()), body))

    def close(self) -> None:
        """End the connections that a script has left open, whatever state they are in."""
        for client in self._clients:
            try:
                client.drop()
            except Exception:
                continue

    def _destination(self, kind: str, name: str) -> str:
        return f"/{kind}/e2e-{uuid.uuid4().hex[:12]}-{name}"


def _receipt() -> dict[str, str]:
    return {"receipt": f"r-{next(_numbers)}"}
