"""The load, which tests of the bench share."""

from collections.abc import Iterator

import pytest

from bench.load import Load, loaded
from bench.machine import which


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """The load compiled, its null broker running."""
    if which("cc", "gcc", "clang") is None:
        pytest.skip("the load is written in C: needs a compiler (Debian package gcc)")
    with loaded(tmp_path_factory.mktemp("load")) as running:
        yield running
