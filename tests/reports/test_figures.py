"""Are use, waits and lost work counted as a reader would by hand?"""

from msgspec.structs import replace

from pykueue.reports import figures as module
from pykueue.reports.curves import HOUR
from pykueue.reports.figures import figures, waits_of
from pykueue.reports.records import Holding, Job, Quota
from tests.reports.samples import day, hour


def test_use_is_counted_by_queue_and_together_against_nominal() -> None:
    found = figures(day())
    red, blue = (next(one for one in found.use if one.queue == name) for name in ("red", "blue"))
    assert (red.used.mean, red.used.peak, red.share) == (5 * 4000 / 24, 4000, 5 * 2 / 24)
    assert (blue.used.peak, blue.share) == (1000, 19 / 48)
    (total,) = found.totals
    assert (total.queue, total.flavor, total.used.peak) == ("", "spot", 5000)
    assert total.nominal is not None
    assert total.nominal.values == (4000,)
    assert not found.binned


def test_quota_that_changes_and_quota_of_cohorts() -> None:
    material = day()
    later = Quota("red", "spot", "cpu", 6000, since=hour(12))
    shared = tuple(Quota(name, "spot", "cpu", 500, of_cohort=True) for name in ("lab", "site"))
    found = figures(replace(material, quotas=(*material.quotas, later, *shared)))
    red = next(one.nominal for one in found.use if one.queue == "red")
    assert red is not None
    assert (red.times, red.values) == ((hour(0), hour(12)), (2000, 6000))
    assert {one.queue for one in found.use} == {"red", "blue"}
    assert found.totals[0].nominal is not None
    assert found.totals[0].nominal.values == (5000, 9000)


def test_what_was_held_outside_the_period_does_not_count() -> None:
    material = day()
    before = Holding("gone", "old", "cpu", 1000, hour(-9), hour(0))
    assert figures(replace(material, holdings=(*material.holdings, before))).use == figures(material).use


def test_many_stretches_become_means_of_bins_and_keep_their_total() -> None:
    material = day()
    exact = figures(material).use
    many = figures(replace(material, holdings=material.holdings + material.holdings * 400))
    assert many.binned
    assert many.width == 10 * 60 * 1_000_000
    assert abs(many.use[0].used.mean - 401 * exact[0].used.mean) < 1e-6 * many.use[0].used.mean
    assert len(many.use[0].used.values) <= module.BINS_MAX


def test_waits_are_a_distribution_with_those_that_still_wait() -> None:
    found = figures(day())
    red = next(one for one in found.waits if one.queue == "red")
    assert (red.jobs, red.waiting, red.p50, red.p90, red.longest) == (2, 1, 2 * HOUR, 4 * HOUR, 4 * HOUR)
    assert (found.all_waits.jobs, found.all_waits.total) == (3, 6 * HOUR)
    assert found.waits[0] == red, "the queue that waited most is first"
    ranked = waits_of("q", [Job("", "q", hour(0), wait, "") for wait in range(100, 0, -1)])
    assert (ranked.p10, ranked.p25, ranked.p50, ranked.p75, ranked.p90, ranked.p99) == (10, 25, 50, 75, 90, 99)
    assert waits_of("q", ()).longest == 0


def test_lost_work_and_the_longest_waits() -> None:
    found = figures(day())
    (lost,) = found.losses
    assert (lost.queue, lost.preempted, lost.lost, lost.amounts) == ("red", 1, HOUR, {"cpu": 4000 * HOUR})
    assert [job.name for job in found.longest] == ["lab/waits", "lab/train"], "one that did not wait is not among them"


def test_the_queue_length_is_how_many_wait() -> None:
    waiting = figures(day()).waiting
    assert [waiting.at(hour(at)) for at in (0.5, 1.5, 3.5, 21)] == [0, 1, 1, 1]
