"""Free ports of the loopback interface for programs that must be told a fixed port."""

import os
import random
import socket
from pathlib import Path

_FIRST, _LAST = 10081, 65000
"""Browsers open no page and no WebSocket at 10080, the last port of those that they block."""

_given: set[int] = set()

_WORKER, _WORKERS = (
    int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]),
    int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
)
"""Which of how many test processes this is: each has ports of its own, for a port is free until somebody listens."""


def _ephemeral() -> range:
    """Return the ports that outgoing connections get: a fixed port there can be taken at any time."""
    try:
        low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    except OSError:
        low, high = "32768", "60999"
    return range(int(low), int(high) + 1)


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nobody listens, not an ephemeral one, never the same twice."""
    ephemeral = _ephemeral()
    for _ in range(1000):
        port = random.randrange(_FIRST, _LAST)
        if port in ephemeral or port in _given or port % _WORKERS != _WORKER:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise RuntimeError("no free port found on 127.0.0.1 outside the ephemeral range")
