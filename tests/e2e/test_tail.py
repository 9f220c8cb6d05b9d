"""`stomprelay tail` beside a relay at work: what is shown is what passed, and the relay goes on all the same."""

import contextlib
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.child import PATIENCE, Child
from tests.e2e.relay import launch, served
from tests.e2e.talker import Talker

pytestmark = pytest.mark.e2e


def begun(child: Child, client: Talker) -> None:
    """Wait until what passes is shown."""
    for _ in range(int(PATIENCE / 0.1)):
        client.ask("SEND", destination="/topic/begun", begun="1")
        with contextlib.suppress(AssertionError):
            child.wait_for_output("begun", within=0.1)
            return
    raise AssertionError(f"nothing is shown:\n{child.output}")


def shown(child: Child, last: str) -> list[dict[str, Any]]:
    """What was shown as JSON, up to a last frame; without what was sent to see whether it has begun."""
    child.wait_for_output(re.escape(last))
    rows = [json.loads(line) for line in child.output.splitlines()]
    return [row for row in rows if "begun" not in row.get("headers", {}) and row["kind"] == "frame"]


@pytest.mark.parametrize("journal", [False, True], ids=["alone", "with a journal"])
def test_what_is_shown_is_what_passed(tmp_path: Path, journal: bool) -> None:
    """All of it in its order, amid a session and of a new one; no passcode, and no header that is redacted."""
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    token.chmod(0o600)
    place = f'directory = "{tmp_path}/journal"\n' if journal else ""
    recorded = f'[journal]\nredact = ["x-mine"]\n{place}'
    with served(tmp_path, listener=recorded, more='admin_token_file = "token"') as running:
        client = Talker.at(running.port)
        command = [sys.executable, "-m", "stomprelay", "tail", "--admin", running.admin.url]
        child = launch(tmp_path, [*command, "--token-file", str(token), "--json", "--bodies", "3"])
        try:
            begun(child, client)
            client.subscribe("/queue/shown", "s")
            client.send("/queue/shown", b"first", x_mine="hush")
            client.send("/queue/shown", *(b"%d" % number for number in range(50)))
            client.bodies(51)
            Talker.at(running.port).leave()
            found = shown(child, '"command": "DISCONNECT"')
            child.wait_for_output('"command": "RECEIPT".*\n(.*\n)*.*"command": "DISCONNECT"')
        finally:
            child.stop(signal.SIGINT)
        client.leave()
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
