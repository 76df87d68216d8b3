"""Is what a condition's message says read back as it was meant?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykueue.base.units import Instant
from pykueue.engine.decisions import (
    FlavorMissing,
    Mismatch,
    NotNominated,
    Obstacle,
    OverCapacity,
    PodSetObstacles,
    PreemptionReason,
    Short,
    Unassigned,
    Uncovered,
    Untolerated,
)
from pykueue.engine.items import Item, Shape
from pykueue.engine.model import Workload
from pykueue.engine.record.parsing import Preemption, preemption, unassigned
from pykueue.engine.wording import message, preempted

NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,8}[a-z0-9])?", fullmatch=True)
RESOURCES = st.sampled_from(["cpu", "memory", "pods", "example.com/gpu", "hugepages-2Mi"])
AMOUNTS = st.integers(0, 2**50)
TAINTS = st.tuples(NAMES, NAMES | st.just(""), st.sampled_from(["NoSchedule", "NoExecute"]))
OBSTACLES: st.SearchStrategy[Obstacle] = st.one_of(
    st.builds(Uncovered, RESOURCES),
    st.builds(FlavorMissing, NAMES),
    st.builds(lambda flavor, taint: Untolerated(flavor, *taint), NAMES, TAINTS),
    st.builds(Mismatch, NAMES),
    st.builds(OverCapacity, NAMES, RESOURCES, AMOUNTS, AMOUNTS, AMOUNTS),
    st.builds(Short, NAMES, RESOURCES, AMOUNTS),
    st.builds(NotNominated, NAMES, RESOURCES),
)
POD_SETS = st.builds(PodSetObstacles, NAMES, st.lists(OBSTACLES, min_size=1, max_size=4).map(tuple))


@given(st.builds(Unassigned, st.lists(POD_SETS, min_size=1, max_size=3).map(tuple), victims=st.integers(0, 3)))
def test_why_flavors_do_not_fit_is_read_from_the_message(why: Unassigned) -> None:
    told = message(why)
    found = unassigned(told)
    assert found is not None
    assert message(found) == told
    assert [set(one.obstacles) for one in found.pod_sets] == [set(one.obstacles) for one in why.pod_sets]
    assert found.victims == why.victims


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ClusterQueue main is inactive",
        "couldn't assign flavors to pod set main: something new",
        "couldn't assign flavors to pod set main: flavor a not found, and more",
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor a, much more needed",
    ],
)
def test_other_words_are_left_alone(text: str) -> None:
    assert unassigned(text) is None
    assert preemption(text) is None


@pytest.mark.parametrize("clause", list(PreemptionReason))
def test_for_whom_a_workload_was_preempted_is_read_from_the_message(clause: PreemptionReason) -> None:
    level = Workload("team/w", "u-1", "team/q", Instant(0), (), job_uid="u-2")
    told = preempted(Item(level, Shape((), 0, ()), Instant(0)), clause, "/lab/blue", "/lab/red")
    assert preemption(told) == Preemption("u-1", "u-2", clause, "blue")


def test_a_preemptor_without_a_job_has_no_job() -> None:
    level = Workload("team/w", "u-1", "team/q", Instant(0), ())
    told = preempted(Item(level, Shape((), 0, ()), Instant(0)), PreemptionReason.RECLAIM, "/blue", "/red")
    assert preemption(told) == Preemption("u-1", "", PreemptionReason.RECLAIM, "blue")
