"""What the documents promise exists: the tests, counters and settings they name."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from stomprelay.relay.listener import Loss
from stomprelay.relay.tally import COUNTERS

ROOT = Path(__file__).resolve().parent.parent
TRANSLATION = (ROOT / "docs" / "translation.md").read_text(encoding="utf-8")
LINKS = sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")))


@cache
def functions_in(path: Path) -> frozenset[str]:
    """The names of a module's functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows, without headings and rules."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


RULES = [row for row in rows(TRANSLATION) if re.fullmatch(r"R\d+", row[0])]


def test_rules_are_numbered_from_one() -> None:
    """No number is left out or given twice."""
    assert [row[0] for row in RULES] == [f"R{number}" for number in range(1, len(RULES) + 1)]
    assert len(RULES) > 100


@pytest.mark.parametrize("row", RULES, ids=lambda row: row[0])
def test_a_rule_is_shown_by_tests_that_exist(row: list[str]) -> None:
    """Each rule names at least one test, by the path of its module and its name."""
    number, rule, shown = row
    assert rule, number
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", shown)
    assert named, f"{number} names no test"
    assert re.sub(r"`[\w/]+\.py::\w+`", "", shown).strip() == "", f"{number} says more than tests"
    for path, name in named:
        module = ROOT / "tests" / path
        assert module.is_file(), f"{number}: {path} is missing"
        assert name in functions_in(module), f"{number}: {path} has no {name}"


def test_every_counter_that_is_named_exists() -> None:
    """The last column of the loss tables names counters of the tally, and every loss counter stands there."""
    tables = TRANSLATION.partition("## What cannot be represented")[2].partition("\n## ")[0]
    cells = [row[-1] for row in rows(tables)]
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert named <= COUNTERS.keys()
    losses = {name for name in COUNTERS if name.startswith("loss_") or name.endswith(("_ignored", "_lost"))}
    assert losses <= named


def test_every_loss_policy_has_its_column() -> None:
    """The loss table says what each policy does."""
    heading = next(line for line in TRANSLATION.splitlines() if line.startswith("| what | toward |"))
    assert {loss.value for loss in Loss} <= set(re.findall(r"`(\w+)`", heading))


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
