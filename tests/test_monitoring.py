"""What watches the relay: docs/monitoring.md, the dashboard and the files of compose.yaml know the metrics that there
are, and Prometheus takes what is meant for it.
"""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from stomprelay.service.admin.metrics import metrics
from tests.prometheus import PROMTOOL, judged
from tests.service.test_metrics import full
from tests.test_alerts import RULES, rules
from tests.test_docs import rows

ROOT = Path(__file__).resolve().parent.parent
DASHBOARD = ROOT / "config" / "grafana" / "stomprelay.json"
PAGE = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
SAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Kind, labels and meaning of each metric, by the name that it has in the table."""
    page = metrics(full(tmp_path_factory.mktemp("journal")), ready=True)
    found = {}
    for each in text_string_to_metric_families(page):
        labels = {label for sample in each.samples for label in sample.labels} - {"le"}
        if each.name.startswith("process_"):
            labels.add("worker")
        name = f"{each.name}_total" if each.type == "counter" else each.name
        spelled = ", ".join(f"`{label}`" for label in sorted(labels))
        found[name] = [each.type, spelled, each.documentation.removesuffix(".")]
    return found


def panels() -> list[dict[str, Any]]:
    """Those of the dashboard."""
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return found


def queries() -> list[str]:
    """What the dashboard asks Prometheus, with something in the place of its variables."""
    asked = [target["expr"] for panel in panels() for target in panel.get("targets", [])]
    return [
        re.sub(r"\[\$__\w+\]", "[5m]", each).replace("$job", "job").replace("$instance", ".*")
        for each in asked
    ]


def test_the_table_is_the_page(families: dict[str, list[str]]) -> None:
    """Each metric with its kind, its labels and its meaning, in their order; each alert, and no other."""
    told = {
        row[0].strip("`"): row[1:] for row in rows(PAGE.partition("## The metrics")[2]) if row[0] != "metric"
    }
    assert told == families
    assert list(told) == list(families)
    assert set(re.findall(r"`(Stomprelay\w+)`", PAGE)) == {rule["alert"] for rule in rules()}


def test_whoever_names_a_metric_names_one_that_exists(families: dict[str, list[str]]) -> None:
    """Rules and dashboard; a histogram by its parts."""
    there = set(families) | {f"{name}_bucket" for name, (kind, *_) in families.items() if kind == "histogram"}
    for asked in [*(rule["expr"] for rule in rules()), *queries()]:
        named = set(re.findall(r"\b(?:stomprelay|process)_\w+", asked))
        assert named <= there, asked
    shown = {name for asked in queries() for name in re.findall(r"\bstomprelay_\w+", asked)}
    assert len(shown) > 40


def test_the_panels_have_a_place_each() -> None:
    """None covers another; each has a title, a number of its own, and one data source, which is asked for."""
    taken: dict[tuple[int, int], str] = {}
    for panel in panels():
        place = panel["gridPos"]
        for cell in (
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ):
            assert cell not in taken, (panel["title"], taken[cell])
            taken[cell] = panel["title"]
        assert panel["title"]
        for target in panel.get("targets", []):
            assert (
                target["datasource"] == panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            )
    assert max(x for x, _ in taken) == 23
    assert len({panel["id"] for panel in panels()}) == len(panels())


@judged
def test_prometheus_takes_what_is_meant_for_it(tmp_path: Path) -> None:
    """What the dashboard asks, as rules, and what compose.yaml gives it, where that is mounted."""
    asked = [{"record": f"asked:{number}", "expr": each} for number, each in enumerate(queries())]
    file = tmp_path / "asked.json"
    file.write_text(json.dumps({"groups": [{"name": "asked", "rules": asked}]}), encoding="utf-8")
    done = subprocess.run([PROMTOOL, "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    volumes = yaml.safe_load((ROOT / "config" / "compose.yaml").read_text("utf-8"))["services"]["prometheus"][
        "volumes"
    ]
    for volume in volumes:
        source, target, _ = volume.split(":")
        (tmp_path / Path(target).name).write_bytes((ROOT / "config" / source).read_bytes())
    checked(tmp_path, (tmp_path / "prometheus.yml").read_text("utf-8"))


@judged
@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_prometheus_takes_what_the_page_shows(tmp_path: Path, number: int) -> None:
    """With the files that it names."""
    (tmp_path / RULES.name).write_bytes(RULES.read_bytes())
    for name in ("stomprelay.token", "stomprelay-ca.pem"):
        (tmp_path / name).touch()
    checked(tmp_path, SAMPLES[number].replace("/etc/prometheus", str(tmp_path)))


def checked(folder: Path, text: str) -> None:
    """Have `promtool` look at a configuration."""
    file = folder / "prometheus.yml"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run([PROMTOOL, "check", "config", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "stomprelay.rules.yaml" not in text or "rules found" in done.stdout
