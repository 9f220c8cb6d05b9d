"""The house rules that a machine can hold: which file is tested where, how long it grows, what is packaged.

The import rules are import-linter's (``[tool.importlinter]`` in ``pyproject.toml``).
"""

import ast
import configparser
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import stomprelay

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "stomprelay"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
LINES = 320

modules = pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))


@modules
def test_every_module_has_its_own_test_module(module: Path) -> None:
    """``stomprelay/a/b.py`` is tested by ``tests/a/test_b.py``."""
    place = module.relative_to(PACKAGE)
    own = ROOT / "tests" / place.parent / f"test_{place.name}"
    assert own.is_file(), f"{own.relative_to(ROOT)} is missing"


@modules
def test_no_module_outgrows_its_noun(module: Path) -> None:
    """A module that needs more lines holds two nouns."""
    lines = len(module.read_text(encoding="utf-8").splitlines())
    assert lines <= LINES, f"{lines} lines, at most {LINES}: split it"


def test_every_test_says_its_intent() -> None:
    """A test function or method has a docstring, the sentence that its failure contradicts."""
    silent = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert silent == []


def test_every_folder_is_a_package() -> None:
    """Modules of one name in two folders never clash, in the source and in the tests."""
    folders = {path.parent for top in (PACKAGE, ROOT / "tests") for path in top.rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_the_plugin_folders_stay_open() -> None:
    """An ``__init__.py`` in ``twisted/`` or ``twisted/plugins/`` would hide Twisted or our plugin."""
    assert [path.name for path in (ROOT / "twisted").rglob("*.py")] == ["stomprelay_plugin.py"]


def test_the_plugin_is_packaged() -> None:
    """``find:`` would not find ``twisted.plugins``, which has no ``__init__.py``: ``setup.cfg`` names it."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    assert "twisted.plugins" in setup["options.packages.find"]["include"].split()


def test_the_installed_twistd_lists_both_plugins(tmp_path: Path) -> None:
    """The environment that runs the tests is one in which ``twistd stomprelay`` works, from any folder."""
    twistd = Path(sys.executable).with_name("twistd")
    usage = subprocess.run(
        [twistd, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout
    assert {"stomprelay", "stompbroker"} <= set(usage.split())


def test_the_version_stands_in_one_place() -> None:
    """The package states its version; the metadata takes it from there."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    assert setup["metadata"]["version"] == "attr: stomprelay.__version__"
    assert re.fullmatch(r"\d+\.\d+\.\d+", stomprelay.__version__)


def test_every_news_fragment_has_a_name_that_towncrier_takes() -> None:
    """A fragment is ``<issue>.<type>``; towncrier would leave out any other without a word."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    types = "|".join(kind["directory"] for kind in settings["type"])
    fragments = [path for path in (ROOT / settings["directory"]).iterdir() if path.name != ".gitignore"]
    name = re.compile(rf"(\d+|\+\w+)\.({types})(\.\d+)?")
    assert [path.name for path in fragments if not name.fullmatch(path.name)] == []
    assert all(path.read_text(encoding="utf-8").strip() for path in fragments)
