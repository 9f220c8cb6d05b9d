"""`stomprelay move drain`: what is said about mistakes, before anything is connected."""

from pathlib import Path

import pytest

from stomprelay.cli import main

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
