"""Are Workloads looked after beside being scheduled: orphans, retention, lists of checks, priority classes?"""

from itertools import pairwise
from typing import Any

import pytest

from pykueue.api.config.file import default_configuration, read_configuration
from pykueue.api.names import Finalizer
from pykueue.kube.port import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    EVENTS,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    ConflictError,
)
from tests.builders import condition
from tests.controllers.running import TEAM, Running, running

OURS = [str(Finalizer.RESOURCE_IN_USE)]
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "job-1", "controller": True}
KEPT_AN_HOUR = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
objectRetentionPolicies: {workloads: {afterFinished: 1h}}
"""


def checks_of(manager: Running, name: str) -> list[tuple[str, str]]:
    status = manager.store.at(WORKLOADS, name, TEAM).get("status", {})
    return [(one["name"], one["state"]) for one in status.get("admissionChecks", [])]


def with_checks(manager: Running, *rules: dict[str, Any]) -> None:
    manager.queues("main")
    groups = [
        {
            "coveredResources": ["cpu"],
            "flavors": [
                {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": quota}]}
                for flavor, quota in (("default", "1"), ("other", "4"))
            ],
        }
    ]
    manager.store.put(RESOURCE_FLAVORS, "other", spec={})
    active = {"conditions": [condition("Active")]}
    for rule in rules:
        manager.store.put(ADMISSION_CHECKS, rule["name"], spec={"controllerName": "x.y/z"}, status=active)
    strategy = {"admissionChecks": list(rules)}
    manager.store.put(CLUSTER_QUEUES, "main", spec={"resourceGroups": groups, "admissionChecksStrategy": strategy})


async def test_a_workload_lists_the_checks_of_all_flavors_before_and_of_its_own_after_it_has_some() -> None:
    manager = Running()
    with_checks(
        manager,
        {"name": "zeta"},
        {"name": "alpha", "onFlavors": ["default"]},
        {"name": "beta", "onFlavors": ["other"]},
    )
    manager.workload("small", "main", cpu="1")
    manager.workload("waits", "main", cpu="9")
    async with running(manager):
        await manager.clock.advance(1)
        assert checks_of(manager, "waits") == [("zeta", "Pending")]
        assert checks_of(manager, "small") == [("alpha", "Pending"), ("zeta", "Pending")]
        first = manager.store.at(WORKLOADS, "small", TEAM)["status"]["admissionChecks"][0]
        assert first["lastTransitionTime"].startswith("2027-01-15T08:00:0")
        admitted = manager.condition("small", "Admitted")
        assert admitted is not None
        assert (admitted["status"], admitted["reason"]) == ("False", "UnsatisfiedAdmissionChecks")


async def test_what_a_check_has_said_stays_when_another_comes_and_the_rest_follows_the_queue() -> None:
    manager = Running()
    with_checks(manager, {"name": "one"})
    manager.workload("w", "main")
    async with running(manager):
        await manager.clock.advance(1)
        ready = {
            "name": "one",
            "state": "Ready",
            "message": "go",
            "lastTransitionTime": "2027-01-15T08:00:01Z",
            "podSetUpdates": [{"name": "main", "labels": {"a": "b"}}],
        }
        manager.store.put(WORKLOADS, "w", TEAM, status={"admissionChecks": [ready]})
        await manager.clock.advance(1)
        admitted = manager.condition("w", "Admitted")
        assert admitted is not None
        assert admitted["status"] == "True"
        strategy = {"admissionChecks": [{"name": "one"}, {"name": "absent"}]}
        manager.store.put(CLUSTER_QUEUES, "main", spec={"admissionChecksStrategy": strategy})
        await manager.clock.advance(1)
        assert checks_of(manager, "w") == [("absent", "Pending"), ("one", "Ready")]
        assert ready in manager.store.at(WORKLOADS, "w", TEAM)["status"]["admissionChecks"]
        still = manager.condition("w", "Admitted")
        assert still is not None
        assert still["status"] == "True"
        manager.store.put(CLUSTER_QUEUES, "main", spec={"admissionChecksStrategy": None})
        await manager.clock.advance(1)
        assert checks_of(manager, "w") == []


async def test_a_check_that_asks_for_another_try_after_the_workload_has_left_does_not_keep_it_out() -> None:
    manager = Running()
    with_checks(manager, {"name": "one"})
    manager.workload("w", "main", cpu="9")
    async with running(manager):
        await manager.clock.advance(2)
        manager.change_condition("w", "Evicted", "True", "AdmissionCheck", "Evicted")
        late = {"name": "one", "state": "Retry", "message": "", "lastTransitionTime": "2027-01-15T08:00:01Z"}
        manager.store.put(WORKLOADS, "w", TEAM, status={"admissionChecks": [late]})
        await manager.clock.advance(2)
        (check,) = manager.store.at(WORKLOADS, "w", TEAM)["status"]["admissionChecks"]
        assert check["state"] == "Pending"
        assert check["message"] == "Reset to Pending after eviction. Previously: Retry"
        assert check["retryCount"] == 1


async def test_a_check_that_turns_down_a_workload_without_quota_again_and_again_is_reset_ever_more_slowly() -> None:
    manager = Running()
    with_checks(manager, {"name": "one"})
    manager.workload("w", "main", cpu="9")
    no = {"name": "one", "state": "Rejected", "message": "no", "lastTransitionTime": "2027-01-15T08:00:01Z"}
    resets = []
    async with running(manager):
        await manager.clock.advance(2)
        for second in range(600):
            if checks_of(manager, "w") == [("one", "Pending")]:
                resets.append(second)
                manager.store.put(WORKLOADS, "w", TEAM, status={"admissionChecks": [no]})
            await manager.clock.advance(1)
        pauses = [later - earlier for earlier, later in pairwise(resets)]
        assert pauses[:4] == [pytest.approx(seconds, abs=1) for seconds in (1, 2, 4, 8)]
        assert len(resets) <= 11
        assert manager.workloads.resets.keys() == {"team/w"}
        manager.store.remove(WORKLOADS, "w", TEAM)
        await manager.clock.advance(1)
        assert manager.workloads.resets == {}


async def test_a_local_queue_that_comes_later_brings_its_checks() -> None:
    manager = Running()
    with_checks(manager, {"name": "one"})
    manager.workload("w", "later", cpu="9")
    async with running(manager):
        await manager.clock.advance(2)
        assert checks_of(manager, "w") == []
        manager.store.put(LOCAL_QUEUES, "later", TEAM, spec={"clusterQueue": "main"})
        await manager.clock.advance(2)
        assert checks_of(manager, "w") == [("one", "Pending")]


async def test_an_orphan_is_finished_and_let_go_of_and_kept() -> None:
    manager = Running()
    manager.queues("main")
    metadata = {"labels": {"kueue.x-k8s.io/job-uid": "job-1"}, "ownerReferences": [OWNER], "finalizers": OURS}
    manager.workload("w", "main", metadata=metadata)
    async with running(manager):
        await manager.clock.advance(1)
        assert manager.condition("w", "Finished") is None
        manager.store.put(WORKLOADS, "w", TEAM, metadata={"ownerReferences": None})
        await manager.clock.advance(1)
        over = manager.condition("w", "Finished")
        assert over is not None
        assert (over["status"], over["reason"], over["message"]) == (
            "True",
            "OwnerNotFound",
            "The workload's owner no longer exists",
        )
        assert "finalizers" not in manager.store.at(WORKLOADS, "w", TEAM)["metadata"]


@pytest.mark.parametrize(
    ("metadata", "gates", "touched"),
    [
        pytest.param({}, "", False, id="made by hand"),
        pytest.param(
            {"labels": {"kueue.x-k8s.io/job-uid": "j"}}, "FinishOrphanedWorkloads=false", False, id="gate off"
        ),
        pytest.param({"labels": {"kueue.x-k8s.io/job-uid": "j"}}, "", True, id="gate on"),
    ],
)
async def test_only_what_a_job_left_behind_is_an_orphan(metadata: dict[str, Any], gates: str, touched: bool) -> None:
    manager = Running(default_configuration(feature_gates=gates))
    manager.queues("main")
    manager.workload("w", "main", metadata={**metadata, "finalizers": OURS})
    async with running(manager):
        await manager.clock.advance(1)
        assert (manager.condition("w", "Finished") is not None) is touched
        assert ("finalizers" in manager.store.at(WORKLOADS, "w", TEAM)["metadata"]) is not touched
        manager.store.remove(WORKLOADS, "w", TEAM)
        await manager.clock.advance(1)
        assert manager.store.all(WORKLOADS) == {}


async def test_a_deleted_workload_of_a_job_is_left_to_its_job() -> None:
    manager = Running()
    manager.queues("main")
    manager.workload("w", "main", metadata={"ownerReferences": [OWNER], "finalizers": OURS})
    async with running(manager):
        manager.store.remove(WORKLOADS, "w", TEAM)
        await manager.clock.advance(5)
        assert manager.store.at(WORKLOADS, "w", TEAM)["metadata"]["finalizers"] == OURS


async def test_a_finished_workload_is_kept_as_long_as_it_should_be() -> None:
    manager = Running(read_configuration(KEPT_AN_HOUR))
    manager.queues("main")
    manager.workload("w", "main", metadata={"ownerReferences": [OWNER], "finalizers": OURS})
    manager.workload("runs", "main", metadata={"ownerReferences": [OWNER]})
    async with running(manager):
        manager.change_condition("w", "Finished", "True", "Succeeded")
        await manager.clock.advance(3598)
        assert "team/w" in manager.store.all(WORKLOADS)
        assert manager.store.written("Event")
        await manager.clock.advance(3)
        assert list(manager.store.all(WORKLOADS)) == ["team/runs"]
        (event,) = manager.store.written("Event")
        assert (event.body["reason"], event.body["type"]) == ("Deleted", "Normal")
        assert event.body["note"] == "Deleted finished workload due to elapsed retention"
        assert event.body["reportingController"] == "kueue-workload-controller"


async def test_what_was_finished_before_we_came_to_lead_goes_in_its_time() -> None:
    manager = Running(read_configuration(KEPT_AN_HOUR))
    manager.queues("main")
    manager.workload("w", "main", metadata={"ownerReferences": [OWNER]})
    manager.change_condition("w", "Finished", "True", "Succeeded")
    async with running(manager, leads=False):
        await manager.clock.advance(4000)
        assert "team/w" in manager.store.all(WORKLOADS)
        manager.lead()
        await manager.clock.advance(1)
        assert manager.store.all(WORKLOADS) == {}


async def test_a_finished_workload_that_is_being_deleted_only_loses_our_finalizer() -> None:
    manager = Running(read_configuration(KEPT_AN_HOUR))
    manager.queues("main")
    manager.workload("w", "main", metadata={"ownerReferences": [OWNER], "finalizers": OURS})
    manager.change_condition("w", "Finished", "True", "Succeeded")
    manager.store.remove(WORKLOADS, "w", TEAM)
    async with running(manager):
        await manager.clock.advance(3602)
        assert manager.store.all(WORKLOADS) == {}
        assert manager.store.all(EVENTS) == {}


@pytest.mark.parametrize(
    ("gates", "strict"),
    [
        pytest.param("", True, id="only the version that was seen"),
        pytest.param("RemoveFinalizersWithStrictPatch=false", False, id="whatever the version"),
    ],
)
async def test_a_finalizer_is_taken_off(gates: str, strict: bool) -> None:
    manager = Running(default_configuration(feature_gates=gates))
    manager.queues("main")
    manager.workload("w", "main", metadata={"finalizers": ["theirs", *OURS]})
    async with running(manager):
        await manager.clock.advance(1)
        manager.store.writes.clear()
        manager.store.failures = [ConflictError("patch", 409, "Conflict", "changed")]
        manager.store.remove(WORKLOADS, "w", TEAM)
        await manager.clock.advance(1)
        (write,) = manager.store.written("Workload")
        assert write.body["metadata"]["finalizers"] == ["theirs"]
        assert ("resourceVersion" in write.body["metadata"]) is strict


async def test_a_priority_class_gives_its_new_value_to_all_its_workloads() -> None:
    manager = Running()
    manager.queues("main", cpu="1")
    manager.store.put(WORKLOAD_PRIORITY_CLASSES, "high", value=10)
    named = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    pods = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}
    for name in ("runs", "waits", "over"):
        manager.workload(name, "main", spec={"priorityClassRef": named, "priority": 10})
    manager.workload("pods", "main", spec={"priorityClassRef": pods, "priority": 3})
    manager.workload("none", "main", spec={"priority": 4})
    manager.change_condition("over", "Finished", "True", "Succeeded")
    async with running(manager):
        await manager.clock.advance(2)
        manager.store.writes.clear()
        manager.store.put(WORKLOAD_PRIORITY_CLASSES, "high", value=20)
        await manager.clock.advance(1)
        found = {
            name: manager.store.at(WORKLOADS, name, TEAM)["spec"]["priority"]
            for name in ("runs", "waits", "over", "pods", "none")
        }
        assert found == {"runs": 20, "waits": 20, "over": 20, "pods": 3, "none": 4}
        manager.store.put(WORKLOADS, "waits", TEAM, spec={"priority": 7})
        manager.store.put(WORKLOAD_PRIORITY_CLASSES, "high", description="only words")
        await manager.clock.advance(1)
        assert manager.store.at(WORKLOADS, "waits", TEAM)["spec"]["priority"] == 7


async def test_a_workload_that_needs_nothing_is_never_queued() -> None:
    manager = Running()
    manager.queues("main")
    async with running(manager):
        asked: list[str] = []
        manager.workloads.controller.add = asked.append  # type: ignore[method-assign,assignment]  # record the keys
        for number in range(6):
            manager.workload(f"w{number}", "main", metadata={"ownerReferences": [OWNER], "finalizers": OURS})
        await manager.clock.advance(2)
        manager.change_condition("w0", "Finished", "True", "Succeeded")
        await manager.clock.advance(2)
        assert asked == []
        assert manager.workloads.controller.queue.later == {}
        assert manager.store.at(NAMESPACES, TEAM)
