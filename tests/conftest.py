"""What every test shares: which tests a run takes, how long Hypothesis may look, and which tests stay together."""

import os

import pytest
from hypothesis import HealthCheck, settings

_CI = bool(os.environ.get("CI"))

# No deadline: a busy machine is not a defect. No database in CI: nothing there outlives the run. A test that needs
# another budget than these asks for a multiple: `@settings(max_examples=3 * settings().max_examples)`.
settings.register_profile("default", deadline=None, max_examples=25)
settings.register_profile(
    "ci", deadline=None, max_examples=25, database=None, derandomize=True, print_blob=True
)
settings.register_profile(
    "deep",
    deadline=None,
    max_examples=250,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make test-deep`."""
    parser.addoption(
        "--deep",
        action="store_true",
        help="only what needs a large budget: the tests marked deep, and Hypothesis's with ten times the examples",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set Hypothesis's budget, before any test module asks for it."""
    settings.load_profile("deep" if config.option.deep else "ci" if _CI else "default")


@pytest.hookimpl(trylast=True)  # Hypothesis has marked its tests by then
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what the run is not for; group the rest for the workers, where there are any."""
    left_out = [item for item in items if not _taken(item, config.option.deep)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _taken(item, config.option.deep)]
    if hasattr(config, "workerinput"):
        items.sort(key=_rank)
        for item in items:
            item.add_marker(pytest.mark.xdist_group(_group(item)))


def _taken(item: pytest.Item, deep: bool) -> bool:
    """Tell whether a run with or without `--deep` has this test."""
    if item.get_closest_marker("deep"):
        return deep
    return not deep or item.get_closest_marker("hypothesis") is not None


def _group(item: pytest.Item) -> str:
    """Name what one worker does alone: all tests with real brokers, so that each starts once; all that share the
    Spark session (those end to end start another process); a module.
    """
    if item.get_closest_marker("broker"):
        return "broker"
    if item.get_closest_marker("spark") and not item.get_closest_marker("e2e"):
        return "spark"
    return item.nodeid.partition("::")[0]


def _rank(item: pytest.Item) -> int:
    """Order the groups: the longest first, so that the workers end together."""
    group = _group(item)
    if group in ("broker", "spark"):
        return 0
    return 1 if item.get_closest_marker("e2e") else 2


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Give tests their own names back: pytest-xdist has the plan by now, and added the group's name for that."""
    if hasattr(session.config, "workerinput"):
        for item in session.items:
            item._nodeid = item.nodeid.removesuffix(f"@{_group(item)}")
