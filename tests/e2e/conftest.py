"""What the end-to-end tests share: brokers, relays in front of them, client libraries, each started once."""

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.e2e import brokers
from tests.e2e.certificates import Authority
from tests.e2e.clients.client import Client
from tests.e2e.clients.libraries import Connect, libraries
from tests.e2e.facts import VERSIONS, LibraryFacts
from tests.e2e.ports import free_port
from tests.e2e.raw import close_all
from tests.e2e.relay import listening, relay
from tests.e2e.scripts import Script
from tests.e2e.stage import Place, Stage

Direct = Callable[[str], Place]
Through = Callable[[str, str | None], Place]
Play = Callable[[Script, Place, LibraryFacts, str], list[tuple[object, ...]]]
"""What the fixtures of these names give."""
Gateway = Mapping[str | None, Place]
"""A relay's listeners by the version that they force on the broker's side, or by the kind of their upstream; None: the
client's own version at a plain address.
"""

KINDS = {
    "failover": ("failover:({})", ""),
    "confirm": ("failover:({})", "confirm = true"),
    "fanout": ("fanout:({})", ""),
}
"""By kind of upstream: its URI around a broker's, and what else its table says."""


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close what a failed test has left open, so that it fails alone."""
    yield
    close_all()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Give the certificate authority of the test run."""
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@contextlib.contextmanager
def _or_skip() -> Iterator[None]:
    """Skip the test where what it needs is not installed."""
    try:
        yield
    except brokers.Absent as absent:
        pytest.skip(str(absent))


def _broker(product: str) -> object:
    """Return a fixture that runs a broker of this product, with ports and data of its own."""

    @pytest.fixture(scope="session")
    def run(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, authority: Authority
    ) -> Iterator[brokers.Broker]:
        name = request.fixturename
        assert name is not None
        directory, credentials = tmp_path_factory.mktemp(name), authority.issue(name)
        with _or_skip(), brokers.INSTALLED[product](directory, credentials) as broker:
            yield broker

    return run


rabbitmq = _broker("rabbitmq")
activemq = _broker("activemq")
activemq_6 = _broker("activemq_6")
artemis = _broker("artemis")


@pytest.fixture(scope="session")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[brokers.Broker]:
    """Run the embedded broker alone, as `twistd stompbroker`."""
    with brokers.memory(tmp_path_factory.mktemp("stompbroker")) as broker:
        yield broker


def _gateway(broker: str) -> object:
    """Return a fixture that runs a relay in front of the broker of this fixture, with a listener for each way to choose
    the broker's version. What is in memory is in the relay itself.
    """

    @pytest.fixture(scope="session")
    def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
        uri = "memory:"
        if broker != "memory":
            uri = request.getfixturevalue(broker).uri
        places: dict[str | None, Place] = {
            upstream: Place(free_port(), broker, upstream, relayed=True) for upstream in (None, *VERSIONS)
        }
        config = "".join(
            _listener("own", place, uri, "")
            if version is None
            else _listener(f"v{version.replace('.', '')}", place, uri, f'versions = ["{version}"]')
            for version, place in places.items()
        )
        for kind, (around, more) in KINDS.items():
            places[kind] = Place(free_port(), broker, relayed=True)
            config += _listener(kind, places[kind], around.format(uri), more)
        directory = tmp_path_factory.mktemp(f"{broker}_gateway")
        with relay(directory, config, [place.port for place in places.values()]):
            yield places

    return run


def _listener(name: str, place: Place, uri: str, more: str) -> str:
    """Return the configuration of a listener at this place, and of an upstream of its own at this URI."""
    origins = f'upstream = "{name}"\nweb.origins = ["http://127.0.0.1:{place.port}"]'
    return f'{listening(place.port, name, origins)}[upstream.{name}]\nuri = "{uri}"\n{more}\n'


rabbitmq_gateway = _gateway("rabbitmq")
activemq_gateway = _gateway("activemq")
activemq_6_gateway = _gateway("activemq_6")
artemis_gateway = _gateway("artemis")
memory_gateway = _gateway("memory")


@pytest.fixture
def direct(request: pytest.FixtureRequest) -> Direct:
    """Find a broker itself."""
    return lambda broker: Place(request.getfixturevalue(broker).port, broker)


@pytest.fixture
def through(request: pytest.FixtureRequest) -> Through:
    """Find the relay's listener in front of a broker: a key of `Gateway` says which."""
    return lambda broker, upstream: request.getfixturevalue(f"{broker}_gateway")[upstream]


@pytest.fixture(scope="session")
def connect() -> Iterator[Callable[[LibraryFacts], Connect]]:
    """Find what makes a connection of a client library."""
    with libraries() as find:
        yield find


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser for the tests of a module."""
    from tests.browser import browsing

    with browsing() as found:
        yield found


@pytest.fixture
def queue() -> str:
    """Give the name of a queue that nobody else uses, whatever an earlier test has left behind."""
    return f"/queue/e2e-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def client() -> Iterator[Callable[[LibraryFacts], Client]]:
    """Make a connection of a library, in a process of its own where it needs one; stomp.py keeps heart-beats."""
    with contextlib.ExitStack() as stack:

        def make(facts: LibraryFacts) -> Client:
            made = stack.enter_context(libraries())(facts)()
            if hasattr(made, "heart_beats"):
                made.heart_beats = (1000, 1000)
            return made

        yield make


@pytest.fixture
def play(connect: Callable[[LibraryFacts], Connect]) -> Play:
    """Play a script at a place with a library in a version and return what it saw."""

    def run(script: Script, place: Place, library: LibraryFacts, version: str) -> list[tuple[object, ...]]:
        stage = Stage(place, connect(library), library, version)
        try:
            script.play(stage)
        finally:
            stage.close()
        return stage.seen

    return run
