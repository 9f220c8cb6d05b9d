"""What the pipeline can be told."""

from typing import Any

import pytest

from stomprelay.pipeline.settings import Settings


def test_the_checkpoint_lies_beside_the_tables() -> None:
    """Unless it is named."""
    assert Settings("j", "t/").checkpoint == "t/_checkpoint"
    assert Settings("j", "s3a://b/t").checkpoint == "s3a://b/t/_checkpoint"
    assert Settings("j", "t", checkpoint="c").checkpoint == "c"


@pytest.mark.parametrize(
    "changes",
    [
        {"journal": ""},
        {"tables": ""},
        {"format": ""},
        {"files_per_batch": 0},
        {"patience": -1},
        {"linger": float("nan")},
        {"give_up": -0.1},
        {"stuck_after": -1},
        {"interval": -1},
        {"retain": 0},
    ],
)
def test_what_cannot_be_is_named(changes: dict[str, Any]) -> None:
    """In a sentence for the user."""
    with pytest.raises(ValueError, match=next(iter(changes))):
        Settings(**{"journal": "j", "tables": "t", **changes})
