"""What the journal does by default."""

from dataclasses import FrozenInstanceError

import pytest

from stomprelay.journal.settings import NOTHING, JournalSettings, WhenFull


def test_none_is_kept_by_default() -> None:
    """And where one is: heads only, nothing removed, and the relay never waits for the disk."""
    settings = JournalSettings()
    assert settings.directory is None
    assert settings.bodies == NOTHING
    assert settings.when_full is WhenFull.DROP
    assert settings.retain_age is settings.retain_size is None


def test_settings_do_not_change() -> None:
    """They are a value."""
    with pytest.raises(FrozenInstanceError):
        JournalSettings().directory = "x"  # type: ignore[misc]
