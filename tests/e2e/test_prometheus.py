"""Prometheus itself asks a relay as docs/monitoring.md shows it: at its endpoint `metrics`, and at `admin` with token
and TLS; and it works with the rules that come along, and with what the dashboard asks.
"""

import contextlib
import json
import re
import shutil
import urllib.parse
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.config.reference import put_secrets
from tests.e2e.certificates import Authority
from tests.e2e.child import PATIENCE
from tests.e2e.ports import free_port
from tests.e2e.raw import CONNECT, Connection
from tests.e2e.relay import ROOT, launch, served
from tests.test_monitoring import queries

PROMETHEUS = shutil.which("prometheus") or ""
SAMPLES = re.findall(
    r"^```yaml\n(.*?)^```", (ROOT / "docs" / "monitoring.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not PROMETHEUS, reason="no Prometheus: apt-get install prometheus"),
]


class Prometheus:
    """One that runs, at this port."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/"

    def ask(self, what: str, **arguments: str) -> Any:
        """What its interface says; None where it says that it cannot."""
        url = f"{self._url}{what}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                return json.loads(answer.read())["data"]
        except OSError:
            return None

    def has(self, query: str, values: dict[str, float]) -> bool:
        """Whether it finds these."""
        return self.values(query) == values

    def rules(self) -> list[dict[str, Any]]:
        """All of them, and how they are."""
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]

    def values(self, query: str) -> dict[str, float]:
        """What it finds, by job."""
        found = self.ask("query", query=query)
        rows = [] if found is None else found["result"]
        return {each["metric"]["job"]: float(each["value"][1]) for each in rows}


def configuration(folder: Path, metrics: int, admin: int) -> str:
    """Both samples in one, with the ports and the files of this test, and asking twice a second."""
    text, more = (
        sample.replace("relay.example.net:61681", f"127.0.0.1:{metrics}")
        .replace("relay.example.net:61680", f"127.0.0.1:{admin}")
        .replace("/etc/prometheus/stomprelay.token", str(folder / "admin.token"))
        .replace("/etc/prometheus/stomprelay-ca.pem", str(folder / "authority.pem"))
        for sample in SAMPLES
    )
    found = yaml.safe_load(text)
    [other] = yaml.safe_load(more)["scrape_configs"]
    found["scrape_configs"].append({**other, "job_name": "admin"})
    return json.dumps({**found, "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"}})


@contextlib.contextmanager
def prometheus(folder: Path, text: str) -> Iterator[Prometheus]:
    """Run it while the block lasts, at a free port."""
    (folder / "prometheus.yml").write_text(text, encoding="utf-8")
    port = free_port()
    places = ("--config.file=prometheus.yml", "--storage.tsdb.path=data")
    child = launch(folder, [PROMETHEUS, *places, f"--web.listen-address=127.0.0.1:{port}"])
    try:
        yield Prometheus(port)
    except BaseException:
        print(child.output)
        raise
    finally:
        child.stop()


def test_prometheus_asks(tmp_path: Path) -> None:
    """By both ways it gets all, and no rule is beyond it; a client that comes is seen."""
    put_secrets(tmp_path)
    own = Authority(tmp_path, "authority").issue("relay")
    shutil.copy(ROOT / "config" / "prometheus" / "stomprelay.rules.yaml", tmp_path)
    metrics = free_port()
    admin = f"""
admin_token_file = "admin.token"
metrics = "tcp:{metrics}:interface=127.0.0.1"
[admin_tls]
{own.lines}"""
    with (
        served(tmp_path, more=admin, ports=[metrics]) as running,
        prometheus(tmp_path, configuration(tmp_path, metrics, running.admin.port)) as found,
        Connection.to(running.port) as client,
    ):
        client.write(CONNECT)
        assert client.frame().startswith(b"CONNECTED\n")
        both = dict.fromkeys(("stomprelay", "admin"), 1.0)
        for series in ("up", "stomprelay_sessions", "stomprelay_ready", "stomprelay_build_info"):
            running.wait_until(partial(found.has, series, both))
        ends = own.leaf.not_valid_after_utc.timestamp()
        shown = dict.fromkeys(both, ends)
        running.wait_until(partial(found.has, "stomprelay_certificate_expires_timestamp_seconds", shown))
        lag = "histogram_quantile(0.5, stomprelay_lag_seconds_bucket) >= bool 0"
        running.wait_until(partial(found.has, lag, both))
        running.wait_until(lambda: {rule["health"] for rule in found.rules()} == {"ok"})
        assert [rule["name"] for rule in found.rules() if rule["state"] == "firing"] == []
        assert [asked for asked in queries() if found.ask("query", query=asked) is None] == []
