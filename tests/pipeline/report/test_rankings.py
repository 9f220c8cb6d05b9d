"""The busiest destinations and clients, and the quarantine."""

from dataclasses import replace

from stomprelay.pipeline.report.figure import Palette
from stomprelay.pipeline.report.findings import Client, Destination, Earlier, Percentiles
from stomprelay.pipeline.report.rankings import clients, destinations, quarantine, spark
from stomprelay.pipeline.report.text import DAY
from tests.pipeline.report.outline import cells, outline
from tests.pipeline.report.sample import BEGIN, damaged
from tests.pipeline.report.test_findings import NOTHING


def plain(row: list[str]) -> list[str]:
    """With usual spaces."""
    return [cell.replace("\u202f", " ") for cell in row]


def test_destinations() -> None:
    """Each cell."""
    timed = Percentiles(9, 2_300, 5_000, 34_000, 40_000)
    some = [
        Destination("/queue/a", 1200, 800, 2048, {}, timed, BEGIN, 1_250_000, [1, 2]),
        Destination("/queue/<b>", 1, 0, 20, {}),
    ]
    figure = destinations(replace(NOTHING, destinations=some, total_destinations=1000), Palette(["/queue/a"]))
    assert figure.note == "The 2 busiest of 1,000 destinations."
    assert figure.listing is not None
    made = outline(figure.listing.__html__())
    assert [plain(row) for row in cells(made)] == [
        ["/queue/a", "1,200", "800", "", "2 KiB", "2.3 ms", "34 ms", "1.2 s", "21 Nov 08:00"],
        ["/queue/<b>", "1", "0", "", "20 B", "\u2013", "\u2013", "\u2013", "\u2013"],
    ]
    assert [swatch.classes for swatch in made.all("span", "swatch")] == [{"swatch", "c1"}, {"swatch", "c0"}]
    assert [meter.children[0].attributes["style"] for meter in made.all("span", "meter")] == [
        "width:100%",
        "width:0.05%",
    ]
    assert len(made.all("svg", "spark")) == 1
    assert figure.sheet is not None
    course = outline(figure.sheet.__html__())
    assert cells(course) == [["08:00", "1", "0"], ["08:01", "2", "0"]]


def test_changes_since_the_day_before() -> None:
    """In a column of their own, where there is anything to compare with."""
    some = [Destination("/queue/a", 100, 50, 1, {}), Destination("/queue/new", 1, 0, 1, {})]
    people = [Client("shop", 30, 0, 1, 0)]
    before = replace(
        NOTHING,
        destinations=[Destination("/queue/a", 50, 50, 1, {})],
        clients=[Client("shop", 15, 15, 1, 0)],
    )
    findings = replace(NOTHING, destinations=some, clients=people)
    earlier = Earlier("week", BEGIN - 7 * DAY, BEGIN, BEGIN - 7 * DAY, BEGIN, before)
    listing = destinations(replace(findings, earlier=earlier), Palette([])).listing
    sheet = clients(replace(findings, earlier=earlier)).sheet
    assert listing is not None
    assert sheet is not None
    assert listing.columns[-1].title == sheet.columns[-1].title == "Since the week before"
    assert [plain(row)[-1] for row in cells(outline(listing.__html__()))] == ["+50 %", "none before"]
    assert [row[-1] for row in cells(outline(sheet.__html__()))] == ["the same"]
    nothing = destinations(replace(findings, earlier=replace(earlier, found=None)), Palette([])).listing
    assert nothing is not None
    assert nothing.columns[-1].title == "In the minute"


def test_a_spark() -> None:
    """Steps from left to right; nothing for nothing."""
    assert outline(str(spark([0, 4, 2], "c1"))).one("path").attributes == {
        "class": "area c1",
        "d": "M0 100V100H333.3V0H666.7V50H1000V100Z",
    }
    assert spark([0, 0], "c1") is spark([], "c1") is None


def test_clients() -> None:
    """Each cell; errors stand out."""
    some = [Client("shop", 5, 0, 100, 0), Client("", 0, 1, 3000, 7)]
    figure = clients(replace(NOTHING, clients=some, total_clients=2))
    assert figure.note == "2 clients, the busiest first."
    assert figure.sheet is not None
    made = outline(figure.sheet.__html__())
    assert [plain(row) for row in cells(made)] == [
        ["shop", "5", "0", "", "100 B", "0"],
        ["unnamed", "0", "1", "", "2.9 KiB", "7"],
    ]
    assert made.one("b", "alarmed").text == "7"


def test_nobody() -> None:
    """Is said in a sentence."""
    assert destinations(NOTHING, Palette([])).sheet is None
    assert clients(NOTHING).sheet is None


def test_the_quarantine() -> None:
    """Names file and place; without any there is no such figure."""
    assert quarantine(NOTHING) is None
    figure = quarantine(replace(NOTHING, damages=damaged(1), total_damages=1))
    assert figure is not None
    assert str(figure.note).startswith("1 stretch of the journal could not be read.")
    assert figure.sheet is not None
    (row,) = cells(outline(figure.sheet.__html__()))
    assert row[0].endswith(".journal")
    assert plain(row)[1:] == ["65,536", "812 B", "checksum"]


def test_what_is_missing() -> None:
    """Is told apart from what cannot be read, with what may be incomplete by it."""
    figure = quarantine(replace(NOTHING, damages=damaged(1), total_damages=3, total_missing=2))
    assert figure is not None
    note = str(figure.note)
    assert note.startswith(
        "1 stretch of the journal could not be read. 2 stretches of the journal are missing, or "
    )
    assert "incomplete" in note
    figure = quarantine(replace(NOTHING, damages=damaged(1), total_damages=1, total_missing=1))
    assert figure is not None
    assert str(figure.note).startswith("1 stretch of the journal is missing")
