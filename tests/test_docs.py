"""What the documents promise exists: the tests, counters, metrics, settings and modules they name."""

import argparse
import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from stomprelay.cli.commands import parser
from stomprelay.config import load
from stomprelay.pipeline import cli as pipeline
from stomprelay.relay.link.link import CLOSED, STRANGE
from stomprelay.relay.model.counters import COUNTERS
from stomprelay.relay.model.listener import LossPolicy
from stomprelay.relay.model.rules import Ground
from stomprelay.service.admin.metrics import metrics
from stomprelay.service.admin.snapshot import SERVES, WorkerRow, snapshot
from tests.config.reference import put_secrets, settings
from tests.service.harness import JournalHarness, failover, listener, movable

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(ROOT.glob("docs/*.md"))
LINKS = sorted((*ROOT.glob("*.md"), *PAGES))
TRANSLATION, FAILOVER, DEVELOPMENT, SECURITY, ACCESS = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("translation", "failover", "development", "security", "access")
)
SAMPLES = [
    pytest.param(sample, id=f"{page.stem}-{number}")
    for page in LINKS
    for number, sample in enumerate(
        re.findall(r"^```toml\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE), 1
    )
]


def section(text: str, heading: str) -> str:
    """What stands below a heading, up to the next one of its level."""
    found = text.partition(f"\n## {heading}\n")[2]
    assert found, f"no section {heading!r}"
    return found.partition("\n## ")[0]


@cache
def functions_in(path: Path) -> frozenset[str]:
    """The names of a module's functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows, without headings and rules."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def not_shown(shown: str) -> list[str]:
    """What is wrong with a cell of tests: each has to exist, and nothing else stands there."""
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", shown)
    wrong = []
    if not named or re.sub(r"`[\w/]+\.py::\w+`", "", shown).strip():
        wrong.append("it names no test, or more than tests")
    for path, name in named:
        module = ROOT / "tests" / path
        if not module.is_file() or name not in functions_in(module):
            wrong.append(f"{path} has no {name}")
    return wrong


RULES = [row for row in rows(TRANSLATION) if re.fullmatch(r"R\d+", row[0])]


ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
_RAISED = frozenset(
    {"StompError", "FrameError", "LimitError", "ProtocolError", "Refused", "NotAccepted", "Reason"}
)


def _message(call: ast.Call) -> str | None:
    """The message of an error that is made there, with an ellipsis for each word that depends on the frame."""
    first = call.args[0]
    if isinstance(first, ast.Constant):
        return str(first.value)
    if isinstance(first, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in first.values)
    return None  # it was made elsewhere


def test_every_error_of_the_relay_is_listed() -> None:
    """docs/errors.md has each message that the core, the service or the embedded broker can send, and no other."""
    made: set[str | None] = {CLOSED, STRANGE}
    for room in ("wire", "session", "relay", "service", "broker"):
        for path in (ROOT / "stomprelay" / room).rglob("*.py"):
            for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in _RAISED:
                    made.add(_message(call))
    listed = [row[0].strip("`") for row in rows(ERRORS) if row[0] != "`message`"]
    assert sorted(listed) == sorted(filter(None, made))


def test_rules_are_numbered_from_one() -> None:
    """No number is left out or given twice, and each names at least one test."""
    assert [row[0] for row in RULES] == [f"R{number}" for number in range(1, len(RULES) + 1)]
    assert len(RULES) > 100
    wrong = []
    for number, rule, shown in RULES:
        assert rule, number
        wrong += [f"{number}: {problem}" for problem in not_shown(shown)]
    assert wrong == []


def test_every_line_on_the_built_in_broker_is_shown_by_tests_that_exist() -> None:
    """Each says what it does, and names at least one test."""
    told = [
        row for row in rows((ROOT / "docs" / "broker.md").read_text(encoding="utf-8")) if row[0] != "what"
    ]
    assert [f"{what}: {problem}" for what, _, shown in told for problem in not_shown(shown)] == []
    assert len(told) > 20


def test_every_line_on_security_is_shown_by_tests_that_exist() -> None:
    """Each says what somebody may try, whether it can be done, why, and names at least one test."""
    told = [row for row in rows(SECURITY.partition("\n## Clients\n")[2]) if row[0] != "what"]
    assert len(told) > 90
    wrong = []
    for what, answer, why, shown in told:
        assert what, shown
        assert why, what
        if not re.match(r"\*\*can\*\*|(can|cannot|up to|for a turn|by)\b", answer):
            wrong.append(f"{what}: neither can nor cannot")
        wrong += [f"{what}: {problem}" for problem in not_shown(shown)]
    assert wrong == []


def test_every_limit_that_security_names_is_a_setting() -> None:
    """By its key, or the end of it."""
    keys = [setting.key for setting in settings()]
    named = {
        name for name in re.findall(r"`([\w.]+)`", SECURITY) if re.match(r"(limits|broker|upstream)\.", name)
    }
    assert named
    ends = {name.removeprefix("upstream.") for name in named}
    assert sorted(end for end in ends if not any(f".{key}".endswith(f".{end}") for key in keys)) == []


def test_every_page_is_on_the_lists() -> None:
    """README.md links to each page, docs/development.md says what each is for, and the site's contents have each."""
    lists = {"README": (ROOT / "README.md").read_text(encoding="utf-8"), "development": DEVELOPMENT}
    pages = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]
    missing = [
        f"{where}: {page.name}"
        for where, text in lists.items()
        for page in pages
        if not re.search(rf"\]\((?:docs/|\.\./)?{re.escape(page.name)}[)#]", text) and page.stem != where
    ]
    assert missing == []
    contents = (ROOT / "docs" / "site" / "conf.py").read_text(encoding="utf-8")
    assert {page.stem for page in PAGES} <= set(re.findall(r'"([a-z]+)"', contents))


def test_every_counter_that_is_named_exists() -> None:
    """The loss tables name counters, and have every loss counter; each policy has its column."""
    cells = [row[-1] for row in rows(section(TRANSLATION, "What cannot be represented"))]
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert named <= COUNTERS.keys()
    ends = ("_ignored", "_lost", "_stale", "_withheld", "_resent", "_overflowed")
    losses = {name for name in COUNTERS if name.startswith("loss_") or name.endswith(ends)}
    assert losses <= named
    heading = next(line for line in TRANSLATION.splitlines() if line.startswith("| what | toward |"))
    assert {loss.value for loss in LossPolicy} <= set(re.findall(r"`(\w+)`", heading))


def test_every_ground_of_a_refusal_is_explained() -> None:
    """The table of refused clients has what the log and the journal say, and nothing else."""
    reasons = [row[0] for row in rows(section(ACCESS, "Refused clients"))]
    found = re.findall(r"`(\w+)`", " ".join(reasons))
    assert sorted(found) == sorted(each.value for each in Ground)


@pytest.mark.parametrize("page", LINKS, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A link to a file of the project leads to one, and its fragment to a heading of it."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        linked = page.parent / name if name else page
        assert linked.exists(), f"{page.name}: {target}"
        if fragment and linked.suffix == ".md":
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
            assert fragment in anchors, f"{page.name}: {target}"


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_sample_loads(tmp_path: Path, sample: str) -> None:
    """What a page shows as TOML is a configuration."""
    put_secrets(tmp_path)
    file = tmp_path / "sample.toml"
    text = re.sub(r"^passcode_file = .*$", 'passcode_file = "broker.passcode"', sample, flags=re.MULTILINE)
    file.write_text(text, encoding="utf-8")
    assert load(str(file)).listeners


def subcommands(parser: argparse.ArgumentParser) -> Iterator[str]:
    """All commands of a command line, as they are typed."""
    inner = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    for each in inner:
        for below in each.choices.values():
            yield from subcommands(below)
    if not inner:
        yield parser.prog


def test_every_command_is_in_the_table() -> None:
    """docs/commands.md has each command of both programs, and no other."""
    table = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    told = [row[0].strip("`") for row in rows(table) if row[0] != "command"]
    there = {*subcommands(parser()), *subcommands(pipeline._parser([]))}
    assert sorted(told) == sorted(there)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_metric_that_is_named_exists(tmp_path: Path, page: Path) -> None:
    """As the metrics page has it."""
    found = set(re.findall(r"`(stomprelay_\w+)`", page.read_text(encoding="utf-8")))
    harness = JournalHarness(tmp_path, listener(upstream=movable(failover(1, 2))))
    taken = snapshot(harness.service.state, whole=False)
    taken = taken._replace(workers=(WorkerRow(1, None, SERVES, 0, 0),))
    served = re.findall(r"^# TYPE (\w+) ", metrics(taken, ready=True), re.MULTILINE)
    assert found <= set(served)
    assert found or page.name != "failover.md"


def test_the_times_are_those_of_the_settings() -> None:
    """The table has settings that exist, with their defaults."""
    defaults = {setting.key: setting.default for setting in settings()}
    told = rows(section(FAILOVER, "How long it takes"))[1:]
    assert told
    for key, default, _ in told:
        assert f"`{defaults[key.strip('`')]}`" == default, key


@pytest.mark.parametrize(
    ("package", "heading"),
    [
        ("relay", "The relay's rooms"),
        ("service", "The service's rooms"),
        ("config", "The configuration's modules"),
        ("broker", "The embedded broker's modules"),
        ("journal", "The journal's modules"),
        ("pipeline", "The pipeline's rooms"),
    ],
)
def test_every_module_is_on_the_map(package: str, heading: str) -> None:
    """docs/development.md names each module and each folder of the large packages."""
    named = set(re.findall(r"\w+", section(DEVELOPMENT, heading)))
    folder = ROOT / "stomprelay" / package
    modules = {path.stem for path in folder.rglob("*.py") if path.stem != "__init__"}
    folders = {path.parent.name for path in folder.glob("*/__init__.py")}
    assert sorted((modules | folders) - named) == []


def test_every_file_on_the_map_exists() -> None:
    """A file that docs/development.md names is one of the repository, by its path there, or in a package or room."""
    named = set(re.findall(r"[`\s(](\w+(?:/\w+)*\.py)\b", DEVELOPMENT))
    files = {
        str(path.relative_to(ROOT))
        for top in ("stomprelay", "twisted", "tests", "sim")
        for path in (ROOT / top).rglob("*.py")
    } | {path.name for path in ROOT.glob("*.py")}
    assert named
    assert sorted(name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)) == []
