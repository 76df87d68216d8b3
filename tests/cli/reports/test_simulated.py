"""Do the plots of a simulation show what its tables say?"""

from pykueue.base.units import MICROS
from pykueue.cli.reports.simulated import Plots, material_of
from pykueue.reports.figures import figures
from pykueue.sim.report import report, waited_by
from pykueue.sim.world import Past
from tests.reports.samples import foreign
from tests.sim.builders import job, queue, simulated

COHORT = {"cohortName": "all", "preemption": "{reclaimWithinCohort: Any}"}
TWO = (queue("red", 2, **COHORT), queue("blue", 2, **COHORT))
BORROWS = job("borrows", 4, "red", run_seconds=100)
RECLAIMS = job("reclaims", 2, "blue", arrival="40s", run_seconds=10)


def preempted(checkpoint: str = "false") -> Past:
    return simulated(*TWO, job("borrows", 4, "red", run_seconds=100, checkpoint=checkpoint), RECLAIMS)


def test_waits_runs_and_lost_work_of_a_preempted_job() -> None:
    past = preempted()
    found = material_of(past, report(past))
    borrows, reclaims = found.jobs
    assert (borrows.preempted, borrows.lost, borrows.state) == (1, 40 * MICROS, "finished")
    assert [(run.evicted, run.lost) for run in borrows.runs] == [(True, True), (False, False)]
    assert borrows.waits == ((borrows.runs[0].end, borrows.runs[1].begin),)
    assert "reclaims" not in borrows.name
    assert reclaims.requests == {"cpu": 2000}
    assert {one.nominal for one in found.quotas} == {2000}


def test_a_checkpoint_saves_the_work() -> None:
    past = preempted("true")
    borrows = material_of(past, report(past)).jobs[0]
    assert (borrows.preempted, borrows.lost) == (1, 0)
    assert [(run.evicted, run.lost) for run in borrows.runs] == [(True, False), (False, False)]


def test_the_figures_agree_with_the_tables() -> None:
    past = simulated(*TWO, BORROWS, RECLAIMS, job("never", 9, "red"), job("third", 2, "blue", arrival="45s"))
    told = report(past)
    found = figures(material_of(past, told))
    assert {job.name: job.waited for job in found.material.jobs} == {
        row.name: waited_by(past).get(row.workload, 0) for row in told.jobs
    }
    shares = {one.queue: one.share for one in found.use}
    for row in told.use:
        assert row.tenths_of_percent is not None
        assert abs((shares[row.queue] or 0) * 1000 - row.tenths_of_percent) <= 1
        assert next(one.used.peak for one in found.use if one.queue == row.queue) == row.peak
    never = next(job for job in found.material.jobs if job.name == "default/never")
    assert (never.pending, never.state) == (True, "waits")
    assert "never" in never.reason


def test_one_simulation_and_two() -> None:
    first, second = preempted(), preempted("true")
    told = [report(first), report(second)]
    assert foreign(Plots([first], told[:1], ("a", "b")).text("html")) == []
    both = Plots([first, second], told, ("a", "b"))
    assert foreign(both.text("html")) == []
    assert both.text("svg").startswith("<?xml")
    lines = "\n".join(both.differences())
    assert "-40 s (-100 %)" in lines
    assert "A: a" in lines
