"""The metrics page, line by line."""

from pathlib import Path

from stomprelay.relay.model.counters import COUNTERS
from stomprelay.relay.model.group import Broker
from stomprelay.service.metrics import metrics
from stomprelay.service.spool import Dropped
from tests.service.diary import Diary
from tests.service.house import SEND, House, failover, listener, movable


def brokers(house: House) -> list[str]:
    """The samples of brokers."""
    return [line for line in metrics(house.service).splitlines() if "upstream=" in line]


def test_every_metric_says_what_it_is() -> None:
    """Help and type come once, before the samples; no sample comes twice, or Prometheus takes none."""
    house = House(listener(upstream=movable(failover(1, 2))), listener(name="other", endpoint="tcp:61614"))
    house.session()
    lines = metrics(house.service).splitlines()
    samples = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(set(samples)) == len(samples)
    names = [line.split(" ")[2] for line in lines if line.startswith("# TYPE ")]
    assert len(set(names)) == len(names)
    assert {sample.partition("{")[0] for sample in samples} <= set(names)
    assert names.count("stomprelay_sessions") == 1
    assert {f"stomprelay_{counter}_total" for counter in COUNTERS} < set(names)


def test_brokers() -> None:
    """Each with what is known of it; nothing is said to be up or down of which nothing is known."""
    house = House(listener(upstream=movable(failover(1, 2))))
    client, _ = house.session()
    client.says(SEND)
    one, two = (entry.broker for entry in house.service.roster)
    two.health.paused = True
    two.health.failures = 3
    at = 'upstream="main",broker="tcp://192.0.2.{}:61613"'
    assert one.health.sessions == 1
    assert brokers(house) == [
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
    house = House(listener(upstream=movable(failover(1), failover(1))))
    one, two = (entry.broker.health for entry in house.service.roster)
    one.sessions, two.sessions = 2, 3
    one.failures, two.failures = 0, 4
    one.up = True
    two.paused = True

    def values() -> list[str]:
        return [line.rpartition(" ")[2] for line in brokers(house)]

    assert values() == ["1", "1", "5", "4"]
    two.up = False
    assert values() == ["0", "1", "5", "4"]


def test_labels_are_quoted() -> None:
    """Whatever an address has in it."""
    odd = Broker('tcp://"\\:1', "tcp:host=192.0.2.1:port=1")
    house = House(listener(name='"\\\n', upstream=movable(failover(), name='"')))
    house.service.roster.entries = tuple(
        entry._replace(broker=odd) for entry in House(listener(upstream=movable())).service.roster.entries[:1]
    )
    text = metrics(house.service)
    assert 'broker="tcp://\\"\\\\:1"' in text
    assert 'stomprelay_sessions{listener="\\"\\\\\\n"} 0\n' in text


def test_the_journal(tmp_path: Path) -> None:
    """What was written, left out, and waits; nothing where none is kept."""
    assert "journal" not in metrics(House().service)
    diary = Diary(tmp_path)
    written = diary.journal.written
    written.blocks, written.frames, written.octets, written.errors = 1, 2, 3, 4
    written.lost = Dropped(1, 1, 1)
    diary.journal._spool.dropped = Dropped(5, 6, 7)
    written.trouble = "full"
    waiting = diary.journal.waiting
    found = [
        line for line in metrics(diary.service).splitlines() if "journal" in line and not line.startswith("#")
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
