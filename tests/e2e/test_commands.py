"""Every command of the pages: run as it stands but for ports and places, or told here why it cannot be."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from stomprelay.cli.commands import parser
from stomprelay.pipeline import cli as pipeline
from tests.config.reference import put_secrets
from tests.e2e.child import PATIENCE, Child, wait_until
from tests.e2e.ports import free_port
from tests.e2e.raw import Connection
from tests.e2e.relay import ROOT, launch, relay, run, serving

pytestmark = pytest.mark.e2e

BIN = Path(sys.executable).parent
LANGUAGES = {"sh", "console", "text", "json", "toml", "yaml", "python", "sql", "js"}
CANNOT = {
    r"pipx? install ": "needs a network",
    r"(?:python3 -m venv )?/opt/stomprelay\b|install -D |(?:system|journal)ctl ": "changes the machine: test_package",
    r"docker ": "needs Docker: test_image has the image's entry point",
    r"make (?!run$)": "tests within a test; the target is looked up",
    r"stomprelay move ": "needs brokers of two products: test_move, test_move_check and test_move_drain have it",
    r"stomprelay tail ?": "goes on until Ctrl-C: test_tail has it",
    r"stomprelay-pipeline ": "starts Spark, many seconds each: tests/pipeline has them; the options are read",
    r"(curl|stomprelay) .*relay\.example\.net": "asks another machine; tests/service/admin has tokens and TLS",
    r"openssl s_client ": "asks another machine",
    r"stomprelay passwd users alice|openssl .* passwd --stdin": "asks at a terminal, or another program: test_passwd",
    r"stomprelay (?:check|run) .*browsers\.toml|openssl ec": "needs the certificate of its page: test_browsers has it",
    r"stomprelay move drain ": "needs two brokers: test_move_drain has it",
    r"python -m sim": "tests/sim/test_command runs them",
    r"python -c .*deltalake|duckdb ": "reads tables of a pipeline: tests/pipeline/delta and store do so",
}
"""What begins a command that no test here runs, and why."""
OURS = ("stomprelay ", "make run", "(exec 3<>/dev/tcp/127.0.0.1/", '(PATH="$PWD/.venv/bin:$PATH"')
"""What begins all others: nothing but these is ever run here."""

ASKS = re.compile(r"^ ?stomprelay (?:brokers|pause|resume|sessions|kill)\b(?!.* --admin )", re.MULTILINE)
"""Commands that ask a relay where admin is by default."""
LISTENS = re.compile(r"^ ?stomprelay run\b(?!.* --config )", re.MULTILINE)
"""A relay that listens where it does by default."""
RUNS = re.compile(r"(?:stomprelay|make) run\b")


class Block(NamedTuple):
    """A fenced block of a page, the `number`th from 1."""

    page: Path
    number: int
    language: str
    text: str


@cache
def blocks() -> list[Block]:
    """All blocks of all pages, in their order."""
    return [
        Block(page, number, *found)
        for page in sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))
        for number, found in enumerate(
            re.findall(
                r"^```([^\n]*)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
            ),
            1,
        )
    ]


def commands(text: str) -> list[str]:
    """The commands of a block: each begins at the margin, and goes on in the lines that do not."""
    return re.findall(r"^\S.*(?:\n .*)*", text, re.MULTILINE)


def exchanges(text: str) -> list[tuple[str, str]]:
    """What is typed at the prompt `$ `, and on at `> `, and what is printed then."""
    typed = re.findall(r"^\$ (.*(?:\n> .*)*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
    return [(command.replace("\n> ", "\n"), printed) for command, printed in typed]


def cannot(command: str) -> bool:
    """Whether a command is on the list of those that are not run."""
    return any(re.match(pattern, command) for pattern in CANNOT)


def runs(block: Block) -> bool:
    """Whether some command of a block is run by itself; a client needs the relay of the block before it."""
    return "/dev/tcp/" not in block.text and not all(map(cannot, commands(block.text)))


def of(language: str, chosen: Callable[[Block], bool] = lambda _: True) -> list[object]:
    """The blocks of a language, or those of them that are chosen, as parameters."""
    return [
        pytest.param(block, id=f"{block.page.stem}-{block.number}")
        for block in blocks()
        if block.language == language and chosen(block)
    ]


@cache
def port(told: str) -> int:
    """The port that stands for one that a page tells."""
    return free_port()


def placed(text: str) -> str:
    """A text of a page with other ports, and with what is in /run here."""
    text = re.sub(r"\b616(?:1[3-5]|8[01])\b", lambda found: str(port(found[0])), text)
    return text.replace("/run/secrets/broker", "broker.passcode")


def here(command: str, admin: str) -> str:
    """A command of a page with other ports; what goes without saying, where to listen and whom to ask, is said."""
    command = ASKS.sub(rf"\g<0> --admin {admin}", command)
    return placed(LISTENS.sub(r"\g<0> --listen tcp:61613:interface=127.0.0.1", command))


def same(text: str) -> str:
    """What is printed, without what is another at each run or release: names, ports, our version, blanks at the end."""
    other = re.sub(r"[0-9a-f]{8,}|\b\d{5}\b|(?<=stomprelay/)[\d.]+", "#", text)
    return re.sub(r"[ \t]+$", "", other, flags=re.MULTILINE).strip()


class Stage:
    """A folder with the files that the pages name, and a relay that runs there, to be asked."""

    def __init__(self, directory: Path, listens: int, admin: int) -> None:
        self.directory = directory
        self.listens = listens
        self.admin = f"http://127.0.0.1:{admin}"
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": path,
            "LC_ALL": "C",
        }

    def here(self, command: str) -> str:
        """A command with the ports and places of this stage."""
        return here(command, self.admin).replace("/var/lib/stomprelay", str(self.directory))

    def bash(self, command: str) -> str:
        """Run it, and return what it printed. It has to succeed."""
        done = run(self.directory, "bash", "-c", command, **self.environment)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, command: str) -> Child:
        """Start a relay by `stomprelay run` or `make run`."""
        words = shlex.split(self.here(command), comments=True)
        if words[0] == "make":
            # An environment that is ready: nothing is to be installed.
            environment = self.directory / "environment"
            environment.mkdir(exist_ok=True)
            if not (environment / "bin").exists():
                (environment / "bin").symlink_to(BIN)
            for done in (".tools", ".run"):
                (environment / done).touch()
            make = shutil.which("make")
            assert make, "make is not installed"
            place = f"tcp:{port('61613')}:interface=127.0.0.1"
            words = [make, "-C", str(ROOT), *words[1:], f"VENV={environment}", f"ARGS=--listen {place}"]
        else:
            words[0] = str(BIN / words[0])
        return launch(self.directory, words)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A relay with a journal, and one upstream whose brokers are not there."""
    directory = tmp_path_factory.mktemp("stage")
    put_secrets(directory)
    shipped = ROOT / "config" / "stomprelay.toml"
    (directory / "stomprelay.toml").write_text(placed(shipped.read_text(encoding="utf-8")))
    for block in blocks():
        if named := re.match(r"# (\S+\.toml)\n", block.text):
            (directory / named[1]).write_text(placed(block.text))
    listens, other, admin = (free_port() for _ in range(3))
    config = f"""
admin = "tcp:{admin}:interface=127.0.0.1"
[listener.public]
endpoint = "tcp:{listens}:interface=127.0.0.1"
upstream = "memory"
[listener.other]
endpoint = "tcp:{other}:interface=127.0.0.1"
upstream = "main"
[upstream.memory]
uri = "memory:"
[upstream.main]
uri = "failover:(tcp://broker-a:{port("61613")},tcp://broker-b:{port("61613")})"
[journal]
directory = "{directory / "journal"}"
"""
    home = tmp_path_factory.mktemp("relay")
    with relay(home, config, [listens, other, admin]):
        yield Stage(directory, listens, admin)


def test_every_block_says_what_it_is() -> None:
    """So that no command stands in a block that nobody looks at."""
    assert [block for block in blocks() if block.language not in LANGUAGES] == []
    programs = re.compile(r"^(\$ )?(stomprelay|twistd|make|pip|pipx|systemctl|nc|curl) ", re.MULTILINE)
    others = [block for block in blocks() if block.language not in ("sh", "console")]
    assert [block for block in others if programs.search(block.text)] == []


def test_every_reason_is_needed() -> None:
    """What is on the list of those that cannot be run stands on some page."""
    told = [command for block in blocks() if block.language == "sh" for command in commands(block.text)]
    assert [pattern for pattern in CANNOT if not any(re.match(pattern, each) for each in told)] == []


@pytest.mark.parametrize("block", of("sh"))
def test_every_command_can_be_said(block: Block) -> None:
    """Also those that are not run: their options are those that there are."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in commands(block.text):
        assert cannot(command) or command.startswith(OURS), command
        program, *words = shlex.split(command.replace("\\\n", " ").partition(" > ")[0], comments=True)
        if program == "stomprelay":
            parser().parse_args(words)
        elif program == "stomprelay-pipeline":
            pipeline._parser(words).parse_args(words)
        elif program == "make":
            assert re.search(rf"^{words[0]}:", makefile, re.MULTILINE), command


@pytest.mark.parametrize("block", of("sh", runs))
def test_every_command_works(stage: Stage, block: Block) -> None:
    """One after the other, while the relays go on that they start, and with a client at the one that is asked."""
    with contextlib.ExitStack() as running, Connection.to(stage.listens) as client:
        client.connect(login="app")
        client.write(b"SEND\ndestination:/queue/orders\nreceipt:1\n\nhello\0")
        client.frame()
        listed = stage.bash(f"stomprelay sessions --json --admin {stage.admin}").splitlines()
        session = json.loads(listed[-1])["session"]
        for command in commands(block.text):
            if cannot(command):
                continue
            assert command.startswith(OURS), command
            if RUNS.match(command):
                running.enter_context(serving(stage.start(command), [port("61613")]))
            else:
                stage.bash(re.sub(r"\brelay-[0-9a-f]{8}-\d+\b", session, stage.here(command)))


@pytest.mark.parametrize("shown", ["hello", "still here"])
def test_the_readme_as_it_is_pasted(stage: Stage, shown: str) -> None:
    """Each block with a client ends by itself and prints what the page shows; the first needs the relay before it."""
    page = [block for block in blocks() if block.page.name == "README.md"]
    client = next(block for block in page if "/dev/tcp/" in block.text and shown in block.text)
    started, printed = page[client.number - 2], page[client.number]
    assert printed.language == "text"
    with contextlib.ExitStack() as running:
        if started.text == "make run\n":
            running.enter_context(serving(stage.start(started.text), [port("61613")]))
        assert same(stage.bash(here(client.text, "http://127.0.0.1:61680"))) == same(printed.text)


@contextlib.contextmanager
def shell(stage: Stage, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A bash that reads commands; what it started ends with it."""
    with (directory / "stderr.log").open("w") as stderr:
        process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=directory,
            env=stage.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    assert process.stdin is not None
    too_long = threading.Timer(2 * PATIENCE, os.killpg, (process.pid, signal.SIGKILL))
    too_long.start()
    try:
        say(process, "trap 'kill $(jobs -p); wait' EXIT")
        yield process
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.communicate()
        too_long.cancel()


def say(bash: "subprocess.Popen[str]", command: str) -> str:
    """Have it run a command, and return what that printed."""
    assert bash.stdin is not None
    assert bash.stdout is not None
    bash.stdin.write(f"{command}\nprintf '\\n\\001\\n'\n")
    bash.stdin.flush()
    printed = ""
    while not printed.endswith("\n\x01\n"):
        line = bash.stdout.readline()
        assert line, f"{command}: bash has ended\n{printed}"
        printed += line
    return printed.removesuffix("\n\x01\n")


def say_until(bash: "subprocess.Popen[str]", command: str, printed: str) -> str:
    """Have it run a command, one that only looks again and again, until it prints this; return what it printed last."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = say(bash, command)
        looks = command.startswith("stomprelay ") and time.monotonic() < deadline
        if same(found) == same(printed) or not looks:
            return found


def wait_for_line(log: Path, end: str) -> None:
    """Wait until a line of a log, which may not be there yet, ends so."""

    def text() -> str:
        return log.read_text() if log.exists() else ""

    wait_until(lambda: end in text(), lambda: f"no {end!r} in {log.name}:\n{text()}")


@pytest.mark.parametrize("block", of("console"))
def test_every_session_is_as_it_is_shown(stage: Stage, tmp_path: Path, block: Block) -> None:
    """What is typed prints what the page shows; a program in the background is waited for until it listens."""
    for each in stage.directory.glob("*.toml"):
        shutil.copy(each, tmp_path)
    with shell(stage, tmp_path) as bash:
        for typed, printed in exchanges(block.text):
            found = say_until(bash, here(typed, "http://127.0.0.1:61680"), printed)
            assert same(found) == same(printed), typed
            if log := re.search(r"> (\S+) &$", typed):
                listens = re.search(r"--listen tcp:(\d+)", typed)
                wait_for_line(tmp_path / log[1], f" starting on {port(listens[1] if listens else '61613')}\n")
