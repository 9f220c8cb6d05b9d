"""A relay that is killed while it writes: what it had written is there, and is whole."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from struct import unpack

import pytest

from stomprelay.journal.block import Block, Damage
from stomprelay.journal.folder import Folder
from tests.journal.made import NOW, files, items

ROOT = Path(__file__).resolve().parent.parent.parent


def killed(folder: Path, run: str, size: int, piece: int, after: int, delay: float) -> int:
    """Let a process write, kill it once it has reported `after` writes, and return the last number that it reported."""
    command = [sys.executable, "-m", "tests.journal.scribe", str(folder), run, str(size), str(piece)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        told = child.stdout.read(8 * after)
        try:
            child.wait(delay)  # a random moment, not a time that anything needs
        except subprocess.TimeoutExpired:
            pass
        os.kill(child.pid, signal.SIGKILL)
        told += child.stdout.read()
    assert child.returncode == -signal.SIGKILL
    return int(unpack("<q", told[len(told) // 8 * 8 - 8 : len(told) // 8 * 8])[0])


def numbers(folder: Path, run: str) -> tuple[list[int], list[Damage]]:
    """The numbers of a run's frames in order, and what is damaged."""
    found = []
    damages = []
    for entry in Folder(folder).segments():
        for item in items(entry.path) if entry.run == run else ():
            if isinstance(item, Block):
                found += [int(frame.head.split(b":")[1]) for frame in item.frames]
            elif isinstance(item, Damage):
                damages.append(item)
    return found, damages


SIZES = [(1000, 1 << 20), (200_000, 100), (10_000_000, 1 << 20), (10_000_000, 500)]
"""How large a segment may get, and how much the system takes at a time."""


@pytest.mark.parametrize(
    ("size", "piece", "turns"),
    [
        pytest.param(*each, turns, marks=mark)
        for turns, mark in ((2, pytest.mark.brief), (10, pytest.mark.long), (4, pytest.mark.deep))
        for each in SIZES
    ],
)
def test_killed_at_any_moment(tmp_path: Path, size: int, piece: int, turns: int) -> None:
    """All that was written is read, in order; of the rest there may be some, and at most a torn end, which recovery
    cuts off. The next relays write on in the same folder.
    """
    chance = random.Random(size + piece)
    for turn in range(turns):
        run = f"{turn:08x}"
        told = killed(tmp_path, run, size, piece, chance.randrange(1, 60), chance.random() / 50)
        found, damages = numbers(tmp_path, run)
        assert found == list(range(len(found)))
        assert len(found) >= told
        assert all(damage.torn for damage in damages)
        assert len(damages) <= 1
        recovered = Folder(tmp_path).recover(NOW)
        assert len(recovered) <= 1
        assert not [each for each in recovered if each.failure]
        assert numbers(tmp_path, run) == (found, [])
        assert Folder(tmp_path).gaps() == []
        assert not [name for name in files(tmp_path) if name.endswith(".open")]
