"""stompest's synchronous client (PyPI `stompest`)."""

from collections.abc import Mapping

from stompest.config import StompConfig
from stompest.error import StompConnectionError, StompProtocolError
from stompest.protocol import StompFrame
from stompest.sync import Stomp

from tests.e2e.child import PATIENCE
from tests.e2e.clients.client import ConnectionLost, Frame


class Stompest:
    """A connection of stompest; it adds no content-length, so a body with NULs needs one from its user."""

    def connect(self, port: int, version: str, login: str, passcode: str) -> Frame:
        self._refusal: StompFrame | None = None
        self._client = Stomp(
            StompConfig(f"tcp://127.0.0.1:{port}", login=login, passcode=passcode, version=version)
        )
        connected = self._client.session.connected

        def answered(frame: StompFrame) -> None:
            self._answer = frame
            connected(frame)

        self._client.session.connected = answered
        try:
            self._client.connect(
                versions=[version], host="/", connectTimeout=PATIENCE, connectedTimeout=PATIENCE
            )
        except StompProtocolError:
            if self._answer.command != "ERROR":
                raise
            self._client.close()
        return _frame(self._answer)

    def send(self, destination: str, body: bytes, headers: Mapping[str, str]) -> None:
        rest, receipt = _receipt(headers)
        if b"\0" in body:
            rest["content-length"] = str(len(body))
        self._client.send(destination, body, rest, receipt)

    def subscribe(self, destination: str, headers: Mapping[str, str]) -> None:
        rest, receipt = _receipt(headers)
        self._client.subscribe(destination, rest, receipt)

    def unsubscribe(self, destination: str, headers: Mapping[str, str]) -> None:
        token = ("id", headers["id"]) if "id" in headers else ("destination", destination)
        self._client.unsubscribe(token, _receipt(headers)[1])

    def ack(self, message: Frame, headers: Mapping[str, str]) -> None:
        self._client.ack(_within(message, headers), _receipt(headers)[1])

    def nack(self, message: Frame, headers: Mapping[str, str]) -> None:
        self._client.nack(_within(message, headers), _receipt(headers)[1])

    def begin(self, transaction: str, headers: Mapping[str, str]) -> None:
        self._client.begin(transaction, _receipt(headers)[1])

    def commit(self, transaction: str, headers: Mapping[str, str]) -> None:
        self._client.commit(transaction, _receipt(headers)[1])

    def abort(self, transaction: str, headers: Mapping[str, str]) -> None:
        self._client.abort(transaction, _receipt(headers)[1])

    def receive(self) -> Frame:
        try:
            if not self._client.canRead(PATIENCE):
                raise TimeoutError("stompest: nothing received")
            frame = self._client.receiveFrame()
        except StompConnectionError:
            raise ConnectionLost from None
        # The library's own checks: an unknown subscription or receipt raises.
        if frame.command == "MESSAGE":
            self._client.message(frame)
        elif frame.command == "RECEIPT":
            self._client.receipt(frame)
        return _frame(frame)

    def disconnect(self) -> None:
        self._client.disconnect(receipt="bye")
        while (frame := self.receive()).headers.get("receipt-id") != "bye":
            assert frame.command != "ERROR", frame
        self._client.close()

    def drop(self) -> None:
        self._client.close()


def _frame(frame: StompFrame) -> Frame:
    return Frame(frame.command, dict(frame.headers), bytes(frame.body), frame)


def _receipt(headers: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    rest = dict(headers)
    return rest, rest.pop("receipt", None)


def _within(message: Frame, headers: Mapping[str, str]) -> StompFrame:
    """Return stompest's own frame, made part of the transaction named in `headers`: its way to ACK in one."""
    frame = StompFrame(message.command, dict(message.headers), message.body, version=message.original.version)
    if "transaction" in headers:
        frame.headers["transaction"] = headers["transaction"]
    return frame
