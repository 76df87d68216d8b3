"""Does the auditor see conditions that contradict each other, and evictions and reservations without reason?"""

from typing import Any

import pytest

from tests.audit.told import Tale, Tree, condition, counted, evicted


def tale() -> Tale:
    told = Tale(lag_seconds=0)
    told.queue("q", 100, preemption={"withinClusterQueue": "LowerPriority"})
    told.workload("b", "q", 1, priority=1)
    told.workload("a", "q", 1)
    return told


def test_an_ordinary_life_makes_sense() -> None:
    told = tale()
    told.reserve("a", "q", 1)
    told.reserve("a", "q", 1, *evicted(), status=counted(1))
    told.workload(
        "a", "q", 1, condition("QuotaReserved", False), condition("Admitted", False), *evicted(), status=counted(1)
    )
    told.reserve("a", "q", 1, condition("Evicted", False), status=counted(1))
    told.reserve("a", "q", 1, condition("Finished", True, "Succeeded"), status=counted(1))
    assert told.found == []


@pytest.mark.parametrize(
    ("conditions", "status", "says"),
    [
        pytest.param([condition("Admitted", True)], {}, "is admitted but has no quota reserved", id="no quota"),
        pytest.param([condition("QuotaReserved", True)], {}, "has quota reserved but no admission", id="no admission"),
        pytest.param(
            [], {"admission": {"clusterQueue": "q"}}, "has an admission but no quota reserved", id="left over"
        ),
        pytest.param([condition("Evicted", True, "")], counted(1), "is evicted without a reason", id="no reason"),
    ],
)
def test_what_cannot_be_true_at_once_is_found(conditions: list[Tree], status: Tree, says: str) -> None:
    told = tale()
    told.workload("a", "q", 1, *conditions, status=status)
    assert f"conditions: Workload ns/a: {says}" in told.found


@pytest.mark.parametrize(
    ("conditions", "count", "says"),
    [
        pytest.param(evicted(), 1, None, id="preempted as it should be"),
        pytest.param(evicted("PodsReadyTimeout"), 1, None, id="took too long"),
        pytest.param(evicted("DeactivatedDueToAdmissionCheck"), 1, None, id="deactivated for a cause"),
        pytest.param(evicted("Whim"), 1, "was evicted for Whim, which is not an eviction reason", id="no such reason"),
        pytest.param(evicted(), 0, "was evicted for Preempted, but the eviction was not counted", id="not counted"),
        pytest.param(
            evicted(by="uid-nobody"),
            1,
            "was preempted for the workload with UID uid-nobody, which never existed",
            id="whom?",
        ),
        pytest.param(
            evicted()[:1],
            1,
            "was evicted as preempted, but its Preempted condition has no valid reason",
            id="not said why",
        ),
        pytest.param(
            [condition("Evicted", True, "PodsReadyTimeout", "")],
            1,
            "was evicted for PodsReadyTimeout without a message",
            id="mute",
        ),
    ],
)
def test_an_eviction_has_its_reason(conditions: list[Tree], count: int, says: str | None) -> None:
    told = tale()
    told.reserve("a", "q", 1)
    told.reserve("a", "q", 1, *conditions, status=counted(count))
    assert told.found == ([f"eviction: Workload ns/a: {says}"] if says else [])


def test_a_preempted_workload_that_names_no_preemptor_is_found() -> None:
    told = tale()
    told.reserve("a", "q", 1)
    mute = [condition("Evicted", True, "Preempted", "gone"), condition("Preempted", True, "InClusterQueue", "gone")]
    told.reserve("a", "q", 1, *mute, status=counted(1))
    assert told.found == ["eviction: Workload ns/a: was preempted, but the message names no preemptor"]


def test_admission_is_not_lost_without_an_eviction() -> None:
    told = tale()
    told.reserve("a", "q", 1)
    told.workload("a", "q", 1, condition("QuotaReserved", False), condition("Admitted", False))
    assert told.found == ["eviction: Workload ns/a: lost its admission without an eviction"]


def test_a_reservation_that_was_not_admitted_may_be_lost_without_one() -> None:
    told = tale()
    told.reserve("a", "q", 1, condition("Admitted", False))
    told.workload("a", "q", 1, condition("QuotaReserved", False), condition("Admitted", False))
    assert told.found == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        pytest.param({"active": False}, "got quota although it is not active", id="not active"),
        pytest.param(
            {"status": {"requeueState": {"requeueAt": "2099-01-01T00:00:00Z"}}},
            "got quota although it had to wait until 2099-01-01T00:00:00Z",
            id="in backoff",
        ),
        pytest.param(
            {"of": "other"}, "got quota of ClusterQueue other, but its LocalQueue points to q", id="wrong queue"
        ),
        pytest.param({"count": 2}, "got 2 pods for pod set main, which requested 1 to 1", id="too many pods"),
    ],
)
def test_a_reservation_that_should_not_be_is_found(more: dict[str, Any], says: str) -> None:
    told = tale()
    told.reserve("a", "q", 1, **more)
    assert told.found == [f"reservation: Workload ns/a: {says}"]


@pytest.mark.parametrize(
    ("conditions", "says"),
    [
        pytest.param(
            [condition("Evicted", True, "Deactivated")], "got quota but is still marked as evicted", id="evicted"
        ),
        pytest.param([condition("Finished", True, "Odd")], "got quota although it is finished", id="finished"),
    ],
)
def test_a_reservation_ends_what_was_before(conditions: list[Tree], says: str) -> None:
    told = tale()
    told.workload("a", "q", 1, *conditions, status=counted(1))
    told.reserve("a", "q", 1, *conditions, status=counted(1))
    assert told.found == [f"reservation: Workload ns/a: {says}"]


def test_a_workload_may_be_evicted_again_in_the_write_that_gives_it_quota() -> None:
    told = tale()
    told.workload("a", "q", 1, *evicted(), status=counted(1))
    told.reserve("a", "q", 1, *evicted(), status=counted(2))
    assert told.found == []


@pytest.mark.parametrize(
    ("charged", "says"),
    [
        pytest.param({"cpu": "4"}, None, id="as much as asked for"),
        pytest.param({"cpu": "2"}, "takes 2 cpu for pod set main, whose 2 pods request 4", id="half of it"),
        pytest.param({}, "takes 0 cpu for pod set main, whose 2 pods request 4", id="none of it"),
    ],
)
def test_a_reservation_is_charged_what_its_pods_ask_for(charged: Tree, says: str | None) -> None:
    given = {"name": "main", "count": 2, "flavors": {"cpu": "default"}, "resourceUsage": charged}
    status = {"admission": {"clusterQueue": "q", "podSetAssignments": [given]}}
    for plain in (True, False):
        told = Tale(lag_seconds=0, plain_resources=plain)
        told.queue("q", 100)
        told.workload("a", "q", 2, pods=2)
        told.workload("a", "q", 2, condition("QuotaReserved", True), pods=2, status=status)
        assert told.found == ([f"reservation: Workload ns/a: {says}"] if says and plain else [])


@pytest.mark.parametrize(
    ("closed", "says"),
    [
        pytest.param("local", "got quota although LocalQueue q is stopped", id="LocalQueue stopped"),
        pytest.param("gone", "got quota although there is no LocalQueue q", id="LocalQueue gone"),
        pytest.param("queue", "got quota although ClusterQueue q is stopped", id="ClusterQueue stopped"),
        pytest.param("selector", "got quota although ClusterQueue q does not select namespace ns", id="not selected"),
    ],
)
def test_a_closed_queue_gives_no_quota(closed: str, says: str) -> None:
    told = tale()
    if closed == "local":
        told.tell("LocalQueue", "ns", "q", spec={"clusterQueue": "q", "stopPolicy": "Hold"})
    elif closed == "gone":
        told.gone("LocalQueue", "ns", "q")
    elif closed == "queue":
        told.queue("q", 100, stopPolicy="HoldAndDrain")
    else:
        told.queue("q", 100, namespaceSelector={"matchLabels": {"team": "b"}})
    told.reserve("a", "q", 1)
    assert told.found == [f"reservation: Workload ns/a: {says}"]


def test_a_reservation_on_its_way_when_the_queue_closed_is_excused_for_a_while() -> None:
    told = Tale(lag_seconds=5)
    told.queue("q", 100)
    told.later(60)
    told.queue("q", 100, stopPolicy="Hold")
    told.reserve("a", "q", 1)
    assert told.found == []
    told.later(5)
    told.reserve("b", "q", 1)
    assert told.rules() == ["reservation"]


def test_checks_come_before_admission() -> None:
    told = tale()
    check = {"name": "budget", "state": "Pending", "message": "", "lastTransitionTime": "2027-01-15T08:00:00Z"}
    told.reserve("a", "q", 1, condition("Admitted", False), status={"admissionChecks": [check]})
    assert told.found == []
    told.reserve("a", "q", 1, status={"admissionChecks": [check]})
    assert told.found == ["conditions: Workload ns/a: was admitted while checks are not ready: budget"]


def test_checks_that_are_ready_let_it_through() -> None:
    told = tale()
    check = {"name": "budget", "state": "Ready", "message": "", "lastTransitionTime": "2027-01-15T08:00:00Z"}
    told.reserve("a", "q", 1, status={"admissionChecks": [check]})
    assert told.found == []


def test_what_is_finished_stays_finished() -> None:
    told = tale()
    told.reserve("a", "q", 1, condition("Finished", True, "Odd"))
    told.reserve("a", "q", 1)
    assert "conditions: Workload ns/a: was finished but no longer is" in told.found


def test_flavors_do_not_change_under_a_reservation() -> None:
    told = tale()
    told.queue("other", 100, flavor="other")
    told.reserve("a", "q", 1)
    told.reserve("a", "q", 1, flavor="other")
    assert "conditions: Workload ns/a: changed its flavors without losing its quota" in told.found


@pytest.mark.parametrize(
    ("job", "reason", "says"),
    [
        pytest.param([], "Succeeded", "is finished as Succeeded, but its Job is not finished", id="too early"),
        pytest.param([], "OwnerNotFound", "is finished because its owner was deleted, but its Job exists", id="owned"),
        pytest.param([condition("Complete", True)], "Succeeded", None, id="as the Job says"),
        pytest.param([condition("Failed", True)], "Failed", None, id="as the failed Job says"),
    ],
)
def test_a_workload_is_finished_when_its_job_is(job: list[Tree], reason: str, says: str | None) -> None:
    told = tale()
    told.job("a", "q", *job)
    told.reserve("a", "q", 1, job="a")
    told.reserve("a", "q", 1, condition("Finished", True, reason), job="a")
    assert told.found == ([f"finish: Workload ns/a: {says}"] if says else [])


def test_what_was_there_before_we_looked_is_not_judged_as_a_step() -> None:
    told = Tale(lag_seconds=0)
    told.queue("q", 1)
    told.reserve("old", "q", 5, *evicted("Whim"))
    assert told.rules() == ["overuse", "eviction", "eviction", "reservation"]
    again = Tale(lag_seconds=0)
    again.queue("q", 1)
    for tree in [told.trees["Workload", "ns/old"]]:
        again.put("Workload", tree, "LISTED")
    assert again.found == []


def checked(*states: str, on: tuple[str, ...] = ()) -> Tale:
    """A workload is admitted in a queue with a check; its status lists the check in these states."""
    told = Tale(lag_seconds=0)
    told.queue("q", 4, admissionChecksStrategy={"admissionChecks": [{"name": "quota", "onFlavors": on}]})
    listed = [{"name": "quota", "state": state, "lastTransitionTime": "2027-01-15T08:00:00Z"} for state in states]
    told.workload("a", "q", 1, status={"admissionChecks": listed})
    told.reserve("a", "q", 1, status={"admissionChecks": listed})
    return told


@pytest.mark.parametrize(
    ("told", "says"),
    [
        pytest.param(lambda: checked("Ready"), None, id="ready"),
        pytest.param(lambda: checked("Pending"), "was admitted while checks are not ready: quota", id="pending"),
        pytest.param(checked, "was admitted without check quota", id="not listed"),
        pytest.param(lambda: checked(on=("default",)), "was admitted without check quota", id="of its flavor"),
        pytest.param(lambda: checked(on=("other",)), None, id="of another flavor"),
    ],
)
def test_an_admission_needs_every_check_of_its_queue(told: Any, says: str | None) -> None:
    assert told().found == ([f"conditions: Workload ns/a: {says}"] if says else [])


@pytest.mark.parametrize(
    ("flavor", "pod", "says"),
    [
        pytest.param({"nodeLabels": {"zone": "a"}}, {}, "", id="any node"),
        pytest.param({"nodeLabels": {"zone": "a"}}, {"nodeSelector": {"zone": "a", "disk": "b"}}, "", id="its nodes"),
        pytest.param(
            {"nodeLabels": {"zone": "a"}},
            {"nodeSelector": {"zone": "b"}},
            "whose nodes have zone=a, but its pods select zone=b",
            id="other nodes",
        ),
        pytest.param(
            {"nodeTaints": [{"key": "spot", "value": "true", "effect": "NoSchedule"}]},
            {
                "tolerations": [
                    {"key": "spot", "operator": "Equal", "value": "false"},
                    {"key": "x", "operator": "Exists"},
                ]
            },
            "whose nodes have the taint spot, which its pods do not tolerate",
            id="a taint",
        ),
        pytest.param(
            {"nodeTaints": [{"key": "spot", "value": "true", "effect": "NoSchedule"}]},
            {"tolerations": [{"operator": "Exists"}]},
            "",
            id="a taint that its pods tolerate",
        ),
        pytest.param(
            {
                "nodeTaints": [{"key": "spot", "effect": "NoSchedule"}],
                "tolerations": [{"key": "spot", "effect": "NoSchedule"}],
            },
            {},
            "",
            id="a taint that the flavor tolerates",
        ),
        pytest.param({"nodeTaints": [{"key": "spot", "effect": "PreferNoSchedule"}]}, {}, "", id="a soft taint"),
    ],
)
def test_a_flavor_is_one_on_whose_nodes_the_pods_can_run(flavor: Tree, pod: Tree, says: str) -> None:
    told = Tale(lag_seconds=0)
    told.tell("ResourceFlavor", "", "default", spec=flavor)
    told.queue("q", 4)
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": [container], **pod}}}]
    told.workload("a", "q", podSets=sets)
    told.reserve("a", "q", podSets=sets)
    assert told.found == ([f"reservation: Workload ns/a: got flavor default for pod set main, {says}"] if says else [])
