"""Do plots of waits and losses have a row for each queue, in the right place?"""

import re

from pykueue.reports.curves import HOUR
from pykueue.reports.figures import figures, waits_of
from pykueue.reports.records import Job
from pykueue.reports.rowcharts import NAMES, WaitRow, losses_chart, waits_chart
from tests.reports.samples import Reader, day, hour


def waits(*times: int) -> WaitRow:
    return WaitRow("q", waits_of("q", [Job("", "q", hour(0), one, "") for one in times]))


def test_waits_are_ordered_from_left_to_right() -> None:
    text = waits_chart([waits(0, HOUR // 60, HOUR, 2 * HOUR, 40 * HOUR)], "w", title="Waits").markup().text
    (box,) = re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="14" class="box"', text)
    (median,) = re.findall(r'<line x1="([\d.]+)"[^>]* class="median"', text)
    (most,) = re.findall(r'<circle cx="([\d.]+)"', text)
    left, right = float(box[0]), float(box[0]) + float(box[1])
    assert NAMES <= left < float(median) <= right < float(most)
    assert {"0", "1 min", "1 h", "1 d"} <= set(re.findall(r'class="tick"[^>]*>([^<]*)<', text))


def test_the_axis_begins_near_the_shortest_wait() -> None:
    said = Reader(waits_chart([waits(HOUR, 2 * HOUR)], "w", title="").markup().text).text
    assert "10 min" not in said
    assert "1 h" in said


def test_no_jobs_and_no_waits_are_drawn_too() -> None:
    for rows in ([], [waits()], [waits(0, 0)]):
        assert waits_chart(rows, "w", title="").markup().text.startswith("<svg")


def test_losses_have_bars_and_numbers() -> None:
    text = losses_chart(figures(day()).losses, "l", title="Lost").markup().text
    assert "1 h · 1 preemption" in text
    assert 'fill="url(#l-over)"' in text
