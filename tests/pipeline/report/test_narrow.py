"""The page on a phone, 390 pixels wide, in a real browser."""

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any, Final

import pytest

from stomprelay.pipeline.report.page import PageOptions, page
from stomprelay.pipeline.report.text import DAY
from tests.pipeline.report.sample import BEGIN, HOSTILE
from tests.pipeline.report.test_page import KINDS

pytestmark = pytest.mark.e2e

WIDTH: Final = 390
_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
# A window cannot be as narrow as a phone, a frame in it can.
_AROUND: Final = """<!DOCTYPE html><meta charset="utf-8"><body>
<iframe style="width:%(width)dpx;height:2000px;border:0" src="page.html"></iframe>
<script>
document.querySelector("iframe").onload = (event) => {
  const inner = event.target.contentDocument, view = event.target.contentWindow;
  for (const one of inner.querySelectorAll("details")) one.open = true;
  const cells = [...inner.querySelectorAll("tbody td, tbody th")].filter((one) => one.textContent);
  const label = (one) => view.getComputedStyle(one, "::before").content;
  const shown = cells.filter((one) => one.tagName === "TD").map(label);
  const inside = [...inner.querySelectorAll(".scroll, .scroll *, h1, h2, p, dd, li")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.right > %(width)d + 0.5 || box.left < -0.5 && box.width > 1;
  });
  const cut = [...inner.querySelectorAll(".scroll, .scroll td, .scroll tbody th, .scroll .name")].filter(
    (one) => one.scrollWidth > one.clientWidth + 1 && view.getComputedStyle(one).display !== "inline");
  const said = {
    width: inner.documentElement.scrollWidth,
    cells: cells.length,
    unlabelled: shown.filter((one) => one === "none" || one === '""').length,
    labels: [...new Set(shown)],
    sideways: inside.map((one) => one.outerHTML.slice(0, 200)),
    cut: cut.map((one) => one.outerHTML.slice(0, 200)),
    roles: inner.querySelectorAll("tbody td:not([role=cell])").length,
  };
  document.body.textContent = JSON.stringify(said);
};
</script>"""


def measured(directory: Path, text: str) -> dict[str, Any]:
    """Have the browser lay the page out; return what the script found. Skips where there is no browser."""
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("there is no chromium: apt-get install chromium")
    (directory / "page.html").write_text(text, encoding="utf-8")
    around = directory / "around.html"
    around.write_text(_AROUND % {"width": WIDTH}, encoding="utf-8")
    command = [browser, "--headless", "--disable-gpu", f"--user-data-dir={directory}/profile"]
    # Root may not have a sandbox; our own page needs none.
    command += ["--no-sandbox"] if os.geteuid() == 0 else []
    command += [
        "--allow-file-access-from-files",
        "--virtual-time-budget=10000",
        "--dump-dom",
        around.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    told = re.search(r"<body>(\{.*\})", done.stdout, re.DOTALL)
    assert told is not None, done.stderr
    said: dict[str, Any] = json.loads(unescape(told[1].partition("</body>")[0]))
    return said


@pytest.mark.parametrize("kind", ["compared", "hostile"])
def test_tables_are_whole(tmp_path: Path, kind: str) -> None:
    """Nothing is cut off or sticks out, all tables opened, whatever names there are; each cell has its heading."""
    findings = KINDS[kind]()
    said = measured(tmp_path, page(findings, PageOptions(made=BEGIN + DAY)))
    assert said["width"] <= WIDTH
    assert said["cells"] > 1000
    assert (said["sideways"], said["cut"]) == ([], [])
    assert (said["unlabelled"], said["roles"]) == (0, 0)
    assert {'"Silence, median"', '"Longest wait"', '"On the wire"'} <= set(said["labels"])
    if kind == "hostile":
        assert any(HOSTILE[0] in label for label in said["labels"])
