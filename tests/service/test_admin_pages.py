"""The metrics page, line by line."""

from pathlib import Path

from stomprelay.relay.model.counters import COUNTERS
from stomprelay.relay.model.group import Broker
from stomprelay.service.admin.metrics import metrics
from stomprelay.service.admin.snapshot import snapshot
from stomprelay.service.journal.queue import Dropped
from tests.service.harness import SEND, JournalHarness, RelayHarness, failover, listener, movable


def samples(harness: RelayHarness) -> list[str]:
    """The samples of brokers."""
    return [
        line
        for line in metrics(snapshot(harness.service.state, whole=False)).splitlines()
        if "upstream=" in line
    ]


def test_every_metric_says_what_it_is() -> None:
    """Help and type come once, before the samples; no sample comes twice, or Prometheus takes none."""
    harness = RelayHarness(
        listener(upstream=movable(failover(1, 2))), listener(name="other", endpoint="tcp:61614")
    )
    harness.session()
    lines = metrics(snapshot(harness.service.state, whole=False)).splitlines()
    samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(set(samples)) == len(samples)
    names = [line.split(" ")[2] for line in lines if line.startswith("# TYPE ")]
    assert len(set(names)) == len(names)
    assert {sample.partition("{")[0] for sample in samples} <= set(names)
    assert names.count("stomprelay_sessions") == 1
    assert {f"stomprelay_{counter}_total" for counter in COUNTERS} < set(names)


def test_metrics_of_brokers() -> None:
    """Each with what is known of it; nothing is said to be up or down of which nothing is known."""
    harness = RelayHarness(listener(upstream=movable(failover(1, 2))))
    client, _ = harness.session()
    client.sends(SEND)
    one, two = (entry.broker for entry in harness.service.state.brokers)
    two.health.paused = True
    two.health.failures = 3
    at = 'upstream="main",broker="tcp://192.0.2.{}:61613"'
    assert one.health.sessions == 1
    assert samples(harness) == [
        f"stomprelay_broker_up{{{at.format(1)}}} 1",
        f"stomprelay_broker_paused{{{at.format(1)}}} 0",
        f"stomprelay_broker_paused{{{at.format(2)}}} 1",
        f"stomprelay_broker_sessions{{{at.format(1)}}} 1",
        f"stomprelay_broker_sessions{{{at.format(2)}}} 0",
        f"stomprelay_broker_failures{{{at.format(1)}}} 0",
        f"stomprelay_broker_failures{{{at.format(2)}}} 3",
    ]


def test_an_address_that_stands_in_two_groups() -> None:
    """One line: with the sessions of both, up only where both say so, paused where either is."""
    harness = RelayHarness(listener(upstream=movable(failover(1), failover(1))))
    one, two = (entry.broker.health for entry in harness.service.state.brokers)
    for health in one, one, two, two, two:
        health.joined()
    one.failures, two.failures = 0, 4
    one.up = True
    two.paused = True

    def values() -> list[str]:
        return [line.rpartition(" ")[2] for line in samples(harness)]

    assert values() == ["1", "1", "5", "4"]
    two.up = False
    assert values() == ["0", "1", "5", "4"]


def test_labels_are_quoted() -> None:
    """Whatever an address has in it."""
    odd = Broker('tcp://"\\:1', "tcp:host=192.0.2.1:port=1")
    harness = RelayHarness(listener(name='"\\\n', upstream=movable(failover(), name='"')))
    harness.service.state.brokers.configured = tuple(
        entry._replace(broker=odd)
        for entry in RelayHarness(listener(upstream=movable())).service.state.brokers.configured[:1]
    )
    text = metrics(snapshot(harness.service.state, whole=False))
    assert 'broker="tcp://\\"\\\\:1"' in text
    assert 'stomprelay_sessions{listener="\\"\\\\\\n"} 0\n' in text


def test_metrics_of_the_journal(tmp_path: Path) -> None:
    """What was written, left out, and waits; nothing where none is kept."""
    assert "journal" not in metrics(snapshot(RelayHarness().service.state, whole=False))
    harness = JournalHarness(tmp_path)
    written = harness.journal.written
    written.blocks, written.frames, written.size, written.errors = 1, 2, 3, 4
    written.lost = Dropped(1, 1, 1)
    harness.journal._queue.dropped = Dropped(5, 6, 7)
    written.trouble = "full"
    waiting = harness.journal.waiting
    found = [
        line
        for line in metrics(snapshot(harness.service.state, whole=False)).splitlines()
        if "journal" in line and not line.startswith("#")
    ]
    assert found == [
        "stomprelay_journal_blocks_total 1",
        "stomprelay_journal_frames_total 2",
        "stomprelay_journal_bytes_total 3",
        "stomprelay_journal_dropped_blocks_total 6",
        "stomprelay_journal_dropped_frames_total 7",
        "stomprelay_journal_dropped_bytes_total 8",
        "stomprelay_journal_write_errors_total 4",
        f"stomprelay_journal_queue_bytes {waiting}",
        "stomprelay_journal_failing 1",
    ]
