"""Sphinx: the pages of this repository as a site. `make docs` builds it in `build/site`."""

from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
_SECTIONS: Final = {
    "Tasks": ("moving", "move", "flooding", "refused", "certificates"),
    "Use it": ("installation", "commands", "settings", "configuration", "access", "browsers"),
    "Run it": ("operating", "monitoring", "dashboard"),
    "What it does": ("failover", "translation", "errors", "limits", "security", "broker"),
    "Its data": ("pipeline", "tables"),
    "Change it": ("development", "simulator", "/CONTRIBUTING", "To report a weakness </SECURITY>", "/NEWS"),
}
"""The pages in the order of the site's contents: those of `docs/` by their names."""

project = "stomprelay"
author = "The stomprelay contributors"
extensions = ["myst_parser"]
myst_heading_anchors = 4
root_doc = "README"
include_patterns = ["*.md", "docs/*.md"]
exclude_patterns = ["[.]*", "build", "stomprelay"]
suppress_warnings = [
    "myst.header"
]  # README begins with its name, and its sections follow as they do in all pages
highlight_language = "none"
nitpicky = True

html_theme = "furo"
html_title = "stomprelay"
html_copy_source = False
html_show_sourcelink = False
# The first page is README.html; who opens the folder finds it.
html_static_path = ["static"]
html_css_files = ["site.css"]
templates_path = ["templates"]
html_additional_pages = {"index": "index.html"}


def _contents(_app: object, page: str, source: list[str]) -> None:
    """Give the first page the site's contents, which a README elsewhere has no use for."""
    if page == root_doc:
        for caption, names in _SECTIONS.items():
            pages = "\n".join(name if "/" in name else f"/docs/{name}" for name in names)
            source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n"


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx, and say what may be done at once."""
    app.connect("source-read", _contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
