"""Does the auditor count what a pod asks for, by arithmetic of its own?"""

from typing import Any

import msgspec
import pytest

from pykueue.api.kueue import ClusterQueue
from pykueue.api.workload import PodSet
from pykueue.audit.requests import each_pod, placements
from pykueue.audit.world import Settings, Transformation

MIG = Transformation("ex.io/mig", "Replace", outputs={"mem": "5"})
PER = Transformation("per", multiply_by="ex.io/n", outputs={"total": "2"})


def asks(**requests: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {name.replace("__", "/"): text for name, text in requests.items()}}}


@pytest.mark.parametrize(
    ("spec", "settings", "found"),
    [
        pytest.param({"containers": [asks(cpu="1"), asks(cpu="500m")]}, Settings(), {"cpu": 1500}, id="containers"),
        pytest.param(
            {
                "initContainers": [asks(cpu="4"), {**asks(cpu="1"), "restartPolicy": "Always"}, asks(cpu="2")],
                "containers": [asks(cpu="1")],
            },
            Settings(),
            {"cpu": 4000},
            id="the fullest moment",
        ),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {"memory": "3"}}}]},
            Settings(),
            {"memory": 3},
            id="limits alone",
        ),
        pytest.param(
            {
                "containers": [asks(cpu="2", memory="1")],
                "resources": {"requests": {"cpu": "1", "memory": "4"}},
                "overhead": {"cpu": "1"},
            },
            Settings(),
            {"cpu": 3000, "memory": 4},
            id="the pod as a whole, where that is more, and its overhead",
        ),
        pytest.param({"containers": [asks(cpu="0")]}, Settings(), {}, id="nothing of something is nothing"),
        pytest.param({"containers": [], "runtimeClassName": "x"}, Settings(), None, id="a runtime class"),
        pytest.param({"containers": [], "resourceClaims": [{"name": "x"}]}, Settings(), None, id="claims"),
        pytest.param({"containers": [], "resources": {"limits": {"cpu": "1"}}}, Settings(), None, id="a pod's limits"),
    ],
)
def test_what_a_pod_asks_for(spec: dict[str, Any], settings: Settings, found: dict[str, int] | None) -> None:
    assert each_pod(PodSet(msgspec.Raw(msgspec.json.encode({"spec": spec}))), settings) == found


@pytest.mark.parametrize(
    ("requests", "settings", "found"),
    [
        pytest.param(
            {"ex.io/mig": "2"},
            Settings(exclude_prefixes=("ex.io/",), transformations=(MIG,)),
            {"mem": 10},
            id="an excluded input",
        ),
        pytest.param(
            {"per": "3", "ex.io/n": "4"},
            Settings(exclude_prefixes=("ex.io/",), transformations=(PER,)),
            {"per": 3, "total": 24},
            id="an excluded multiplier",
        ),
        pytest.param({"per": "3"}, Settings(transformations=(PER,)), {"per": 3, "total": 6}, id="no multiplier"),
        pytest.param(
            {"ex.io/mig": "2", "mem": "1"},
            Settings(exclude_prefixes=("me",), transformations=(MIG,)),
            {},
            id="an excluded output",
        ),
    ],
)
def test_what_is_charged_for_it(requests: dict[str, str], settings: Settings, found: dict[str, int]) -> None:
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    assert each_pod(PodSet(msgspec.Raw(msgspec.json.encode({"spec": spec}))), settings) == found


def groups(*flavors: tuple[str, ...]) -> ClusterQueue:
    """A queue with a resource group for each, of the resources cpu, gpu and so on."""
    found = [
        {
            "coveredResources": [name],
            "flavors": [{"name": flavor, "resources": [{"name": name, "nominalQuota": 1}]} for flavor in group],
        }
        for name, group in zip(("cpu", "gpu"), flavors, strict=False)
    ]
    return msgspec.convert({"metadata": {"name": "q"}, "spec": {"resourceGroups": found}}, ClusterQueue)


def test_each_resource_group_gives_one_of_its_flavors() -> None:
    queue = groups(("spot", "fixed"), ("new",))
    assert placements(queue, {"cpu": 2, "gpu": 1}, 1) == [
        {("spot", "cpu"): 2, ("new", "gpu"): 1},
        {("fixed", "cpu"): 2, ("new", "gpu"): 1},
    ]
    assert placements(queue, {"gpu": 1}, 2) == [{("new", "gpu"): 1}]


def test_too_many_ways_to_choose_flavors_are_not_looked_at() -> None:
    many = tuple(f"f{number}" for number in range(9))
    assert placements(groups(many, many), {"cpu": 1, "gpu": 1}, 1) == []
    assert placements(groups(many), {"cpu": 1}, 2) == []
    assert len(placements(groups(many), {"cpu": 1}, 1)) == 9
