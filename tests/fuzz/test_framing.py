"""The WebSocket of a world: it is the same to the byte, and a fault of each kind in it is found out."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from fuzz.caller import Finding
from fuzz.framing import Framing
from stomprelay.service.network.upgrade import WebSocketHandshake
from stomprelay.service.network.websocket import Received, WebSocket


def _played() -> set[str]:
    """Let WebSockets carry something both ways, and be torn. Return what was found."""
    found: list[Finding] = []
    for number in range(40):
        framing = Framing(Random(number), found.append)
        for body in (b"hello", b"\xff" * 300, b"\n"):
            read = framing.carry([body, b"more"])
            assert found or b"".join(read) == body + b"more"
            framing.bring(body * 2)
        framing.tear()
    return {each.what for each in found}


def test_nothing_is_found() -> None:
    """What is said comes through, and what is torn raises nothing."""
    assert _played() == set()


def _loses(original: Callable[..., Any], *arguments: Any) -> Any:
    found = original(*arguments)
    return found._replace(data=found.data[1:])


def _refuses(original: Callable[..., Any], *arguments: Any) -> Any:
    return Received(b"", "so it is")


def _cuts(original: Callable[..., Any], socket: WebSocket, data: bytes) -> Any:
    return original(socket, data[:-1])


def _raises(original: Callable[..., Any], *arguments: Any) -> Any:
    raise ValueError("something")


@pytest.mark.parametrize(
    ("owner", "name", "spoil", "what"),
    [
        (WebSocket, "received", _loses, "a WebSocket changes what a client says"),
        (WebSocket, "received", _refuses, "a good WebSocket is refused"),
        (WebSocket, "write", _cuts, "a WebSocket changes what a relay says"),
        (WebSocketHandshake, "received", _raises, "a WebSocket raises"),
    ],
)
def test_what_must_not_be_is_seen(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, spoil: Callable[..., Any], what: str
) -> None:
    """One that loses, refuses, cuts or raises."""
    original = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *arguments: spoil(original, *arguments))
    assert what in _played()
