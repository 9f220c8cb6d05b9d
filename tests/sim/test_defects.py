"""Defects that were mended can be put back, and worlds find them: `python -m sim.proof` tries all of them."""

import re
import subprocess

import pytest

from sim.proof import DEFECTS, ROOT, names, prove

HEAD = re.compile(r"[A-Z][^\n]+\.\nMended by [0-9a-f]{8}\.\n\n--- a/stomprelay/")


def test_each_defect_can_be_put_back() -> None:
    """Each patch says what the defect was and who mended it, and fits the code."""
    assert len(names()) >= 30
    for name in names():
        patch = DEFECTS / f"{name}.patch"
        assert HEAD.match(patch.read_text()), name
        subprocess.run(["git", "apply", "--check", patch], cwd=ROOT, check=True)


@pytest.mark.parametrize("name", ["error_overtakes_receipts", "own_receipts_reach_consumers"])
def test_worlds_find_it(name: str) -> None:
    """Few worlds are enough for a plain defect."""
    proof = prove(name, seed=1, seconds=120)
    assert proof.world is not None
    assert proof.world < 100
