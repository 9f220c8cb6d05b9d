"""Worlds in which something was found once, as small as they could be made: `python -m sim --shrink` prints such
tests.
"""

from typing import Final

from sim.brokers import PRODUCTS
from sim.clients import Habit
from sim.plan import PLAIN, Plan, Scene, Step
from sim.run import played

PRODUCT: Final = {each.name: each for each in PRODUCTS}


def test_a_copy_is_marked_3_14() -> None:
    """Of two copies of a message at least one is marked as sent again."""
    scene = Scene(
        "fanout",
        {"a": (PRODUCT["artemis"], b"1.2")},
        {"c1": Habit(b"1.2")},
        (0.9, 0.0, 0.02),
        PLAIN,
    )
    steps = (
        Step(0.0, "c1", "connect"),
        Step(0.1, "c1", "send", (0, 1, 0, 0)),  # place 0, receipt 1, inside 0, size 0
        Step(0.2, "a", "cut", (0, 173)),
    )
    assert played(Plan("3/14", scene, steps)) == []
