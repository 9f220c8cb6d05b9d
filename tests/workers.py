"""How the workers of pytest-xdist share a run: whole modules, and all that share something dear for one of them."""

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parent.parent

BROKER, MOVES, SPARK = "broker", "moves", "spark"


@cache
def share(module: str) -> str:
    """Name what one worker does alone, by the path of a module of it.

    That is every module that needs real brokers, so that each starts once, or twice: moves between them take as long as
    all the rest; every module that needs the Spark session (programs that a test starts have one of their own); else
    the module.
    """
    text = (ROOT / module).read_text(encoding="utf-8")
    if "mark.broker" in text:
        return MOVES if Path(module).name.startswith("test_move") else BROKER
    if "mark.spark" in text and ("mark.e2e" not in text or "spark: SparkSession" in text):
        return SPARK
    return module


def rank(module: str) -> int:
    """Order the shares, those that take long first, so that the workers end together: what is shared, then what starts
    programs or has a budget of its own.
    """
    if share(module) in (BROKER, MOVES, SPARK):
        return 0
    text = (ROOT / module).read_text(encoding="utf-8")
    return 1 if any(each in text for each in ("mark.e2e", "mark.deep", "max_examples")) else 2


class Shares(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each worker one share after the other, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        return share(nodeid.partition("::")[0])
