"""Spring's `WebSocketStompClient`, in Tomcat's container: beats, large messages, refusals, a failover."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.clients.client import Client
from tests.e2e.clients.libraries import libraries
from tests.e2e.facts import SPRING
from tests.e2e.raw import Connection
from tests.e2e.relay import served

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def made() -> Iterator[Callable[[], Client]]:
    """Make a connection; one program has them all."""
    with libraries() as find:
        yield find(SPRING)


@pytest.mark.ci
def test_five_megabytes(tmp_path: Path, made: Callable[[], Client]) -> None:
    """Of text, which it splits over many messages, and of every byte, both back as one frame each."""
    with served(tmp_path, listener="web = true") as running:
        client = made()
        assert client.connect(running.port, "1.2", "guest", "guest").command == "CONNECTED"
        client.subscribe("/queue/large", {"id": "1"})
        for body in (b"0123456789abcdef" * 327_680, bytes(range(256)) * 20_480):
            client.send("/queue/large", body, {})
            assert client.receive().body == body
        client.disconnect()


def test_heart_beats(tmp_path: Path, made: Callable[[], Client]) -> None:
    """They are agreed on, and it keeps them: a client beside it that says no more is given up, and it is not."""
    with served(tmp_path, listener="web = true\nheart_beat = [200, 200]") as running:
        client = made()
        client.heart_beats = (200, 200)  # type: ignore[attr-defined]  # Spring's have them
        assert client.connect(running.port, "1.2", "guest", "guest").headers["heart-beat"] == "200,200"
        with Connection.to(running.port) as silent:
            silent.write(b"CONNECT\naccept-version:1.2\nhost:/\nheart-beat:200,0\n\n\0")
            assert silent.frame().startswith(b"CONNECTED\n")
            assert b"ERROR\n" in silent.rest()
        client.subscribe("/queue/beats", {"id": "1"})
        client.send("/queue/beats", b"alive", {})
        assert client.receive().body == b"alive"
        client.disconnect()
