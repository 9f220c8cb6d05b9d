"""`python -m stomprelay` is `stomprelay`."""

import subprocess
import sys

import stomprelay


def test_it_runs_the_command() -> None:
    """The same options, the same answer, the same exit status."""
    run = subprocess.run(
        [sys.executable, "-m", "stomprelay", "--version"], capture_output=True, text=True, check=True
    )
    assert run.stdout == f"stomprelay {stomprelay.__version__}\n"
    assert (
        subprocess.run([sys.executable, "-m", "stomprelay"], capture_output=True, check=False).returncode == 2
    )
