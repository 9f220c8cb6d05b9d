"""The simulator's clients on real sockets."""

import asyncio

import pytest

from chaos.real import Clock, Network
from sim.clients import Client, Habit
from sim.history import History, What
from tests.e2e.ports import free_port

CONNECTED = b"CONNECTED\nversion:1.2\n\n\0"


async def _told(act: str, answer: bytes = CONNECTED) -> list[str]:
    """Let a client connect to a server of ours and do this; return what was read and how it ended, for both."""
    found: list[str] = []
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            found.append((await reader.readuntil(b"\0")).split(b"\n")[0].decode())
            writer.write(answer)
            found.append("the end" if not await reader.read() else "more")
        except ConnectionResetError:
            found.append("reset")
        writer.close()
        over.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    history, clock = History(), Clock(asyncio.get_running_loop())
    client = Client("c1", Habit(b"1.2"), server.sockets[0].getsockname()[:2], Network(clock), history)
    async with server:
        clock.do(client.connect)
        while not any(event.what is What.READ for event in history):
            await asyncio.sleep(0.01)
        clock.do(client.act, act)
        await over.wait()
        while client.line is not None and not client.line.over:
            await asyncio.sleep(0.01)
    return found + [event.detail for event in history if event.what is What.ENDED]


@pytest.mark.parametrize(
    ("act", "told"),
    [("vanish", ["the end", "left"]), ("reset", ["reset", "left"]), ("half_close", ["the end", "closed"])],
)
def test_how_a_client_ends(act: str, told: list[str]) -> None:
    """The peer sees the end, or a reset; behind a half-closed connection the client waits for the peer's end."""
    assert asyncio.run(_told(act)) == ["CONNECT", *told]


def test_nobody_listens() -> None:
    """The connection is refused, which ends it."""

    async def ended() -> list[str]:
        history, clock = History(), Clock(asyncio.get_running_loop())
        client = Client("c1", Habit(b"1.2"), ("127.0.0.1", free_port()), Network(clock), history)
        clock.do(client.connect)
        await asyncio.sleep(0.1)
        return [event.detail for event in history if event.what is What.ENDED]

    assert asyncio.run(ended()) == ["refused"]
