"""`python -m sim`: its worlds are the same each time, it finds a relay that is wrong, and it finds nothing else."""

import os
import random
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache, wraps
from multiprocessing import get_context
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sim import run as runs
from sim.__main__ import main
from sim.judge import Finding
from sim.plan import PLAIN, Plan, draw
from sim.run import Result, run, run_all
from stomprelay.relay.effects import Effect
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg
from tests.sim import test_kept


def test_a_look() -> None:
    """Some worlds of a fixed seed. They have a process to themselves, for the memory that others leave would count."""
    result = _alone(1, 150)
    assert not result.failed, str(result)
    assert result.kinds.keys() == {"plain", "failover", "fanout"}


@pytest.mark.long
def test_a_long_look() -> None:
    """Some ten thousand worlds, from a seed that is drawn."""
    result = _alone(random.randrange(1_000_000), 20_000)
    assert not result.failed, str(result)


def _alone(seed: int, worlds: int) -> Result:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        return alone.submit(run, seed, worlds=worlds).result()


def test_a_number_says_it_all() -> None:
    """A world is the same in each process, whatever is played before it, and whatever the order of sets is."""
    play = (
        "from sim.plan import draw\nfrom sim.world import World, simulated\nwith simulated():\n"
        "    told = {number: [*World(draw(3, number), tell=True).play()] for number in %s}\n"
        "for number in sorted(told): print(*told[number], sep='\\n')"
    )
    first, second = [
        subprocess.run(
            [sys.executable, "-c", play % order],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed, order in (("1", "range(10)"), ("2", "reversed(range(10))"))
    ]
    assert first == second
    assert first.count(b" calm ") == 10


def test_processes_share_the_worlds() -> None:
    """Two of them play as many worlds as one, and the same ones."""
    one, two = run_all(1, 1, worlds=6), run_all(1, 2, worlds=6)
    assert (one.worlds, one.kinds) == (two.worlds, two.kinds)


def test_plain_settings_are_all_settings() -> None:
    """Every setting that is drawn has a plainest value."""
    assert PLAIN.keys() >= draw(1, 1).scene.settings.keys()


def test_a_run_tells_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    """The seed comes first, then figures."""
    assert main(["--seed", "1", "--worlds", "2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("seed 1\n")
    assert " s  2 worlds, " in said


def test_a_world_is_charted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As text with a column for each client, the relay and each broker; or as an image."""
    assert main(["--seed", "1", "--world", "3", "--watch"]) == 0
    said = capsys.readouterr().out.splitlines()
    scene = draw(1, 3).scene
    columns = [*scene.clients, "relay", *scene.brokers]
    assert said[3].split() == columns
    assert any(re.fullmatch(r" +[0-9.]+  (\| +)*o[->]+ [| ]+ CONNECT.*", line) for line in said)
    assert main(["--seed", "1", "--world", "3", "--watch", str(tmp_path / "world.svg")]) == 0
    image = ElementTree.parse(tmp_path / "world.svg").getroot()
    assert [each.text for each in image.iter("{http://www.w3.org/2000/svg}text")][: len(columns)] == columns


@pytest.fixture
def spoilt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have relays give each RECEIPT twice."""
    original = Relay.received

    @wraps(original)
    def received(relay: Relay, leg: Leg, data: bytes, now: float) -> list[Effect]:
        return [
            Send(each.leg, each.data * 2)
            if isinstance(each, Send) and each.leg is relay.client and each.data.startswith(b"RECEIPT")
            else each
            for each in original(relay, leg, data, now)
        ]

    monkeypatch.setattr(Relay, "received", received)


@pytest.mark.usefixtures("spoilt")
def test_a_relay_that_is_wrong_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """The finding is told with the command that plays its world again."""
    assert main(["--seed", "1", "--worlds", "3"]) == 1
    said = capsys.readouterr().out
    found = re.search(r"FOUND in \d worlds: a_receipt_comes_once: .+\n  python -m sim (.+) --watch  \(", said)
    assert found
    assert main(found[1].split()) == 1


def test_a_world_is_made_small(
    spoilt: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left is a test of a few steps, which fails while the relay is wrong, and passes when it is mended."""
    assert main(["--seed", "3", "--shrink"]) == 1
    said = capsys.readouterr().out
    source = said[said.index("def test_") :]
    assert source.count("Step(") <= 10
    assert max(map(len, source.splitlines())) <= 120
    names = vars(test_kept) | vars(sys.modules["sim.plan"])
    exec(source, names)
    name = source[len("def ") : source.index("(")]
    with pytest.raises(AssertionError):
        names[name]()
    monkeypatch.undo()
    names[name]()


def test_memory_that_grows_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay that keeps something of each session is found out."""
    kept: list[list[int]] = []

    def played(plan: Plan) -> list[Finding]:
        kept.extend([[1] for _ in range(1000)])
        return []

    monkeypatch.setattr(runs, "WARM", 2)
    monkeypatch.setattr(runs, "played", played)
    assert run(1, worlds=4).failed


def test_a_cache_without_a_bound_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of the relay that remembers every answer is found out."""

    @cache
    def remembering(number: int) -> int:
        return number

    remembering.__module__ = "stomprelay.relay"
    for number in range(runs.CACHED + 1):
        remembering(number)
    monkeypatch.setattr(runs, "WARM", 1)
    with pytest.raises(AssertionError, match="has no bound"):
        run(1, worlds=1)
