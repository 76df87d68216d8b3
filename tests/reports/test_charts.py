"""Do plots over time show what the figures say, for those who see them and for those who do not?"""

import re

from pykueue.reports.charts import NARROW, WIDE, axis_of, said_of, top_of, use_chart, waiting_chart
from pykueue.reports.curves import exact
from pykueue.reports.figures import figures
from pykueue.reports.svg import GLYPH, Plot, fitting
from tests.reports.samples import Reader, day, hour

FOUND = figures(day())
RED = next(one for one in FOUND.use if one.queue == "red")


def test_a_plot_of_use_has_the_area_what_is_borrowed_and_nominal() -> None:
    plot = use_chart(RED, axis_of(FOUND.material), "c1", title="Use of cpu by red", width=NARROW)
    text = plot.markup().text
    found = Reader(text)
    kinds = [value for name, value in found.attributes if name == "class"]
    assert {"use", "over", "edge", "nominal", "tick", "grid", "base"} <= set(kinds)
    assert 'fill="url(#c1-over)"' in text
    assert 'id="c1-over"' in text
    assert 'role="img" aria-labelledby="c1-title c1-desc"' in text
    assert "Use of cpu by red" in found.text
    assert "mean 41.7 % of nominal, peak 4 cores, nominal 2 cores" in found.text
    assert "06:00" in found.text


def test_every_place_is_inside_the_plot() -> None:
    text = use_chart(RED, axis_of(FOUND.material), "c1", title="", width=NARROW).markup().text
    drawn = [
        float(one) for path in re.findall(r' d="M([^"]*)" class="edge"', text) for one in re.findall(r"[\d.]+", path)
    ]
    assert drawn
    assert max(drawn) <= NARROW
    assert not [one for one in re.findall(r'x="([-\d.]+)"', text) if not 0 <= float(one) <= NARROW]


def test_use_without_quota_says_so() -> None:
    unknown = type(RED)("x", "", "cpu", RED.used, RED.binned, None)
    assert said_of(unknown).endswith("no nominal quota is known")
    assert "nominal" not in [
        value
        for name, value in Reader(
            use_chart(unknown, axis_of(FOUND.material), "c", title="", width=WIDE).markup().text
        ).attributes
        if name == "class"
    ]
    assert top_of(unknown) == 4000


def test_of_two_queue_lengths_the_second_is_dashed() -> None:
    other = exact(FOUND.period, [(hour(1), hour(2), 7)])
    text = waiting_chart((FOUND.waiting, other), axis_of(FOUND.material), "w", title="Waiting").markup().text
    assert 'class="edge-other"' in text
    assert "most 7" in text


def test_labels_are_shortened_with_the_whole_name_at_hand() -> None:
    plot = Plot("p", "", "", 100, 100)
    plot.text(0, 0, fitting("x" * 100, 10 * GLYPH), full="x" * 100)
    (made,) = plot.parts
    assert Reader(made.text).text == "x" * 100 + "x" * 9 + "…"
