"""`stomprelay tail` beside a relay at work: what is shown is what passed, and the relay goes on all the same."""

import contextlib
import json
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.child import PATIENCE, Child
from tests.e2e.relay import Admin, Relay, launch, served
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e

TOKEN = "0123456789abcdef"


@dataclass(frozen=True)
class Scene:
    """A relay before the embedded broker."""

    relay: Relay
    directory: Path
    port: int
    admin: Admin

    @contextlib.contextmanager
    def tail(self, *options: str) -> Iterator[Child]:
        """Run the command, until it is stopped."""
        token = str(self.directory / "token")
        with watching(self.directory, self.admin.url, "--token-file", token, *options) as child:
            yield child

    def asks(self, watch: str, **more: bool) -> int:
        """Watch by another name, and return the status of the response."""
        return self.admin.ask("/tail", {"watch": watch, **more})[0]

    def newest(self) -> str:
        """The name of the newest session."""
        rows = self.admin.told("/sessions")["sessions"]
        name: str = min(rows, key=lambda row: row["age"])["session"]
        return name


@contextlib.contextmanager
def watching(directory: Path, admin: str, *options: str) -> Iterator[Child]:
    """Run the command in JSON, or as `options` say, until it is stopped."""
    command = [sys.executable, "-m", "stomprelay", "tail", "--admin", admin, *options]
    child = launch(directory, command)
    try:
        yield child
    finally:
        child.stop(signal.SIGINT)


def begun(child: Child, client: Talker, destination: str = "/topic/begun") -> None:
    """Wait until what passes is shown."""
    for _ in range(int(PATIENCE / 0.1)):
        client.ask("SEND", destination=destination, begun="1")
        with contextlib.suppress(AssertionError):
            child.wait_for_output("begun", within=0.1)
            return
    raise AssertionError(f"nothing is shown:\n{child.output}")


def shown(child: Child, last: str) -> list[dict[str, Any]]:
    """What was shown as JSON, up to a last frame; without what was sent to see whether it has begun."""
    child.wait_for_output(re.escape(last))
    rows = [json.loads(line) for line in child.output.splitlines()]
    return [row for row in rows if "begun" not in row.get("headers", {}) and row["kind"] == "frame"]


@pytest.fixture(scope="module", params=["alone", "with a journal"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """With and without a journal."""
    directory = tmp_path_factory.mktemp("relay")
    token = directory / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    journal = '[journal]\nredact = ["x-mine"]\n'
    if request.param != "alone":
        journal += f'directory = "{directory / "journal"}"\n'
    with served(directory, listener=journal, more='admin_token_file = "token"') as running:
        yield Scene(running, directory, running.port, Admin(running.admin.port, TOKEN))


def test_what_is_shown_is_what_passed(scene: Scene) -> None:
    """All of it in its order, amid a session and of a new one; no passcode, and no header that is redacted."""
    client = Talker.at(scene.port)
    with scene.tail("--json", "--bodies", "3") as child:
        begun(child, client)
        client.subscribe("/queue/shown", "s")
        client.send("/queue/shown", b"first", x_mine="hush")
        client.send("/queue/shown", *(b"%d" % number for number in range(50)))
        client.bodies(51)
        Talker.at(scene.port).leave()
        found = shown(child, '"command": "DISCONNECT"')
        child.wait_for_output('"command": "RECEIPT".*\n(.*\n)*.*"command": "DISCONNECT"')
    name = next(row["session"] for row in found if row["command"] == "SUBSCRIBE")
    sends = [row for row in found if row["command"] == "SEND" and row["session"] == name]
    messages = [row for row in found if row["command"] == "MESSAGE" and row["session"] == name]
    bodies = ["fir", *map(str, range(50))]
    assert [row["body"] for row in sends] == [row["body"] for row in messages] == bodies
    assert {row["direction"] for row in sends} == {"to_broker"}
    assert {row["direction"] for row in messages} == {"to_client"}
    assert sends[0]["headers"]["x-mine"] == messages[0]["headers"]["x-mine"] == "***"
    assert sends[0]["body_size"] == 5
    (connect,) = [row for row in found if row["command"] == "CONNECT"]
    assert connect["headers"]["passcode"] == "***"
    assert connect["client"] == "guest"
    assert "hush" not in child.output
    client.leave()


@pytest.mark.ci
def test_a_flood_is_shown_as_far_as_it_fits(scene: Scene) -> None:
    """Each frame is shown or counted as left out, and all of them pass."""
    count = 60_000
    client = Talker.at(scene.port)
    with scene.tail("--destination", "/topic/flood") as child:
        begun(child, client, "/topic/flood")
        already = child.output.count("\n")
        client.write(b"SEND\ndestination:/topic/flood\nmany:1\n\nhello\0" * count)
        client.ask("SEND", destination="/topic/elsewhere")

        def all_told() -> bool:
            left_out = sum(map(int, re.findall(r"^\.\.\. (\d+) left out", child.output, re.MULTILINE)))
            return left_out + child.output.count(" many:1") == count

        scene.relay.wait_until(all_told)
    assert already
    assert "left out: more passed than is kept" in child.output
    client.leave()


@pytest.mark.ci
@pytest.mark.parametrize(
    ("sig", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)], ids=["ctrl-c", "killed"]
)
def test_the_command_ends_and_nobody_watches(scene: Scene, sig: signal.Signals, status: int) -> None:
    """By Ctrl-C quietly, and at once for the relay; one that is killed is waited for in vain, and not for long."""
    client = Talker.at(scene.port)
    others = ["1", "2", "3"]
    with scene.tail("--session", scene.newest()) as child:
        begun(child, client)
        assert [scene.asks(each) for each in others] == [200] * 3
        assert scene.asks("4") == 503
        assert child.stop(sig) == status
        assert all(re.match(r"\d{4}-", line) for line in child.output.splitlines())
    if sig is signal.SIGINT:
        assert scene.asks("4") == 200
    scene.relay.wait_until(lambda: {scene.asks(each) for each in (*others, "4")} == {200})
    for each in (*others, "4"):
        scene.asks(each, over=True)
    client.leave()
