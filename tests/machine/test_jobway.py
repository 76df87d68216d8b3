"""Is no quota given out twice on the whole way from a Job to its quota? The auditor judges random Jobs.

More parallelism than completions and less, indexes that fail, pod-level resources, several pod sets, fewer pods than
asked for, transformations and excluded prefixes.
"""

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from pykueue.api.config.types import Transformation
from pykueue.api.pods import ResourceList
from pykueue.base.units import parse_quantity
from pykueue.bridge.requests import ResourceConfig
from tests.audit.told import Tree
from tests.machine.jobway import JobWay

EXAMPLES = 10_000 if os.environ.get("PYKUEUE_HYPOTHESIS") == "long" else 100
MIG, COUNT, PER, CREDITS, HIDDEN = "ex.io/mig", "ex.io/count", "q.io/per", "q.io/credits", "ex.io/hidden"
ASKED = ("cpu", "memory", MIG, COUNT, PER)
MADE = ("cpu", "memory", CREDITS, HIDDEN)
MOST: dict[str, int] = {"cpu": 6, "memory": 8, MIG: 4, COUNT: 6, PER: 6, CREDITS: 30, HIDDEN: 9}
LEAST = "kueue.x-k8s.io/job-min-parallelism"
EQUAL = "kueue.x-k8s.io/job-completions-equal-parallelism"
SOMETIMES = st.sampled_from((False, False, False, True))
EITHER = st.booleans()
AMOUNTS = st.sampled_from(("1", "1", "2", "3", "500m", "0"))
LISTS = st.dictionaries(st.sampled_from(ASKED), AMOUNTS, max_size=3)
POD_LISTS = st.dictionaries(st.sampled_from(("cpu", "memory")), AMOUNTS, min_size=1)
OUTPUTS = st.dictionaries(
    st.sampled_from(MADE), st.sampled_from(("1", "2", "5", "500m", "-1")).map(parse_quantity), max_size=2
).map(ResourceList)
RULES = st.lists(
    st.builds(
        Transformation,
        st.sampled_from(ASKED),
        st.sampled_from(("Retain", "Replace")),
        st.sampled_from(("", "", *ASKED)),
        OUTPUTS,
    ),
    unique_by=lambda rule: rule.input,
    max_size=3,
).map(tuple)
COUNTINGS = st.builds(ResourceConfig, st.sampled_from(((), ("ex.io/",), ("ex.io/",), ("ex.io/mig", "mem"))), RULES)
"""What is excluded, and what is counted as something else."""
MODES = st.sampled_from(("NonIndexed", "Indexed"))
UP_TO: tuple[st.SearchStrategy[int], ...] = tuple(st.integers(0, most) for most in range(31))
COMPLETIONS = st.integers(1, 6)
FEW = st.integers(1, 3)


def containers(draw: DrawFn) -> list[Tree]:
    """One container or two that make requests, or have limits alone."""
    found = [{"name": "a", "resources": {"limits" if draw(SOMETIMES) else "requests": draw(LISTS)}}]
    return [*found, {"name": "b", "resources": {"requests": draw(LISTS)}}] if draw(SOMETIMES) else found


def template(draw: DrawFn) -> Tree:
    """A pod template that asks for something of everything there is to ask for."""
    spec: Tree = {"restartPolicy": "Never", "containers": containers(draw)}
    if draw(SOMETIMES):
        spec["initContainers"] = containers(draw)
        for container in spec["initContainers"]:
            if draw(EITHER):
                container["restartPolicy"] = "Always"
    if draw(SOMETIMES):
        spec["resources"] = {"requests": draw(POD_LISTS)}
    if draw(SOMETIMES):
        spec["overhead"] = {"cpu": "250m"}
    return {"spec": spec}


@st.composite
def jobs(draw: DrawFn) -> tuple[dict[str, str], Tree]:
    """The annotations and the spec of a Job."""
    mode = draw(MODES)
    spec: Tree = {"parallelism": draw(UP_TO[8]), "completionMode": mode, "template": template(draw)}
    if mode == "Indexed" or draw(EITHER):
        spec["completions"] = draw(COMPLETIONS)
    if mode == "Indexed" and draw(EITHER):
        spec["backoffLimitPerIndex"] = 0
    notes: dict[str, str] = {}
    at_once = min(spec["parallelism"], spec.get("completions", spec["parallelism"]))
    if at_once > 1 and draw(SOMETIMES):
        notes[LEAST] = str(1 + draw(UP_TO[at_once - 2]))
        if mode == "Indexed" and spec["parallelism"] == spec["completions"] and draw(EITHER):
            notes[EQUAL] = "true"
    return notes, spec


@st.composite
def pod_sets(draw: DrawFn) -> list[Tree]:
    """The pod sets of a Workload that belongs to no Job; one of them may be given fewer pods, or none."""
    found: list[Tree] = [
        {"name": f"set{number}", "count": draw(UP_TO[4]), "template": template(draw)} for number in range(draw(FEW))
    ]
    if draw(SOMETIMES):
        found[-1]["minCount"] = draw(UP_TO[found[-1]["count"]])
    return found


def quotas(draw: DrawFn) -> dict[str, str]:
    """Quotas of most resources."""
    return {
        name: str(draw(st.integers(1, most))) for name, most in MOST.items() if not draw(SOMETIMES) or name == "cpu"
    }


@st.composite
def queues(draw: DrawFn) -> dict[str, tuple[dict[str, str], dict[str, Any]]]:
    """One ClusterQueue, or two that borrow from each other, and may preempt."""
    found: dict[str, tuple[dict[str, str], dict[str, Any]]] = {}
    several = draw(SOMETIMES)
    for name in ("left", "right")[: 2 if several else 1]:
        spec: dict[str, Any] = {"cohortName": "both"} if several else {}
        if draw(SOMETIMES):
            spec["preemption"] = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
        covered = quotas(draw)
        if draw(SOMETIMES):
            covered["pods"] = str(draw(COMPLETIONS))
        found[name] = covered, spec
    return found


JOBS, POD_SETS, PLACES, STEPS = jobs(), pod_sets(), queues(), st.integers(1, 8)
ENDS = st.sampled_from((True, True, False))
PRIORITIES = st.integers(-1, 1)


@settings(max_examples=EXAMPLES)
@given(counting=COUNTINGS, places=PLACES, data=st.data())
def test_no_quota_is_given_out_twice(
    counting: ResourceConfig, places: dict[str, tuple[dict[str, str], dict[str, Any]]], data: st.DataObject
) -> None:
    way = JobWay(counting)
    for name, (covered, spec) in places.items():
        way.queue(name, covered, **spec)
    for number in range(data.draw(STEPS)):
        act(way, data, number, list(places))
        way.settle()
        assert way.tale.found == []


def act(way: JobWay, data: st.DataObject, number: int, queues: list[str]) -> None:
    """Something that a user or a pod does."""
    pods, jobs_there = way.pods(), list(way.all("Job"))
    alone = [name for name in way.all("Workload") if name.startswith("alone")]
    kinds = ["job", "job", "workload", *["pod"] * 6 * bool(pods), *["delete"] * bool(jobs_there or alone)]
    match data.draw(st.sampled_from(kinds)):
        case "job":
            notes, spec = data.draw(JOBS)
            way.job(f"job{number}", data.draw(st.sampled_from(queues)), notes, **spec)
        case "workload":
            queue, priority = data.draw(st.sampled_from(queues)), data.draw(PRIORITIES)
            way.workload(f"alone{number}", queue, data.draw(POD_SETS), priority)
        case "pod":
            job, pod = data.draw(st.sampled_from(pods))
            way.end_pod(job, pod, well=data.draw(ENDS))
        case _:
            name = data.draw(st.sampled_from([*jobs_there, *alone]))
            if name in alone:
                way.delete_workload(name)
            else:
                way.delete_job(name)
