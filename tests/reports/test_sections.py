"""Do sections stay readable with very many queues, and do tables repeat what plots show?"""

from msgspec.structs import replace

from pykueue.reports import sections
from pykueue.reports.figures import figures
from pykueue.reports.page import report_page
from pykueue.reports.records import Holding, Job, Quota
from tests.reports.samples import Reader, day, hour

MANY = 300


def test_very_many_queues_have_some_plots_and_a_table_that_says_what_is_missing() -> None:
    names = [f"q{number}" for number in range(MANY)]
    material = replace(
        day(),
        jobs=tuple(Job(f"ns/{name}", name, hour(1), 60, "completed", hour(1), hour(2)) for name in names),
        holdings=tuple(Holding(name, "f", "cpu", 1000, hour(1), hour(2)) for name in names),
        quotas=tuple(Quota(name, "f", "cpu", 1000) for name in names),
    )
    text = report_page(figures(material))
    found = Reader(text)
    plots = [value for name, value in found.attributes if name == "role" and value == "img"]
    assert len(plots) <= sections.PANELS_MAX + 5
    assert "the first 100 of 300; -o csv has all" in found.text
    assert len(text) < 500_000


def test_a_table_has_the_means_of_its_plots() -> None:
    found = figures(day())
    (total,) = found.totals
    text = Reader(sections.use_table(found, total, [one for one in found.use if one.queue == "red"]).text).text
    assert "Mean use in cores over 1 h" in text
    assert "2026-03-02 02:0044" in text, "the hour in which red held 4 cores, and all teams as many"


def test_what_was_preempted_without_a_loss() -> None:
    material = day()
    saved = replace(material.jobs[0], lost=0)
    (words,) = sections.losses_section(figures(replace(material, jobs=(saved,))))
    assert Reader(words.text).text == "1 preemption of 1 job; no work was lost."
