"""A program as process 1 of a name space of its own, as in a container."""

import subprocess
from pathlib import Path

import pytest

from tests.e2e.child import Child

CONTAINED = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")
"""A command behind it is process 1. It has the network and the files of everybody else."""


def _contains() -> bool:
    try:
        return subprocess.run([*CONTAINED, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


contained = pytest.mark.skipif(not _contains(), reason="this system gives us no name space (unshare)")


def process_1(child: Child) -> int:
    """Return the process that a contained child became, by its number out here."""
    [found] = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
    return int(found)
