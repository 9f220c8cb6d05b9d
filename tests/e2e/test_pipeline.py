"""From foreign clients to tables: what they logged is what the pipeline says, to the message."""

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.e2e.brokers import Broker
from tests.e2e.clients.client import Client
from tests.e2e.facts import NET_STOMP, STOMP_GEM, STOMP_PY, STOMPEST, LibraryFacts
from tests.e2e.fleet import CUT, failover, fleet, nodes
from tests.e2e.load import END, Consumer, Producer, all_flow, end

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.spark]

MESSAGES = 300


def once(journal: Path, tables: Path) -> None:
    """Run the pipeline as its users do."""
    command = [sys.executable, "-m", "stomprelay.pipeline.cli", "once", "--conf", "spark.driver.memory=768m"]
    subprocess.run([*command, "--journal", str(journal), "--tables", str(tables)], check=True, timeout=300)


def ask(tables: Path, table: str, question: str) -> list[tuple[Any, ...]]:
    """Ask DuckDB, which has nothing of Spark or of ours, about the files of a table; none say nothing."""
    if not any((tables / table).rglob("*.parquet")):
        return []
    files = f"read_parquet('{tables}/{table}/**/*.parquet', hive_partitioning=true)"
    return duckdb.connect().execute(question.replace("TABLE", files)).fetchall()


SURVIVORS: tuple[tuple[LibraryFacts, str, LibraryFacts, str, str, int], ...] = (
    (STOMP_PY, "1.2", STOMPEST, "1.1", "client-individual", 1),
    (STOMP_GEM, "1.1", NET_STOMP, "1.0", "client", 5),
    (STOMPEST, "1.1", STOMP_PY, "1.2", "auto", 1),
)


@pytest.mark.ci
def test_tables_say_what_a_failover_was(
    tmp_path: Path, rabbitmq: Broker, activemq: Broker, client: Callable[[LibraryFacts], Client], queue: str
) -> None:
    """A broker is lost under load: outage, messages, frames said again and ACKs are as clients and relay count them."""
    journal, tables = tmp_path / "journal", tmp_path / "tables"
    recorded = f'[journal]\ndirectory = "{journal}"\nsegment_size = 500000\nbodies = "all"\n'
    with (
        nodes(rabbitmq, activemq) as members,
        fleet(tmp_path, members, failover(members) + recorded, "trace = true") as running,
    ):
        pairs: list[tuple[Producer, Consumer]] = []
        for number, (source, source_version, sink, sink_version, ack, every) in enumerate(SURVIVORS):
            place = f"{queue}-{number}"
            producer = Producer(
                *(source.name, client(source), running.port, source_version, place), pause=0.01
            )
            consumer = Consumer(sink.name, client(sink), running.port, sink_version, place, ack, every)
            pairs.append((producer, consumer))
        workers = [worker for pair in pairs for worker in pair]
        for worker in workers:
            worker.start()
        all_flow(workers, MESSAGES // 2)
        struck = running.serving
        (other,) = (node for node in members if node is not struck)
        CUT.inject(struck)
        all_flow(workers, MESSAGES // 2)
        for producer, _ in pairs:
            producer.stop()
        for producer, consumer in pairs:
            end(running.port, producer.destination)
            consumer.ends()
        counted = {name: running.admin.counted(name) for name in ("failovers", "frames_resent", "acks_stale")}
    once(journal, tables)
    asked = partial(ask, tables)
    assert asked("quarantine", "SELECT * FROM TABLE") == []

    twice = 0
    for producer, consumer in pairs:
        where = f"WHERE destination = '{producer.destination}'"
        columns = "segment, position, number"
        told = asked("messages", f"SELECT {columns}, receipt_us, len(deliveries) FROM TABLE {where}")
        rows = {(segment, offset, number): rest for segment, offset, number, *rest in told}
        assert len(rows) == len(told) == producer.sent + 1
        sends = asked("frames", f"SELECT body, {columns} FROM TABLE {where} AND command = 'SEND'")
        by_body = {body: rows[segment, offset, number] for body, segment, offset, number in sends}
        assert len(by_body) == len(sends) == len(rows)
        assert sorted(producer.receipts) == list(range(producer.sent))
        got = Counter([*consumer.bodies, END])
        for number in producer.receipts:
            receipt, deliveries = by_body[body := f"{producer.name}:{number}".encode()]
            assert receipt is not None, body
            assert deliveries == got[body], body
        assert sum(deliveries for _, deliveries in rows.values()) == got.total()
        heard = asked("frames", f"SELECT count(*) FROM TABLE {where} AND command = 'MESSAGE'")
        assert heard == [(got.total(),)]
        twice += got.total() - len(got)

    columns = (
        "upstream, broker, moved_to, planned, sessions, recovered, given_up, resent, stale_acks, duplicates"
    )
    lost = asked("failovers", f"SELECT {columns} FROM TABLE")
    assert lost == [
        (
            *("main", struck.uri, [other.uri], False, len(workers), len(workers), 0),
            *(counted["frames_resent"], counted["acks_stale"], twice),
        )
    ]
    assert counted["failovers"] == len(workers)
    order = (
        "0 < silence_p50_us AND silence_p50_us <= silence_max_us AND began_at < ended_at "
        "AND silence_max_us <= epoch_us(ended_at) - epoch_us(began_at)"
    )
    assert asked("failovers", f"SELECT {order} FROM TABLE") == [(True,)]
    print(f"{struck.broker.name} was lost: {lost[0]}; {twice} deliveries came twice")
