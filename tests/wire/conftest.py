"""Wire tests run twice: over the decoder in Python, and over the one with the compiled scanner.

Those of Hypothesis run once, over what is there (pytest-twisted cannot have them parametrized); `test_scan` has them
compare the two.
"""

from collections.abc import Iterator

import pytest
from hypothesis import is_hypothesis_test

from stomprelay.wire import decoder

TWINS = ("pure", "compiled")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have each test over both, save those that compare them."""
    if "twin" in metafunc.fixturenames and not is_hypothesis_test(metafunc.function):
        one = getattr(metafunc.module, "TWIN", None)
        metafunc.parametrize("twin", [one] if one else TWINS, indirect=True, scope="module")


@pytest.fixture(scope="module", autouse=True)
def twin(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Which of the two it is; skips where there is nothing compiled."""
    wanted = getattr(request, "param", None) or getattr(request.module, "TWIN", None)
    if wanted == "compiled" and decoder.SCANNER is None:
        pytest.skip("the compiled scanner was not built, or STOMPRELAY_PURE says to do without")
    with pytest.MonkeyPatch.context() as patch:
        if wanted == "pure":
            patch.setattr(decoder, "SCANNER", None)
        yield wanted
