"""STOMP over WebSocket: the rows through the relay, and through its embedded broker."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.contenders import PLAIN, ROUTES, relay
from bench.load import RABBITMQ, Load, loaded
from bench.machine import which
from bench.web import ROWS, embedded

compiler = pytest.mark.skipif(
    which("cc", "gcc", "clang") is None, reason="needs a compiler (Debian package gcc)"
)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """The load compiled, its null broker running."""
    with loaded(tmp_path_factory.mktemp("load")) as running:
        yield running


@pytest.mark.e2e
@compiler
def test_every_row_passes_the_relay(load: Load, tmp_path: Path) -> None:
    """Each row's load arrives over WebSocket as it was sent."""
    route = ROUTES[PLAIN].format(broker=f"127.0.0.1:{load.ports[RABBITMQ]}")
    with relay({PLAIN: route}, tmp_path, listener="web = true\n") as ours:
        for case in ROWS.values():
            entry = ours.entry(case)
            least = case.connections or 8
            assert load.run(entry.case, entry.port, 4 * least, entry.pids).messages >= 4 * least


@pytest.mark.e2e
@compiler
def test_every_row_passes_the_embedded_broker(load: Load, tmp_path: Path) -> None:
    """Each but those that the null broker alone can do, counted by the receipt behind the last."""
    with embedded(tmp_path) as ours:
        for case in ROWS.values():
            if case.mode != "source":
                entry = ours.entry(replace(case, login="guest"))
                least = case.connections or 8
                assert load.run(entry.case, entry.port, 4 * least, entry.pids).messages >= 4 * least
