"""Defects that were mended can be put back, and worlds find them: `python -m sim.proof` tries all of them."""

import re
from pathlib import Path

import pytest

from sim import proof

HEAD = re.compile(r"[A-Z][^\n]+\.\nMended by [0-9a-f]{8}\.\n\n--- a/stomprelay/")


def test_each_defect_can_be_put_back() -> None:
    """Each patch says what the defect was and who mended it, and fits the code: `python -m sim.proof --renew`."""
    patches = proof.patches()
    assert len(patches) >= 30
    for patch in patches:
        assert HEAD.match(patch.read_text()), patch
        assert not proof.apply(patch, proof.ROOT, "--check"), patch


def test_worlds_find_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Few worlds are enough for plain defects. A patch of somebody else is looked for, too, and renewed."""
    plain = "own_receipts_reach_consumers"
    known = (proof.DEFECTS / f"{plain}.patch").read_text()
    other = tmp_path / "other.patch"
    other.write_text(
        known.replace("@@ -6", "@@ -5").replace("        bare = frame\n", "        rare = frame\n", 1)
    )
    names = ["no_pause_after_a_loss", str(other)]
    assert proof.main([*names, "--minutes", "1"]) == 1
    said = capsys.readouterr().out
    assert re.search(r"^no_pause_after_a_loss +\w+ +1/\d\d? +[\d.]+ s$", said, re.MULTILINE)
    assert re.search(r"^other +DOES NOT APPLY: error: patch failed: ", said, re.MULTILINE)
    assert said.endswith("\n1 of 2 defects were found\n")
    assert proof.main([str(other), "--renew"]) == 0
    assert other.read_text() == known
    assert proof.main([str(other), "--minutes", "1"]) == 0
