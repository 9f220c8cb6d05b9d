"""The page for Prometheus: what is on it, in which form, and that nothing a peer says can spoil it."""

import json
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from prometheus_client import ProcessCollector
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.samples import Sample

from stomprelay.relay.model.counters import BOUNDS, COUNTERS, PLACES, TIMES, DestinationTally
from stomprelay.relay.model.group import Broker
from stomprelay.relay.model.move import MoveRow
from stomprelay.relay.model.rates import RateLimits, Rates
from stomprelay.relay.model.upstream import ClientTLS
from stomprelay.service.admin.metrics import OPENMETRICS, TEXT, chosen, metrics
from stomprelay.service.admin.snapshot import (
    SERVES,
    DestinationRow,
    Snapshot,
    TimeRow,
    WorkerRow,
    ended,
    read,
    snapshot,
    summed,
)
from tests.e2e.certificates import Authority
from tests.prometheus import samples, spelled
from tests.service.certificates import serving
from tests.service.harness import SEND, JournalHarness, RelayHarness, failover, listener, movable, upstream


def page_of(harness: RelayHarness) -> str:
    """The page for Prometheus."""
    return metrics(snapshot(harness.service.state, whole=False), ready=True)


def of_brokers(harness: RelayHarness) -> list[str]:
    """The samples of brokers, but for their states and what they carried."""
    found = [each for each in samples(page_of(harness)) if set(each.labels) == {"upstream", "broker"}]
    return spelled(each for each in found if not each.name.endswith("_total"))


def test_every_metric_says_what_it_is() -> None:
    """Help and type come once, before the samples; no sample comes twice, or Prometheus takes none."""
    harness = RelayHarness(
        listener(upstream=movable(failover(1, 2))), listener(name="other", endpoint="tcp:61614")
    )
    harness.session()
    lines = page_of(harness).splitlines()
    series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
    assert len(set(series)) == len(series)
    names = [line.split(" ")[2] for line in lines if line.startswith("# TYPE ")]
    assert len(set(names)) == len(names)
    told = {re.sub(r"_(bucket|count|sum)$", "", each.partition("{")[0]) for each in series}
    assert told <= set(names)
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
    at = 'broker="tcp://192.0.2.{}:61613",upstream="main"'
    assert one.health.sessions == 1
    assert of_brokers(harness) == [
        f"stomprelay_broker_up{{{at.format(1)}}} 1",
        f"stomprelay_broker_paused{{{at.format(1)}}} 0",
        f"stomprelay_broker_paused{{{at.format(2)}}} 1",
        f"stomprelay_broker_sessions{{{at.format(1)}}} 1",
        f"stomprelay_broker_sessions{{{at.format(2)}}} 0",
        f"stomprelay_broker_failures{{{at.format(1)}}} 0",
        f"stomprelay_broker_failures{{{at.format(2)}}} 3",
        f"stomprelay_broker_waiting{{{at.format(1)}}} 0",
        f"stomprelay_broker_waiting{{{at.format(2)}}} 0",
    ]


# In which form


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/html, text/plain", TEXT),
        ("application/openmetrics-text; version=1.0.0", OPENMETRICS),
        (
            'Application/OpenMetrics-Text ; version=x;version="""; q=0.5 ,text/plain;version=0.0.4;q=0.4',
            OPENMETRICS,
        ),
        (
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;"
            "version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;"
            "q=0.2,*/*;q=0.1",
            OPENMETRICS,
        ),
    ],
)
def test_the_form_that_is_asked_for(accept: str, form: object) -> None:
    """The last is what Prometheus says; whatever else is said gets text."""
    assert chosen(accept) is form


def full(directory: Path) -> Snapshot:
    """A snapshot that has something of everything."""
    rates = RateLimits(Rates(frames=10))
    harness = JournalHarness(directory, listener(upstream=movable(failover(1, 2)), rates=rates))
    harness.session()
    taken = snapshot(harness.service.state, whole=False)
    counts = tuple(range(len(BOUNDS) + 1))
    times = (TimeRow(name, "main", counts, 7.5) for name, time in TIMES.items() if time.by)
    return taken._replace(
        workers=(WorkerRow(1, None, SERVES, 1, 0),),
        times=(*taken.times, *times),
        destinations=(DestinationRow("/queue/a", DestinationTally(1, 2, 3, 4)),),
        certificates={"admin_tls": 2e9},
        moves=(MoveRow("a", "prefix /queue/", "new", "shadow", 1.0, 9, 4, 2, 1, 7, 3, "it is full", [], []),),
    )


def test_both_forms_say_the_same(tmp_path: Path) -> None:
    """Of each series, but for the processor time that goes on."""
    page = full(tmp_path)

    def series(found: Iterable[Sample]) -> dict[tuple[Any, ...], float]:
        return {
            (each.name, *each.labels.items()): each.value for each in found if "process_" not in each.name
        }

    families = parse_openmetrics(metrics(page, ready=True, form=OPENMETRICS))
    found = series(samples(metrics(page, ready=True)))
    assert found == series(sample for family in families for sample in family.samples)
    assert len(found) > 100


def test_a_move(tmp_path: Path) -> None:
    """Its phase, its sessions by how they follow, what was copied, and whether it is stopped."""
    found = {each for each in spelled(samples(metrics(full(tmp_path), ready=True))) if "_move_" in each}
    assert found == {
        *(f'stomprelay_move_phase{{move="a",phase="{each}"}} 0' for each in ("off", "both", "new", "done")),
        'stomprelay_move_phase{move="a",phase="shadow"} 1',
        'stomprelay_move_sessions{move="a",state="followed"} 4',
        'stomprelay_move_sessions{move="a",state="waiting"} 2',
        'stomprelay_move_sessions{move="a",state="staying"} 2',
        'stomprelay_move_sessions{move="a",state="older"} 1',
        'stomprelay_move_copied{move="a"} 7',
        'stomprelay_move_failed{move="a"} 3',
        'stomprelay_move_stopped{move="a"} 1',
    }


# Destinations, whose names clients make up


def of_destinations(rows: tuple[DestinationRow, ...]) -> list[str]:
    """How many SENDs are counted of each."""
    taken = snapshot(RelayHarness().service.state, whole=False)._replace(destinations=rows)
    found = samples(metrics(taken, ready=True))
    return spelled(each for each in found if each.name == "stomprelay_destination_sends_total")


def test_so_many_destinations_and_no_more() -> None:
    """Those with most frames, though several processes show more; and always that of all others."""
    rows = tuple(DestinationRow(f"/queue/{n}", DestinationTally(n, 1, 1, 1)) for n in range(3 * PLACES))
    found = of_destinations((DestinationRow(None, DestinationTally(7, 1, 1, 1)), *rows))
    assert len(found) == PLACES + 1
    most, name = 3 * PLACES - 1, "stomprelay_destination_sends_total"
    assert found[0] == f'{name}{{destination="/queue/{most}"}} {most}'
    assert found[-1] == f'{name}{{destination=""}} 7'


def test_a_name_spoils_nothing() -> None:
    """Quotes and what looks like a sample are part of it, controls are escaped, what is spelled alike is one."""
    odd = '/queue/"} 1\nstomprelay_ready 0\r \x1b[2J\x9b\u2028\u202e\x00'
    shown = '/queue/"} 1\\nstomprelay_ready 0\\r \\x1b[2J\\x9b\\u2028\\u202e\\x00'
    names = (odd, "\\xff", "\\xff", "", None)
    rows = (DestinationRow(name, DestinationTally(sends)) for sends, name in enumerate(names, 1))
    found = of_destinations(tuple(rows))
    assert sorted(found) == sorted(
        f'stomprelay_destination_sends_total{{destination="{name}"}} {sends}'
        for name, sends in ((shown, 1), ("\\xff", 5), ("", 9))
    )


# Certificates


def test_when_certificates_end(tmp_path: Path) -> None:
    """Each by the table that names it; with workers the earliest, in sum; nothing where none is shown."""
    own = Authority(tmp_path, "authority").issue("localhost")
    end = own.leaf.not_valid_after_utc.timestamp()
    files = ClientTLS(certificate=str(own.certificate), key=str(own.key))
    secured = Broker("ssl://192.0.2.1:61614", "tcp:host=192.0.2.1:port=61614", "192.0.2.1", tls=True)
    harness = RelayHarness(
        listener(tls=serving(own), upstream=upstream(broker=secured, tls=files)),
        listener(name="plain", endpoint="tcp:61616"),
        admin="tcp:61680:interface=127.0.0.1",
        admin_tls=serving(own),
    )
    taken = snapshot(harness.service.state, whole=False)
    assert taken.certificates == dict.fromkeys(("listener.public.tls", "upstream.main.tls", "admin_tls"), end)
    page = metrics(taken, ready=True)
    assert f'stomprelay_certificate_expires_timestamp_seconds{{for="admin_tls"}} {end:.15g}' in spelled(
        samples(page)
    )
    workers = [taken._replace(certificates={"listener.public.tls": end + more}) for more in (9, 5)]
    crew = summed(taken, [*workers, ended(taken._replace(certificates={"listener.public.tls": 1.0}))])
    assert crew.certificates == {**taken.certificates, "listener.public.tls": end + 5}
    assert read(json.loads(json.dumps(crew))) == crew
    assert "certificate" not in "".join(spelled(samples(page_of(RelayHarness()))))


# Processes


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="this system has no /proc")
def test_what_the_system_says_of_processes() -> None:
    """Of this one without a label, of workers with theirs; nothing of one that is away."""
    with subprocess.Popen(["sleep", "60"]) as process:
        found = of_processes(process.pid)
        assert {"", "1"} == set(found["process_open_fds"]) == set(found["process_max_fds"])
        assert found["process_resident_memory_bytes"][""] > found["process_resident_memory_bytes"]["1"] > 0
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert "" in of_processes(process.pid)["process_open_fds"]
    assert set(of_processes(process.pid)["process_open_fds"]) == {""}


def of_processes(number: int) -> dict[str, dict[str, float]]:
    """Each metric of processes, by worker: of one that is this process, and of one that has none."""
    rows = (WorkerRow(1, number, SERVES, 0, 0), WorkerRow(2, None, "is away", 0, 1))
    page = metrics(snapshot(RelayHarness().service.state, whole=False)._replace(workers=rows), ready=True)
    assert page.count("# TYPE process_open_fds ") == 1
    found: dict[str, dict[str, float]] = {}
    for each in samples(page):
        if each.name.startswith("process_"):
            found.setdefault(each.name, {})[each.labels.get("worker", "")] = each.value
    return found


@pytest.mark.parametrize("error", [IndexError, UnboundLocalError, ValueError])
def test_a_process_of_which_nothing_can_be_read(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """As one that ended and was not waited for: the page does without it."""
    monkeypatch.setattr(ProcessCollector, "collect", Mock(side_effect=error))
    found = samples(page_of(RelayHarness()))
    assert found
    assert not [each for each in found if each.name.startswith("process_")]
