"""`stomprelay-pipeline replay`, as far as it goes without Spark; `tests/e2e/test_replay.py` has the rest."""

from pathlib import Path

import pytest

from stomprelay.pipeline import cli, options
from stomprelay.pipeline.replay import command
from stomprelay.pipeline.replay.request import asked
from stomprelay.pipeline.replay.selection import INCOMPLETE, UNCOMMITTED, DestinationTotal, Preview
from stomprelay.pipeline.replay.state import BATCH, State
from stomprelay.pipeline.stomp.progress import JobProgress
from tests.pipeline.replay.test_request import given

TO = ["--to", "tcp://127.0.0.1:1"]


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where Spark would be started: it takes long."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(options, "session", refused)


def frozen(folder: Path, tables: Path, *more: str) -> list[str]:
    """Make the state of a replay with two messages; answers the command that goes on with it."""
    command = ["--tables", str(tables), *TO, "--state", str(folder), *more]
    with State(folder) as state:
        place = state.place()
        place.mkdir()
        (place / "part-0").touch()
        state.freeze(asked(given(*command)), [(place / "part-0", 2)])
    return ["replay", *command]


def test_a_replay_that_is_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says so, starts nothing and sends nothing."""
    command = frozen(tmp_path / "state", tmp_path)
    progress = JobProgress(tmp_path / "state" / "progress")
    progress.identity(None)
    progress.advance(BATCH, 0, 2)
    assert cli.main(command) == 0
    said = capsys.readouterr().err
    assert said == "this replay is finished: all 2 messages are confirmed; nothing is sent\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--where", "true"], "is of a replay with no --where, this one has --where 'true'"),
        (["--to", "tcp://127.0.0.1:2"], "this one has --to 'tcp://127.0.0.1:2'"),
        (["--destination", "/x"], "this one has --destination '/x'"),
    ],
)
def test_another_replay_in_the_same_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    """It is refused in a sentence, before Spark is started."""
    assert cli.main([*frozen(tmp_path / "state", tmp_path), *more]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--to and --state must be given, unless it is a --dry-run"),
        (TO, "--to and --state must be given"),
        (["--since", "soon"], "--since: 'soon' is no time: say 2026-11-21, 2026-11-21T08:00 or 24h"),
        ([*TO, "--state", "{}", "--stomp", "passcode=x"], "--stomp passcode: say --passcode-file"),
        (["--to", "nowhere", "--state", "{}"], "--to: "),
    ],
)
def test_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """One sentence, exit status 1."""
    state = str(tmp_path / "state")
    assert cli.main(["replay", "--tables", "t", *(each.format(state) for each in arguments)]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"stomprelay-pipeline: {said}")
    assert told.count("\n") == 1


def preview(messages: int, left_out: dict[str, int], blanked: list[str] | None = None) -> Preview:
    """A selection with so many messages to one destination."""
    return Preview(
        [DestinationTotal("/queue/a", messages, 0, "", "")] if messages else [], left_out, blanked or []
    )


def test_what_is_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """How many, why, and headers without values once."""
    found = preview(5, {UNCOMMITTED: 1, INCOMPLETE: 1000}, ["token", "x"])
    command._judge(given("--skip-incomplete"), found)
    assert capsys.readouterr().err == (
        "left out: 1 message of transactions without a COMMIT\n"
        "left out: 1,000 messages whose bodies were not recorded as a whole\n"
        "the journal has no values of these headers, so they are not sent: token, x\n"
    )


def test_incomplete_messages_are_an_error() -> None:
    """Unless they may be left out: nobody wants to find that later."""
    with pytest.raises(ValueError, match="of 9 messages 4 have bodies that were not"):
        command._judge(given(), preview(5, {INCOMPLETE: 4}))


def test_nothing_to_send_is_an_error() -> None:
    """With a reason where there is one."""
    with pytest.raises(ValueError, match=r"^no message was selected$"):
        command._judge(given(), preview(0, {}))
    with pytest.raises(ValueError, match=r"^no message was selected but those that are left out$"):
        command._judge(given(), preview(0, {UNCOMMITTED: 1}))
