"""How the workers of pytest-xdist share a run: whole modules, and what shares something dear for one of them."""

import re
from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parent.parent

BROKER, MOVES, SPARK = "broker", "moves", "spark"


@cache
def share(module: str, test: str) -> str:
    """Name what one worker does alone, by a test of it: the path of its module, and its function.

    That is every test that needs real brokers, so that each starts once, or twice: moves between them take as long as
    all the rest; every module that needs the Spark session (programs that a test starts have one of their own); else
    the module, without its tests that need real brokers.
    """
    text = (ROOT / module).read_text(encoding="utf-8")
    decorators = text.partition(f"def {test}(")[0].rpartition("\n\n\n")[2]
    if "mark.broker" in decorators or re.search(r"^pytestmark = \[[^]]*mark\.broker", text, re.MULTILINE):
        return MOVES if Path(module).name.startswith("test_move") else BROKER
    if "mark.spark" in text and ("mark.e2e" not in text or "spark: SparkSession" in text):
        return SPARK
    return module


@cache
def rank(module: str, test: str) -> int:
    """Order the shares, those that take long first, so that the workers end together: what is shared, then what starts
    programs or has a budget of its own.
    """
    if share(module, test) in (BROKER, MOVES, SPARK):
        return 0
    text = (ROOT / module).read_text(encoding="utf-8")
    return 1 if any(each in text for each in ("mark.e2e", "mark.deep", "max_examples")) else 2


def place(nodeid: str) -> tuple[str, str]:
    """Return the path of a test's module, and its function."""
    module, _, test = nodeid.partition("::")
    return module, test.partition("[")[0]


class Shares(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each worker one share after the other, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return share(*place(nodeid))
