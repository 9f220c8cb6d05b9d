"""`stomprelay move drain`: what is said about mistakes, before anything is connected."""

import io
from pathlib import Path

import pytest

from stomprelay.cli import main
from stomprelay.cli.move import drain
from stomprelay.move.consumer import End
from stomprelay.move.copies import Refusal
from stomprelay.move.drain import Drain
from stomprelay.relay.model.group import Group
from stomprelay.relay.model.profile import GENERIC
from stomprelay.relay.model.upstream import Upstream

CONFIG = """
[upstream.old]
uri = "tcp://127.0.0.1:1"
[upstream.new]
uri = "failover:(tcp://127.0.0.1:1,tcp://127.0.0.1:2)"
[upstream.new.map]
names = [["/queue/orders", "/queue/shop.orders"]]
[upstream.own]
uri = "memory:"
[upstream.all]
uri = "fanout:(tcp://127.0.0.1:1,tcp://127.0.0.1:2)"
[upstream.secured]
uri = "ssl://127.0.0.1:1"
tls.ca = "missing.pem"
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--from", "olt", "--to", "new", "/queue/a"],
            "--from: there is no upstream olt; known are old, new, own, all",
        ),
        (["--from", "own", "--to", "new", "/queue/a"], "--from: memory: is in the process of a relay"),
        (["--from", "old", "--to", "all", "/queue/a"], "--to: a fan-out has no single broker"),
        (["--from", "old", "--to", "tcp:/x", "/queue/a"], "--to: "),
        (
            ["--from", "old", "--to", "new", "/queue/a"],
            "/queue/a: tcp://127.0.0.1:1 is the old and the new broker",
        ),
        (
            ["--from", "old", "--to", "new", "/queue/shop.orders"],
            "/queue/shop.orders: a destination has no name at",
        ),
        (["--from", "old", "--to", "new", "/queue/a\n"], "QUEUE: must be a name without control characters"),
        (
            ["--from", "old", "--to", "new", "--passcode-file", "x", "/queue/a"],
            "--passcode-file: needs --login",
        ),
        (
            ["--from", "old", "--to", "new", "--login", "x", "--passcode-file", "missing", "/queue/a"],
            "--login: missing cannot be read",
        ),
        (["--from", "old", "--to", "secured", "/queue/b"], "tls.ca: "),
    ],
)
def test_mistakes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """Each is named in one line, with the option or the queue."""
    file = tmp_path / "relay.toml"
    file.write_text(CONFIG)
    assert main(["move", "drain", "-c", str(file), *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert said in err


@pytest.mark.parametrize("rate", ["0", "-1", "many", "inf"])
def test_a_rate_is_a_number_above_zero(capsys: pytest.CaptureFixture[str], rate: str) -> None:
    """Anything else is a wrong option."""
    with pytest.raises(SystemExit) as ended:
        main(["move", "drain", "--from", "old", "--to", "new", "--rate", rate, "/queue/a"])
    assert ended.value.code == 2
    assert "--rate: must be a number above 0" in capsys.readouterr().err


def drained() -> Drain:
    """A drain that has moved some messages, and not all."""
    made = Drain(
        ["/queue/a", "/queue/b"],
        {each: Upstream(each.name, (Group("", ()),)) for each in End},
        lambda _: GENERIC,
        skip=True,
    )
    first, second = made.queues
    first.moved, first.bytes, first.marked, first.repliless, first.shadows = 1234, 99999, 2, 1, 5
    second.refused.append(Refusal("m-1", "no: why"))
    made.unconfirmed = 3
    made.reason = "the command was interrupted"
    return made


def test_the_result_in_words() -> None:
    """By queue: what was moved, what is marked, what was left out, what was refused; and what is in doubt."""
    assert drain._lines([("tcp://old:1", drained())]) == [
        "/queue/a: 1,234 messages moved, 99,999 bytes, 2 of them marked relay-resent",
        "  5 removed, which were copies of the phase shadow",
        "  1 without reply-to, which named a temporary queue of the old broker",
        "/queue/b: 0 messages moved, 0 bytes",
        "  refused: m-1: no: why",
        "1,234 messages in 0.0 s; 3 unconfirmed: they are at the old broker, and perhaps at the new one",
    ]


def test_the_result_as_json() -> None:
    """The same for programs."""
    told = drain._told([("tcp://old:1", drained())])
    queues = told.pop("queues")
    assert told == {
        "drained": False,
        "reasons": ["the command was interrupted"],
        "moved": 1234,
        "unconfirmed": 3,
        "seconds": 0.0,
    }
    assert isinstance(queues, list)
    assert queues[1] == {
        "broker": "tcp://old:1",
        "name": "/queue/b",
        "moved": 0,
        "bytes": 0,
        "marked": 0,
        "repliless": 0,
        "shadows": 0,
        "refused": [{"message": "m-1", "reason": "no: why"}],
    }


def test_the_progress_is_one_line() -> None:
    """Each text replaces the one before, and in the end nothing is left."""
    stream = io.StringIO()
    progress, made = drain.Progress(stream), drained()
    progress(made)
    made.queues[0].moved = 1235
    progress(made)
    progress.clear()
    first, second, third, end = stream.getvalue().split("\r")[1:]
    assert first == "1,234 messages moved, 1,234 a second, 0 under way"
    assert second.rstrip() == "1,235 messages moved, 1 a second, 0 under way"
    assert (third.strip(), end) == ("", "")
    assert len(first) == len(second)
