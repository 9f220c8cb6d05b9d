"""The command line of a run, and a short one."""

import subprocess
import sys
from math import inf
from pathlib import Path

import pytest

from chaos.__main__ import options


def test_without_options() -> None:
    """A RabbitMQ and an ActiveMQ for a minute, from a seed that is drawn."""
    asked = options([])
    assert (asked.seconds, asked.sessions, asked.brokers) == (60.0, 24, ("rabbitmq", "activemq"))
    assert isinstance(asked.seed, int)
    assert (asked.faults, asked.poison) == (None, 0)


def test_options() -> None:
    """Each can be said; one kind of broker means two of it."""
    asked = options(["--seed", "5", "--seconds", "9", "--sessions", "8", "--brokers", "memory"])
    assert (asked.seed, asked.seconds, asked.sessions, asked.brokers) == (5, 9.0, 8, ("memory", "memory"))


def test_so_many_faults() -> None:
    """They take the time that they take, with poison clients unless none are wanted."""
    asked = options(["--faults", "200"])
    assert (asked.faults, asked.seconds, asked.poison) == (200, inf, 8)
    assert options(["--faults", "200", "--poison", "0"]).poison == 0


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


def _keeps_its_promises(*arguments: str) -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "chaos", *arguments]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if run.returncode == 2:
        pytest.skip(run.stderr.strip())
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.long
@pytest.mark.e2e
@pytest.mark.broker
def test_half_a_minute_of_faults() -> None:
    """Sessions of every version, two real brokers, faults at random moments: no promise is broken."""
    _keeps_its_promises("--seconds", "30")


@pytest.mark.deep
@pytest.mark.e2e
@pytest.mark.broker
def test_many_faults_and_poison() -> None:
    """Fault after fault, and clients among the good ones whose words make brokers close: nobody else notices."""
    _keeps_its_promises("--faults", "20")
