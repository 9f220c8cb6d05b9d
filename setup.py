"""What is compiled, and what the package gets from beside it. All else stands in setup.cfg and pyproject.toml."""

import os
import shutil
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from stomprelay import PURE, files  # noqa: E402


class BuildExtensions(build_ext):
    """Builds the extension modules that pyproject.toml lists, with as many compilers at once as there are processors;
    none where `STOMPRELAY_PURE` is set.
    """

    def initialize_options(self) -> None:
        """Set the number of compilers."""
        super().initialize_options()
        self.parallel = os.cpu_count()

    def build_extensions(self) -> None:
        """Build them. All C is made first, one source after the other: Cython is not safe in threads."""
        if PURE:
            return
        for each in self.extensions:
            each.sources = cythonize(each)[0].sources
        super().build_extensions()


class BuildPackage(build_py):
    """Builds the package, and copies into it what stands beside it in the repository."""

    def run(self) -> None:
        """Build. An editable install gets no copies: it reads each file where it stands."""
        super().run()
        if self.editable_mode:
            return
        for pattern in files.PATTERNS:
            for path in ROOT.glob(pattern):
                copy = Path(self.build_lib, "stomprelay", files.FOLDER, path.relative_to(ROOT))
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)


setup(cmdclass={"build_ext": BuildExtensions, "build_py": BuildPackage})
