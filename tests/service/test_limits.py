"""How often clients may come and how much they may send, as the service has it: by listener, address and user."""

import json

from twisted.internet.address import IPv4Address

from stomprelay.config import load
from stomprelay.relay import inputs
from stomprelay.relay.model.rates import RateLimits, Rates, Scope
from stomprelay.relay.model.rules import Identity
from stomprelay.service.admin.metrics import metrics
from stomprelay.service.admin.snapshot import ended, read, snapshot, summed
from stomprelay.service.connection.relay_driver import RelayDriver
from tests.prometheus import samples
from tests.service.harness import CONNECT, CONNECTED, SEND, FakeTransport, RelayHarness, listener

HERE, THERE = (IPv4Address("TCP", f"192.0.2.{last}", 1) for last in (7, 8))


def driver(harness: RelayHarness) -> RelayDriver:
    """That of the session that began last."""
    return list(harness.service.state.sessions)[-1]


def turns(harness: RelayHarness, seconds: float = 0.0) -> None:
    """So much time passes, and whoever gave way has its turns."""
    harness.reactor.advance(seconds)
    for _ in range(20):
        harness.reactor.advance(0)


def refusal(client: FakeTransport) -> str:
    """The body of the ERROR that a client got that comes too often; "" where it is served."""
    told = client.written().decode()
    assert not told or told.startswith("ERROR\nmessage:too many connections\n")
    assert client.ends == (["half"] if told else [])
    return told.partition("\n\n")[2].rstrip("\n\0")


def limited(harness: RelayHarness) -> dict[tuple[str, ...], float]:
    """What the page for Prometheus has of limits, without what is 0."""
    page = metrics(snapshot(harness.service.state, whole=False), ready=True)
    return {
        tuple(each.labels[name] for name in ("scope", "limit", "action") if name in each.labels): each.value
        for each in samples(page)
        if each.name.startswith("stomprelay_limited") and each.value
    }


def test_clients_that_come_too_often() -> None:
    """Of a listener, or from one address, they get an ERROR that names the limit; a second later there is room."""
    rates = RateLimits(Rates(connects=4), Rates(connects=2))
    harness = RelayHarness(listener(rates=rates))
    of_address = "the limit for one address is 2 a second"
    assert [refusal(harness.client(address=HERE)) for _ in range(3)] == ["", "", of_address]
    assert [refusal(harness.client(address=THERE)) for _ in range(2)] == ["", ""]
    assert refusal(harness.client()) == "the limit of this listener is 4 a second"
    harness.reactor.advance(0.5)
    assert [refusal(harness.client(address=HERE)) for _ in range(2)] == ["", of_address]
    assert harness.service.state.sessions.listeners["public"].counters["clients_refused"] == 3
    assert limited(harness) == {("address", "connects", "refused"): 2, ("listener", "connects", "refused"): 1}


def test_clients_that_are_too_many_cost_no_connection_of_the_rate() -> None:
    """The limits of their number come first, and are counted by their scope as well."""
    harness = RelayHarness(listener(clients=1, rates=RateLimits(Rates(connects=2))))
    first = harness.client()
    assert [refusal(harness.client()) for _ in range(5)] == ["the limit of this listener is 1"] * 5
    first.disconnects()
    assert refusal(harness.client()) == ""
    assert limited(harness) == {("listener", "clients", "refused"): 5}


def test_the_clients_of_a_user() -> None:
    """Once it is known who a client is, it is one of this user's: how many there are, and how often they come."""
    harness = RelayHarness(listener(clients_per_user=2, rates=RateLimits(user=Rates(connects=3))))
    sessions = harness.service.state.sessions.listeners["public"]
    admission = harness.service._admission
    clients = []
    for said in (None, None, "the limit for one user is 2"):
        clients.append(harness.client())
        told = admission.admit(driver(harness), "ann")
        assert (told and told.detail) == said
    assert admission.admit(driver(harness), "bob") is None
    clients[0].disconnects()
    assert admission.admit(driver(harness), "ann") is None
    clients[1].disconnects()
    told = admission.admit(driver(harness), "ann")
    assert told is not None
    assert (told.message, told.detail) == ("too many connections", "the limit for one user is 3 a second")
    assert limited(harness) == {("user", "clients", "refused"): 1, ("user", "connects", "refused"): 1}
    clients[2].disconnects()
    assert sessions.of(Scope.USER, "ann") == sessions.of(Scope.USER, "bob") == 0
    assert sessions._counts == {}


def test_a_client_that_sends_too_fast(log: list[str]) -> None:
    """It is not read from until there are tokens, nobody else waits for it, and the log says it once."""
    harness = RelayHarness(listener(rates=RateLimits(address=Rates(frames=10, burst=0.5))))
    client, broker = harness.session(address=HERE)
    other, its = harness.session(address=THERE)
    client.sends(SEND * 7)
    turns(harness)
    assert broker.written() == SEND * 5
    client.sends(SEND)
    assert client.producerState == "paused"
    waiting = [each.info().limited for each in harness.service.state.sessions]
    assert waiting == ["frames (address)", None]
    other.sends(SEND * 2)
    turns(harness)
    assert its.written() == SEND * 2
    for _ in range(5):
        turns(harness, 0.1)
    assert broker.written() == SEND * 3
    assert client.producerState == "producing"
    assert [each.info().limited for each in harness.service.state.sessions] == [None, None]
    [told] = [line for line in log if " limited: " in line]
    assert told.endswith("client is read from no faster: frames, the limit for one address is 10 a second")
    found = limited(harness)
    assert found["address", "frames", "paused"] == 2
    assert 0.1 < found["address", "frames"] < 0.5


def test_limits_of_a_user_count_once_it_is_known() -> None:
    """A session is limited as its identity says, once that was found out."""
    harness = RelayHarness(listener(rates=RateLimits(user=Rates(frames=2)), auth="people"))
    client = harness.client()
    client.sends(CONNECT)
    driver(harness).handle(inputs.Identified(Identity("ann")))
    broker = harness.broker()
    broker.sends(CONNECTED)
    broker.written()
    client.sends(SEND * 3)
    turns(harness)
    assert broker.written() == SEND * 2
    turns(harness, 0.6)
    assert broker.written() == SEND


def test_a_reload_under_sessions() -> None:
    """New rates are those of sessions that run as well, also where there were none before, or are none any more."""
    text = '[listener.public]\nendpoint = "tcp:61613"\n[upstream.main]\nuri = "tcp://192.0.2.1:61613"\n'
    harness = RelayHarness(*load("relay.toml", text).listeners)

    def reload(more: str) -> None:
        prepared = harness.service.prepare("relay.toml", load("relay.toml", text + more))
        prepared.open()
        assert prepared.commit().called

    client, broker = harness.session(address=HERE)
    client.sends(SEND * 20)
    assert broker.written() == SEND * 20
    reload("[listener.public.limits.address]\nframes = 2\n")
    client.sends(SEND * 9)
    turns(harness)
    assert broker.written() == SEND * 2
    reload("[listener.public.limits.address]\nframes = 4\n")
    turns(harness)
    assert broker.written() == SEND * 4
    reload("")
    turns(harness)
    assert broker.written() == SEND * 3
    assert client.producerState == "producing"


def test_several_processes_add_up() -> None:
    """What came of each limit, of a worker that ended too."""
    one, other = (RelayHarness(listener(rates=RateLimits(Rates(connects=1)))) for _ in range(2))
    for harness, clients in ((one, 2), (other, 4)):
        for _ in range(clients):
            harness.client()
    first, second = (snapshot(each.service.state, whole=False) for each in (one, other))
    assert read(json.loads(json.dumps(first))).listeners == first.listeners
    [row] = summed(first, [ended(second)]).listeners[0].limited
    assert row == ("listener", "connects", 0, 4, 0.0)
