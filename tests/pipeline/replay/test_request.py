"""What a replay is asked for."""

import argparse
from pathlib import Path

import pytest

from stomprelay.pipeline.replay import command
from stomprelay.pipeline.replay.request import SECOND, asked, selection, sink_of
from stomprelay.pipeline.replay.selection import Selection
from stomprelay.pipeline.replay.state import State

NOW = 1_795_000_000 * SECOND


def given(*arguments: str) -> argparse.Namespace:
    """Parse a command line."""
    parser = argparse.ArgumentParser()
    command.add_options(parser)
    parser.set_defaults(master=None)
    return parser.parse_args(["--tables", "/t", "--to", "tcp://127.0.0.1:61613", "--state", "/s", *arguments])


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], Selection()),
        (["--where", "size > 3"], Selection(where="size > 3")),
        (
            ["--since", "1970-01-01T00:00:01", "--until", "1970-01-01T01:00:02+01:00"],
            Selection(None, SECOND, 2 * SECOND),
        ),
        (["--since", "24h"], Selection(since=NOW - 86_400 * SECOND)),
        (["--since", "90m", "--until", "30s"], Selection(None, NOW - 5400 * SECOND, NOW - 30 * SECOND)),
        (["--destination", "/queue/x"], Selection(destination="/queue/x")),
        (
            ["--rename", "/a", "/b", "--rename", "/a/c", "/d"],
            Selection(renames=(("/a", "/b"), ("/a/c", "/d"))),
        ),
    ],
)
def test_a_selection(arguments: list[str], wanted: Selection) -> None:
    """Times are UTC unless they say otherwise, or are counted back from now."""
    assert selection(given(*arguments), NOW) == wanted


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--since", "yesterday"], "--since: 'yesterday' is no time"),
        (["--until", "2026"], "--until: '2026' is no time"),
        (["--since", "5 apples"], "--since: '5 apples' is no time"),
        (["--since", "2026-11-21", "--until", "2026-11-20"], "--since is not before --until"),
        (["--since", "2999-01-01"], "--since is not before now"),
        (["--rename", "/a", "/b", "--rename", "/a", "/c"], "the same FROM is given twice"),
    ],
)
def test_what_cannot_be_selected(arguments: list[str], said: str) -> None:
    """The error names the option."""
    with pytest.raises(ValueError, match=said):
        selection(given(*arguments), NOW)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rate", "0"],
        ["--rate", "fast"],
        ["--rate", "inf"],
        ["--window", "0"],
        ["--connections", "many"],
        ["--destination", "/a", "--rename", "/b", "/c"],
        ["--stomp", "nonsense"],
    ],
)
def test_wrong_usage(arguments: list[str]) -> None:
    """argparse tells it."""
    with pytest.raises(SystemExit):
        given(*arguments)


def test_what_makes_a_replay_another_one() -> None:
    """What is sent and where; not how fast, nor as whom."""
    usual = asked(given())
    assert asked(given("--rate", "5", "--window", "9", "--login", "x", "--connections", "3")) == usual
    for change in (
        ["--where", "true"],
        ["--since", "24h"],
        ["--until", "1h"],
        ["--destination", "/x"],
        ["--rename", "/a", "/b"],
        ["--key-header", "k"],
        ["--skip-incomplete"],
        ["--to", "tcp://127.0.0.1:1"],
        ["--tables", "/other"],
    ):
        assert asked(given(*change)) != usual


def test_how_the_sink_is_told(tmp_path: Path) -> None:
    """Messages keep their own `persistent`; the passcode is read from its file, and shows nowhere."""
    (tmp_path / "passcode").write_text("secret\n")
    file = str(tmp_path / "passcode")
    said = ["--rate", "2.5", "--window", "50", "--key-header", "k", "--login", "me", "--passcode-file", file]
    further = ["--host", "v", "--stomp", "timeoutMs=7000", "--stomp", "header.x=y"]
    sink = sink_of(given(*said, *further), State(tmp_path / "state"))
    assert (sink.rate, sink.window, sink.key_header, sink.id) == (2.5, 50, "k", None)
    assert sink.destination is None
    assert sink.headers == {b"x": b"y"}
    assert sink.progress == tmp_path / "state" / "progress"
    assert sink.connection.timeout == 7.0
    credentials = sink.connection.upstream().credentials
    assert credentials is not None
    assert (credentials.login, credentials.passcode) == (b"me", b"secret")
    assert "secret" not in repr(sink)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--stomp", "passcode=x"], "^--stomp passcode: say --passcode-file$"),
        (["--stomp", "Password=x"], "^--stomp Password: say --passcode-file$"),
        (["--stomp", "URI=tcp://a"], "^--stomp URI: say --to$"),
        (["--stomp", "timeout=1"], r"^--stomp timeout: unknown option; "),
        (["--stomp", "timeoutMs=x"], r"^--stomp timeoutMs: must be a whole number"),
        (["--to", "nowhere"], "^--to: "),
        (["--to", "memory:"], "^--to: "),
        (
            ["--login", "a", "--passcode-file", "/nowhere/to/be/found"],
            "^--passcode-file: .*/nowhere/to/be/found",
        ),
    ],
)
def test_what_the_sink_refuses(tmp_path: Path, arguments: list[str], said: str) -> None:
    """The error has the name of our option, and comes before anything takes long."""
    with pytest.raises(ValueError, match=said):
        sink_of(given(*arguments), State(tmp_path))
