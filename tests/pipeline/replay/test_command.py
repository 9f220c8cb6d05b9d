"""`stomprelay-pipeline replay`, as far as it goes without Spark; `tests/e2e/test_replay.py` has the rest."""

import argparse
import io
import threading
from pathlib import Path

import pytest

from stomprelay.pipeline import cli, options
from stomprelay.pipeline.replay import command
from stomprelay.pipeline.replay.command import ReplayWatch, asked, selection, sink_of
from stomprelay.pipeline.replay.selection import INCOMPLETE, UNCOMMITTED, DestinationTotal, Preview, Selection
from stomprelay.pipeline.replay.state import BATCH, ReplayState
from stomprelay.pipeline.stomp.progress import JobProgress
from tests.pipeline.follow.test_progress import Terminal

SECOND = 1_000_000
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
        (["--since", "1970-01-01T00:00:01"], Selection(since=SECOND)),
        (["--until", "1970-01-01T01:00:02+01:00"], Selection(until=2 * SECOND)),
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
    "said",
    [
        *("--rate 0", "--rate fast", "--rate inf", "--window 0", "--connections many"),
        *("--destination /a --rename /b /c", "--stomp nonsense"),
    ],
)
def test_wrong_usage(said: str) -> None:
    """argparse tells it."""
    with pytest.raises(SystemExit):
        given(*said.split())


def test_what_makes_a_replay_another_one() -> None:
    """What is sent and where; not how fast, nor as whom."""
    usual = asked(given())
    assert asked(given("--rate", "5", "--window", "9", "--login", "x", "--connections", "3")) == usual
    changes = ["--where true", "--since 24h", "--until 1h", "--destination /x", "--rename /a /b"]
    changes += ["--key-header k", "--skip-incomplete", "--to tcp://127.0.0.1:1", "--tables /other"]
    for change in changes:
        assert asked(given(*change.split())) != usual


def test_how_the_sink_is_told(tmp_path: Path) -> None:
    """Messages keep their own `persistent`; the passcode is read from its file, and shows nowhere."""
    (tmp_path / "passcode").write_text("secret\n")
    file = str(tmp_path / "passcode")
    said = ["--rate", "2.5", "--window", "50", "--key-header", "k", "--login", "me", "--passcode-file", file]
    further = ["--host", "v", "--stomp", "timeoutMs=7000", "--stomp", "header.x=y"]
    sink = sink_of(given(*said, *further), ReplayState(tmp_path / "state"))
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
        (["--since", "5 apples"], "--since: '5 apples' is no time"),
        (["--until", "2026"], "--until: '2026' is no time"),
        (["--since", "2026-11-21", "--until", "2026-11-20"], "--since is not before --until"),
        (["--since", "2999-01-01"], "--since is not before now"),
        (["--rename", "/a", "/b", "--rename", "/a", "/c"], "--rename: the same FROM is given twice"),
        (["--stomp", "passcode=x"], "--stomp passcode: say --passcode-file$"),
        (["--stomp", "Password=x"], "--stomp Password: say --passcode-file$"),
        (["--stomp", "URI=tcp://a"], "--stomp URI: say --to$"),
        (["--stomp", "timeout=1"], "--stomp timeout: unknown option; "),
        (["--stomp", "timeoutMs=x"], "--stomp timeoutMs: must be a positive whole number"),
        (["--to", "nowhere"], "--to: "),
        (["--to", "memory:"], "--to: "),
        (["--login", "a", "--passcode-file", "/nowhere/to/be"], "--passcode-file: .*/nowhere/to/be"),
    ],
)
def test_what_is_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    """The error has the name of our option, and comes before anything takes long."""
    with pytest.raises(ValueError, match=f"^{said}"):
        _ = selection(given(*arguments), NOW), sink_of(given(*arguments), ReplayState(tmp_path))


TO = ["--to", "tcp://127.0.0.1:1"]


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where Spark would be started: it takes long."""
    monkeypatch.setattr(options, "session", lambda *_, **__: pytest.fail("Spark was started"))


def frozen(folder: Path, tables: Path, *more: str) -> list[str]:
    """Make the state of a replay with two messages; answers the command that goes on with it."""
    wanted = ["--tables", str(tables), *TO, "--state", str(folder), *more]
    with ReplayState(folder) as state:
        place = state.place()
        place.mkdir()
        (place / "part-0").touch()
        state.freeze(asked(given(*wanted)), [(place / "part-0", 2)])
    return ["replay", *wanted]


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
        (["--to", "nowhere", "--state", "{}"], "--to: "),
    ],
)
def test_what_is_refused_in_a_sentence(
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
    lines = [DestinationTotal("/queue/a", messages, 0, "", "")] if messages else []
    return Preview(lines, left_out, blanked or [])


def test_what_is_left_out_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """How many, why, and headers without values once."""
    found = preview(5, {UNCOMMITTED: 1, INCOMPLETE: 1000}, ["token", "x"])
    command._judge(given("--skip-incomplete"), found)
    assert capsys.readouterr().err == (
        "left out: 1 message of transactions without a COMMIT\n"
        "left out: 1,000 messages whose bodies were not recorded as a whole\n"
        "the journal has no values of these headers, so they are not sent: token, x\n"
    )


@pytest.mark.parametrize(
    ("messages", "left_out", "said"),
    [
        (5, {INCOMPLETE: 4}, "of 9 messages 4 have bodies that were not"),
        (0, {}, r"^no message was selected$"),
        (0, {UNCOMMITTED: 1}, r"^no message was selected but those that are left out$"),
    ],
)
def test_what_is_an_error(messages: int, left_out: dict[str, int], said: str) -> None:
    """Incomplete messages, unless they may be left out, for nobody wants to find that later; and nothing to send."""
    with pytest.raises(ValueError, match=said):
        command._judge(given(), preview(messages, left_out))


class Scene:
    """A clock and a count that are set by hand."""

    def __init__(self, out: io.StringIO, before: int = 0) -> None:
        self.now = 100.0
        self.confirmed = before
        self.watch = ReplayWatch(out, 2000, before, lambda: self.confirmed, lambda: self.now)


@pytest.mark.parametrize(
    ("before", "confirmed", "seconds", "said"),
    [
        (0, 0, 0, "0 of 2,000 messages confirmed"),
        (0, 500, 5, "500 of 2,000 messages confirmed, 100/s, 15 s left"),
        (0, 20, 40, "20 of 2,000 messages confirmed, 0/s, 66 min left"),
        (0, 1, 60, "1 of 2,000 messages confirmed, 0/s, 33 h 19 min left"),
        (0, 2000, 1, "2,000 of 2,000 messages confirmed, 2,000/s, 0 s left"),
        (1000, 1100, 10, "1,100 of 2,000 messages confirmed, 10/s, 90 s left"),
    ],
)
def test_the_line(before: int, confirmed: int, seconds: float, said: str) -> None:
    """How many of how many, how fast, how long; what an earlier run sent is no speed of this one."""
    scene = Scene(io.StringIO(), before)
    scene.confirmed = confirmed
    scene.now += seconds
    assert scene.watch.line() == said


def test_elsewhere_lines_are_few() -> None:
    """A log has one every ten seconds."""
    out = io.StringIO()
    scene = Scene(out)
    for _ in range(25):
        scene.now += 1
        scene.watch.tick()
    assert out.getvalue() == "0 of 2,000 messages confirmed\n" * 2


def test_an_interrupt_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once what goes on has ended, too: whoever interrupts stops that as well."""
    stopped, ended = threading.Event(), threading.Event()

    def interrupted() -> int:
        stopped.set()
        raise KeyboardInterrupt

    def work() -> None:
        stopped.wait(30)
        ended.set()

    monkeypatch.setattr(command, "OFTEN", 0.001)
    with pytest.raises(KeyboardInterrupt):
        ReplayWatch(Terminal(), 2, 0, interrupted).follow(work)
    assert ended.is_set()
