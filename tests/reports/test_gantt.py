"""Does a Gantt plot have a row for each job, and no more rows than can be read?"""

from msgspec.structs import replace

from pykueue.reports.charts import axis_of
from pykueue.reports.gantt import JOBS_MAX, gantt_chart
from tests.reports.samples import Reader, day


def test_waits_runs_and_evictions_of_each_job() -> None:
    material = day()
    text = gantt_chart(material.jobs, axis_of(material), "g", title="Jobs").markup().text
    kinds = [value for name, value in Reader(text).attributes if name == "class"]
    assert (kinds.count("waits"), kinds.count("run"), kinds.count("evicted"), kinds.count("hatched")) == (3, 2, 1, 1)
    assert "lab/train: evicted after 1 h" in text
    assert "lab/train: ran for 4 h" in text


def test_too_many_jobs_are_cut() -> None:
    material = day()
    jobs = [replace(material.jobs[0], name=f"j{number:03}") for number in range(JOBS_MAX + 1)]
    plot = gantt_chart(jobs, axis_of(material), "g", title="")
    assert plot.description.startswith(f"{JOBS_MAX} jobs")
    assert f"j{JOBS_MAX}<" not in plot.markup().text
