"""`stomprelay check` with what a client wants to do: which rule decides, and why."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from stomprelay.cli import configuration, main
from stomprelay.cli.commands import parser
from stomprelay.config import load
from stomprelay.config.summary import ADVICE
from stomprelay.relay.model.rules import AccessRule, AccessRules

RULES = """
[listener.main]
endpoint = "tcp:61613"
[listener.free]
endpoint = "tcp:61614"

[[rule]]
listener = "main"
name = "secrets"
action = "deny"
send = "/queue/secret*"

[[rule]]
listener = "main"
action = "allow"
send = "/queue/*"
size = 10

[[rule]]
listener = "main"
action = "allow"
subscribe = "/topic/*"
ack = "auto"
"""


OTHERS = "rule 1 (secrets): is for other destinations"
SECRETS = "denied: rule 1 (secrets) denies SEND"
SPELLED = "/queue/secrets", "/queue//amq/queue/secrets"
NO_OTHER = (
    *("rule 2: a condition of it is not met", "rule 3: is for other destinations"),
    "denied: no rule matches, and the default denies SEND",
)
CONTROL = "a destination has control characters"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A configuration with rules for one of two listeners."""
    path = tmp_path / "relay.toml"
    path.write_text(RULES, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ("send /queue/orders", 0, [OTHERS, "allowed: rule 2 allows SEND", ADVICE]),
        ("send /amq/queue/secrets", 1, [f"{SECRETS}, and is {' or '.join(SPELLED)} to some brokers"]),
        ("send /queue/secret", 1, [SECRETS]),
        ("send /queue/%73ecret", 1, [f"{SECRETS}, which may be read as /queue/secret"]),
        ("send /queue/orders --size 11", 1, [OTHERS, *NO_OTHER]),
        ("subscribe /topic/a --header ack:client", 1, None),
        ("subscribe /topic/a --header ack:auto --as alice --group g --certificate c", 0, None),
        ("subscribe /topic/a\n", 1, [f"denied: it cannot be told what is asked for: {CONTROL}"]),
    ],
)
def test_which_rule_decides(
    asked: str, status: int, said: list[str] | None, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rules before it are told with why they do not; the exit status is the answer."""
    assert main(["check", "-c", file, "--listener", "main", *asked.split(" ")]) == status
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "listener main"
    assert said is None or out[1:] == [f"  {each}" for each in said]


def test_the_example_of_the_documentation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/access.md shows rules, a command, and what it prints for them."""
    page = (Path(__file__).parents[1] / "docs" / "access.md").read_text(encoding="utf-8")
    page = page.partition("\n## Rules\n")[2]
    shown, asked = (
        re.findall(rf"^```{kind}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0]
        for kind in ("toml", "console")
    )
    file = tmp_path / "rules.toml"
    file.write_text(shown, encoding="utf-8")
    command, _, printed = asked.partition("\n")
    arguments = command.removeprefix("$ stomprelay ").replace("rules.toml", str(file)).split()
    assert main(arguments) == 1
    assert capsys.readouterr().out == printed


def test_a_listener_without_rules(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """There everything is allowed."""
    assert main(["check", "-c", file, "--listener", "free", "send", "/queue/secret"]) == 0
    assert "allowed: there are no rules" in capsys.readouterr().out


def test_rules_for_users(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Who asks is who is named, and rules for others say so."""
    config = load(file)
    own = AccessRules(
        (
            AccessRule(1, allow=False, send=("*",), users=("bob",)),
            AccessRule(2, allow=True, send=("/queue/{user}",), groups=("clerks",)),
        ),
        allow=False,
    )
    config = replace(config, listeners=(replace(config.listeners[0], rules=own),))
    asked = ["check", "-c", file, "send", "/queue/alice"]
    for who, status, said in (
        (
            ["--as", "alice", "--group", "clerks"],
            0,
            "  rule 1: is for others\n  allowed: rule 2 allows SEND\n",
        ),
        (["--as", "alice"], 1, "  rule 1: is for others\n  rule 2: is for others\n  denied: no rule matches"),
        (["--as", "bob", "--group", "clerks"], 1, "  denied: rule 1 denies SEND\n"),
    ):
        assert configuration.decide(parser().parse_args([*asked, *who]), config, print) == status
        assert capsys.readouterr().out.startswith(f"listener main\n{said}")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["send"], "check send: needs a destination"),
        (["send", "/a"], "--listener: which one is not said; known are main, free"),
        (["--listener", "mian", "send", "/a"], "--listener: there is no mian; known are main, free"),
        (["-c", "/nowhere.toml", "send", "/a"], "/nowhere.toml: cannot be read: No such file or directory"),
    ],
)
def test_what_is_not_said(asked: list[str], said: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says what is missing, and the status is none of the answers."""
    assert main(["check", "-c", file, *asked]) == 2
    assert capsys.readouterr().err == f"stomprelay: {said}\n"


@pytest.mark.parametrize(
    "asked", [["receive", "/a"], ["send", "/a", "--header", "x"], ["send", "/a", "--size", "x"]]
)
def test_options_that_cannot_be(asked: list[str], file: str) -> None:
    """As everywhere."""
    with pytest.raises(SystemExit) as ended:
        main(["check", "-c", file, *asked])
    assert ended.value.code == 2
