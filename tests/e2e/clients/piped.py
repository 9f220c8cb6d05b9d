"""Client libraries of other languages, each driven in a child process by lines of JSON.

A request is `{"connection": N, "do": "send", ...}`; the answer is `{"frame": {...}}`, `{"lost": true}`,
`{"done": true}` or `{"failed": "..."}`. Header values are text, bodies are base64. One process serves the
connections of a whole test run; `Driver.stop` ends it.
"""

import base64
import itertools
import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.child import PATIENCE
from tests.e2e.clients.client import ConnectionLost, Frame

_HERE = Path(__file__).parent


class Driver:
    """The child process in which a library runs; skips the test where interpreter or library are absent."""

    def __init__(
        self, program: str, probe: Sequence[str], script: str, package: str, options: Sequence[str] = ()
    ) -> None:
        interpreter = shutil.which(program)
        if (
            interpreter is None
            or subprocess.run([interpreter, *probe], capture_output=True, check=False).returncode
        ):
            pytest.skip(f"needs {package}")
        self._process = subprocess.Popen(
            [interpreter, *options, str(_HERE / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._connections = itertools.count(1)
        self.hangs = False
        """It did not answer in time: what it says from now on is out of step."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def connection(self, kind: "Callable[[Driver, int], Piped] | None" = None) -> "Piped":
        """Return another connection, which is not made yet."""
        return (kind or Piped)(self, next(self._connections))

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Write a request and return its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"patience": PATIENCE / 2, **request}).encode() + b"\n")
        self._process.stdin.flush()
        try:
            line = self._answers.get(timeout=PATIENCE)
        except queue.Empty:
            self.hangs = True
            raise TimeoutError(f"no answer to {request}") from None
        if not line:
            raise AssertionError(f"the client process died at {request}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        """Close the child's standard input, which ends it unless it hangs."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            if not self.hangs:
                self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._answers.put(line)
        self._answers.put(b"")


class Piped:
    """One connection of a library in a child process."""

    def __init__(self, driver: Driver, number: int) -> None:
        self._driver = driver
        self._number = number

    def connect(self, port: int, version: str, login: str, passcode: str) -> Frame:
        return self._connect(port=port, version=version, login=login, passcode=passcode)

    def _connect(self, **arguments: Any) -> Frame:
        return self._frame(self._ask("connect", host="/", **arguments))

    def send(self, destination: str, body: bytes, headers: Mapping[str, str]) -> None:
        self._ask(
            "send", destination=destination, body=base64.b64encode(body).decode(), headers=dict(headers)
        )

    def subscribe(self, destination: str, headers: Mapping[str, str]) -> None:
        self._ask("subscribe", destination=destination, headers=dict(headers))

    def unsubscribe(self, destination: str, headers: Mapping[str, str]) -> None:
        self._ask("unsubscribe", destination=destination, headers=dict(headers))

    def ack(self, message: Frame, headers: Mapping[str, str]) -> None:
        self._ask("ack", frame=message.original, headers=dict(headers))

    def nack(self, message: Frame, headers: Mapping[str, str]) -> None:
        self._ask("nack", frame=message.original, headers=dict(headers))

    def begin(self, transaction: str, headers: Mapping[str, str]) -> None:
        self._ask("begin", transaction=transaction, headers=dict(headers))

    def commit(self, transaction: str, headers: Mapping[str, str]) -> None:
        self._ask("commit", transaction=transaction, headers=dict(headers))

    def abort(self, transaction: str, headers: Mapping[str, str]) -> None:
        self._ask("abort", transaction=transaction, headers=dict(headers))

    def receive(self) -> Frame:
        return self._frame(self._ask("receive"))

    def disconnect(self) -> None:
        self._ask("disconnect")

    def drop(self) -> None:
        self._ask("drop")

    def _ask(self, request: str, **arguments: Any) -> dict[str, Any]:
        answer = self._driver.ask({"connection": self._number, "do": request, **arguments})
        if "failed" in answer:
            raise AssertionError(f"{request}: {answer['failed']}")
        if "lost" in answer:
            raise ConnectionLost
        return answer

    def _frame(self, answer: dict[str, Any]) -> Frame:
        frame = answer["frame"]
        return Frame(frame["command"], frame["headers"], base64.b64decode(frame["body"]), frame["number"])


class OverTcp(Piped):
    """One of Spring's, with `ReactorNettyTcpStompClient`.

    `heart_beats`: milliseconds, what it offers and wants.
    """

    heart_beats = (0, 0)
    over = "tcp"

    def connect(self, port: int, version: str, login: str, passcode: str) -> Frame:
        return self._connect(
            port=port,
            version=version,
            login=login,
            passcode=passcode,
            over=self.over,
            beats=self.heart_beats[0],
        )


class OverWebSocket(OverTcp):
    """One of Spring's, with `WebSocketStompClient` in Tomcat's container."""

    over = "websocket"
