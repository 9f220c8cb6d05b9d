"""One run at a time."""

from pathlib import Path

import pytest

from stomprelay.pipeline.store.lock import Lock
from stomprelay.pipeline.store.store import StoreError


def test_the_second_is_told(tmp_path: Path) -> None:
    """Until the first is done; the folder is made."""
    folder = tmp_path / "a" / "b"
    with Lock(folder), pytest.raises(StoreError, match="another run is at work"), Lock(folder):
        pytest.fail("two at once")
    with Lock(folder):
        pass


def test_a_folder_elsewhere_is_not_locked() -> None:
    """Hadoop has no locks."""
    with Lock(None), Lock(None):
        pass


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """With the reason."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written"), Lock(tmp_path / "file" / "x"):
        pytest.fail("no folder")
