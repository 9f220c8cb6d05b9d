"""TimeLimits."""

from stomprelay.pipeline.settings import Settings, TimeLimits


def test_of_the_settings() -> None:
    """The defaults are the same."""
    settings = Settings(journal="j", tables="t")
    assert (
        TimeLimits.of(settings.patience, settings.linger, settings.give_up, settings.stuck_after)
        == TimeLimits()
    )
    assert TimeLimits.of(0.5, 1e-9, 0, 2) == TimeLimits(500_000_000, 1, 0, 2_000_000_000)
