"""A relay with a journal is killed: what is read of it, and what that is held against."""

from pathlib import Path

import pytest

from chaos.journal import SECOND, Round, found, judged, run
from tests.journal.made import BROKER, event, frames, put

SEND = b"SEND\ndestination:/queue/a\n\n"
MESSAGE = b"MESSAGE\ndestination:/queue/a\nmessage-id:1\nsubscription:1\n\n"


def test_what_is_there(tmp_path: Path) -> None:
    """Bodies of SENDs and MESSAGEs, of whole blocks."""
    path = put(
        tmp_path,
        frames((SEND, b"p:0"), (SEND, b"p:1")),
        event(),
        frames((MESSAGE, b"p:0"), context=BROKER),
        frames((SEND, b"p:2"), number=2),
    )
    there = found([path])
    assert there.sends == {b"p:0", b"p:1", b"p:2"}
    assert there.messages == {b"p:0"}
    assert (there.blocks, there.frames, there.torn) == (4, 4, 0)
    assert there.holes == there.damaged == []


def test_a_torn_end(tmp_path: Path) -> None:
    """It is counted and harms nothing."""
    path = put(tmp_path, frames((SEND, b"p:0")), frames((SEND, b"p:1"), number=1)[:-1])
    there = found([path])
    assert (there.sends, there.torn, there.damaged) == ({b"p:0"}, 1, [])


def test_damage_in_the_middle(tmp_path: Path) -> None:
    """It is told, and so is the hole that it makes."""
    bad = bytearray(frames((SEND, b"p:0")))
    bad[-1] ^= 1
    path = put(tmp_path, bytes(bad), frames((SEND, b"p:1"), number=1))
    there = found([path])
    assert there.sends == {b"p:1"}
    assert len(there.damaged) == 1
    assert there.damaged[0].startswith(f"{path.name} at ")
    assert there.holes == ["eu-1.7 client : 0 frames, and then number 1"]


def test_what_is_missing() -> None:
    """How much was told and is not there, and for how long before the end."""
    end = 100 * SECOND
    told = {b"p:0": 90 * SECOND, b"p:1": end - SECOND // 4, b"p:2": end - 1000}
    assert judged(told, {b"p:0"}, end) == Round(3, 2, 0.25)
    assert judged(told, {b"p:0", b"p:1", b"p:2"}, end) == Round(3, 0, 0.0)
    assert judged(told, {b"p:1", b"p:2"}, end) == Round(3, 1, 10.0)


@pytest.mark.e2e
@pytest.mark.parametrize(
    "rounds", [pytest.param(1, marks=pytest.mark.brief), pytest.param(10, marks=pytest.mark.deep)]
)
def test_a_relay_is_killed(tmp_path: Path, rounds: int) -> None:
    """Its journal is whole each time: what it lacks is of the last moments."""
    pytest.importorskip("stomp", reason="needs stomp.py (PyPI)")
    pytest.importorskip("stompest", reason="needs stompest (PyPI)")
    verdict = run(tmp_path, rounds, 7)
    assert not verdict.broken, str(verdict)
