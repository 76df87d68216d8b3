"""Do queues, flavors and checks say how they stand, in as few writes as may be?"""

import pytest

from pykueue.api.config.file import read_configuration
from pykueue.api.names import Finalizer
from pykueue.base.units import MICROS
from pykueue.controllers.status import WRITERS
from pykueue.kube.port import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
    DeniedError,
    NotFoundError,
    RejectedError,
    UnansweredError,
)
from tests.builders import cluster_queue, condition
from tests.controllers.running import TEAM, Running, running

OURS = [str(Finalizer.RESOURCE_IN_USE)]


def active(status: dict[str, object]) -> tuple[str, str, str]:
    conditions = status["conditions"]
    assert isinstance(conditions, list)
    found = next(one for one in conditions if one["type"] == "Active")
    return found["status"], found["reason"], found["message"]


async def test_a_new_queue_is_answered_at_once_and_counts_follow_a_second_later() -> None:
    manager = Running()
    manager.queues("main", cpu="3")
    async with running(manager):
        assert active(manager.status("main")) == ("True", "Ready", "Can admit new workloads")
        assert active(manager.local_status("main")) == ("True", "Ready", "Can submit new workloads to localQueue")
        await manager.clock.advance(3)
        manager.store.writes.clear()
        for number in range(5):
            manager.workload(f"w{number}", "main")
        await manager.clock.advance(0.9)
        assert manager.store.written("ClusterQueue") == []
        await manager.clock.advance(0.2)
        status = manager.status("main")
        assert (status["pendingWorkloads"], status["reservingWorkloads"], status["admittedWorkloads"]) == (2, 3, 3)
        usage = [{"name": "default", "resources": [{"name": "cpu", "total": "3", "borrowed": "0"}]}]
        assert status["flavorsReservation"] == status["flavorsUsage"] == usage
        local = manager.local_status("main")
        assert (local["pendingWorkloads"], local["reservingWorkloads"], local["admittedWorkloads"]) == (2, 3, 3)
        assert local["flavorsUsage"] == [{"name": "default", "resources": [{"name": "cpu", "total": "3"}]}]
        written = manager.store.written("ClusterQueue")
        assert [(write.subresource, write.manager) for write in written] == [("status", "kueue")]
        assert "conditions" not in written[0].body["status"]
        assert len(manager.store.written("LocalQueue")) == 1
        await manager.clock.advance(20)
        assert manager.store.written("ClusterQueue") + manager.store.written("LocalQueue") == []


async def test_what_others_write_survives_and_what_they_spoil_is_mended() -> None:
    manager = Running()
    manager.queues("main")
    async with running(manager):
        await manager.clock.advance(2)
        theirs = condition("Theirs")
        ours = manager.status("main")["conditions"]
        manager.store.put(
            CLUSTER_QUEUES, "main", status={"conditions": [*ours, theirs], "pendingWorkloads": 7, "theirs": 1}
        )
        await manager.clock.advance(2)
        assert manager.status("main")["pendingWorkloads"] == 0
        manager.store.put(CLUSTER_QUEUES, "main", spec={"stopPolicy": "Hold"})
        await manager.clock.advance(2)
        status = manager.status("main")
        assert theirs in status["conditions"]
        assert status["theirs"] == 1
        assert active(status) == ("False", "Stopped", "Can't admit new workloads: is stopped.")
        assert active(manager.local_status("main"))[1] == "ClusterQueueIsInactive"


async def test_an_edit_that_comes_with_the_answer_to_our_own_write_is_not_missed() -> None:
    manager = Running()
    manager.queues("main")
    async with running(manager):
        await manager.clock.advance(3)
        manager.workload("one", "main")
        await manager.clock.advance(0.5)
        manager.store.meddling = lambda: manager.store.put(CLUSTER_QUEUES, "main", spec={"stopPolicy": "Hold"})
        await manager.clock.advance(0.6)
        assert manager.store.meddling is None
        await manager.clock.advance(1.5)
        assert active(manager.status("main"))[1] == "Stopped"
        assert manager.status("main")["conditions"][0]["observedGeneration"] == 2


async def test_conditions_that_someone_else_wrote_in_the_meantime_are_not_lost() -> None:
    manager = Running()
    manager.queues("main")
    async with running(manager):
        await manager.clock.advance(3)
        theirs = condition("Theirs")

        def meddle() -> None:
            ours = manager.status("main")["conditions"]
            manager.store.put(CLUSTER_QUEUES, "main", status={"conditions": [*ours, theirs]})

        manager.store.meddling = meddle
        manager.store.put(CLUSTER_QUEUES, "main", spec={"stopPolicy": "Hold"})
        await manager.clock.advance(3)
        assert [one["type"] for one in manager.status("main")["conditions"]] == ["Theirs", "Active"]
        assert active(manager.status("main"))[1] == "Stopped"


async def test_the_transition_time_moves_with_the_status_alone() -> None:
    manager = Running()
    manager.queues("main")
    async with running(manager):
        before = manager.status("main")["conditions"][0]
        await manager.clock.advance(60)
        manager.store.put(CLUSTER_QUEUES, "main", spec={"queueingStrategy": "StrictFIFO"})
        await manager.clock.advance(1)
        edited = manager.status("main")["conditions"][0]
        assert edited == {**before, "observedGeneration": 2}
        manager.store.put(CLUSTER_QUEUES, "main", spec={"stopPolicy": "Hold"})
        await manager.clock.advance(1)
        assert manager.status("main")["conditions"][0]["lastTransitionTime"] > before["lastTransitionTime"]


async def test_a_flavor_that_comes_makes_its_queues_active() -> None:
    manager = Running()
    manager.queues("main")
    manager.store.drop(RESOURCE_FLAVORS, "default")
    async with running(manager):
        text = "Can't admit new workloads: references missing ResourceFlavor(s): default."
        assert active(manager.status("main")) == ("False", "FlavorNotFound", text)
        manager.store.put(RESOURCE_FLAVORS, "default", spec={})
        await manager.clock.advance(2)
        assert active(manager.status("main"))[1] == active(manager.local_status("main"))[1] == "Ready"
        assert manager.store.at(RESOURCE_FLAVORS, "default")["metadata"]["finalizers"] == OURS


async def test_a_check_that_becomes_active_makes_its_queues_active() -> None:
    manager = Running()
    manager.queues("main", admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]})
    async with running(manager):
        assert active(manager.status("main"))[1] == "AdmissionCheckNotFound"
        manager.store.put(ADMISSION_CHECKS, "budget", spec={"controllerName": "example.com/budget"})
        await manager.clock.advance(2)
        text = "Can't admit new workloads: references inactive AdmissionCheck(s): budget."
        assert active(manager.status("main")) == ("False", "AdmissionCheckInactive", text)
        says = condition("Active")
        manager.store.put(ADMISSION_CHECKS, "budget", status={"conditions": [says]})
        await manager.clock.advance(2)
        assert active(manager.status("main"))[1] == "Ready"
        check = manager.store.at(ADMISSION_CHECKS, "budget")
        assert check["metadata"]["finalizers"] == OURS
        assert check["status"] == {"conditions": [says]}


async def test_a_check_that_we_cannot_make_says_so() -> None:
    manager = Running()
    manager.store.put(ADMISSION_CHECKS, "far", spec={"controllerName": "kueue.x-k8s.io/multikueue"})
    async with running(manager):
        assert active(manager.store.at(ADMISSION_CHECKS, "far")["status"])[:2] == ("False", "Unsupported")


async def test_a_queue_that_is_deleted_stays_until_its_last_workload_has_left() -> None:
    manager = Running()
    manager.queues("main")
    manager.workload("running", "main")
    async with running(manager):
        await manager.clock.advance(2)
        manager.store.remove(CLUSTER_QUEUES, "main")
        await manager.clock.advance(2)
        text = "Can't admit new workloads; clusterQueue is terminating"
        assert active(manager.status("main")) == ("False", "Terminating", text)
        assert manager.status("main")["admittedWorkloads"] == 1
        manager.change_condition("running", "Finished", "True", "Succeeded")
        await manager.clock.advance(3)
        assert manager.store.all(CLUSTER_QUEUES) == {}
        local = manager.local_status("main")
        assert active(local) == (
            "False",
            "ClusterQueueDoesNotExist",
            "Can't submit new workloads to clusterQueue",
        )
        assert "flavorsUsage" not in local
        assert local["admittedWorkloads"] == 0


async def test_flavors_and_checks_go_when_the_last_queue_lets_go_of_them() -> None:
    manager = Running()
    manager.queues("main", admissionChecksStrategy={"admissionChecks": [{"name": "budget"}]})
    manager.store.put(ADMISSION_CHECKS, "budget", spec={"controllerName": "example.com/budget"})
    async with running(manager):
        await manager.clock.advance(1)
        manager.store.remove(RESOURCE_FLAVORS, "default")
        manager.store.remove(ADMISSION_CHECKS, "budget")
        await manager.clock.advance(3)
        assert "default" in manager.store.all(RESOURCE_FLAVORS)
        assert "budget" in manager.store.all(ADMISSION_CHECKS)
        manager.store.put(CLUSTER_QUEUES, "main", spec={"resourceGroups": [], "admissionChecksStrategy": None})
        await manager.clock.advance(3)
        assert manager.store.all(RESOURCE_FLAVORS) == {}
        assert manager.store.all(ADMISSION_CHECKS) == {}


async def test_finalizers_that_are_missing_are_added_beside_the_others() -> None:
    manager = Running()
    manager.store.store(CLUSTER_QUEUES, cluster_queue("bare", metadata={"finalizers": ["theirs"]}))
    async with running(manager):
        assert manager.store.at(CLUSTER_QUEUES, "bare")["metadata"]["finalizers"] == ["theirs", *OURS]
        assert active(manager.status("bare"))[1] == "FlavorNotFound"


async def test_a_stopped_local_queue_has_nobody_waiting_and_goes_on_counting_who_runs() -> None:
    manager = Running()
    manager.queues("main", cpu="1")
    manager.workload("first", "main")
    manager.workload("second", "main")
    async with running(manager):
        await manager.clock.advance(2)
        assert manager.local_status("main")["pendingWorkloads"] == 1
        manager.store.put(LOCAL_QUEUES, "main", TEAM, spec={"stopPolicy": "Hold"})
        await manager.clock.advance(2)
        local = manager.local_status("main")
        assert (local["pendingWorkloads"], local["admittedWorkloads"]) == (0, 1)
        assert active(local) == ("False", "Stopped", "LocalQueue is stopped")
        assert manager.status("main")["pendingWorkloads"] == 0


async def test_what_is_borrowed_is_said_in_a_cohort() -> None:
    manager = Running()
    manager.queues("left", "right", cpu="2", cohort="all")
    manager.workload("large", "left", cpu="3500m")
    async with running(manager):
        await manager.clock.advance(2)
        usage = manager.status("left")["flavorsReservation"][0]["resources"][0]
        assert usage == {"name": "cpu", "total": "3500m", "borrowed": "1500m"}


FAIR = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]}
"""


async def test_shares_follow_usage_and_quota() -> None:
    manager = Running(read_configuration(FAIR))
    manager.queues("borrower", cpu="1", cohort="team")
    manager.queues("lender", cpu="7", cohort="all")
    manager.store.put(COHORTS, "team", spec={"parentName": "all"})
    manager.store.put(COHORTS, "all", spec={})

    def shares() -> list[object]:
        nodes = [(CLUSTER_QUEUES, "borrower"), (CLUSTER_QUEUES, "lender"), (COHORTS, "team"), (COHORTS, "all")]
        return [manager.store.at(*node).get("status", {}).get("fairSharing", {}).get("weightedShare") for node in nodes]

    async with running(manager):
        await manager.clock.advance(2)
        assert shares() == [0, 0, 0, 0]
        manager.store.writes.clear()
        manager.workload("large", "borrower", cpu="3")
        await manager.clock.advance(2)
        assert shares() == [250, 0, 250, 0]
        assert [write.name for write in manager.store.written("Cohort")] == ["team"]
        manager.store.store(CLUSTER_QUEUES, cluster_queue("lender", "9", {"finalizers": OURS}, cohortName="all"))
        await manager.clock.advance(2)
        assert shares() == [200, 0, 200, 0]
        manager.store.put(COHORTS, "team", spec={"parentName": "all", "fairSharing": {"weight": "0"}})
        await manager.clock.advance(2)
        assert shares() == [200, 0, 2**63 - 1, 0]
        manager.store.remove(WORKLOADS, "large", TEAM)
        await manager.clock.advance(2)
        assert shares() == [0, 0, 0, 0]
        manager.store.writes.clear()
        await manager.clock.advance(20)
        assert manager.store.written("Cohort") == []


async def test_cohorts_that_form_a_cycle_are_named_as_the_reason() -> None:
    manager = Running()
    manager.queues("main", cohort="a")
    manager.store.put(COHORTS, "a", spec={"parentName": "b"}, status={"fairSharing": {"weightedShare": 3}})
    async with running(manager):
        await manager.clock.advance(2)
        assert manager.store.at(COHORTS, "a")["status"] == {}
        assert active(manager.status("main"))[1] == "Ready"
        manager.store.put(COHORTS, "b", spec={"parentName": "a"})
        await manager.clock.advance(2)
        assert active(manager.status("main"))[1] == "CohortCycle"
        assert active(manager.local_status("main"))[1] == "ClusterQueueIsInactive"


async def test_who_does_not_lead_writes_nothing_and_catches_up_when_it_does() -> None:
    manager = Running()
    manager.queues("main")
    manager.workload("one", "main")
    async with running(manager, leads=False):
        await manager.clock.advance(30)
        assert manager.store.writes == []
        manager.lead()
        await manager.clock.advance(3)
        assert manager.status("main")["admittedWorkloads"] == 1


@pytest.mark.parametrize(
    ("failure", "comes_back"),
    [
        pytest.param(UnansweredError("patch", 0, "", "no answer"), True, id="no answer is asked for again"),
        pytest.param(NotFoundError("patch", 404, "", "gone"), False, id="what is gone is let be"),
        pytest.param(RejectedError("patch", 422, "", "wrong"), False, id="what is rejected waits for a change"),
        pytest.param(DeniedError("patch", 403, "", "denied"), False, id="what is denied waits for a change"),
    ],
)
async def test_a_write_that_fails(failure: Exception, comes_back: bool) -> None:
    manager = Running()
    manager.queues("main")
    async with running(manager):
        await manager.clock.advance(3)
        manager.workload("one", "main")
        await manager.clock.advance(0.5)
        assert manager.condition("one", "Admitted") is not None
        manager.store.failures = [failure, failure]
        await manager.clock.advance(1)
        assert manager.store.failures == []
        assert manager.status("main")["admittedWorkloads"] == 0
        await manager.clock.advance(2)
        assert manager.status("main")["admittedWorkloads"] == (1 if comes_back else 0)
        manager.workload("two", "main")
        await manager.clock.advance(3)
        assert manager.status("main")["admittedWorkloads"] == 2


async def test_many_local_queues_of_one_queue_are_counted_apart() -> None:
    manager = Running()
    manager.queues("main", cpu="3")
    manager.store.put(LOCAL_QUEUES, "other", TEAM, spec={"clusterQueue": "main"})
    for number in range(4):
        manager.workload(f"w{number}", "main" if number % 2 else "other")
    manager.workload("late", "other")
    async with running(manager):
        await manager.clock.advance(2)
        found = [manager.local_status(name) for name in ("main", "other")]
        assert sum(one["admittedWorkloads"] for one in found) == 3
        assert sum(one["pendingWorkloads"] for one in found) == 2
        for one in found:
            total = one["flavorsUsage"][0]["resources"][0]["total"]
            assert total == str(one["admittedWorkloads"])


async def test_many_queues_that_change_all_the_time_are_written_less_often() -> None:
    manager = Running()
    names = [f"q{number}" for number in range(100)]
    manager.queues(*names, cpu="1000")
    async with running(manager):
        await manager.clock.advance(10)
        manager.store.writes.clear()
        for turn in range(20):
            for name in names:
                manager.workload(f"{name}-{turn}", name)
            await manager.clock.advance(1)
        written = len(manager.store.written("ClusterQueue")) + len(manager.store.written("LocalQueue"))
        assert 200 <= written <= 20 * 60
        await manager.clock.advance(12)
        assert {manager.status(name)["admittedWorkloads"] for name in names} == {20}
        assert manager.store.all(WORKLOADS)


@pytest.mark.parametrize(
    ("queues", "took", "fewest", "most"),
    [
        # The 16 writes of a round take 4 s together, and 16 s pass before the next one.
        (WRITERS, MICROS // 4, 3, 5),
        # Writes of less than 50 ms are not slow: 120 of them take 0.6 s, and the next round is 10 s later.
        (60, MICROS // 25, 5, 7),
    ],
)
async def test_a_slow_server_gets_a_round_of_writes_and_then_a_rest(
    queues: int, took: int, fewest: int, most: int
) -> None:
    manager = Running()
    names = [f"q{number}" for number in range(queues)]
    manager.queues(*names, cpu="1000")

    def slow(what: str) -> object:
        return manager.clock.sleep(took) if "queues" in what and "/status" in what else None

    async with running(manager):
        await manager.clock.advance(10)
        manager.store.writes.clear()
        manager.store.before = slow
        for turn in range(60):
            for name in names[turn % 4 :: 4]:
                manager.workload(f"{name}-{turn}", name)
            await manager.clock.advance(1)
        assert fewest <= len(manager.store.written("ClusterQueue")) / len(names) <= most
        manager.store.before = None
        await manager.clock.advance(20)
        assert {manager.status(name)["admittedWorkloads"] for name in names} == {15}


async def test_where_the_role_has_no_patch_finalizers_are_replaced() -> None:
    manager = Running()
    manager.queues("main")
    async with running(manager):
        await manager.clock.advance(2)
        manager.store.written("ClusterQueue")
        manager.store.failures = [DeniedError("patch clusterqueues main", 403, "Forbidden", "cannot patch")]
        manager.store.put(CLUSTER_QUEUES, "main", metadata={"finalizers": ["their.own/one"]})
        await manager.clock.advance(2)
        assert manager.store.at(CLUSTER_QUEUES, "main")["metadata"]["finalizers"] == ["their.own/one", *OURS]
        assert "replace" in [write.verb for write in manager.store.written("ClusterQueue")]


SHARING = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
admissionFairSharing: {usageHalfLifeTime: 5m}
"""
BY_USAGE = {"admissionMode": "UsageBasedAdmissionFairSharing"}


async def test_past_use_is_written_when_a_charge_settles_and_in_each_interval() -> None:
    def consumed(one: Running) -> str:
        found: str = one.local_status("main")["fairSharing"]["admissionFairSharingStatus"]["consumedResources"]["cpu"]
        return found

    manager = Running(read_configuration(SHARING))
    manager.queues("main", cpu="4", admissionScope=BY_USAGE)
    async with running(manager):
        await manager.clock.advance(3)
        assert consumed(manager) == "0"
        manager.workload("w", "main", cpu="4")
        await manager.clock.advance(3)
        assert consumed(manager)[0] == "2", "half of what it requests"
        manager.store.writes.clear()
        await manager.clock.advance(3600)
        assert 12 <= len(manager.store.written("LocalQueue")) <= 13
        assert consumed(manager).startswith("399")


async def test_the_past_use_of_local_queues_that_use_nothing_is_not_written_again() -> None:
    manager = Running(read_configuration(SHARING))
    manager.queues("main", cpu="4", admissionScope=BY_USAGE)
    async with running(manager):
        await manager.clock.advance(3)
        manager.store.writes.clear()
        await manager.clock.advance(7200)
        assert manager.store.written("LocalQueue") == []
