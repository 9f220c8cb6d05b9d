"""What something costs, as a number that is the same on every machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines(act: Callable[[], object]) -> int:
    """How many lines of Python are executed while it acts, each turn of a loop counted."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count
