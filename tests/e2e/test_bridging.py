"""Client libraries of one version on brokers of another, through the relay: all nine pairs.

The three pairs of equal versions are in `test_interoperability`.
"""

from collections.abc import Iterator

import pytest

from tests.e2e.cells import sampled
from tests.e2e.conftest import Play, Through
from tests.e2e.facts import BROKER_NAMES, BROKERS, LIBRARIES, VERSIONS, LibraryFacts, meets
from tests.e2e.scripts import FACTS, SCRIPTS, Script

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

Cell = tuple[str, LibraryFacts, str, str, Script]

CELLS: list[Cell] = [
    (broker, library, version, upstream, script)
    for broker in BROKER_NAMES
    for library in LIBRARIES
    if meets(broker, library)
    for version in library.versions
    for upstream in VERSIONS
    if version != upstream
    for script in SCRIPTS
    if script.applies(library, version, BROKERS[broker, upstream])
]


def aspects(cell: Cell) -> Iterator[tuple[str, ...]]:
    """Name what a cell can show: a script; a library at a broker; a pair of versions at a broker; a script whose
    outcome depends on the broker, at each.
    """
    broker, library, version, upstream, script = cell
    yield "script", script.name
    yield "library", broker, library.name
    yield "pair", broker, version, upstream
    if script in FACTS:
        yield "facts", broker, script.name


@pytest.mark.parametrize("cell", sampled(CELLS, aspects))
def test_every_pair_of_versions(cell: Cell, through: Through, play: Play) -> None:
    """A script succeeds for a client of one version on a broker that is spoken to in another."""
    broker, library, version, upstream, script = cell
    play(script, through(broker, upstream), library, version)
