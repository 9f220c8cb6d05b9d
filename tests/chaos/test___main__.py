"""The command lines, and a short run."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from chaos import __main__ as chaos
from chaos import crash


@pytest.mark.parametrize(
    ("options", "arguments", "said"),
    [
        (chaos.options, "--brokers rabbitmq,apollo", "apollo"),
        (chaos.options, "--sessions 1", "--sessions"),
        (chaos.options, "--faults 0", "--faults"),
        (chaos.options, "--faults 9 --seconds 9", "--seconds"),
        (crash.options, "--rounds 0", "--rounds"),
        (crash.options, "--only broker", "broker"),
    ],
)
def test_what_makes_no_sense(
    options: Callable[[Sequence[str]], object], arguments: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused with the option's name."""
    with pytest.raises(SystemExit) as ended:
        options(arguments.split())
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
