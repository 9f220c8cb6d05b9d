"""`stomprelay move compare`: what is said about mistakes before anything is connected, and what the lines say."""

import json
from pathlib import Path

import pytest
from twisted.internet.testing import MemoryReactorClock

from stomprelay.cli import main
from stomprelay.cli.move import compare
from stomprelay.move.compare import Compare
from stomprelay.move.consumer import End
from stomprelay.relay.model.group import Group
from stomprelay.relay.model.move import Mark
from stomprelay.relay.model.profile import GENERIC
from stomprelay.relay.model.upstream import Upstream
from stomprelay.service.drain import Comparing
from tests.service.harness import failover, movable

CONFIG = """
moves_file = "moves.json"
[listener.public]
endpoint = "tcp:1"
upstream = "old"
[upstream.old]
uri = "failover:(tcp://127.0.0.1:1)"
[upstream.new]
uri = "failover:(tcp://127.0.0.1:2)"
[move.orders]
prefix = "/queue/"
to = "new"
"""


@pytest.mark.parametrize(
    ("name", "phase", "said"),
    [
        ("order", "shadow", "there is no move order; known are orders"),
        ("orders", "both", "orders is both: copies are sent in the phase shadow"),
        ("orders", "shadow", "journal.directory: is missing"),
    ],
)
def test_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, phase: str, said: str
) -> None:
    """The exit status says that nothing was compared."""
    file = tmp_path / "relay.toml"
    file.write_text(CONFIG)
    (tmp_path / "moves.json").write_text(json.dumps({"orders": {"phase": phase, "since": 1.0}}))
    assert main(["move", "compare", name, "-c", str(file)]) == 2
    assert said in capsys.readouterr().err


def test_the_lines() -> None:
    """A table, and below it what else there is to know."""
    core = Compare(["/queue/a"], lambda *_: True, Upstream("new", (Group("", ()),)), lambda _: GENERIC)
    comparison = core.comparison
    comparison.watched("/queue/a", 0.0)
    for number in range(1, 4):
        comparison.sent(("s", number), "/queue/a", "alice", None, float(number))
        comparison.came(Mark(b"s", number, 0), "/queue/a", same=number > 1, again=False, at=number + 0.25)
    comparison.came(Mark(b"s", 3, 0), "/queue/a", same=True, again=True, at=9.0)
    core.others["/queue/a"] = 2
    comparison.unknown = 5
    assert [*compare._lines(core, 1)] == [
        "destination  producer  sent  same  other  missing  twice  late      lag",
        "/queue/a     alice        3     2      1        0      0     0  0.250 s",
        "/queue/a: 2 messages are no copies; they stay there",
        "1 copies came again, marked as such",
        "5 copies are of SENDs that the journal does not have",
        "1 places of the journal are damaged",
        "the sides are not the same",
    ]
    assert [*compare._lines(core, 0, "tcp://b:1")][-2:] == [
        "NEW has other brokers than tcp://b:1: copies that are in queues of their own count as missing",
        "the sides are not the same",
    ]
    told = json.loads(compare._told(core, 0))
    assert (told["same"], told["others"], told["counts"][0]["other"]) == (False, {"/queue/a": 2}, 1)


def test_a_list_of_brokers(tmp_path: Path) -> None:
    """It is said from which of them the copies come."""
    for numbers, only in ([1], ""), ([1, 2], "tcp://192.0.2.1:61613"):
        new, moves = movable(failover(*numbers)), lambda *_: True
        found = Comparing(MemoryReactorClock(), new, str(tmp_path), 0, None, [], moves, 1.0)
        found._doors[End.NEW].broker = new.brokers[0]
        assert found.only == only
