"""Random conversations find nothing that must not be; `make test-deep` has more of them."""

import random
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from fuzz.__main__ import main
from fuzz.run import run


@pytest.mark.parametrize("seed", [1, 2])
def test_a_look(seed: int) -> None:
    """Some hundred worlds of a fixed seed: no input raises, every session ends, nothing is kept. They have a process to
    themselves, for the memory that others leave would count.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        result = alone.submit(run, seed, worlds=400).result()
    assert not result.failed, str(result)
    assert result.kinds.keys() == {"plain", "failover", "fanout", "routes"}


@pytest.mark.long
def test_a_long_look() -> None:
    """A thousand million bytes of it, from a seed that is drawn."""
    seed = random.randrange(1_000_000)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        result = alone.submit(run, seed, octets=1e9).result()
    assert not result.failed, f"seed {seed}\n{result}"


def test_a_run_tells_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """Its figures are printed."""
    main(["--seed", "1", "--bytes", "1"])
    said = capsys.readouterr().out
    assert said.startswith("seed 1\n")
    assert "\nframes to clients " in said


def test_one_world_is_told_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    """What is said to a relay and what it answers, input by input."""
    main(["--seed", "1", "--world", "7"])
    assert "    Send client b'" in capsys.readouterr().out
