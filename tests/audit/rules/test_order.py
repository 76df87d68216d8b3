"""Does the auditor see who is passed over, and only if that is certain?"""

from typing import Any

import pytest

from tests.audit.told import Tale, condition, evicted


def overtaking(told: Tale, times: int, cpu: int = 1, seconds: int = 2, **spec: Any) -> None:
    """Younger workloads come, get quota and end, one after the other."""
    for number in range(times):
        name = f"young{number}"
        told.workload(name, "q", cpu, **spec)
        told.later(1)
        told.reserve(name, "q", cpu, **spec)
        told.later(seconds - 1)
        told.reserve(name, "q", cpu, condition("Finished", True, "Odd"), **spec)


def tale(quota: int = 4, **more: Any) -> Tale:
    told = Tale(stuck_seconds=10_000)
    told.queue("q", quota, **more)
    return told


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_sixty_younger_ones_of_lower_priority_before_an_older_one_are_found(strategy: str) -> None:
    told = tale(queueingStrategy=strategy)
    told.workload("old", "q", 1, priority=1000)
    told.later(10)
    overtaking(told, 60)
    assert told.rules() == ["order"]
    assert told.found[0].startswith("order: Workload ns/old: is still pending in ClusterQueue q, but ns/young")


def test_one_of_equal_priority_that_came_first_goes_first() -> None:
    told = tale()
    told.workload("old", "q", 1)
    told.later(10)
    overtaking(told, 6)
    assert told.rules() == ["order"]


def test_in_a_strict_queue_a_smaller_one_waits_behind_a_larger_one() -> None:
    told = tale(queueingStrategy="StrictFIFO")
    told.workload("old", "q", 9)
    told.later(10)
    overtaking(told, 1)
    told.later(10)
    assert told.rules() == ["order"]


def test_in_another_queue_smaller_ones_go_past_one_that_does_not_fit() -> None:
    told = tale(4)
    told.workload("old", "q", 9, priority=5)
    told.later(10)
    overtaking(told, 20)
    assert told.found == []


def test_one_that_was_admitted_soon_after_was_not_overtaken() -> None:
    told = tale(queueingStrategy="StrictFIFO")
    told.workload("old", "q", 1)
    told.later(10)
    told.workload("young", "q", 1)
    told.reserve("young", "q", 1)
    told.later(2)
    told.reserve("old", "q", 1)
    told.later(20)
    assert told.found == []


def test_two_may_pass_by_chance_while_it_is_looked_at_again() -> None:
    told = tale()
    told.workload("old", "q", 1)
    told.later(10)
    overtaking(told, 2)
    told.later(60)
    assert told.found == []


@pytest.mark.parametrize(
    "why",
    [
        "it is of lower priority",
        "it is younger",
        "it is larger",
        "it is in backoff",
        "a check rejected it",
        "it is gated",
        "its queue is stopped",
        "its namespace is not served",
        "its pods want certain nodes",
        "it was evicted later than the others came",
        "its queue was edited all the time",
        "local queues share by usage",
        "others preempted for their room",
        "it has only just come",
        "there are several flavors",
    ],
)
def test_it_is_not_overtaken_if(why: str) -> None:
    told = tale()
    spec: dict[str, Any] = {"priority": 1}
    young: dict[str, Any] = {"priority": 0}
    conditions: list[Any] = []
    cpu = 1
    if why == "it is of lower priority":
        young["priority"] = 2
    elif why == "it is younger":
        spec["priority"] = 0
        for number in range(6):
            told.workload(f"young{number}", "q", 1, **young)
        told.later(5)
    elif why == "it is larger":
        cpu = 2
    elif why == "it is in backoff":
        spec["status"] = {"requeueState": {"requeueAt": "2099-01-01T00:00:00Z"}}
    elif why == "a check rejected it":
        state = {"name": "c", "state": "Rejected", "message": "", "lastTransitionTime": "2027-01-15T08:00:00Z"}
        spec["status"] = {"admissionChecks": [state]}
    elif why == "it is gated":
        spec["metadata"] = {"annotations": {"kueue.x-k8s.io/admission-gated-by": "x"}}
    elif why == "its queue is stopped":
        told.tell("LocalQueue", "ns", "stopped", spec={"clusterQueue": "q", "stopPolicy": "Hold"})
    elif why == "its namespace is not served":
        told.queue("q", 4, namespaceSelector={"matchLabels": {"team": "b"}})
        told.tell("LocalQueue", "other", "q", spec={"clusterQueue": "q"})
    elif why == "its pods want certain nodes":
        template = {"spec": {"containers": [], "nodeSelector": {"zone": "x"}}}
        spec["podSets"] = [{"name": "main", "count": 1, "template": template}]
    elif why == "it was evicted later than the others came":
        spec["priority"] = 0
        conditions = [{**one, "lastTransitionTime": "2099-01-01T00:00:00Z"} for one in evicted("AdmissionCheck")]
        spec["status"] = {"schedulingStats": {"evictions": [{"reason": "AdmissionCheck", "count": 1}]}}
    elif why == "local queues share by usage":
        told.queue("q", 4, admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"})
    elif why == "there are several flavors":
        flavors = [{"name": name, "resources": [{"name": "cpu", "nominalQuota": 4}]} for name in ("default", "spot")]
        told.tell("ResourceFlavor", "", "spot")
        told.queue("q", 4, resourceGroups=[{"coveredResources": ["cpu"], "flavors": flavors}])
    told.workload("old", "stopped" if why == "its queue is stopped" else "q", cpu, *conditions, **spec)
    told.later(2 if why == "it has only just come" else 20)
    if why == "its queue was edited all the time":
        for number in range(6):
            told.queue("q", 5 + number)
            overtaking(told, 1, **young)
    elif why == "others preempted for their room":
        preempted_for(told, **young)
    elif why == "it has only just come":
        told.reserve("young", "q", 1, **young)
        told.later(2)
        told.reserve("old", "q", 1, **spec)
    else:
        overtaking(told, 6, **young)
    assert "order" not in told.rules()


def preempted_for(told: Tale, **young: Any) -> None:
    """Each of the others preempted one more for its room."""
    for number in range(6):
        name, victim = f"young{number}", f"victim{number}"
        told.reserve(victim, "q", 1, priority=-1)
        told.workload(name, "q", 1, **young)
        told.reserve(victim, "q", 1, *evicted(by=f"uid-Workload-{name}"), priority=-1)
        told.later(2)
        told.workload(victim, "q", 1, *evicted(by=f"uid-Workload-{name}"), priority=-1)
        told.reserve(name, "q", 1, **young)
        told.gone("Workload", "ns", victim)
