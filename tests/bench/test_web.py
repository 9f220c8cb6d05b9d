"""STOMP over WebSocket: the rows through the relay, and through its embedded broker."""

from dataclasses import replace
from pathlib import Path

import pytest

from bench.contenders import PLAIN, ROUTES, relay
from bench.load import RABBITMQ, Load
from bench.web import ROWS, embedded


@pytest.mark.e2e
def test_every_row_passes(load: Load, tmp_path: Path) -> None:
    """Each row's load arrives as it was sent: through the relay, and its embedded broker, as far as that can do it."""
    route = ROUTES[PLAIN].format(broker=f"127.0.0.1:{load.ports[RABBITMQ]}")
    with relay({PLAIN: route}, tmp_path, listener="web = true\n") as relayed, embedded(tmp_path) as alone:
        for ours, login in ((relayed, None), (alone, "guest")):
            for case in [each for each in ROWS.values() if not login or each.mode != "source"]:
                entry = ours.entry(replace(case, login=login))
                count = 4 * (case.connections or 8)
                assert load.run(entry.case, entry.port, count, entry.pids).messages >= count
