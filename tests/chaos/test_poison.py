"""Clients that are meant to disturb."""

import asyncio
from random import Random

import pytest

from chaos.poison import SAID, _speak


async def _heard(kind: str) -> bytes:
    """Let a client of this kind speak to somebody who answers nothing. Return what it said."""
    said = bytearray()
    ended = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                said.extend(data)
        except OSError:
            pass  # it broke off
        writer.close()
        ended.set()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    chance = Random(1)
    chance.random = lambda: 0.9  # type: ignore[method-assign]  # it neither waits for answers nor aborts
    try:
        await _speak(port, SAID[kind], chance)
        await ended.wait()
    finally:
        server.close()
        await server.wait_closed()
    return bytes(said)


@pytest.mark.parametrize("kind", sorted(kind for kind in SAID if "never reads" not in kind))
def test_it_says_its_piece(kind: str) -> None:
    """Each kind writes what it is made of, and goes."""
    said = asyncio.run(_heard(kind))
    for piece in SAID[kind]:
        assert piece in said or len(piece) < 10
