"""Every wire test runs twice: over the decoder in Python, and over the one with the compiled scanner."""

from collections.abc import Iterator

import pytest

from stomprelay.wire import decoder


@pytest.fixture(scope="module", params=["pure", "compiled"], autouse=True)
def twin(request: pytest.FixtureRequest) -> Iterator[str]:
    """Which of the two it is; skips where there is nothing compiled."""
    if request.param == "compiled" and decoder.SCANNER is None:
        pytest.skip("the compiled scanner was not built, or STOMPRELAY_PURE says to do without")
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "pure":
            patch.setattr(decoder, "SCANNER", None)
        yield request.param
