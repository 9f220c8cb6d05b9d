"""What each product does with what STOMP leaves to it, cell by cell of `products.txt`, which says how to read it."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.brokers import RabbitMQ
from tests.e2e.raw import body, headers
from tests.e2e.talker import Talker

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.ci]

TABLE = Path(__file__).with_name("products.txt")


class Frame(NamedTuple):
    """A frame, its values not escaped; the body is None where the table gives none."""

    command: str
    headers: list[tuple[str, str]]
    body: str | None

    @classmethod
    def written(cls, text: str) -> "Frame":
        """Return it as the table writes it."""
        head, bar, content = text.partition(" |")
        command, _, lines = head.partition(" ")
        pairs = [line.partition(":") for line in lines.split("; ") if line]
        return cls(command, [(name, value) for name, _, value in pairs], content[1:] if bar else None)

    @classmethod
    def received(cls, frame: bytes) -> "Frame":
        """Return it as it came; an LF at the body's end does not count."""
        command, *lines = frame.partition(b"\n\n")[0].decode().split("\n")
        pairs = [line.replace("\\c", ":").replace("\\\\", "\\").partition(":") for line in lines]
        return cls(command, [(name, value) for name, _, value in pairs], body(frame).decode().rstrip("\n"))

    def __str__(self) -> str:
        return f"{self.command} {'; '.join(map(':'.join, self.headers))} | {self.body}"


class Speaker(Talker):
    """A client that writes frames of the table."""

    def say(self, frame: Frame, *, escaped: bool) -> None:
        """Write it, with the login if it is CONNECT."""
        if frame.command == "CONNECT":
            frame.headers.extend([("login", "guest"), ("passcode", "guest")])
        colon = "\\c" if escaped else ":"
        lines = [f"{name}:{value.replace(':', colon)}\n" for name, value in frame.headers]
        self.write(f"{frame.command}\n{''.join(lines)}\n{frame.body or ''}\0".encode())

    def get(self, command: str, subscription: str | None) -> Frame:
        """Return the next frame of this kind, of a subscription where one is named: they have no order among them."""
        if command != "MESSAGE":
            return Frame.received(self._next(command.encode()))
        passed: list[bytes] = []
        while subscription not in (None, headers(message := self.message())[b"subscription"].decode()):
            passed.append(message)
        self._messages.extendleft(reversed(passed))
        return Frame.received(message)

    def hush(self) -> None:
        """Wait for a receipt; nothing must have come that was not asked for."""
        self.ask("BEGIN", transaction="end")
        assert not self._messages, self._messages

    def end(self) -> None:
        """Read to the end; nothing must have come that was not asked for."""
        left = [*self._messages, self.rest().replace(b"RECEIPT\nreceipt-id:leave\n\n\0", b"").strip()]
        self.close()
        assert left == [b""]

    def leave(self) -> None:
        """DISCONNECT, and read to the end. Artemis now and then gives no RECEIPT, while it settles what it wrote."""
        self.tell("DISCONNECT", receipt="leave")
        self.end()


class Scene:
    """The clients of a cell, and what they know."""

    def __init__(self, place: str, port: int) -> None:
        self._port = port
        self._clients: dict[str, Speaker] = {}
        now = int(time.time() * 1000)
        self._known = {"place": place, "past": str(now - 60_000), "soon": str(now + 600_000)}

    def play(self, intent: str, steps: list[str]) -> None:
        """Do each step, or look at what came. At the end nothing may be left, and all leave. What comes meanwhile does
        not count: Artemis gives what it has just written to one that leaves, with `ack:auto`, to another one.
        """
        for step in steps:
            try:
                self._play(step)
            except Exception as error:
                error.add_note(f"{step}\n{intent}")
                raise
        for client in self._clients.values():
            client.hush()
        for client in self._clients.values():
            client.tell("DISCONNECT", receipt="leave")
            client.rest()
            client.close()

    def _play(self, step: str) -> None:
        name, verb, text = (*step.split(" ", 2), "")[:3]
        match verb:
            case "says" | "asks" | "writes":
                frame = Frame.written(re.sub("<([a-z0-9]+)>", lambda found: self._known[found[1]], text))
                if name not in self._clients:
                    come = Speaker.to if frame.command == "CONNECT" else Speaker.at
                    self._clients[name] = come(self._port)
                if verb == "asks":
                    frame.headers.append(("receipt", "asked"))
                self._clients[name].say(frame, escaped=verb != "writes" and frame.command != "CONNECT")
                if verb == "asks":
                    self._clients[name].receipts("asked")
            case "gets":
                expected = Frame.written(text.removeprefix("exactly "))
                subscription = next((value for key, value in expected.headers if key == "subscription"), None)
                came = self._clients[name].get(expected.command, subscription)
                self._compare(expected, came, exactly=text.startswith("exactly "))
            case "ends":
                self._clients.pop(name).end()
            case "leaves":
                self._clients.pop(name).leave()
            case "vanishes":
                self._clients.pop(name).close()
            case _:
                raise AssertionError(f"the table says {step!r}")

    def _compare(self, expected: Frame, came: Frame, *, exactly: bool) -> None:
        left = [*came.headers]
        for name, value in expected.headers:
            if name.startswith("!"):
                assert name[1:] not in dict(came.headers), came
                continue
            matches = (
                (each, re.fullmatch(self._pattern(value), each[1])) for each in left if each[0] == name
            )
            found = next(((each, match) for each, match in matches if match), None)
            assert found, f"no {name}:{value} in {came}"
            left.remove(found[0])
            self._known.update(found[1].groupdict())
        assert not (exactly and left), f"also {left} in {came}"
        assert expected.body in (None, came.body), came

    def _pattern(self, value: str) -> str:
        """Return it as a regular expression, in which what is not known yet is a group."""

        def part(text: str) -> str:
            if not text.startswith("<"):
                return re.escape(text)
            return re.escape(self._known[text[1:-1]]) if text[1:-1] in self._known else f"(?P{text}.+)"

        known = "".join(map(part, re.split("(<[a-z0-9]+>)", value.removesuffix("*"))))
        return known + ".*" * value.endswith("*")


def cells() -> Iterator[Any]:
    """Read the table: a parameter for each cell at each of its places."""
    matter, steps = "", list[str]()
    for line in TABLE.read_text(encoding="utf-8").partition("\n== ")[2].splitlines():
        if line.startswith("  "):
            steps.append(line.strip())
        elif ": " in line:
            (places, _, intent), steps = line.partition(": "), []
            for place in places.split():
                yield pytest.param(place, intent, steps, id=f"{matter}-{place}".replace(" ", "_"))
        elif line:
            matter = line.removeprefix("== ")


@pytest.mark.parametrize(("place", "intent", "steps"), [*cells()])
def test_cell(request: pytest.FixtureRequest, place: str, intent: str, steps: list[str]) -> None:
    """A product does what the table says of it."""
    broker = request.getfixturevalue(place.removesuffix("_shipped"))
    port = broker.shipped_port if place.endswith("_shipped") else broker.port
    Scene(place, port).play(intent, steps)


def test_rejected_publishes(rabbitmq: RabbitMQ) -> None:
    """A full queue of RabbitMQ."""
    with rabbitmq.rejecting("limited"):
        Scene("rabbitmq", rabbitmq.port).play(
            "What is rejected has neither RECEIPT nor ERROR: it is dropped, or, after a receipt, ends the connection.",
            [
                "a says SEND destination:/queue/limited | kept",
                "a says SEND destination:/queue/limited | rejected",
                "a asks SEND destination:/queue/elsewhere | 1",
                "a says SEND destination:/queue/limited | rejected",
                "a ends",
                "b asks SEND destination:/queue/elsewhere | 2",
                "b says SEND destination:/queue/limited; receipt:1 | rejected",
                "b ends",
                "c asks SUBSCRIBE id:1; destination:/queue/limited",
                "c gets MESSAGE | kept",
            ],
        )
