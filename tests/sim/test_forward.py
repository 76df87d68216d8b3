"""Is the part of a state that runs forward complete, and is it known what its run times rest on?"""

import pytest
from msgspec.structs import replace

from pykueue.api.estimates import RunTimeSources
from pykueue.base.units import MICROS, Instant, Seconds
from pykueue.bridge.runtimes import JobKind, Learned, LearnedKind
from pykueue.engine.engine import Engine
from pykueue.engine.facts import Seen
from pykueue.engine.model import Cohort, LocalQueue, Options, PodsReadyOptions
from pykueue.engine.record.checkpoint import checkpoint, restore
from pykueue.sim.forward import Forward, QueueMap, RunTimeKnowledge, middle, root_of, whole_minute
from pykueue.sim.world import MomentKind
from tests.engine.test_engine import NOW, engine_with, queue, run, workload

LATER = Instant(NOW + 100 * MICROS)


def two_queues() -> Engine:
    """A workload that runs and one that waits in `q`, and one in a ClusterQueue of its own."""
    engine = engine_with(workload("runs", created=1), workload("waits", created=2))
    for thing in (queue("isle"), LocalQueue("red/isle", "isle"), workload("far", local="isle")):
        engine.observe(Seen(thing))
    run(engine)
    return engine


def test_workloads_of_other_queues_are_left_out() -> None:
    saved = checkpoint(two_queues())
    found = Forward(saved, LATER, {"q"})
    assert [*found.workloads] == ["red/runs", "red/waits"]
    assert {item.key for item in restore(found.saved).items()} == set(found.workloads)
    assert [*Forward(saved, LATER, {"q"}, also="red/far").workloads] == ["red/runs", "red/waits", "red/far"]


def test_all_workloads_stay_where_unready_pods_block_every_queue() -> None:
    saved = replace(checkpoint(two_queues()), options=Options(pods_ready=PodsReadyOptions(block_admission=True)))
    assert len(Forward(saved, LATER, {"q"}).workloads) == 3


def test_a_run_continues_what_runs_and_then_starts_what_waits() -> None:
    forward = Forward(checkpoint(two_queues()), LATER, {"q"})
    past = forward.world(forward.present(key, 300) for key in forward.workloads).run()
    told = [((one.at - LATER) // MICROS, one.workload, one.what) for one in past.moments]
    # It has run for 100 of 300 seconds.
    assert (200, "red/runs", MomentKind.FINISHES) in told
    assert (200, "red/waits", MomentKind.STARTS) in told
    assert told[-1] == (500, "red/waits", MomentKind.FINISHES)


def test_queues_of_one_tree_of_cohorts_may_share_quota() -> None:
    engine = engine_with()
    things = (Cohort("top"), Cohort("left", "top"), queue("a", cohort="left"), queue("b", cohort="top"), queue("c"))
    for thing in things:
        engine.observe(Seen(thing))
    found = QueueMap(checkpoint(engine))
    assert found.sharing("a") == found.sharing("b") == found.within("left") == {"a", "b"}
    assert found.sharing("c") == {"c"}


def test_cohorts_in_a_circle_have_a_root() -> None:
    parents = {"a": "b", "b": "a", "c": "d"}
    assert [root_of(one, parents) for one in "abcd"] == ["a", "a", "d", "d"]


def test_the_sources_of_run_times_are_counted() -> None:
    learned = Learned((LearnedKind(JobKind("red/q", (("cpu", 4),)), (60, 70), 0),))
    limited, of_job = workload("a", max_run=Seconds(60)), workload("b", job_uid="job")
    for known, expected in (
        (Learned(), RunTimeSources(3, 1, 1)),
        (learned, RunTimeSources(3, 1, 0, 1, 2)),
    ):
        knowledge = RunTimeKnowledge(known, {"job": 90})
        found = [knowledge.facts(one, LATER) for one in (limited, of_job, workload("c"))]
        assert [one.limit for one in found] == [60, 90, None]
        assert knowledge.sources(found) == expected


@pytest.mark.parametrize(
    ("starts", "expected"),
    [([3], 3), ([5, 1, 3], 3), ([1, 2], 1), ([None, 4, 2], 4), ([None, None, 2], None), ([None], None)],
)
def test_the_median_counts_runs_without_a_start_as_the_latest(
    starts: list[Instant | None], expected: Instant | None
) -> None:
    assert middle(starts) == expected


def test_whole_minutes_are_not_in_the_past() -> None:
    minute = 60 * MICROS
    assert whole_minute(Instant(3 * minute - 1), Instant(minute)) == 2 * minute
    assert whole_minute(Instant(3 * minute - 1), Instant(3 * minute - 5)) == 3 * minute - 5
