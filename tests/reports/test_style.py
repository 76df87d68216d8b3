"""Can everything be read, in light and in dark?"""

import re

import pytest

from pykueue.reports.style import PAGE, PLOTS

TEXT, GRAPHICS = 4.5, 3.0
"""The least contrast of WCAG AA."""


def colours(dark: bool) -> dict[str, str]:
    light, _, rest = PLOTS.partition("@media (prefers-color-scheme:dark)")
    found = dict(re.findall(r"--(\w+):(#[0-9a-f]+)", light))
    return found | (dict(re.findall(r"--(\w+):(#[0-9a-f]+)", rest)) if dark else {})


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * one for one in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    ("front", "least"),
    [("ink", TEXT), ("muted", TEXT), ("edge", GRAPHICS), ("other", GRAPHICS), ("over", GRAPHICS)],
)
def test_text_and_lines_stand_out_from_the_paper(front: str, least: float, dark: bool) -> None:
    found = colours(dark)
    assert contrast(found[front], found["paper"]) >= least


@pytest.mark.parametrize("dark", [False, True])
def test_lines_stand_out_from_what_they_are_drawn_on(dark: bool) -> None:
    found = colours(dark)
    assert contrast(found["ink"], found["use"]) >= GRAPHICS, "the line of nominal quota, over an area"
    assert contrast(found["edge"], found["use"]) >= 2
    assert contrast(found["over"], found["ground"]) >= GRAPHICS


def test_every_colour_that_is_used_is_defined() -> None:
    assert set(re.findall(r"var\(--(\w+)\)", PLOTS + PAGE)) <= set(colours(dark=False))
    assert set(colours(dark=False)) == set(dict(re.findall(r"--(\w+):(#[0-9a-f]+)", PLOTS.partition("@media")[2])))
