"""A browser for the tests that need a real one: Debian's Chromium without a window, driven by Playwright."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
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
CONTRAST: Final = r"""() => {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].reduce((sum, part, at) => {
    const c = part / 255;
    return sum + [0.2126, 0.7152, 0.0722][at] * (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  }, 0);
  const behind = (node) => {
    const layers = [];
    for (let each = node; each; each = each.parentElement) layers.push(parts(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, [r, g, b, a = 1]) =>
      [r, g, b].map((part, at) => a * part + (1 - a) * below[at]), [255, 255, 255]);
  };
  const low = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((each) => each.nodeType === 3 && each.data.trim());
    if (!own || !node.getClientRects().length || node.disabled || node.closest(".unseen, .skip, option")) continue;
    const [one, other] = [light(parts(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) low.push(`${node.outerHTML.slice(0, 120)}: ${ratio.toFixed(2)}`);
  }
  return low;
}"""
"""Returns what cannot be read for its contrast (WCAG AA)."""
OUTSIDE: Final = """() => [...document.querySelectorAll("body *")].filter((each) => {
  const box = each.getBoundingClientRect();
  return box.width > 1 && !each.closest(".unseen, .skip, thead") && (box.right > innerWidth + 0.5 || box.left < -0.5);
}).map((each) => each.outerHTML.slice(0, 160))"""
"""Returns what sticks out of the page sideways."""


@contextmanager
def browsing(home: Path | None = None) -> Iterator[Any]:
    """Run a browser with a profile of its own, a temporary one, and with this home folder; see `trusting`. Skips where
    there is none.
    """
    path = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    # Root may not have a sandbox; our own pages need none.
    sandbox = os.geteuid() != 0
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=path,
            args=[*_OPTIONS],
            chromium_sandbox=sandbox,
            timeout=120_000,
            env={**os.environ} if home is None else {**os.environ, "HOME": str(home)},
        )
        try:
            yield browser
        finally:
            browser.close()


def trusting(home: Path, authority: Path) -> Path:
    """Have a browser with this home folder trust a certificate authority, as its user would. Return the folder."""
    if shutil.which("certutil") is None:
        pytest.skip("there is no certutil: apt-get install libnss3-tools")
    database = home / ".pki" / "nssdb"
    database.mkdir(parents=True)
    for arguments in (["-N", "--empty-password"], ["-A", "-t", "C,,", "-n", "ours", "-i", str(authority)]):
        subprocess.run(["certutil", "-d", f"sql:{database}", *arguments], check=True, timeout=60)
    return home


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


@contextmanager
def site(content: str = "") -> Iterator[str]:
    """Serve a page of another site, of this machine. Its origin is yielded."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = content.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Page)
    serving = Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    try:
        yield f"http://localhost:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
