"""The alert rules, each with what makes it fire and what does not, by `promtool test rules`."""

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.prometheus import PROMTOOL, judged

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "config" / "prometheus" / "stomprelay.rules.yaml"
PLACE = {"job": "stomprelay", "instance": "relay:61681"}
MINUTES = 60
"""For how long a story goes on: a sample each minute."""


class Story(NamedTuple):
    """What an alert is asked about: it is silent at minute `silent`, and fires at minute `fires`, with these labels
    beside `PLACE`. Series have their samples in promtool's notation (`1x60`: 1, sixty-one times; `0+2x60`: two more
    each time).
    """

    alert: str
    silent: int
    fires: int
    labels: dict[str, str]
    series: dict[str, str]


PUBLIC = {"listener": "public"}
MAIN = {"upstream": "main"}
BROKER = {**MAIN, "broker": "tcp://a"}
STATES = ("up", "unknown", "paused", "out", "down")


def states(broker: str, said: dict[str, str]) -> dict[str, str]:
    """The series of a broker's states, 0 all the time for those of which nothing is said."""
    at = f'upstream="main",broker="{broker}"'
    return {
        f'stomprelay_broker_state{{{at},state="{state}"}}': said.get(state, f"0x{MINUTES}")
        for state in STATES
    }


def counter(name: str, more: str = "", labels: str = 'listener="public"') -> dict[str, str]:
    """A counter that stands still for twenty minutes, and counts 5 a minute then."""
    return {f"stomprelay_{name}_total{{{labels}}}": f"7x20 12+5x39{more}"}


def histogram(name: str, label: str) -> dict[str, str]:
    """Nothing takes longer than 0.1 s for twenty minutes; then everything takes 30 s."""
    return {
        f'stomprelay_{name}_seconds_bucket{{{label}le="0.1"}}': "0+10x20 200x39",
        f'stomprelay_{name}_seconds_bucket{{{label}le="30.0"}}': "0+10x59",
        f'stomprelay_{name}_seconds_bucket{{{label}le="+Inf"}}': "0+10x59",
    }


DAY = 1440 * 60
STORIES = [
    Story("StomprelayDown", 20, 22, {}, {"up{}": "1x19 0x40"}),
    Story("StomprelayNotReady", 20, 22, {}, {"stomprelay_ready": "1x19 0x40", "stomprelay_draining": "0x60"}),
    Story(
        *("StomprelayNoBrokerUp", 29, 31, MAIN),
        states("tcp://a", {"up": "1x19 0x40", "down": "0x19 1x40"})
        | states("tcp://b", {"up": "1x29 0x30", "paused": "0x29 1x30"}),
    ),
    Story(
        *("StomprelayBrokerDown", 21, 23, BROKER),
        states("tcp://a", {"up": "1x19 0x40", "down": "0x19 1x1 0x39", "out": "0x21 1x38"}),
    ),
    Story(
        *("StomprelayBrokerPaused", 250, 260, BROKER),
        {'stomprelay_broker_paused{upstream="main",broker="tcp://a"}': "0x19 1x300"},
    ),
    Story(
        *("StomprelayFailovers", 32, 45, {}),
        {'stomprelay_sessions{listener="public"}': "10x60"}
        | {'stomprelay_failovers_total{listener="public"}': "0x20 10x10 10+5x29"},
    ),
    Story("StomprelayLongSilence", 20, 30, MAIN, histogram("silence", 'upstream="main",')),
    Story("StomprelaySessionsGivenUp", 20, 22, PUBLIC, counter("sessions_given_up")),
    Story("StomprelayPossiblyLost", 20, 22, PUBLIC, counter("possibly_lost")),
    Story("StomprelayFanoutOverflowed", 20, 22, PUBLIC, counter("fanout_overflowed")),
    Story("StomprelayFaults", 20, 22, PUBLIC, counter("faults")),
    Story("StomprelayClientsRefused", 20, 22, PUBLIC, counter("clients_refused")),
    Story(
        *("StomprelayDescriptors", 20, 30, {}),
        {"stomprelay_build_info": "1x60", "process_max_fds": "100x60", "process_open_fds": "90x19 91x40"}
        | {'process_open_fds{worker="1"}': "5x60", 'process_max_fds{worker="1"}': "100x60"},
    ),
    Story("StomprelayLoopLag", 20, 35, {}, histogram("lag", "")),
    Story(
        *("StomprelayWorkerAway", 21, 23, {"worker": "2"}),
        {'stomprelay_worker_up{worker="1"}': "1x60", 'stomprelay_worker_up{worker="2"}': "1x19 0x40"},
    ),
    Story(
        *("StomprelayWorkerRestarts", 20, 35, {"worker": "2"}),
        {'stomprelay_worker_restarts_total{worker="2"}': "0x10 1x9 2x10 3+1x29"},
    ),
    Story(
        *("StomprelayMoveStopped", 20, 22, {"move": "a"}),
        {'stomprelay_move_stopped{move="a"}': "0x20 1x39", 'stomprelay_move_stopped{move="b"}': "0x60"},
    ),
    Story(
        *("StomprelayMoveSessionsStay", 39, 41, {"move": "a"}),
        {'stomprelay_move_sessions{move="a",state="followed"}': "0x20 9x39"}
        | {'stomprelay_move_sessions{move="a",state="waiting"}': "0x20 9x5 0x33"}
        | {'stomprelay_move_sessions{move="a",state="staying"}': "0x29 1x30"}
        | {'stomprelay_move_sessions{move="b",state="older"}': "0x19 3x5 0x34"},
    ),
    Story("StomprelayJournalFailing", 20, 22, {}, {"stomprelay_journal_failing": "0x19 1x40"}),
    Story("StomprelayJournalDropping", 20, 22, {}, counter("journal_dropped_frames", labels="")),
    Story(
        *("StomprelayCertificateEnds", 29, 32, {"for": "admin_tls"}),
        {'stomprelay_certificate_expires_timestamp_seconds{for="admin_tls"}': f"{14 * DAY + 1800}x60"}
        | {'stomprelay_certificate_expires_timestamp_seconds{for="listener.public.tls"}': f"{20 * DAY}x60"}
        | {'stomprelay_certificate_expires_timestamp_seconds{for="upstream.main.tls"}': "60x60"},
    ),
    Story(
        *("StomprelayCertificateEnded", 29, 31, {"for": "upstream.main.tls"}),
        {'stomprelay_certificate_expires_timestamp_seconds{for="upstream.main.tls"}': "1800x60"},
    ),
]


def rules() -> list[dict[str, Any]]:
    """All rules."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def named(series: str) -> str:
    """A series with the labels of `PLACE`."""
    name, _, inside = series.rstrip("}").partition("{")
    place = ",".join(f'{label}="{value}"' for label, value in PLACE.items())
    return f"{name}{{{','.join(filter(None, (place, inside)))}}}"


def test_each_alert_has_its_story() -> None:
    """And says how bad it is, and what to do."""
    assert [rule["alert"] for rule in rules()] == [story.alert for story in STORIES]
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert set(rule["annotations"]) == {"summary", "description"}


@judged
def test_the_rules_are_rules() -> None:
    """As Prometheus reads them."""
    done = subprocess.run([PROMTOOL, "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(STORIES)} rules found" in done.stdout


@judged
def test_each_alert_fires_when_it_should(tmp_path: Path) -> None:
    """And not before."""
    severities = {rule["alert"]: rule["labels"]["severity"] for rule in rules()}
    tests = [
        {
            "name": story.alert,
            "interval": "1m",
            "input_series": [
                {"series": named(series), "values": values} for series, values in story.series.items()
            ],
            "alert_rule_test": [
                {"eval_time": f"{story.silent}m", "alertname": story.alert, "exp_alerts": []},
                {
                    "eval_time": f"{story.fires}m",
                    "alertname": story.alert,
                    "exp_alerts": [
                        {"exp_labels": {**PLACE, **story.labels, "severity": severities[story.alert]}}
                    ],
                },
            ],
        }
        for story in STORIES
    ]
    file = tmp_path / "stories.json"
    bare = tmp_path / RULES.name
    told = [{name: value for name, value in rule.items() if name != "annotations"} for rule in rules()]
    bare.write_text(json.dumps({"groups": [{"name": "stomprelay", "rules": told}]}))
    file.write_text(json.dumps({"rule_files": [bare.name], "evaluation_interval": "30s", "tests": tests}))
    done = subprocess.run([PROMTOOL, "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
