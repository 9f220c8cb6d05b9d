"""`python -m sim`: its worlds are the same each time, it finds a relay that is wrong, and it finds nothing else."""

import gc
import os
import random
import re
import subprocess
import sys
import weakref
from concurrent.futures import ProcessPoolExecutor
from functools import cache, wraps
from itertools import count, repeat
from multiprocessing import get_context
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sim import proof
from sim import run as runs
from sim.__main__ import main
from sim.chart import Chart
from sim.clients import Habit
from sim.judge import Finding
from sim.plan import CALM, PLAIN, Plan, Scene, Step, draw
from sim.run import Result, run, run_all
from sim.world import World
from stomprelay.relay.effects import Effect
from stomprelay.relay.relay import Relay
from stomprelay.session.effects import Send
from stomprelay.session.leg import Leg
from tests.sim import test_kept

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.ci
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


def test_the_commands_of_the_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """They can be given as they stand; here few worlds are played, and one defect is looked for, in no time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(proof, "patches", lambda names: [proof.DEFECTS / "nack_of_1_0.patch"])
    commands = re.findall(r"^python -m (sim\S*) (.+)$", (DOCS / "simulator.md").read_text(), re.MULTILINE)
    for program, arguments in commands:
        if program == "sim":
            assert main([*arguments.split(), "--jobs", "1", "--worlds", "2"]) == 0
        else:
            assert proof.main([*arguments.split(), "--jobs", "1", "--minutes", "0"]) == (
                "renew" not in arguments
            )
    said = capsys.readouterr().out
    assert said.startswith("seed 1\n")
    assert " s  2 worlds, " in said
    assert said.endswith("1 of 1 patches fit the code\n")
    assert len(commands) == 9
    assert ElementTree.parse(tmp_path / "world.svg").getroot()


def test_a_chart() -> None:
    """As text with a column for each client, the relay and each broker. The image is the one of the page: where the
    world has become another one, this fails once, and writes it.
    """
    brokers = {"a": (test_kept.PRODUCT["rabbitmq"], b"1.2"), "b": (test_kept.PRODUCT["activemq"], b"1.2")}
    scene = Scene("failover", brokers, {"c1": Habit(b"1.2")}, CALM, PLAIN | {"confirm": True})
    steps = (
        Step(0.1, "c1", "connect"),
        Step(0.2, "c1", "subscribe", (0, 2, 1)),
        Step(0.3, "c1", "send", (0, 1, 0, 0)),
        Step(0.5, "c1", "ack", (0, 0, 0)),
        Step(0.6, "a", "stall", (1,)),
        Step(0.7, "c1", "send", (0, 1, 0, 0)),
        Step(0.8, "a", "kill", (0,)),
        Step(1.5, "c1", "disconnect"),
        Step(2.5, "a", "start"),
    )
    chart = Chart(World(Plan("0", scene, steps), tell=True).play())
    columns, *rows = list(chart.lines())[2:]
    assert columns.split() == ["c1", "relay", "a", "b"]
    assert any(re.fullmatch(r" +0\.[0-9]+  o-+>  .* CONNECT accept-version:1\.2", row) for row in rows)
    chart.rows = [
        row for row in chart.rows if "decoder" not in row.text
    ]  # it is another one on other machines
    image = DOCS / "world.svg"
    before, now = [re.sub(r">\d+\.\d+<", "><", each) for each in (image.read_text(), chart.svg())]
    if before != now:
        image.write_text(chart.svg())
    assert before == now


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


def test_nothing_is_left_of_a_world() -> None:
    """When it is over, nothing refers to it: memory may be compared from one world to another."""
    plan = next(plan for plan in map(draw, repeat(1), count()) if plan.scene.settings["journal"])
    world = World(plan)
    net = weakref.ref(world.net)
    world.play()
    del world
    gc.collect()
    assert net() is None


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
