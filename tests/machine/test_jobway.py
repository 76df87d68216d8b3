"""Is no quota given out twice on the whole way from a Job to its quota? The auditor judges random Jobs.

More parallelism than completions and less, indexes that fail, pod-level resources, several pod sets, fewer pods than
asked for, transformations and excluded prefixes.
"""

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from pykueue.api.config import Transformation
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
AMOUNTS = st.sampled_from(("1", "1", "2", "3", "500m", "0"))


@st.composite
def countings(draw: DrawFn) -> ResourceConfig:
    """What is excluded, and what is counted as something else."""
    inputs = draw(st.lists(st.sampled_from(ASKED), unique=True, max_size=3))
    factors = st.sampled_from(("1", "2", "5", "500m", "-1"))
    rules = tuple(
        Transformation(
            name,
            draw(st.sampled_from(("Retain", "Replace"))),
            draw(st.sampled_from(("", "", *ASKED))),
            ResourceList(
                {
                    output: parse_quantity(draw(factors))
                    for output in draw(st.lists(st.sampled_from(MADE), unique=True, max_size=2))
                }
            ),
        )
        for name in inputs
    )
    prefixes = draw(st.sampled_from(((), ("ex.io/",), ("ex.io/",), ("ex.io/mig", "mem"))))
    return ResourceConfig(prefixes, rules)


@st.composite
def lists(draw: DrawFn) -> Tree:
    """The resources of a container: requests, or limits alone."""
    asked = {name: draw(AMOUNTS) for name in draw(st.lists(st.sampled_from(ASKED), unique=True, max_size=3))}
    return {"limits" if draw(SOMETIMES) else "requests": asked}


@st.composite
def containers(draw: DrawFn, least: int, most: int) -> list[Tree]:
    return [{"name": f"c{number}", "resources": draw(lists())} for number in range(draw(st.integers(least, most)))]


@st.composite
def templates(draw: DrawFn) -> Tree:
    """A pod template that asks for something of everything there is to ask for."""
    spec: Tree = {"restartPolicy": "Never", "containers": draw(containers(1, 2))}
    if draw(SOMETIMES):
        spec["initContainers"] = draw(containers(1, 2))
        for container in spec["initContainers"]:
            if draw(st.booleans()):
                container["restartPolicy"] = "Always"
    if draw(SOMETIMES):
        asked = draw(st.lists(st.sampled_from(("cpu", "memory")), unique=True, min_size=1))
        spec["resources"] = {"requests": {name: draw(AMOUNTS) for name in asked}}
    if draw(SOMETIMES):
        spec["overhead"] = {"cpu": "250m"}
    return {"spec": spec}


@st.composite
def jobs(draw: DrawFn) -> tuple[dict[str, str], Tree]:
    """The annotations and the spec of a Job."""
    mode = draw(st.sampled_from(("NonIndexed", "Indexed")))
    completions = draw(st.integers(1, 6)) if mode == "Indexed" else draw(st.none() | st.integers(1, 6))
    spec: Tree = {"parallelism": draw(st.integers(0, 8)), "completionMode": mode, "template": draw(templates())}
    if completions is not None:
        spec["completions"] = completions
    if mode == "Indexed" and draw(st.booleans()):
        spec |= {"backoffLimitPerIndex": 0}
    notes: dict[str, str] = {}
    at_once = min(spec["parallelism"], spec.get("completions", spec["parallelism"]))
    if at_once > 1 and draw(SOMETIMES):
        notes[LEAST] = str(draw(st.integers(1, at_once - 1)))
        if mode == "Indexed" and spec["parallelism"] == completions and draw(st.booleans()):
            notes[EQUAL] = "true"
    return notes, spec


@st.composite
def pod_sets(draw: DrawFn) -> list[Tree]:
    """The pod sets of a Workload that belongs to no Job; one of them may be given fewer pods, or none."""
    found: list[Tree] = [
        {"name": f"set{number}", "count": draw(st.integers(0, 4)), "template": draw(templates())}
        for number in range(draw(st.integers(1, 3)))
    ]
    if draw(SOMETIMES):
        chosen = draw(st.sampled_from(found))
        chosen["minCount"] = draw(st.integers(0, chosen["count"]))
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
            covered["pods"] = str(draw(st.integers(1, 6)))
        found[name] = covered, spec
    return found


@settings(max_examples=EXAMPLES)
@given(counting=countings(), places=queues(), data=st.data())
def test_no_quota_is_given_out_twice(
    counting: ResourceConfig, places: dict[str, tuple[dict[str, str], dict[str, Any]]], data: st.DataObject
) -> None:
    way = JobWay(counting)
    for name, (covered, spec) in places.items():
        way.queue(name, covered, **spec)
    for number in range(data.draw(st.integers(1, 8))):
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
            notes, spec = data.draw(jobs())
            way.job(f"job{number}", data.draw(st.sampled_from(queues)), notes, **spec)
        case "workload":
            queue, priority = data.draw(st.sampled_from(queues)), data.draw(st.integers(-1, 1))
            way.workload(f"alone{number}", queue, data.draw(pod_sets()), priority)
        case "pod":
            job, pod = data.draw(st.sampled_from(pods))
            way.end_pod(job, pod, well=data.draw(st.sampled_from((True, True, False))))
        case _:
            name = data.draw(st.sampled_from([*jobs_there, *alone]))
            if name in alone:
                way.delete_workload(name)
            else:
                way.delete_job(name)
