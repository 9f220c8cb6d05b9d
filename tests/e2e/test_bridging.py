"""Client libraries of one version on brokers of another, through the relay: all nine pairs.

The three pairs of equal versions are in `test_interoperability`.
"""

from collections.abc import Callable

import pytest

from tests.e2e.facts import BROKERS, LIBRARIES, VERSIONS, LibraryFacts
from tests.e2e.scripts import SCRIPTS, Script
from tests.e2e.stage import Place

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

CASES = [
    pytest.param(
        broker,
        library,
        version,
        upstream,
        script,
        id=f"{broker}-{library.name}-{version}-{upstream}-{script.name}",
    )
    for broker in ("rabbitmq", "activemq", "memory")
    for library in LIBRARIES
    for version in library.versions
    for upstream in VERSIONS
    if version != upstream
    for script in SCRIPTS
    if script.applies(library, version, BROKERS[broker, upstream])
]


@pytest.mark.parametrize(("broker", "library", "version", "upstream", "script"), CASES)
def test_every_pair_of_versions(
    broker: str,
    library: LibraryFacts,
    version: str,
    upstream: str,
    script: Script,
    through: Callable[[str, str | None], Place],
    play: Callable[[Script, Place, LibraryFacts, str], list[tuple[object, ...]]],
) -> None:
    """A script succeeds for a client of one version on a broker that is spoken to in another."""
    play(script, through(broker, upstream), library, version)
