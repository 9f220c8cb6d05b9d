"""Client libraries play the same scripts with a broker and through the relay, in all nine pairs of versions."""

from collections.abc import Iterator

import pytest

from tests.e2e.cells import sampled
from tests.e2e.conftest import Direct, Play, Through
from tests.e2e.facts import (
    BROKER_NAMES,
    BROKERS,
    LIBRARIES,
    SPRING,
    SPRING_TCP,
    STOMP_PY,
    VERSIONS,
    LibraryFacts,
    meets,
)
from tests.e2e.scripts import FACTS, SCRIPTS, Script
from tests.e2e.stage import Stage

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
    """Name what a cell can show: a script in a version, and at a broker; a library in a version, and at a broker."""
    broker, library, version, script = cell
    yield "script", version, script.name
    yield "script", broker, script.name
    yield "library", library.name, version
    yield "library", library.name, broker


WEB_CELLS = [cell for cell in CELLS if cell[1:3] == (STOMP_PY, "1.2")]


@pytest.mark.parametrize("cell", sampled(WEB_CELLS, aspects))
def test_stomp_py_over_websocket(cell: Cell, direct: Direct, through: Through, play: Play) -> None:
    """It sees through the relay over WebSocket what it sees of the broker over TCP."""
    pytest.importorskip("stomp", reason=f"needs {STOMP_PY.package}")
    from tests.e2e.clients.stomppy import WebStompPy

    broker, library, version, script = cell
    expected = play(script, direct(broker), library, version)
    stage = Stage(through(broker, None), WebStompPy, library, version)
    try:
        script.play(stage)
    finally:
        stage.close()
    assert stage.seen == expected


SPRING_CELLS: list[Cell] = [
    (broker, SPRING, version, script)
    for broker in BROKER_NAMES
    for version in SPRING.versions
    for script in SCRIPTS
    if script.applies(SPRING, version, BROKERS[broker, version])
]


def ways(cell: Cell) -> Iterator[tuple[str, ...]]:
    """Name what a cell of one library can show: a version at a broker; a script in a version."""
    broker, _, version, script = cell
    yield broker, version
    yield version, script.name


@pytest.mark.ci
@pytest.mark.parametrize("cell", sampled(SPRING_CELLS, ways))
def test_spring_over_websocket(cell: Cell, direct: Direct, through: Through, play: Play) -> None:
    """It sees through the relay over WebSocket what it sees of the broker over TCP."""
    broker, library, version, script = cell
    expected = play(script, direct(broker), SPRING_TCP, version)
    assert play(script, through(broker, None), library, version) == expected


@pytest.mark.parametrize("cell", sampled(CELLS, aspects))
def test_the_relay_changes_nothing(cell: Cell, direct: Direct, through: Through, play: Play) -> None:
    """A script succeeds directly and through the relay, and sees the same frames both times."""
    broker, library, version, script = cell
    expected = play(script, direct(broker), library, version)
    assert play(script, through(broker, None), library, version) == expected


# Client libraries of one version on brokers of another

PairCell = tuple[str, LibraryFacts, str, str, Script]
PAIR_CELLS: list[PairCell] = [
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


def pair_aspects(cell: PairCell) -> Iterator[tuple[str, ...]]:
    """Name what a cell can show: a script; a library at a broker; a pair of versions at a broker; a script whose
    outcome depends on the broker, at each.
    """
    broker, library, version, upstream, script = cell
    yield "script", script.name
    yield "library", broker, library.name
    yield "pair", broker, version, upstream
    if script in FACTS:
        yield "facts", broker, script.name


@pytest.mark.parametrize("cell", sampled(PAIR_CELLS, pair_aspects))
def test_every_pair_of_versions(cell: PairCell, through: Through, play: Play) -> None:
    """A script succeeds for a client of one version on a broker that is spoken to in another."""
    broker, library, version, upstream, script = cell
    play(script, through(broker, upstream), library, version)
