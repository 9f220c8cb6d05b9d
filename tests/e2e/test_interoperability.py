"""Client libraries play the same scripts directly with a broker and through the relay: the same result."""

from collections.abc import Callable

import pytest

from tests.e2e.facts import BROKERS, LIBRARIES, LibraryFacts
from tests.e2e.scripts import SCRIPTS, Script
from tests.e2e.stage import Place

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

CASES = [
    pytest.param(broker, library, version, script, id=f"{broker}-{library.name}-{version}-{script.name}")
    for broker in ("rabbitmq", "activemq", "memory")
    for library in LIBRARIES
    for version in library.versions
    for script in SCRIPTS
    if script.applies(library, version, BROKERS[broker, version])
]


@pytest.mark.parametrize(("broker", "library", "version", "script"), CASES)
def test_the_relay_changes_nothing(
    broker: str,
    library: LibraryFacts,
    version: str,
    script: Script,
    direct: Callable[[str], Place],
    through: Callable[[str, str | None], Place],
    play: Callable[[Script, Place, LibraryFacts, str], list[tuple[object, ...]]],
) -> None:
    """A script succeeds directly and through the relay, and sees the same frames both times."""
    expected = play(script, direct(broker), library, version)
    assert play(script, through(broker, None), library, version) == expected
