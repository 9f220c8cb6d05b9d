"""The house rules that a machine can hold: how large modules and folders are, what tests say, what is packaged.

The import rules are import-linter's (``[tool.importlinter]`` in ``pyproject.toml``).
"""

import ast
import configparser
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import stomprelay

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "stomprelay"
MODULES = {
    str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines())
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name not in ("__init__.py", "__main__.py")
}
"""The lines of each module, by its path below ``stomprelay``."""

FOLDERS = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))

SHORTEST = 60
WIDEST = 16

SHORT: dict[str, str] = {
    "broker_tap.py": "twistd wants a plugin's Options and makeService in a module of their own",
    "files.py": "setup.py imports it, and nothing else of the relay",
    "journal/settings.py": "all that the configuration needs to know of the journal",
    "pipeline/commands/migrate.py": "each command is a module",
    "pipeline/sessions/record.py": "the places in a record have the names of those in a transfer",
    "session/reasons.py": "words that the service and the pipeline share",
}
"""Modules with fewer than ``SHORTEST`` lines, each with the reason why it is not part of another one."""

WIDE: dict[str, str] = {}
"""Folders with more than ``WIDEST`` entries, each with the reason why it is not divided."""


def test_a_short_module_has_a_reason() -> None:
    """Else it is part of what it is read with; a reason that is no longer needed goes."""
    short = {path for path, lines in MODULES.items() if lines < SHORTEST}
    assert sorted(short - SHORT.keys()) == []
    assert sorted(SHORT.keys() - short) == []


def entries(folder: Path) -> set[str]:
    """Name the modules and folders in a folder of the package."""
    modules = {path.stem for path in folder.glob("*.py") if path.name not in ("__init__.py", "__main__.py")}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    """Modules and folders in one folder are few, or there is a reason."""
    counted = {str(folder.relative_to(ROOT)): len(entries(folder)) for folder in FOLDERS}
    assert {folder: count for folder, count in counted.items() if count > WIDEST and folder not in WIDE} == {}
    assert {folder for folder in WIDE if counted.get(folder, 0) <= WIDEST} == set()


def test_a_folder_lists_what_is_in_it() -> None:
    """The docstring of its ``__init__.py`` names each of its modules and folders."""
    unnamed = {}
    for folder in FOLDERS:
        tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
        missing = entries(folder) - set(re.findall(r"\w+", ast.get_docstring(tree) or ""))
        if missing:
            unnamed[str(folder.relative_to(ROOT))] = sorted(missing)
    assert unnamed == {}


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
    """Save those of the plugins, which stay open and are packaged all the same."""
    folders = {path.parent for top in (PACKAGE, ROOT / "tests") for path in top.rglob("*.py")}
    assert [str(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []
    assert [path.name for path in (ROOT / "twisted").rglob("*.py")] == ["stomprelay_plugin.py"]
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


def test_nothing_that_is_read_is_run() -> None:
    """No module makes code, objects or a shell's command of what it reads: no eval, no pickle, no shell."""
    makers = {"eval", "exec", "compile", "__import__"}
    kinds = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml", "xml"}
    found = []
    for path in sorted((*PACKAGE.rglob("*.py"), *(ROOT / "pyspark_stomp").rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: set[str] = set()
            if isinstance(node, ast.Import):
                names = {alias.name.partition(".")[0] for alias in node.names} & kinds
            elif isinstance(node, ast.ImportFrom):
                names = {(node.module or "").partition(".")[0]} & kinds
            elif isinstance(node, ast.Call):
                called = node.func.id if isinstance(node.func, ast.Name) else ""
                shells = {keyword.arg for keyword in node.keywords} & {"shell"}
                names = ({called} & makers) | {str(each) for each in shells}
            found += [f"{path.relative_to(ROOT)}: {name}" for name in sorted(names)]
    assert found == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="this system has no systemd-analyze")
def test_units_are_those_of_systemd(tmp_path: Path) -> None:
    """It knows each key, of the unit for several relays too, and has nothing to say about them."""
    for unit in sorted((ROOT / "systemd").iterdir()):
        text = re.sub(r"/opt/stomprelay/bin/\S+", sys.executable, unit.read_text(encoding="utf-8"))
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(map(str, tmp_path.iterdir()))],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # It reads units of this system as well, and may complain of those.
    assert [line for line in done.stdout.splitlines() if "stomprelay" in line] == []
    assert done.returncode == 0


def test_one_relay_and_several_have_one_unit() -> None:
    """Two files, for systemd refuses one as a link to the other; they differ in nothing but their names."""
    one, several = (ROOT / "systemd" / f"stomprelay{name}.service" for name in ("", "@"))
    assert one.read_bytes() == several.read_bytes()


def test_units_leave_a_process_no_rights() -> None:
    """Each service of systemd/ runs as nobody, without capabilities, on a file system that it cannot write to."""
    wanted = {
        "DynamicUser=yes",
        "CapabilityBoundingSet=",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ProtectHome=yes",
        "PrivateTmp=yes",
        "UMask=0077",
    }
    units = sorted((ROOT / "systemd").glob("*.service"))
    assert units
    for unit in units:
        lines = unit.read_text(encoding="utf-8").splitlines()
        assert wanted - set(lines) == set(), unit.name
        assert not any("passcode" in line for line in lines if line.startswith(("Exec", "Environment"))), (
            unit.name
        )
