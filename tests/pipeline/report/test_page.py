"""The page as a whole."""

import base64
import hashlib
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stomprelay.pipeline.report.findings import ClientFigures, Earlier, Findings, Span, Stuck, Trouble
from stomprelay.pipeline.report.page import PageOptions, page, titles
from stomprelay.pipeline.report.text import DAY, HOUR, MINUTE, SECOND, visible
from tests.pipeline.report.outline import Element, outline
from tests.pipeline.report.sample import BEGIN, HOSTILE, compared, damaged, sample
from tests.pipeline.report.test_findings import NOTHING

WISHES = PageOptions(made=BEGIN + DAY)


def named(*names: str) -> dict[str, Any]:
    """What findings have of clients and errors with these names."""
    return {
        "clients": [ClientFigures(name, 1, 1, 1, 1) for name in names],
        "troubles": [Trouble(name, "broker", 1, 1, BEGIN, BEGIN) for name in names],
    }


def hostile() -> Findings:
    """Every name that a client chooses means harm."""
    findings = sample(names=HOSTILE)
    (outage, *_), (episode, *_), (damage, *_) = findings.failovers, findings.stuck[0].episodes, damaged()
    return replace(
        findings,
        relays=HOSTILE,
        failovers=[replace(outage, broker=name, upstream=name, moved_to=(name,)) for name in HOSTILE],
        stuck=[Stuck(name, name, name, [replace(episode, broker=name)]) for name in HOSTILE],
        ways=[
            replace(way, producer=name, consumer=name)
            for way, name in zip(findings.ways, HOSTILE, strict=False)
        ],
        damages=[damage._replace(segment=name, reason=name) for name in HOSTILE],
        total_damages=len(HOSTILE),
        **named(*HOSTILE),
    )


KINDS: dict[str, Callable[[], Findings]] = {
    "usual": sample,
    "hostile": hostile,
    "a week": lambda: sample(length=7 * DAY),
    "a minute": lambda: sample(length=MINUTE),
    "an instant": lambda: sample(length=1),
    "thousands": lambda: sample(names=[f"/queue/{n}" for n in range(5000)]),
    "nothing": lambda: NOTHING,
    "nothing but damage": lambda: replace(NOTHING, damages=damaged(), total_damages=2),
    "compared": lambda: compared(sample()),
    "compared with nothing": lambda: replace(sample(), earlier=Earlier("week", BEGIN - 7 * DAY, BEGIN)),
    "a failover alone": lambda: replace(NOTHING, failovers=sample().failovers),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@cache
def written(kind: str) -> str:
    """The page."""
    return page(KINDS[kind](), WISHES)


@cache
def made(kind: str) -> Element:
    """The page, taken apart."""
    return outline(written(kind))


@kinds
def test_the_structure(kind: str) -> None:
    """One heading, headings in their order, a caption for each figure, ids that are there once."""
    root = made(kind)
    assert len(root.all("h1")) == 1
    ranks = [int(element.name[1]) for element in root.all() if re.fullmatch("h[1-6]", element.name)]
    assert all(following <= rank + 1 for rank, following in itertools.pairwise(ranks))
    for figure in root.all("figure"):
        assert figure.children[0].name == "figcaption"
        assert figure.children[0].one("h2").text
        assert figure.children[0].one("p").text
    ids = [element.attributes["id"] for element in root.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    for link in root.all("a"):
        assert link.attributes["href"].removeprefix("#") in ids
    assert root.one("html").attributes["lang"] == "en"


@kinds
def test_every_chart_has_an_alternative(kind: str) -> None:
    """A sentence for the drawing and a table with its figures; a small chart in a list has a table as well."""
    for figure in made(kind).all("figure"):
        drawings = [element for element in figure.all() if element.attributes.get("role") == "img"]
        assert all(drawing.attributes["aria-label"] for drawing in drawings)
        sheets = [each for each in figure.all() if each.attributes.get("id", "").endswith("-sheet")]
        assert len(sheets) == 1 if drawings or figure.all("svg") else len(sheets) <= 1
        for sheet in (*sheets, *figure.all("div", "sheet")):
            assert len(sheet.all("table")) == 1
        for svg in figure.all("svg"):
            assert {"aria-label", "aria-hidden"} & set(svg.attributes)
        for table in figure.all("table"):
            assert table.one("caption").text


@kinds
def test_the_script_finds_its_figures(kind: str) -> None:
    """A row for each bin, and the columns that it is told."""
    root = made(kind)
    for plot in (plot for plot in root.all("div", "plot") if "data-sheet" in plot.attributes):
        (sheet,) = (one for one in root.all() if one.attributes.get("id") == plot.attributes["data-sheet"])
        assert len(sheet.one("tbody").all("tr")) == int(plot.attributes["data-bins"])
        assert max(map(int, plot.attributes["data-columns"].split())) < len(sheet.one("thead").all("th"))


@kinds
def test_nothing_is_fetched(kind: str) -> None:
    """No address of anything else, and a policy that forbids it."""
    root = made(kind)
    for element in root.all():
        assert {"src", "srcset", "action", "xlink:href"}.isdisjoint(element.attributes)
        assert not [name for name in element.attributes if name.startswith("on")]
        if "href" in element.attributes:
            assert element.attributes["href"].startswith("#") or element.attributes["href"] == "data:,"
        assert "url(" not in element.attributes.get("style", "")
    assert "url(" not in root.one("style").text
    assert "@import" not in root.one("style").text
    (policy,) = (meta.attributes["content"] for meta in root.all("meta") if "http-equiv" in meta.attributes)
    digest = base64.b64encode(hashlib.sha256(root.one("script").text.encode()).digest()).decode()
    ours = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:"
    assert policy == f"{ours}; base-uri 'none'; form-action 'none'"


@kinds
def test_no_address_of_ours(kind: str) -> None:
    """The page itself says no URL; a client's name may be one, as text."""
    said = written(kind)
    assert kind == "hostile" or not re.search(r"https?:|//[a-z]", said)


def test_names_that_mean_harm() -> None:
    """Are text, everywhere: the page has the same elements as one with plain names."""
    root = made("hostile")
    heads = len(root.all("title")) - len(root.one("body").all("title"))
    assert len(root.all("script")) == len(root.all("style")) == heads
    assert root.all("img") == []
    for element in root.one("body").all():
        own = [piece for piece in element.pieces if isinstance(piece, str)]
        for value in (*own, *element.attributes.values()):
            assert not set("\u202e\u2066\u200b\x00\x1b") & set(value)
    assert "<script>alert(1)</script>" in root.one("main").text
    assert "{{ 7 * 7 }}{% raw %}" in root.one("main").text
    assert "49" not in {name.text for name in root.all("bdi")}
    assert all(len(name.text) < 1_000 for name in root.all("bdi"))


@cache
def body_with(name: str) -> Element:
    """The body of a page on which everything has this name."""
    found = replace(NOTHING, recorded=[True] * 60, errors=[1] * 60, **named(name))
    return outline(page(found, WISHES)).one("body")


@given(st.text("<>&\"'/= ab", min_size=1) | st.text(min_size=1))
def test_any_text_stays_text(name: str) -> None:
    """No text becomes an element or an attribute."""
    body, plain = body_with(name), body_with("a")
    assert body.text.count(visible(name)) >= 2
    assert [each.name for each in body.all()] == [each.name for each in plain.all()]
    assert [[*each.attributes] for each in body.all()] == [[*each.attributes] for each in plain.all()]


@pytest.mark.parametrize("title", HOSTILE)
def test_a_title_that_means_harm(title: str) -> None:
    """Is text in both of its places."""
    root = outline(page(NOTHING, PageOptions(made=BEGIN, title=title)))
    assert root.one("head").one("title").text == root.one("h1").text


def test_the_size() -> None:
    """Does not grow with what there is: the top is shown, the rest summed up."""
    assert len(written("thousands")) < 500_000
    assert len(written("a week")) < 500_000


def test_an_empty_page() -> None:
    """Says what to do, and shows no empty charts."""
    root = made("nothing")
    assert "stomprelay-pipeline once" in root.one("p", "notice").text
    assert root.all("figure") == root.all("nav") == root.all("dl") == root.all("section") == []


def test_the_quarantine_is_announced() -> None:
    """At the top, with a link to what and why."""
    root = made("nothing but damage")
    assert [notice.all("a") != [] for notice in root.all("p", "notice")] == [False, True]
    assert [section.attributes["id"] for section in root.all("section")] == ["quarantine"]


def test_the_figures() -> None:
    """All that the report promises, and each number of the headline leads to one."""
    keys = list(titles(sample()))
    assert " ".join(keys) == "traffic latency failovers stuck outcomes flow destinations clients errors"
    root = made("usual")
    assert [link.attributes["href"] for link in root.one("nav").all("a")] == [f"#{key}" for key in keys]
    assert len(root.one("dl").all("dt")) == 7


def test_one_colour_for_a_destination() -> None:
    """In legends and tables."""
    root = made("usual")
    colours: dict[str, set[str]] = {}
    legend = root.one("main").all("ul", "legend")[0].all("li")
    for entry in (*legend, *root.all("span", "keyed")):
        swatch, label = entry.children[:2]
        if label.text.startswith("/"):
            colours.setdefault(label.text, set()).update(swatch.classes)
    assert all(len(found) == 2 for found in colours.values())
    assert colours["/queue/orders"] == {"swatch", "c1"}
    assert colours["/queue/returns"] == {"swatch", "c0"}


def test_times_are_utc_unless_asked() -> None:
    """The heading says the range and its zone; the script is told what to begin with."""
    root = made("usual")
    assert " ".join(root.one("p", "range").text.split()) == "21 Nov 2026, 08:00 \u2013 14:00 UTC 6 h"
    assert root.one("body").attributes["data-zone"] == "utc"
    local = outline(page(sample(), PageOptions(made=BEGIN, local=True)))
    assert local.one("body").attributes["data-zone"] == "local"
    assert len(root.all("time")) > 20
    for time in root.all("time"):
        assert re.fullmatch(r"2026-11-2\dT\d\d:\d\d:\d\d\.\d{3}Z", time.attributes["datetime"])
        assert time.attributes["data-form"] in {"day", "hour", "second", "both", "stamp", "full"}


@pytest.mark.parametrize(
    ("length", "said"),
    [
        (16 * HOUR, "21 Nov 2026, 08:00 \u2013 22 Nov 2026, 00:00 UTC 16 h"),
        (7 * DAY, "21 Nov 2026, 08:00 \u2013 28 Nov 2026, 08:00 UTC 7 d"),
        (90 * SECOND, "21 Nov 2026, 08:00:00 \u2013 08:01:30 UTC 1 min 30 s"),
    ],
)
def test_the_range(length: int, said: str) -> None:
    """As short as it can be told."""
    findings = replace(NOTHING, span=Span.over(BEGIN, BEGIN + length - 1))
    assert " ".join(outline(page(findings, WISHES)).one("p", "range").text.split()) == said
