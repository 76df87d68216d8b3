"""Does the auditor see workloads that wait in vain, and leave alone those that wait rightly?"""

from typing import Any

import pytest

from tests.audit.told import Tale, Tree, condition, counted, evicted


def tale(**settings: Any) -> Tale:
    told = Tale(stuck_seconds=10, lag_seconds=0, **settings)
    told.queue("q", 4, "co")
    told.queue("other", 4, "co")
    return told


STUCK = ["stuck: Workload ns/a: has fit in ClusterQueue q for 11 s but is still pending"]


def test_a_workload_that_would_fit_is_found_after_a_while() -> None:
    told = tale()
    told.workload("a", "q", 2)
    told.later(11)
    assert told.found == []
    told.later(2)
    assert told.found == STUCK
    told.later(60)
    assert told.found == STUCK


def test_a_workload_that_does_not_fit_waits_rightly() -> None:
    told = tale()
    told.reserve("b", "q", 6)
    told.workload("a", "q", 3)
    told.later(60)
    assert told.found == []


def test_one_that_could_borrow_is_found_too() -> None:
    told = tale()
    told.reserve("b", "q", 4)
    told.workload("a", "q", 3)
    told.later(13)
    assert told.found == STUCK


def test_a_moment_without_room_begins_the_wait_anew() -> None:
    told = tale()
    told.workload("a", "q", 5)
    told.later(9)
    told.reserve("b", "other", 4)
    told.gone("Workload", "ns", "b")
    told.later(9)
    assert told.found == []
    told.later(4)
    assert told.found == STUCK


@pytest.mark.parametrize(
    "why",
    [
        "not active",
        "gated",
        "in backoff",
        "a check failed",
        "LocalQueue stopped",
        "LocalQueue gone",
        "ClusterQueue stopped",
        "ClusterQueue not active",
        "namespace not selected",
        "no such flavor",
        "a tainted flavor",
        "limits in its namespace",
        "a resource that nobody covers",
        "a node that it selects",
        "a circle of cohorts",
        "someone is being evicted",
        "someone elsewhere could be promised the room",
        "someone strict elsewhere",
        "out of use",
    ],
)
def test_it_waits_rightly_when(why: str) -> None:
    told = tale()
    more: dict[str, Any] = {}
    match why:
        case "not active":
            more = {"active": False}
        case "gated":
            more = {"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/x"}}}
        case "in backoff":
            more = {"status": {"requeueState": {"count": 1, "requeueAt": "2099-01-01T00:00:00Z"}}}
        case "a check failed":
            more = {"status": {"admissionChecks": [{"name": "x", "state": "Retry"}]}}
        case "LocalQueue stopped":
            told.tell("LocalQueue", "ns", "q", spec={"clusterQueue": "q", "stopPolicy": "Hold"})
        case "LocalQueue gone":
            told.gone("LocalQueue", "ns", "q")
        case "ClusterQueue stopped":
            told.queue("q", 4, "co", stopPolicy="Hold")
        case "ClusterQueue not active":
            tree = told.trees["ClusterQueue", "/q"]
            told.put("ClusterQueue", {**tree, "status": {"conditions": [condition("Active", False)]}})
        case "namespace not selected":
            told.queue("q", 4, "co", namespaceSelector={"matchLabels": {"team": "b"}})
        case "no such flavor":
            told.gone("ResourceFlavor", "", "default")
        case "a tainted flavor":
            taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
            told.tell("ResourceFlavor", "", "default", spec={"nodeTaints": [taint]})
        case "limits in its namespace":
            told.tell("LimitRange", "ns", "limits")
        case "a resource that nobody covers":
            requests = {"cpu": "1", "example.com/gpu": "1"}
            more = {"podSets": pod_sets({"containers": [{"name": "c", "resources": {"requests": requests}}]})}
        case "a node that it selects":
            containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
            more = {"podSets": pod_sets({"containers": containers, "nodeSelector": {"zone": "x"}})}
        case "a circle of cohorts":
            told.cohort("co", 1, parent="top")
            told.cohort("top", 1, parent="co")
        case "someone is being evicted":
            told.workload("b", "q", 1)
            told.reserve("v", "other", 1, *evicted(), status=counted(1))
            told.gone("Workload", "ns", "b")
        case "someone elsewhere could be promised the room":
            told.workload("big", "other", 20)
        case "someone strict elsewhere":
            told.queue("other", 4, "co", queueingStrategy="StrictFIFO")
            told.workload("big", "other", 20)
        case "out of use":
            more = {"metadata": {"deletionTimestamp": "2027-01-15T08:01:00Z"}}
    told.workload("a", "q", 1, **more)
    told.later(60)
    assert [line for line in told.found if "stuck" in line and "ns/a" in line] == []


def pod_sets(spec: Tree) -> list[Tree]:
    return [{"name": "main", "count": 1, "template": {"spec": spec}}]


@pytest.mark.parametrize(
    "reason", ["PodsReadyTimeout", "ClusterQueueStopped", "DeactivatedDueToRequeuingLimitExceeded"]
)
def test_being_kept_out_of_the_queue_is_no_excuse_once_its_cause_is_gone(reason: str) -> None:
    told = tale()
    told.workload("a", "q", 1, condition("Requeued", False, reason))
    told.later(13)
    assert told.found == STUCK


def test_in_a_strict_queue_only_the_first_is_stuck() -> None:
    told = tale()
    told.queue("q", 4, "co", queueingStrategy="StrictFIFO")
    told.workload("a", "q", 1)
    told.later(1)
    told.workload("big", "q", 20, priority=5)
    told.later(60)
    assert told.found == []
    told.gone("Workload", "ns", "big")
    told.later(13)
    assert told.found == STUCK


def test_in_another_queue_those_who_do_not_fit_are_stepped_over() -> None:
    told = tale()
    told.workload("big", "q", 20, priority=5)
    told.workload("a", "q", 1)
    told.later(13)
    assert told.found == STUCK


def test_all_wait_for_pods_to_be_ready_where_that_is_the_rule() -> None:
    told = tale(block_admission=True)
    told.reserve("b", "q", 1, condition("PodsReady", False))
    told.workload("a", "q", 1)
    told.later(60)
    assert told.found == []
    told.reserve("b", "q", 1, condition("PodsReady", True))
    told.later(13)
    assert told.found == STUCK


def test_what_the_manager_says_it_asks_for_counts_where_it_differs() -> None:
    """A configuration may count resources in its own way, which the auditor does not know."""
    told = tale()
    told.workload("a", "q", 1, status={"resourceRequests": [{"name": "main", "resources": {"cpu": "9"}}]})
    told.later(60)
    assert told.found == []
