"""`@stomp/stompjs`, over the package `ws` in Node: fetched once by npm into the cache folder of the tests."""

import fcntl
import json
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.child import PATIENCE, Child

SCRIPT: Final = Path(__file__).parent / "clients" / "stompjs.js"
_PACKAGES: Final = ("@stomp/stompjs@7", "ws@8")
_FOLDER: Final = Path.home() / ".cache" / "stomprelay" / "stompjs"

SEEN: Final[Mapping[str, object]] = {
    "hello": {"version": "1.2", "body": "grüße", "closes": [1000]},
    "acks": {"auto": ["end"], "client": ["2", "end"], "client-individual": ["0", "2", "end"]},
    "transactions": ["outside", "committed"],
    "large": {"text": True, "binary": True, "pieces": True},
}
"""What the library sees in a talk: a session whose version is agreed on, and whose end has code 1000; what was not
acknowledged, coming again to who comes next; a transaction that is aborted and one that is committed; 5 MB of text,
5 MB of every byte, and a frame that it splits over a hundred messages.
"""

TALK: Final = """([name, url]) => {
  window.told = [];
  window.end = talks[name](StompJs.Client, url, (w) => told.push(w));
}"""
"""Begins a talk in a page: its words are in `told`, what it saw is in `end`."""


def modules() -> Path:
    """Return the folder of Node's modules with both packages. Skips where there is no Node, or they cannot be had."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("there is no Node: apt-get install nodejs npm")
    found = _FOLDER / "node_modules"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with open(_FOLDER / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several processes run tests
        if not (found / "@stomp" / "stompjs").is_dir() or not (found / "ws").is_dir():
            why = _refused(npm)
            if why:
                pytest.skip(f"npm has no {' and '.join(_PACKAGES)} for the tests: {why}")
    return found


@cache
def _refused(npm: str) -> str:
    """Fetch both packages, once. Return why they cannot be had; "" where they are there."""
    command = [npm, "install", "--no-audit", "--no-fund", "--fetch-retries=0", "--prefix", str(_FOLDER)]
    try:
        done = subprocess.run(
            [*command, *_PACKAGES], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return "no answer"
    return done.stderr[-200:] if done.returncode else ""


def bundle() -> str:
    """Return the library as browsers load it."""
    return (modules() / "@stomp" / "stompjs" / "bundles" / "stomp.umd.min.js").read_text(encoding="utf-8")


def library_page() -> str:
    """A web page that has the library and the talks."""
    talks = SCRIPT.read_text(encoding="utf-8")
    return f"<!doctype html><title>t</title><script>{bundle()}</script><script>{talks}</script>"


def begin(talk: str, url: str, ca: Path | None = None) -> Child:
    """Begin a talk of `clients/stompjs.js`, where certificates of this authority are trusted. Stop the child."""
    environment = {"NODE_PATH": str(modules())} | ({} if ca is None else {"NODE_EXTRA_CA_CERTS": str(ca)})
    return Child("stompjs", ["node", str(SCRIPT), talk, url], env=environment)


def talk(name: str, url: str, ca: Path | None = None) -> Any:
    """Return what the library saw in a talk."""
    return end(begin(name, url, ca))


def end(child: Child) -> Any:
    """Return what the library saw in a talk that comes to its end."""
    try:
        assert child.exited(within=PATIENCE), child.last_words
        assert child.stop() == 0, child.last_words
        return json.loads(child.output.strip().splitlines()[-1])
    finally:
        child.stop()
