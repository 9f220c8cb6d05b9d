"""What every test shares: which tests a run takes, how long Hypothesis may look, and which worker has which."""

import contextlib
import importlib
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

_CI = bool(os.environ.get("CI"))
_DEEP: Final = ("tests/bench/", "tests/chaos/", "tests/demo/")
"""Folders whose tests are deep, all of them: what is tested there is no part of the product."""

# No deadline: a busy machine is not a defect. No database in CI: nothing there outlives the run. A test that needs
# another budget than these asks for a multiple: `@settings(max_examples=3 * settings().max_examples)`.
settings.register_profile("default", deadline=None, max_examples=25)
settings.register_profile(
    "ci", deadline=None, max_examples=25, database=None, derandomize=True, print_blob=True
)
settings.register_profile(
    "deep",
    deadline=None,
    max_examples=25 if _CI else 250,  # CI has fifteen minutes, and draws the same ones each time
    database=None,
    derandomize=_CI,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make test-deep`."""
    parser.addoption(
        "--deep",
        action="store_true",
        help="with a large budget: those marked deep, too, and ten times the examples of Hypothesis",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set Hypothesis's budget, before any test module asks for it, and have all workers see sets in the same order.
    Have what the tests start end by Ctrl-C, also where a shell has put the tests themselves into the background.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Another order in each run, as without workers; in CI always the same one.
    os.environ.setdefault("PYTHONHASHSEED", "1" if _CI else str(random.randrange(2**32)))
    settings.load_profile("deep" if config.option.deep else "ci" if _CI else "default")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out folders that only a run with `--deep` has: to import them would take time for nothing."""
    folder = collection_path.is_dir() and f"{collection_path.relative_to(config.rootpath).as_posix()}/"
    return True if folder in _DEEP and not config.option.deep else None


def pytest_collection(session: pytest.Session) -> None:
    """Have each worker of a whole run begin its imports elsewhere: pytest rewrites each module in one of them, and the
    others read what it has written.
    """
    config = session.config
    if not hasattr(config, "workerinput") or config.args != config.getini("testpaths"):
        return
    modules = [
        path.relative_to(config.rootpath).with_suffix("").as_posix()
        for path in sorted(config.rootpath.glob("tests/**/test_*.py"))
    ]
    modules = [each for each in modules if config.option.deep or not each.startswith(_DEEP)]
    number, workers = config.workerinput["workerid"].removeprefix("gw"), config.workerinput["workercount"]
    first = int(number) * len(modules) // workers
    for each in modules[first:] + modules[:first]:
        with contextlib.suppress(
            Exception, pytest.skip.Exception
        ):  # the collection says what is wrong with a module
            importlib.import_module(each.replace("/", "."))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the run is not for; order the rest for the workers, where there are any."""
    left_out = [item for item in items if not _taken(item, config.option.deep)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _taken(item, config.option.deep)]
    if hasattr(config, "workerinput"):
        from tests.workers import place, rank

        items.sort(key=lambda item: rank(*place(item.nodeid)))


def _taken(item: pytest.Item, deep: bool) -> bool:
    """Tell whether a run with or without `--deep` has this test."""
    if item.get_closest_marker("long"):
        return deep and not _CI
    if item.get_closest_marker("brief"):
        return not deep
    if item.get_closest_marker("ci"):
        return deep or _CI
    return deep or not (item.get_closest_marker("deep") or item.nodeid.startswith(_DEEP))


@pytest.fixture(scope="session", autouse=True)
def _spark_leaves_nothing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Give every Spark the tests' own folder for its temporary files: a Java that is killed does not remove them. Have
    none make Java's class archive, which takes longer than the starts of a run gain by it.
    """
    if not any(item.get_closest_marker("spark") for item in request.session.items):
        yield
        return
    from stomprelay.pipeline.spark import class_archive, java

    given = os.environ.get("SPARK_SUBMIT_OPTS", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "SPARK_SUBMIT_OPTS", f"-Djava.io.tmpdir={tmp_path_factory.mktemp('java')} {given}".strip()
        )
        try:
            found, folder = java.find(), java.folder()
            made = folder is not None and class_archive.path(found, folder).exists()
        except (java.MissingJava, ImportError):
            made = False
        if not made:
            patch.setenv(class_archive.SWITCH, "0")
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "Scheduling":
    """Share the tests out: `pytest -n 2`."""
    from tests.workers import Shares

    config.option.loadscopereorder = False
    return Shares(config, log)
