"""The HTTP service that says who may come in, played on a real socket: what is asked, and which answer counts."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import Mock

import pytest
import pytest_twisted
from twisted.internet import endpoints
from twisted.internet.defer import Deferred, DeferredQueue

from stomprelay.auth.settings import AuthService
from stomprelay.relay.model.rules import Claim, Ground, Refusal
from stomprelay.service.clients.auth_service import AT_ONCE, LONGEST, Answer, AuthServiceClient
from stomprelay.service.clients.identification import Turn
from tests.service.sockets import ANY_PORT, Accepting, Peer, reactor, until

NO_ANSWER = "unchecked"
CLAIM = Claim(b"alice", "größer".encode())
ALICE = b'{"user": "alice", "groups": ["staff"]}'
YES = Answer("alice", frozenset({"staff"}))
NO_JSON = (b"", b"yes", b"true", b"{}", b"[" * 60_000, b"\xff", ALICE + b" " * LONGEST)
"""Of an object with a user."""


class Scene:
    """A service that a test plays, and who asks it."""

    def __init__(self, accepting: Accepting, port: int, settings: dict[str, Any]) -> None:
        self.clock = Mock(return_value=0.0)
        self.peers: list[Peer] = []
        self._accepting = accepting
        settings = {"url": f"http://127.0.0.1:{port}/who", "timeout": 5.0, **settings}
        self.client = AuthServiceClient(AuthService(**settings), reactor, self.clock)

    async def turn(self) -> Refusal | None:
        """Nobody has left."""
        return None

    def ask(
        self, claim: Claim = CLAIM, certificate: str = "", turn: Turn | None = None
    ) -> Deferred[Answer | Refusal]:
        """Ask about a client."""
        asked = self.client.ask(claim, certificate, "192.0.2.7", "public", turn or self.turn)
        return Deferred.fromCoroutine(asked)

    @property
    def connections(self) -> DeferredQueue[Peer]:
        """Those that nobody has looked at yet."""
        return self._accepting.accepted

    async def asked(self) -> tuple[Deferred[Answer | Refusal], Peer]:
        """Ask about a client; return the answer to come, and the connection on which it was asked."""
        coming = self.ask()
        peer = await self.accepted()
        await question(peer)
        return coming, peer

    async def accepted(self) -> Peer:
        """The next connection to the service."""
        peer: Peer = await self.connections.get().addTimeout(20, reactor)
        self.peers.append(peer)
        return peer


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Scene]:
    """A service with these settings."""
    accepting = Accepting()
    port = await endpoints.serverFromString(reactor, ANY_PORT).listen(accepting)
    scene = Scene(accepting, port.getHost().port, settings)
    try:
        yield scene
    finally:
        await scene.client.close()
        await port.stopListening()
        for peer in scene.peers:
            await peer.gone()


async def question(peer: Peer) -> tuple[bytes, dict[str, Any]]:
    """The head of a request, and what is in its body."""
    head = await peer.receive_until(b"\r\n\r\n")
    [length] = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    body = await peer.receive_bytes(int(length.split(b":")[1]))
    return head, json.loads(body)


def reason(found: Answer | Refusal) -> str:
    """Why the client is not let in; "" where it is."""
    return found.ground.value if isinstance(found, Refusal) else ""


def answer(peer: Peer, body: bytes = ALICE, status: bytes = b"200 OK", more: bytes = b"") -> None:
    """Answer a request; the connection stays."""
    peer.transport.write(b"HTTP/1.1 %b\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(body), more, body))


@pytest_twisted.ensureDeferred
async def test_what_is_asked() -> None:
    """A POST of JSON, to the path of the URL, on a connection that is used again."""
    async with serving() as scene:
        asked = scene.ask(certificate="host-7")
        peer = await scene.accepted()
        head, said = await question(peer)
        assert head.startswith(b"POST /who HTTP/1.1\r\n")
        assert b"application/json" in head
        assert said == {
            "login": "alice",
            "passcode": "größer",
            "certificate": "host-7",
            "address": "192.0.2.7",
            "listener": "public",
        }
        answer(peer)
        assert await asked == YES
        again = scene.ask(Claim(None, b"x"))
        _, said = await question(peer)
        assert (said["login"], said["certificate"]) == (None, None)
        answer(peer)
        assert await again == YES


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (b"200 OK", b'{"user": "alice"}', ""),
        (b"200 OK", b'{"user": "alice", "groups": [], "more": 1}', ""),
        (b"401 Unauthorized", ALICE, "service"),
        (b"403 Forbidden", b"", "service"),
        (b"204 No Content", b"", NO_ANSWER),
        *(
            (status, ALICE, NO_ANSWER)
            for status in (b"201 Created", b"302 Found", b"404 Not Found", b"500 Oops")
        ),
        *((b"200 OK", body, NO_ANSWER) for body in NO_JSON),
        *((b"200 OK", b'{"user": %b}' % user, NO_ANSWER) for user in (b'""', b"7", b'"a\\nb"')),
        *(
            (b"200 OK", ALICE.replace(b'["staff"]', each), NO_ANSWER)
            for each in (b'"staff"', b"[7]", b'[""]')
        ),
    ],
)
@pytest_twisted.ensureDeferred
async def test_which_answer_counts(status: bytes, body: bytes, why: str) -> None:
    """A 200 with a name; 401 and 403 are a no; all else is none, and lets nobody in."""
    async with serving() as scene:
        coming, peer = await scene.asked()
        answer(peer, body, status)
        found = await coming
        assert reason(found) == why
        assert "alice" not in str(found) or not why


@pytest_twisted.ensureDeferred
async def test_an_answer_without_end() -> None:
    """No more of it is read than an answer may have."""
    async with serving() as scene:
        coming, peer = await scene.asked()
        peer.transport.write(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (LONGEST + 1))
        assert reason(await coming) == NO_ANSWER
        await peer.ended()


@pytest_twisted.ensureDeferred
@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{"])
async def test_a_service_that_does_not_answer(begun: bytes) -> None:
    """Not at all, or not to the end: it has its time, and is not asked once more."""
    async with serving(timeout=0.2) as scene:
        coming, peer = await scene.asked()
        peer.transport.write(begun)
        await peer.ended()
        await until(lambda: coming.called)
        assert reason(await coming) == NO_ANSWER
        assert not scene.connections.pending


@pytest_twisted.ensureDeferred
async def test_a_service_that_is_not_there() -> None:
    """Nobody is let in meanwhile."""
    async with serving() as scene:
        pass
    found = await scene.ask()
    assert found == Refusal(Ground(NO_ANSWER), "the service could not be asked: connection refused")


@pytest_twisted.ensureDeferred
async def test_a_connection_that_breaks_off() -> None:
    """In the middle of an answer it is none; before it the question is asked once more."""
    async with serving() as scene:
        coming, peer = await scene.asked()
        peer.transport.loseConnection()
        peer = await scene.accepted()
        await question(peer)
        peer.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + ALICE)
        peer.transport.loseConnection()
        assert reason(await coming) == NO_ANSWER


@pytest_twisted.ensureDeferred
async def test_what_is_not_utf_8() -> None:
    """It cannot be said in JSON, and nobody is asked."""
    async with serving() as scene:
        found = await scene.ask(Claim(b"alice", b"\xff"))
        assert found == Refusal(Ground.PASSCODE, "its login or passcode is not UTF-8")


@pytest_twisted.ensureDeferred
async def test_a_yes_is_remembered() -> None:
    """For its time, for the same client alone; a no is not."""
    async with serving(cache=10.0) as scene:
        coming, peer = await scene.asked()
        answer(peer)
        assert await coming == YES
        assert await scene.ask() == YES
        for claim, certificate in ((Claim(b"alice", b"x"), ""), (CLAIM, "c")):
            other = scene.ask(claim, certificate)
            await question(peer)
            answer(peer, b"", b"403 No")
            assert reason(await other) == "service"
        scene.clock.return_value = 10.0
        late = scene.ask()
        await question(peer)
        answer(peer, b"", b"403 No")
        assert reason(await late) == "service"
        assert "gr" not in repr(scene.client._known)


@pytest_twisted.ensureDeferred
async def test_so_many_are_asked_at_once() -> None:
    """The others have their turn when one was answered."""
    async with serving() as scene:
        asked = [scene.ask(Claim(b"alice", b"%d" % number)) for number in range(AT_ONCE + 1)]
        peers = [await scene.accepted() for _ in range(AT_ONCE)]
        for peer in peers:
            await question(peer)
        assert not any(peer.received for peer in peers)
        answer(peers[0])
        await until(lambda: peers[0].received)
        await question(peers[0])
        for peer in peers:
            answer(peer)
        for each in asked:
            assert await each == YES


@pytest_twisted.ensureDeferred
async def test_who_is_gone_when_it_is_its_turn() -> None:
    """The service is not asked about it, and the next one has the place."""
    gone = Refusal(Ground.UNCHECKED, "gone")

    async def leaves() -> Refusal | None:
        return gone

    async with serving() as scene:
        asked = [scene.ask(Claim(b"alice", b"%d" % number)) for number in range(AT_ONCE)]
        peers = [await scene.accepted() for _ in asked]
        left, last = scene.ask(turn=leaves), scene.ask()
        for peer in peers:
            await question(peer)
        answer(peers[0])
        assert await left == gone
        await until(lambda: peers[0].received)
        assert (await question(peers[0]))[1]["passcode"] == "größer"
        for peer in peers:
            answer(peer)
        for each in [*asked, last]:
            assert await each == YES
