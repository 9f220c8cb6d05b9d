"""A browser for the tests that need a real one: Debian's Chromium without a window, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
from playwright.sync_api import sync_playwright

_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS: Final = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE: Final = 390
"""The width of a phone, in pixels."""


@contextmanager
def browsing() -> Iterator[Any]:
    """Run a browser with a profile of its own, a temporary one. Skips where there is none."""
    path = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    # Root may not have a sandbox; our own pages need none.
    sandbox = os.geteuid() != 0
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=path, args=[*_OPTIONS], chromium_sandbox=sandbox, timeout=120_000
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def page(browser: Any, **context: Any) -> Iterator[Any]:
    """Open a page of its own, with nothing in it that another one knows. What its console complains of is in
    `complaints`.
    """
    opened = browser.new_context(
        **{"viewport": {"width": 1440, "height": 1000}, "locale": "en-GB", **context}
    )
    opened.set_default_timeout(60_000)
    found = opened.new_page()
    found.complaints = []
    found.on("console", lambda said: said.type in ("error", "warning") and found.complaints.append(said.text))
    found.on("pageerror", lambda error: found.complaints.append(str(error)))
    try:
        yield found
    finally:
        opened.close()
