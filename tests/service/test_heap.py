"""Keeping what was freed."""

import ctypes
import platform
from typing import Any

import pytest

from stomprelay.service.process import KEPT, LARGE, keep_freed_memory


class Library:
    """A C library that takes what it is told, or not."""

    def __init__(self, answer: int) -> None:
        self.told: dict[int, int] = {}
        self._answer = answer

    def mallopt(self, parameter: int, value: int) -> int:
        """Remember the setting."""
        self.told[parameter] = value
        return self._answer


def test_both_thresholds_are_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are those of glibc's malloc.h."""
    library = Library(1)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    assert keep_freed_memory()
    assert library.told == {-1: KEPT, -3: LARGE}


def test_a_refusal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """`mallopt` answers 0 for what it does not take."""
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library(0))
    assert not keep_freed_memory()


@pytest.mark.parametrize("error", [AttributeError, OSError])
def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    """Nothing depends on it but speed."""

    def load(name: Any) -> Any:
        raise error

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert not keep_freed_memory()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_glibc_takes_it() -> None:
    """As it is, in this process."""
    assert keep_freed_memory()
