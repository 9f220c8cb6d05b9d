"""A relay that is asked and told over HTTP, at its `admin`, and by the command `stomprelay`."""

import json
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from tests.e2e.child import PATIENCE
from tests.e2e.relay import ROOT
from tests.prometheus import sums


@dataclass(frozen=True)
class Admin:
    """A relay's administration at a port of 127.0.0.1, with the token that it wants."""

    port: int
    token: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, said: object = None) -> tuple[int, str]:
        """GET a page, or POST what is said. Return status and text."""
        headers = {"content-type": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        body = None if said is None else json.dumps(said).encode()
        request = urllib.request.Request(self.url + path, body, headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def get(self, path: str, said: object = None) -> str:
        """The same, where all is well. Return the text."""
        status, text = self.ask(path, said)
        assert status == 200, text
        return text

    def told(self, path: str, **said: object) -> Any:
        """GET a page of JSON, or POST what is said. Return what it says."""
        return json.loads(self.get(path, said or None))

    def metrics(self) -> dict[str, float]:
        """Return each metric by its name without `stomprelay_`: the sum of its samples."""
        return {name.removeprefix("stomprelay_"): each for name, each in sums(self.get("/metrics")).items()}


def stomprelay(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "stomprelay", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
