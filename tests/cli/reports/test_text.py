"""Is the short text complete, and safe for a terminal?"""

from pykueue.cli.reports.text import lines
from pykueue.reports.figures import figures
from pykueue.reports.records import Material, Period
from tests.reports.samples import HOSTILE, day, hour


def test_the_text_has_every_table() -> None:
    text = "\n".join(lines(figures(day())))
    for words in (
        "2026-03-02 00:00 to 2026-03-03 00:00 (UTC)",
        "Note: only lab/train is shown",
        "all queues     3        1",
        "41.7 %",
        "1 h  4 core-hours",
        "lab/waits (red, waits): 4 h",
        "needs 2 more cpu",
        "Of the last 20 estimates of start times 18 were right.",
        "Jobs of others in",
    ):
        assert words in text, text


def test_hostile_names_print_no_control_characters() -> None:
    for name in HOSTILE:
        for line in lines(figures(day(name, name, name, name))):
            assert line.isprintable(), line


def test_nothing_at_all() -> None:
    text = "\n".join(lines(figures(Material("", Period(hour(0), hour(1)), hour(0), ""))))
    assert "No job was preempted" in text
