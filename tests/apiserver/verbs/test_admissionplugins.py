"""Tests of what other objects decide about a new one."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.desk import Desk, pod, refusal


@pytest.fixture
def desk() -> Iterator[Desk]:
    with contextlib.closing(Desk()) as made:
        yield made


def limits(desk: Desk, name: str = "limits", **item: Any) -> None:
    desk.create("limitranges", {"metadata": {"name": name}, "spec": {"limits": [{"type": "Container", **item}]}})


def test_a_limit_range_fills_in_what_containers_leave_open(desk: Desk) -> None:
    limits(desk, default={"cpu": "2", "memory": "1Gi"}, defaultRequest={"cpu": "500m"})
    made = desk.create("pods", pod())
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "2", "memory": "1Gi"},
        "requests": {"cpu": "500m", "memory": "1Gi"},
    }
    assert made["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": (
            "LimitRanger plugin set: cpu, memory request for container c; cpu, memory limit for container c"
        )
    }


def test_a_limit_range_that_comes_later_counts_from_then_on(desk: Desk) -> None:
    assert desk.create("pods", pod("before"))["spec"]["containers"][0]["resources"] == {}
    limits(desk, default={"cpu": "2"})
    assert desk.create("pods", pod("between"))["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "2"}
    desk.delete("limitranges", "limits")
    assert desk.create("pods", pod("after"))["spec"]["containers"][0]["resources"] == {}


@pytest.mark.parametrize(
    ("item", "resources", "why"),
    [
        (
            {"max": {"cpu": "1"}},
            {"limits": {"cpu": "2"}},
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        (
            {"min": {"cpu": "1"}},
            {"requests": {"cpu": "500m"}},
            "minimum cpu usage per Container is 1, but request is 500m",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
    ],
)
def test_a_limit_range_refuses_what_is_out_of_bounds(desk: Desk, item: Any, resources: Any, why: str) -> None:
    limits(desk, **item)
    tree = pod("p")
    tree["spec"] = {"containers": [{"name": "c", "image": "x", "resources": resources}]}
    refused = refusal(lambda: desk.create("pods", tree))
    assert (refused.code, refused.message) == (403, f'pods "p" is forbidden: {why}')


def test_the_bounds_of_pods_are_those_of_their_containers_together(desk: Desk) -> None:
    desk.create(
        "limitranges",
        {"metadata": {"name": "pods"}, "spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}},
    )
    container: dict[str, Any] = {"image": "x", "resources": {"limits": {"cpu": "1500m"}}}
    tree = pod("p")
    tree["spec"] = {"containers": [{**container, "name": "a"}, {**container, "name": "b"}]}
    assert refusal(lambda: desk.create("pods", tree)).message == (
        'pods "p" is forbidden: maximum cpu usage per Pod is 2, but limit is 3'
    )


def test_a_pod_has_the_priority_of_its_class(desk: Desk) -> None:
    desk.create("priorityclasses", {"metadata": {"name": "high"}, "value": 100}, "")
    made = desk.create("pods", pod("p", priorityClassName="high"))["spec"]
    assert (made["priority"], made["preemptionPolicy"]) == (100, "PreemptLowerPriority")
    assert refusal(lambda: desk.create("pods", pod("q", priorityClassName="none"))).message == (
        'pods "q" is forbidden: no PriorityClass with name none was found'
    )
    assert "must not be provided in pod spec" in refusal(lambda: desk.create("pods", pod("q", priority=7))).message


def test_one_class_may_be_everyones(desk: Desk) -> None:
    desk.create("priorityclasses", {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True}, "")
    assert desk.create("pods", pod("p"))["spec"]["priorityClassName"] == "usual"
    second: dict[str, Any] = {"metadata": {"name": "other"}, "value": 6, "globalDefault": True}
    assert refusal(lambda: desk.create("priorityclasses", second, "")).message == (
        'priorityclasses.scheduling.k8s.io "other" is forbidden: PriorityClass usual is already marked as default. '
        "Only one default can exist"
    )


def test_a_pod_has_the_overhead_of_its_runtime(desk: Desk) -> None:
    tree: dict[str, Any] = {"metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "250m"}}}
    desk.create("runtimeclasses", tree, "")
    assert desk.create("pods", pod("p", runtimeClassName="vm"))["spec"]["overhead"] == {"cpu": "250m"}
    assert (
        'RuntimeClass "none" not found'
        in refusal(lambda: desk.create("pods", pod("q", runtimeClassName="none"))).message
    )


def test_a_pod_puts_up_for_a_while_with_a_node_that_is_away(desk: Desk) -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    made = desk.create("pods", pod("p", tolerations=[own]))["spec"]["tolerations"]
    assert [one["key"] for one in made] == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    assert "tolerationSeconds" not in made[0]
    assert made[1]["tolerationSeconds"] == 300
