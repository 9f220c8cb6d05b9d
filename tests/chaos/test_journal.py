"""A relay with a journal is killed: what is read of it, and what that is held against."""

from pathlib import Path

import pytest

from chaos.journal import found, run
from tests.journal.made import frames, put

SEND = b"SEND\ndestination:/queue/a\n\n"
MESSAGE = b"MESSAGE\ndestination:/queue/a\nmessage-id:1\nsubscription:1\n\n"


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
