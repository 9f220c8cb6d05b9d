"""Tests over compiled modules that were built to tell of any read or write out of bounds."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]

_RUN: Final = """
import importlib.util, sys, pytest
modules = sys.argv[1].split(",")
for each in modules:
    name, _, path = each.partition("=")
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
raise SystemExit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *sys.argv[2:]]))
"""


def run_sanitized(directory: Path, sources: Sequence[str], *arguments: str) -> None:
    """Build these modules, each by its path below the root, with AddressSanitizer, and run pytest over them in another
    process. Skips the test where that cannot be done.
    """
    compiler, cython = shutil.which("gcc"), shutil.which("cython", path=str(Path(sys.executable).parent))
    if compiler is None or cython is None:
        pytest.skip("needs gcc and Cython: apt-get install gcc; pip install cython")
    found = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(found).is_file():
        pytest.skip("needs libasan, which comes with gcc: apt-get install gcc")
    modules = ",".join(f"{_name(each)}={_build(compiler, cython, directory, each)}" for each in sources)
    environment = {
        **os.environ,
        "LD_PRELOAD": found,
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
    }
    environment.pop("STOMPRELAY_PURE", None)
    ran = subprocess.run(
        [sys.executable, "-c", _RUN, modules, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-8000:]
    assert " passed" in ran.stdout


def _name(source: str) -> str:
    return source.removesuffix(".pyx").replace("/", ".")


def _build(compiler: str, cython: str, directory: Path, source: str) -> Path:
    code = directory / f"{Path(source).stem}.c"
    built = code.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
    subprocess.run([cython, "-3", ROOT / source, "-o", code], cwd=ROOT, check=True)
    options = ["-shared", "-fPIC", "-g1", "-O1", "-fsanitize=address", "-fno-omit-frame-pointer"]
    include = [f"-I{sysconfig.get_path('include')}", f"-I{(ROOT / source).parent}"]
    subprocess.run([compiler, *options, *include, code, "-o", built], check=True)
    return built
