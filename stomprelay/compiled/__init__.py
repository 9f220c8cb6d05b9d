"""The core as extension modules, which mypyc makes of its own Python; and who decides that they are used.

`setup.py` has each module of `sources()` compiled where there is a C compiler, all as one. They lie in this folder and
not beside their sources, so that it is decided here whether the interpreter finds them: all of them or none. They are
used when nothing says otherwise and each source is to the letter what it was when they were built; a core that was
edited is interpreted until it is built again. Nothing but speed may depend on it.
"""

import hashlib
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

FOLDER: Final = Path(__file__).resolve().parent
PACKAGE: Final = FOLDER.parent
ROOMS: Final = ("wire", "session", "relay", "journal")
INTERPRETED: Final = {
    "wire/frame.py": "the scanner in C fills the slots of its objects at their places",
    "wire/run.py": "the same",
    "wire/dialect.py": "records with cached properties",
    "wire/head.py": "the embedded broker's record of bounds extends that of limits",
    "relay/model/": "records of a configuration, which reads their defaults from their classes",
    "journal/settings.py": "the same",
    "journal/block.py": "no session needs it: what is written is made in C, and the pipeline reads",
    "journal/alike.py": "the same",
    "journal/segment.py": "the same",
    "journal/records.py": "the same",
    "journal/command.py": "the same",
    "journal/tail.py": "only while somebody watches, and then as fast as one can read",
    "journal/writer.py": "the thread that writes needs it, a few times a second",
    "journal/folder.py": "the same",
    "journal/disk.py": "the same",
}
"""Modules and rooms of the core that are not compiled, each with the reason."""
LIBRARY: Final = "stomprelay.compiled.core"
"""What mypyc calls them together."""
BUILT_OF: Final = FOLDER / f"{sys.implementation.cache_tag}.sha256"
"""The file that tells of which sources they were built, for this Python."""


def refused(part: str) -> bool:
    """Whether `STOMPRELAY_PURE` says to do without something that is compiled: `core` without the core, `1` without any
    of it.
    """
    said = os.environ.get("STOMPRELAY_PURE", "0")
    return said == part if said == "core" else said not in {"", "0"}


def sources() -> dict[str, Path]:
    """Return the modules that are compiled, each with its source."""
    found = {}
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            name = path.relative_to(PACKAGE).as_posix()
            if path.name != "__init__.py" and not name.startswith(tuple(INTERPRETED)):
                found[f"{PACKAGE.name}.{name.removesuffix('.py').replace('/', '.')}"] = path
    return found


def digest() -> str:
    """Return what changes when any source of the core does: those that are interpreted are known to the others."""
    found = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            found.update(b"%b\0%b\0" % (path.relative_to(PACKAGE).as_posix().encode(), path.read_bytes()))
    return found.hexdigest()


def place(module: str) -> str:
    """Return the name under which a module is built: the path of its file, with dots."""
    return module.replace(PACKAGE.name, f"{PACKAGE.name}.{FOLDER.name}", 1)


class Core(MetaPathFinder):
    """Finds the modules of the core in this folder."""

    def __init__(self) -> None:
        suffix = EXTENSION_SUFFIXES[0]
        self._files = {name: PACKAGE.parent / (place(name).replace(".", "/") + suffix) for name in sources()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As the interpreter asks."""
        file = self._files.get(fullname)
        return None if file is None else spec_from_file_location(fullname, file)


def use() -> bool:
    """Have the compiled modules imported from now on, where they may be. Return whether they are."""
    if refused("core") or not BUILT_OF.is_file() or BUILT_OF.read_text(encoding="ascii") != digest():
        return False
    sys.meta_path.insert(0, Core())
    return True
