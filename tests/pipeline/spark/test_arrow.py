"""Rows and columns to and from Arrow."""

import gc

import pytest

from stomprelay.pipeline.spark import arrow


@pytest.mark.parametrize("before", [True, False])
def test_no_rings_are_looked_for_meanwhile(before: bool) -> None:
    """Afterwards it is as it was, after a failure as well."""

    def fails() -> None:
        with arrow.uncollected():
            assert not gc.isenabled()
            raise LookupError

    was = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with pytest.raises(LookupError):
            fails()
        assert gc.isenabled() is before
    finally:
        (gc.enable if was else gc.disable)()


def test_octets_become_text() -> None:
    """UTF-8 as it is; what is none is spelled out, and nothing else of the column changes."""
    assert arrow.text([b"a", None, "ä€".encode()]).to_pylist() == ["a", None, "ä€"]
    assert arrow.text([b"a", None, b"\xff\xc3\xa4"]).to_pylist() == ["a", None, "\\xffä"]
