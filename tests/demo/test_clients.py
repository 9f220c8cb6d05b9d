"""The programs of the demo's shop, through a real relay."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from demo.clients import LABELS, PAPER, PRICES, Client, Crew, Printer, Producer, Subscription, order
from tests.e2e import relay
from tests.e2e.ports import free_port

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A relay on its embedded broker."""
    port = free_port()
    place = f"tcp:{port}:interface=127.0.0.1"
    directory = tmp_path_factory.mktemp("demo")
    with relay.twistd(directory, ["stomprelay", "-l", place], [port]):
        yield port


def until(reached: Callable[[], bool]) -> None:
    """Ask again and again until it is so."""
    for _ in range(600):
        if reached():
            return
        time.sleep(0.05)
    raise AssertionError("not reached in 30 s")


def test_orders_become_invoices(port: int) -> None:
    """Every order that the shop sends is answered by an invoice, in the archive, also one that was refused once."""
    crew = Crew(port)
    counts = crew.counts
    until(lambda: counts["shop"]["sent"] > 60)
    crew.rest()
    until(lambda: counts["archive"]["received"] >= counts["shop"]["sent"])
    assert counts["billing"]["received"] > counts["shop"]["sent"]
    assert counts["desk-1"]["received"]
    assert counts["desk-2"]["received"]
    assert not any(counted["errors"] for counted in counts.values())
    crew.leave()


def test_the_printer_runs_out_of_paper(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets labels still, and acknowledges none of them."""
    printer = Printer("printer", "1.1", port, 1)
    acknowledged: list[Any] = []
    monkeypatch.setattr(printer, "acknowledge", acknowledged.append)
    printer.read(Subscription(LABELS, "client-individual"))
    labels = Client("labels", "1.2", port, 1)
    for number in range(PAPER + 5):
        labels.send(LABELS, number)
    until(lambda: printer.counts["received"] == PAPER + 5)
    assert len(acknowledged) == PAPER
    labels.leave()
    printer.leave()


def test_a_producer_tells_what_kept_it_from_sending(port: int) -> None:
    """A failure in its thread is the stopper's to know."""

    def fail(client: Client, number: int) -> None:
        raise ValueError(PRICES)

    client = Client("ticker", "1.2", port, 1)
    producer = Producer(client, 1000, fail)
    producer.start()
    producer.join(30)
    with pytest.raises(ValueError, match=PRICES):
        producer.stop()
    client.leave()


def test_a_client_of_each_version_sends_orders(port: int) -> None:
    """An order is told with a receipt in every version."""
    for version in ("1.0", "1.1", "1.2"):
        client = Client("shop", version, port, 1)
        order(client, 1)
        client.leave()
        assert client.counts == {"sent": 1}
