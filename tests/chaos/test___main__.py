"""The command line of a run, and a short one."""

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.__main__ import options


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--brokers", "rabbitmq,apollo"], "apollo"),
        (["--sessions", "1"], "--sessions"),
        (["--faults", "0"], "--faults"),
        (["--faults", "9", "--seconds", "9"], "--seconds"),
    ],
)
def test_what_makes_no_sense(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused with the option's name."""
    with pytest.raises(SystemExit) as ended:
        options(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.deep
@pytest.mark.e2e
@pytest.mark.broker
def test_many_faults_and_poison() -> None:
    """Fault after fault, and clients among the good ones whose words make brokers close: nobody else notices."""
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "chaos", "--faults", "20"]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if run.returncode == 2:
        pytest.skip(run.stderr.strip())
    assert run.returncode == 0, run.stdout + run.stderr
