"""The folder for what is made once and used by every later start: a `bin/java` that Spark can do with, class archives.

It may be removed at any time. Nothing but speed is lost with it, nor where it cannot be written.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

CACHE: Final = "STOMPRELAY_CACHE"
"""The environment variable that names the folder; otherwise it is `stomprelay` in the user's cache folder."""


def folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder, made where it is missing; None where there is none that we may write to and run programs from."""
    try:
        path = _place(environ)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no right, no room, no home
        return None
    return path if os.access(path, os.W_OK | os.X_OK) else None


def _place(environ: Mapping[str, str]) -> Path:
    if named := environ.get(CACHE):
        return Path(named).absolute()
    if users := environ.get("XDG_CACHE_HOME"):
        return Path(users).absolute() / "stomprelay"
    return Path.home() / ".cache" / "stomprelay"


def put(path: Path, text: str, mode: int = 0o644) -> bool:
    """Write a small file as a whole, beside other processes that do the same. False where it cannot be done."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.chmod(mode)
        partial.replace(path)
    except OSError:
        with suppress(OSError):
            partial.unlink()
        return False
    return True
