"""The image's entry point and health check, as the Dockerfile has them, where there is nothing: no variable but the
PATH, a folder that nobody can write to, process 1; and a scrape as compose.yaml's Prometheus makes it.
"""

import http.client
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import image
from tests.e2e.child import PATIENCE
from tests.e2e.container import CONTAINED, contained, process_1
from tests.e2e.ports import free_port
from tests.e2e.raw import CONNECT, Connection
from tests.e2e.relay import ROOT, check, launch, relay

pytestmark = pytest.mark.e2e

BARE = ("env", "-i", f"PATH={Path(sys.executable).parent}:/usr/bin:/bin")


def moved(text: str, ports: dict[int, int]) -> str:
    """A text with ports of the loopback interface in place of those of a container."""
    text = re.sub(
        r'"tcp:(\d+)(:[^"]*)?"', lambda found: f'"tcp:{ports[int(found[1])]}:interface=127.0.0.1"', text
    )
    return re.sub(r"'127\.0\.0\.1', (\d+)", lambda found: f"'127.0.0.1', {ports[int(found[1])]}", text)


@pytest.mark.ci
@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="this system has no /proc, which nobody can write to"
)
@pytest.mark.parametrize("before", [(), pytest.param(CONTAINED, marks=contained)], ids=["alone", "process 1"])
def test_the_entry_point_where_there_is_nothing(tmp_path: Path, before: tuple[str, ...]) -> None:
    """Clients are served, it is healthy as long as it runs, and ends in good order."""
    ports = {port: free_port() for port in (61613, 61680, 61681)}
    file = tmp_path / "container.toml"
    file.write_text(moved(image.configuration().read_text(encoding="utf-8"), ports), encoding="utf-8")
    entry = [str(file) if word.endswith(".toml") else word for word in image.entry_point()]
    health = [*BARE, *(moved(word, ports) for word in image.health_check())]
    child = launch(Path("/proc"), [*before, *BARE, *entry])
    try:
        for port in ports.values():
            child.wait_for_output(rf" starting on {port}$")
        with Connection.to(ports[61613]) as client:
            client.write(CONNECT)
            assert client.frame().startswith(b"CONNECTED\n")
        assert subprocess.run(health, cwd="/proc", check=False, timeout=PATIENCE).returncode == 0
        os.kill(process_1(child) if before else child.pid, signal.SIGTERM)
        assert child.exited(within=PATIENCE), child.last_words
    finally:
        status = child.stop()
    assert status == (0 if before else -signal.SIGTERM)
    check(child)
    done = subprocess.run(health, cwd="/proc", check=False, timeout=PATIENCE, stderr=subprocess.DEVNULL)
    assert done.returncode == 1


def test_a_scrape_by_prometheus(tmp_path: Path) -> None:
    """By the name that the relay has among the services, which its file allows, and by no other."""
    ports = {port: free_port() for port in (61613, 61680, 61681)}
    text = (ROOT / "config" / "compose" / "stomprelay.toml").read_text(encoding="utf-8")
    with relay(tmp_path, moved(text, ports), list(ports.values())):
        for host, status in ((f"relay:{ports[61681]}", 200), (f"other:{ports[61681]}", 421)):
            asked = http.client.HTTPConnection("127.0.0.1", ports[61681], timeout=PATIENCE)
            try:
                asked.request("GET", "/metrics", headers={"Host": host})
                answer = asked.getresponse()
                assert answer.status == status
                assert (b"stomprelay_build_info" in answer.read()) == (status == 200)
            finally:
                asked.close()
