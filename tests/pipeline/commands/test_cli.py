"""`stomprelay-pipeline`."""

import argparse
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from stomprelay.pipeline import cli
from stomprelay.pipeline.spark.errors import FailedSpark, MissingSpark
from stomprelay.pipeline.spark.java import MissingJava
from stomprelay.pipeline.store.store import StoreError


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Lets the command `query` fail by what a test says."""

    def put(error: BaseException) -> None:
        def fails(_: argparse.Namespace) -> int:
            raise error

        module: Any = ModuleType("pretended")
        module.add_options = lambda parser: parser.add_argument("--x")
        module.main = fails
        monkeypatch.setattr(cli, "import_module", lambda _: module)

    return put


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_each_command_has_its_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And says what they are."""
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert ("--master" in text) is cli.COMMANDS[command].spark
    assert ("--tables" in text) is cli.COMMANDS[command].spark


def test_the_list_of_commands_needs_none_of_their_modules() -> None:
    """Nor Spark: it is quick, and there without it."""
    code = (
        "import sys; from stomprelay.pipeline import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('pyspark', 'pyarrow', 'pandas', 'tqdm')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(command in done.stdout for command in cli.COMMANDS)


def test_wrong_usage_ends_as_usual(capsys: pytest.CaptureFixture[str]) -> None:
    """With status 2, and the command's name."""
    for given in ([], ["nonsense"], ["once", "--journal", "j"], ["once", "--conf", "x"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(given)
        assert ended.value.code == 2
        assert "stomprelay-pipeline" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MissingJava("Spark needs Java"), "Spark needs Java"),
        (MissingSpark("the pipeline needs"), "the pipeline needs"),
        (StoreError("another run"), "another run"),
        (ValueError("no such column"), "no such column"),
        (
            ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql"),
            "the pipeline needs the package pyspark: pip install '.[pipeline]' in a copy of the repository",
        ),
        (FailedSpark("There is no space."), "There is no space. (--spark-log error says more)"),
        (PermissionError(13, "Permission denied", "/t"), "/t: Permission denied"),
    ],
)
def test_what_went_wrong_is_a_sentence(
    failing: Callable[[Any], None], capsys: pytest.CaptureFixture[str], error: Exception, said: str
) -> None:
    """With status 1, and no trace of where."""
    failing(error)
    assert cli.main(["query"]) == 1
    assert capsys.readouterr().err == f"stomprelay-pipeline: {said}\n"


@pytest.mark.parametrize(
    ("error", "given"),
    [
        (ModuleNotFoundError("No module named 'stomprelay.x'", name="stomprelay.x"), ()),
        (ValueError("no"), ("--spark-log", "error")),
    ],
)
def test_a_trace(failing: Callable[[Any], None], error: Exception, given: tuple[str, ...]) -> None:
    """A defect's is not hidden; whoever asks for Spark's log gets those of other errors, too."""
    failing(error)
    with pytest.raises(type(error), match=r"(?i)^no"):
        cli.main(["query", *given])


@pytest.mark.parametrize(("error", "status"), [(KeyboardInterrupt(), 130), (BrokenPipeError(), 0)])
def test_the_user_may_have_had_enough(
    failing: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int
) -> None:
    """By Ctrl-C, or as `head` does."""
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    failing(error)
    assert cli.main(["query", "--x", "1"]) == status
