"""How the core is compiled, from its own Python, by mypyc; and what the package gets from beside it. All else stands in
setup.cfg and pyproject.toml.
"""

import os
import shutil
import sys
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from threading import Lock

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).resolve().parent))

from stomprelay import compiled, files

ROOT = Path(__file__).resolve().parent


@cache
def core() -> list[Extension]:
    """Return what to build of the core; empty where nothing compiled is wanted, or mypyc is absent or does not take it:
    then the core is interpreted.
    """
    if compiled.refused("core"):
        return []
    modules = [str(path.relative_to(ROOT)) for path in compiled.sources().values()]
    try:
        from mypyc.build import mypycify

        # mypy's settings in pyproject.toml are for checking, and name a plugin that is not needed here.
        found = mypycify(
            ["--config-file=", "--python-version=3.11", "--no-incremental", *modules],
            opt_level="1",
            debug_level="0",
            target_dir="build/core",
            group_name=compiled.LIBRARY,
        )
    except (ImportError, SystemExit) as error:
        sys.stderr.write(f"the core stays interpreted: {error}\n")
        return []
    for each in found:
        each.optional = True
        if each.name in compiled.sources():
            each.name = compiled.place(each.name)
    return found


def _size(extension: Extension) -> int:
    """Return how many bytes of C it is made of."""
    return sum(Path(each).stat().st_size for each in extension.sources)


class BuildCore(build_ext):
    """Builds what pyproject.toml lists, then the core, and notes of which sources."""

    def initialize_options(self) -> None:
        """As many compilers at once as there are processors."""
        super().initialize_options()
        self.parallel = os.cpu_count()
        self._one_cython = Lock()

    def finalize_options(self) -> None:
        """Add the core to what is built, in front: its library takes as long as all the rest."""
        listed = [each for each in self.distribution.ext_modules or [] if each not in core()]
        self.distribution.ext_modules = [*sorted(core(), key=_size, reverse=True), *listed]
        super().finalize_options()

    def build_extension(self, ext: Extension) -> None:
        """Build one of them, beside others; Cython makes C of one source at a time."""
        with nullcontext() if ext in core() else self._one_cython:
            super().build_extension(ext)

    def run(self) -> None:
        """Build; only a core that is whole is noted, and used."""
        files = [Path(self.get_ext_fullpath(each.name)) for each in core()]
        for each in files:
            each.parent.mkdir(parents=True, exist_ok=True)
            each.unlink(missing_ok=True)
        super().run()
        if files and all(each.is_file() for each in files):
            (files[0].parent / compiled.BUILT_OF.name).write_text(compiled.digest(), encoding="ascii")


class BuildPackage(build_py):
    """Builds the package, and copies into it what stands beside it in the repository."""

    def run(self) -> None:
        """Build, but where an editable install has nothing built: there each file is read where it stands."""
        super().run()
        if self.editable_mode:
            return
        for pattern in files.PATTERNS:
            for path in ROOT.glob(pattern):
                copy = Path(self.build_lib, "stomprelay", files.FOLDER, path.relative_to(ROOT))
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)


setup(cmdclass={"build_ext": BuildCore, "build_py": BuildPackage})
