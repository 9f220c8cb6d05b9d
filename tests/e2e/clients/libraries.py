"""The client libraries by name: what makes a connection of each."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.e2e.clients.client import Client
from tests.e2e.clients.piped import Driver
from tests.e2e.facts import LibraryFacts

Connect = Callable[[], Client]

_PIPED = {
    "stomp-gem": ("ruby", ["-r", "stomp", "-e", ""], "stomp_gem.rb"),
    "net-stomp": ("perl", ["-MNet::Stomp", "-e", "1"], "net_stomp.pl"),
    "php-stomp": ("php", ["-r", "exit(class_exists('Stomp') ? 0 : 1);"], "php_stomp.php"),
}


def _stomp_py(facts: LibraryFacts) -> Connect:
    pytest.importorskip("stomp", reason=f"needs {facts.package}")
    from tests.e2e.clients.stomppy import StompPy

    return StompPy


def _stompest(facts: LibraryFacts) -> Connect:
    pytest.importorskip("stompest", reason=f"needs {facts.package}")
    from tests.e2e.clients.stompest import Stompest

    return Stompest


_IMPORTED = {"stomp.py": _stomp_py, "stompest": _stompest}


@contextlib.contextmanager
def libraries() -> Iterator[Callable[[LibraryFacts], Connect]]:
    """Find what makes a connection of a library; skip the test where the library is absent.

    The child processes of libraries in other languages start when they are first asked for and end here.
    """
    drivers: dict[str, Driver] = {}

    def find(facts: LibraryFacts) -> Connect:
        if facts.name in _IMPORTED:
            return _IMPORTED[facts.name](facts)
        if facts.name in drivers and drivers[facts.name].hangs:
            drivers.pop(facts.name).stop()
        if facts.name not in drivers:
            program, probe, script = _PIPED[facts.name]
            drivers[facts.name] = Driver(program, probe, script, facts.package)
        return drivers[facts.name].connection

    try:
        yield find
    finally:
        for driver in drivers.values():
            driver.stop()
