"""The colours of the page."""

import itertools
import math
import re
from importlib import resources

import pytest

from stomprelay.pipeline.report.findings import Rest
from stomprelay.pipeline.report.page import COLOURS, palette

CSS = resources.files("stomprelay.pipeline.report").joinpath("report.css").read_text(encoding="utf-8")
LIGHT, DARK = CSS.split("@media screen and (prefers-color-scheme: dark)", 1)
SIGHT = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


# How colours look without one kind of cones (Machado, Oliveira, Fernandes 2009, severity 1), for linear RGB.


def colours(css: str, names: list[str]) -> list[str]:
    """What the first rule says of these."""
    return [re.findall(rf"--{name}: (#[0-9a-f]{{6}});", css)[0] for name in names]


def linear(colour: str) -> list[float]:
    """Light of each primary."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def seen(colour: str, sight: str) -> tuple[float, ...]:
    """In OKLab, where distances are as people see them."""
    r, g, b = (
        min(1.0, max(0.0, sum(factor * part for factor, part in zip(row, linear(colour), strict=True))))
        for row in SIGHT[sight]
    )
    long = math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
    medium = math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
    small = math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * small,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * small,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * small,
    )


def contrast(one: str, other: str) -> float:
    """As WCAG defines it."""
    low, high = sorted(
        sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear(colour), strict=True))
        for colour in (one, other)
    )
    return (high + 0.05) / (low + 0.05)


def test_the_first_names_have_colours() -> None:
    """One each, the same whenever asked; the rest share theirs with all others."""
    names = [f"/queue/{n}" for n in range(9)]
    made = palette([names[0], Rest.OTHERS, *names, None])
    assert made == {name: f"c{rank}" for rank, name in enumerate(names[:6], 1)}


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("css", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_can_be_told_apart(css: str, sight: str) -> None:
    """Also by people who are colour-blind."""
    shown = colours(css, [f"c{n}" for n in range(COLOURS + 1)])
    near = min(
        (math.dist(seen(one, sight), seen(other, sight)), one, other)
        for one, other in itertools.combinations(shown, 2)
    )
    assert near[0] > 0.06, near


@pytest.mark.parametrize("css", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read(css: str) -> None:
    """On cards and on the page."""
    for name in ("ink", "soft", "link", "alarm", "good"):
        for ground in ("paper", "card"):
            assert contrast(*colours(css, [name, ground])) >= 4.5, (name, ground)


@pytest.mark.parametrize("css", [LIGHT, DARK], ids=["light", "dark"])
def test_areas_stand_out(css: str) -> None:
    """From the card that they are on."""
    (card,) = colours(css, ["card"])
    for colour in colours(css, [f"c{n}" for n in range(COLOURS + 1)]):
        assert contrast(colour, card) >= 2.3, colour
