"""Client libraries play the same scripts directly with a broker and through the relay: the same result."""

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.cells import sampled
from tests.e2e.facts import BROKER_NAMES, BROKERS, LIBRARIES, LibraryFacts, meets
from tests.e2e.scripts import SCRIPTS, Script
from tests.e2e.stage import Place

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

Cell = tuple[str, LibraryFacts, str, Script]

CELLS: list[Cell] = [
    (broker, library, version, script)
    for broker in BROKER_NAMES
    for library in LIBRARIES
    if meets(broker, library)
    for version in library.versions
    for script in SCRIPTS
    if script.applies(library, version, BROKERS[broker, version])
]


def aspects(cell: Cell) -> Iterator[tuple[str, ...]]:
    """Name what a cell can show: a script in a version at a broker, and with a library; a library in a version at a
    broker.
    """
    broker, library, version, script = cell
    yield "script", broker, version, script.name
    yield "script", library.name, version, script.name
    yield "library", broker, library.name, version


def name(cell: Cell) -> str:
    """Name a cell by all that it stands for."""
    broker, library, version, script = cell
    return f"{broker}-{library.name}-{version}-{script.name}"


@pytest.mark.parametrize("cell", sampled(CELLS, aspects, name))
def test_the_relay_changes_nothing(
    cell: Cell,
    direct: Callable[[str], Place],
    through: Callable[[str, str | None], Place],
    play: Callable[[Script, Place, LibraryFacts, str], list[tuple[object, ...]]],
) -> None:
    """A script succeeds directly and through the relay, and sees the same frames both times."""
    broker, library, version, script = cell
    expected = play(script, direct(broker), library, version)
    assert play(script, through(broker, None), library, version) == expected
