"""Every test of this folder may play worlds."""

from collections.abc import Iterator

import pytest

from sim.world import simulated


@pytest.fixture(autouse=True)
def _network() -> Iterator[None]:
    with simulated():
        yield
