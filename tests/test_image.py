"""The image and what is started around it, as far as that can be told without Docker: the Dockerfile copies all that a
build needs, the entry point's options are those that there are, and the services of compose.yaml find each other.
`e2e/test_image.py` runs the entry point.
"""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from stomprelay import cli
from stomprelay.cli.commands import parser
from stomprelay.config import load
from stomprelay.config.address import server
from tests import image
from tests.image import ROOT, stages

COMPOSE = ROOT / "config" / "compose.yaml"


def parts(file: Path) -> Any:
    """What a YAML file holds."""
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def service(name: str) -> Any:
    """One of the services of compose.yaml."""
    return parts(COMPOSE)["services"][name]


def mounts(name: str) -> dict[str, Path]:
    """The files that a service is given, by where it finds them; it cannot write to them."""
    found = {}
    for volume in service(name)["volumes"]:
        source, target, mode = volume.split(":")
        assert mode == "ro"
        found[target] = COMPOSE.parent / source
    return found


def mounted(name: str) -> tuple[Path, str]:
    """The first of them, which the service cannot do without."""
    target, source = next(iter(mounts(name).items()))
    return source, target


def port(endpoint: str | None) -> int:
    """The port of a TCP endpoint, which other containers reach."""
    assert endpoint is not None
    found = server(endpoint)
    assert (found.kind, found.arguments.get("interface", "")) == ("tcp", "")
    return int(found.arguments["port"])


def test_the_instructions_are_those_of_docker() -> None:
    """A stage is there before it is copied from, and the shell can read what it is to run."""
    known: set[str] = set()
    for stage in stages():
        for each in stage:
            assert each.keyword in image.KEYWORDS
            assert each.words or each.keyword == "HEALTHCHECK"
            assert each.options.get("from") in {None, *known}
            if each.keyword == "RUN":
                subprocess.run(["sh", "-n", "-c", each.text], check=True)
        name = re.fullmatch(r"\S+:\S+(?: AS (\S+))?", stage[0].text)
        assert name, stage[0]
        known.add(name[1])


def test_it_is_nobody() -> None:
    """Neither root nor a name that might be root's; nothing is run or written as another user behind that."""
    last = stages()[-1]
    [place] = [number for number, each in enumerate(last) if each.keyword == "USER"]
    assert all(int(number) > 999 for number in last[place].text.split(":"))
    assert {each.keyword for each in last[place + 1 :]} <= {"EXPOSE", "HEALTHCHECK", "ENTRYPOINT"}
    assert "RUN" not in {each.keyword for each in last}


def test_the_build_is_given_what_the_dockerfile_copies() -> None:
    """All of it is in the repository, and .dockerignore lets just that pass."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert lines[1] == "*"
    passes = {line[1:] for line in lines if line.startswith("!")}
    assert {source.partition("/")[0] for source in image.copied()} == passes
    assert [source for source in image.copied() if not (ROOT / source).exists()] == []


def test_the_entry_point_runs_a_relay() -> None:
    """By the real parser, and what is added wins; clients and probes reach the ports of its file."""
    command, *words = image.entry_point()
    assert command == "stomprelay"
    options = parser().parse_args(words)
    assert options.command == "run"
    more = parser().parse_args([*words, "--config", "/etc/mine.toml", "--upstream", "tcp://broker"])
    assert (more.config, more.upstream) == ("/etc/mine.toml", "tcp://broker")
    config = load(str(image.configuration()))
    [listener] = config.listeners
    assert image.said("EXPOSE").split() == [str(port(each)) for each in (listener.endpoint, config.metrics)]
    assert f"('127.0.0.1', {port(config.metrics)}, " in image.health_check()[-1]


def test_every_file_that_is_mounted_is_there() -> None:
    """Where its service looks for it; the relay's is in place of the image's own."""
    for name in parts(COMPOSE)["services"]:
        assert all(source.is_file() for source in mounts(name).values())
    assert mounted("relay")[1] in image.entry_point()
    assert (COMPOSE.parent / service("relay")["build"]).resolve() == ROOT


def test_the_relay_beside_its_broker(capsys: pytest.CaptureFixture[str]) -> None:
    """Its file can be run, its broker is a service that speaks STOMP, and its sessions survive that one."""
    file, _ = mounted("relay")
    assert cli.main(["check", "--config", str(file)]) == 0
    assert "upstream " in capsys.readouterr().out
    config = load(str(file))
    [listener] = config.listeners
    assert service("relay")["ports"] == [f"127.0.0.1:{port(listener.endpoint)}:{port(listener.endpoint)}"]
    assert int(service("relay")["stop_grace_period"].removesuffix("s")) > config.stop_timeout
    [broker] = listener.upstream.brokers
    assert broker.host in service("relay")["depends_on"]
    assert listener.upstream.confirm
    plugins, target = mounted(broker.host)
    assert target == "/etc/rabbitmq/enabled_plugins"
    assert re.fullmatch(r"\[\w+(,\w+)*\]\.\n", plugins.read_text(encoding="utf-8"))
    assert "rabbitmq_stomp" in plugins.read_text(encoding="utf-8")


def test_who_watches_finds_the_relay() -> None:
    """Prometheus asks its endpoint for metrics, and Grafana asks Prometheus."""
    config = load(str(mounted("relay")[0]))
    jobs = {each["job_name"]: each for each in parts(mounted("prometheus")[0])["scrape_configs"]}
    [target] = jobs["stomprelay"]["static_configs"][0]["targets"]
    assert target == f"relay:{port(config.metrics)}"
    assert jobs["stomprelay"]["metrics_path"] == "/metrics"
    [source] = parts(mounted("grafana")[0])["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    given = mounts("grafana")
    [provider] = parts(given["/etc/grafana/provisioning/dashboards/stomprelay.yml"])["providers"]
    assert f"{provider['options']['path']}/stomprelay.json" in given
