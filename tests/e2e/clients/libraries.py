"""The client libraries by name: what makes a connection of each."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from bench import spring
from tests.e2e.clients.client import Client
from tests.e2e.clients.piped import Driver, OverTcp, OverWebSocket
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


_SPRING = {"spring": OverWebSocket, "spring-tcp": OverTcp}


def _spring_driver(facts: LibraryFacts) -> Driver:
    """Its source is compiled as it starts; a Java that only runs has no compiler."""
    jars = spring.fetched()
    if jars is None:
        pytest.skip(f"needs {facts.package}")
    quick = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m")
    probe = ["--add-modules", "jdk.compiler", "-version"]
    return Driver("java", probe, "Spring.java", facts.package, (*quick, "-cp", f"{jars}/*"))


_IMPORTED = {"stomp.py": _stomp_py, "stompest": _stompest}


def _driver(facts: LibraryFacts) -> Driver:
    program, probe, script = _PIPED[facts.name]
    return Driver(program, probe, script, facts.package)


@contextlib.contextmanager
def libraries() -> Iterator[Callable[[LibraryFacts], Connect]]:
    """Find what makes a connection of a library; skip the test where the library is absent.

    The child processes of libraries in other languages start when they are first asked for and end here.
    """
    drivers: dict[str, Driver] = {}

    def find(facts: LibraryFacts) -> Connect:
        if facts.name in _IMPORTED:
            return _IMPORTED[facts.name](facts)
        kind = _SPRING.get(facts.name)
        name = facts.name if kind is None else "spring"
        if name in drivers and drivers[name].hangs:
            drivers.pop(name).stop()
        if name not in drivers:
            drivers[name] = _driver(facts) if kind is None else _spring_driver(facts)
        return partial(drivers[name].connection, kind)

    try:
        yield find
    finally:
        for driver in drivers.values():
            driver.stop()
