"""Listening sockets on their way between processes: scripts over a pair of sockets, then in a reactor."""

import os
import resource
import socket
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.defer import Deferred
from twisted.internet.main import CONNECTION_DONE
from twisted.python.failure import Failure

from stomprelay.service.network import passing
from stomprelay.service.network.passing import BATCH, BrokenMessage, Passage, PassedMessage, ReactorPassage
from stomprelay.service.process import open_descriptors


@pytest.fixture
def ends() -> Iterator[tuple[Passage, Passage]]:
    """Return two ends that are connected."""
    ours, theirs = (Passage(each) for each in socket.socketpair())
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.fixture
def listening() -> Iterator[Callable[[], socket.socket]]:
    """Opens sockets that listen on loopback ports of their own, and sees that no copy of them stays open."""
    opened: list[socket.socket] = []

    def another() -> socket.socket:
        opened.append(socket.create_server(("127.0.0.1", 0)))
        return opened[-1]

    yield another
    for each in opened:
        place = each.getsockname()
        each.close()
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect(place)


def receive_all(theirs: Passage) -> None:
    """Read until something is wrong."""
    while True:
        assert theirs.receive() == []


def pass_over(
    ours: Passage, theirs: Passage, said: dict[str, Any], sockets: dict[str, int]
) -> list[PassedMessage]:
    """Return what comes of a message that is sent."""
    ours.put(said, sockets)
    ours.flush()
    return theirs.receive()


def test_messages_follow_each_other_and_keep_their_own_sockets(
    listening: Callable[[], socket.socket], ends: tuple[Passage, Passage]
) -> None:
    """Descriptors belong to the message that they came with."""
    ours, theirs = ends
    first, second = listening(), listening()
    ours.put({"n": 1}, {"a": first.fileno()})
    ours.put({"n": 2})
    ours.put({"n": 3}, {"a": second.fileno()})
    ours.flush()
    came: list[PassedMessage] = []
    while len(came) < 3:
        came += theirs.receive()
    assert [each.said["n"] for each in came] == [1, 2, 3]
    assert came[0].sockets["a"].getsockname() == first.getsockname()
    assert came[2].sockets["a"].getsockname() == second.getsockname()
    for message in came:
        message.close()


def test_more_sockets_than_the_system_passes_at_a_time_come_all_the_same(
    listening: Callable[[], socket.socket], ends: tuple[Passage, Passage]
) -> None:
    """Batches are put together, and there is a bound."""
    ours, theirs = ends
    one = listening()
    names = [f"listener-{number}" for number in range(2 * BATCH + 1)]
    ours.put({}, dict.fromkeys(names, one.fileno()))
    ours.flush()
    came: list[PassedMessage] = []
    while not came:
        came = theirs.receive()
    assert list(came[0].sockets) == names
    came[0].close()
    with pytest.raises(ValueError, match="too many for a message"):
        ours.put({}, {str(number): one.fileno() for number in range(passing.MOST + 1)})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"what\n", "is no message"),
        (b"[]\n", "is no message"),
        (b'{"sockets": ["a", "a"], "said": {}}\n', "is no message"),
        (b'{"sockets": [1], "said": {}}\n', "is no message"),
        (b'{"sockets": ["a"], "said": []}\n', "is no message"),
        (b'{"sockets": ["a", "b"], "said": {}}\n', "2 sockets are named, 1 came"),
        (b'{"sockets": [], "said": {}}\n', "more than a message may have"),
        (b"[" * 20_000 + b"\n", "is no message"),
    ],
)
def test_a_broken_message_closes_all_that_came_with_it(
    listening: Callable[[], socket.socket], ends: tuple[Passage, Passage], line: bytes, reason: str
) -> None:
    """Whatever is wrong with it, nothing stays open."""
    ours, theirs = ends
    socket.send_fds(ours.socket, [line], [listening().fileno()])
    with pytest.raises(BrokenMessage, match=reason):
        receive_all(theirs)


@pytest.mark.parametrize("kind", ["file", "connection"])
def test_what_does_not_listen_is_refused_and_closed(ends: tuple[Passage, Passage], kind: str) -> None:
    """Only sockets that listen are taken."""
    ours, theirs = ends
    before = open_descriptors()
    if kind == "file":
        with tempfile.TemporaryFile() as file, pytest.raises(BrokenMessage, match="is no socket"):
            pass_over(ours, theirs, {}, {"a": file.fileno()})
    else:
        near, far = socket.socketpair()
        with near, far, pytest.raises(BrokenMessage, match="a: is no socket that listens"):
            pass_over(ours, theirs, {}, {"a": near.fileno()})
    assert open_descriptors() == before


def test_sockets_that_this_process_cannot_open_are_reported(
    listening: Callable[[], socket.socket], ends: tuple[Passage, Passage]
) -> None:
    """A message is never taken with fewer sockets than it names."""
    ours, theirs = ends
    one = listening()
    ours.put({}, {"a": one.fileno(), "b": one.fileno()})
    ours.flush()
    spare = os.dup(0)
    os.close(spare)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))
    try:
        with pytest.raises(BrokenMessage, match="this process can open no more"):
            theirs.receive()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest_twisted.inlineCallbacks
def test_in_a_reactor_a_message_comes_whatever_its_size(listening: Callable[[], socket.socket]) -> Any:
    """What the socket does not take at once is sent later; both ends learn of the end."""
    from twisted.internet import reactor

    came: Deferred[PassedMessage] = Deferred()
    over: Deferred[str] = Deferred()
    ours, theirs = socket.socketpair()
    left = ReactorPassage(reactor, Passage(ours), lambda _: None, lambda _: None)
    right = ReactorPassage(reactor, Passage(theirs), came.callback, over.callback)
    left.send({"text": "x" * 1_000_000}, {"a": listening().fileno()})
    passed = yield came
    assert len(passed.said["text"]) == 1_000_000
    assert list(passed.sockets) == ["a"]
    passed.close()
    left.loseConnection()
    assert (yield over) == ""
    assert (left.fileno(), right.fileno()) == (-1, -1)
    left.send({})  # nobody is there, and nothing is kept


def test_what_a_peer_said_before_it_closed_is_heard_by_who_speaks() -> None:
    """Who cannot send any more has not lost what came: it is passed on, and then the end."""
    from twisted.internet import reactor

    came: list[str] = []
    over: list[str] = []
    ours, theirs = socket.socketpair()
    passage = ReactorPassage(
        reactor, Passage(ours), lambda passed: came.append(passed.said["text"]), over.append
    )
    peer = Passage(theirs)
    peer.put({"text": "no"})
    peer.flush()
    peer.close()
    passage.send({"text": "leave"})
    assert passage.doWrite() is None
    assert passage.doRead() is None
    assert came == ["no"]
    reason = passage.doRead()
    assert reason is CONNECTION_DONE
    passage.connectionLost(Failure(reason))
    assert over == [""]
