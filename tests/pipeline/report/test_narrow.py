"""The page on a phone, 390 pixels wide, in a real browser."""

from pathlib import Path
from typing import Any, Final

import pytest

from stomprelay.pipeline.report.page import PageOptions, page
from stomprelay.pipeline.report.text import DAY
from tests import browser
from tests.pipeline.report.sample import BEGIN, HOSTILE
from tests.pipeline.report.test_page import KINDS

pytestmark = pytest.mark.e2e

_MEASURED: Final = """(width) => {
  for (const one of document.querySelectorAll("details")) one.open = true;
  const cells = [...document.querySelectorAll("tbody td, tbody th")].filter((one) => one.textContent);
  const label = (one) => getComputedStyle(one, "::before").content;
  const shown = cells.filter((one) => one.tagName === "TD").map(label);
  const inside = [...document.querySelectorAll(".scroll, .scroll *, h1, h2, p, dd, li")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.right > width + 0.5 || box.left < -0.5 && box.width > 1;
  });
  const cut = [...document.querySelectorAll(".scroll, .scroll td, .scroll tbody th, .scroll .name")].filter(
    (one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline");
  return {
    width: document.documentElement.scrollWidth,
    cells: cells.length,
    unlabelled: shown.filter((one) => one === "none" || one === '""').length,
    labels: [...new Set(shown)],
    sideways: inside.map((one) => one.outerHTML.slice(0, 200)),
    cut: cut.map((one) => one.outerHTML.slice(0, 200)),
    roles: document.querySelectorAll("tbody td:not([role=cell])").length,
  };
}"""


def measured(directory: Path, text: str) -> dict[str, Any]:
    """Have the browser lay the page out; return what the script found. Skips where there is no browser."""
    written = directory / "page.html"
    written.write_text(text, encoding="utf-8")
    viewport = {"width": browser.PHONE, "height": 844}
    with browser.browsing() as driven, browser.page(driven, viewport=viewport) as found:
        found.goto(written.as_uri())
        said: dict[str, Any] = found.evaluate(_MEASURED, browser.PHONE)
        return said


@pytest.mark.parametrize("kind", [pytest.param("compared", marks=pytest.mark.deep), "hostile"])
def test_tables_are_whole(tmp_path: Path, kind: str) -> None:
    """Nothing is cut off or sticks out, all tables opened, whatever names there are; each cell has its heading."""
    findings = KINDS[kind]()
    said = measured(tmp_path, page(findings, PageOptions(made=BEGIN + DAY)))
    assert said["width"] <= browser.PHONE
    assert said["cells"] > 1000
    assert (said["sideways"], said["cut"]) == ([], [])
    assert (said["unlabelled"], said["roles"]) == (0, 0)
    assert {'"Silence, median"', '"Longest wait"', '"On the wire"'} <= set(said["labels"])
    if kind == "hostile":
        assert any(HOSTILE[0] in label for label in said["labels"])
