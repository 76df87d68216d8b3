"""What is decided is written once, in the right order, and comes back as a fact whatever becomes of the write."""

from pathlib import Path
from typing import Any

import pytest

from pykueue.api.config.file import MINIMAL, read_configuration
from pykueue.controllers.journalfile import JournalFile
from pykueue.engine.record.journal import replay
from pykueue.kube.port import (
    CLUSTER_QUEUES,
    LIMIT_RANGES,
    WORKLOADS,
    ConflictError,
    KubeError,
    NotLeadingError,
    RejectedError,
    UnansweredError,
)
from tests.controllers.running import TEAM, Running, running
from tests.fakes.faulty import READS, Write, settle

PREEMPTING: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def status_writes(manager: Running) -> list[Write]:
    return [write for write in manager.store.written("Workload") if write.subresource == "status"]


def reason(manager: Running, name: str, kind: str) -> tuple[str, str]:
    found = manager.condition(name, kind) or {}
    return found.get("status", ""), found.get("reason", "")


def failing(kind: type[KubeError], code: int, why: str) -> KubeError:
    return kind("patch workloads", code, why, f"{why}!")


async def test_an_admission_is_one_write() -> None:
    async with running(Running()) as manager:
        manager.queues("a")
        manager.workload("w", "a")
        await manager.clock.advance(3)
        (write,) = status_writes(manager)
        assert write.manager == "kueue-admission"
        assert write.body["metadata"]["resourceVersion"]
        assert reason(manager, "w", "Admitted") == ("True", "Admitted")


async def test_a_workload_that_keeps_waiting_for_the_same_reason_costs_nothing_more() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="1")
        manager.workload("first", "a")
        await manager.clock.advance(1)
        manager.workload("second", "a")
        await manager.clock.advance(5)
        assert reason(manager, "second", "QuotaReserved") == ("False", "WaitingForQuota")
        assert [write.name for write in status_writes(manager)] == ["first", "second"]
        manager.store.put(CLUSTER_QUEUES, "a", metadata={"labels": {"x": "y"}})
        await manager.clock.advance(60)
        assert status_writes(manager) == []


async def test_why_a_workload_waits_is_not_said_when_it_starts_at_once_after_all() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="1")
        manager.workload("first", "a")
        await manager.clock.advance(1)
        status_writes(manager)
        manager.workload("second", "a")
        await manager.clock.advance(0.2)
        manager.change_condition("first", "Finished", "True", "Succeeded")
        await manager.clock.advance(5)
        (write,) = status_writes(manager)
        assert write.name == "second"
        assert reason(manager, "second", "Admitted") == ("True", "Admitted")


def evicting(manager: Running) -> None:
    """A running workload, and a more important one that needs its room."""
    manager.queues("a", cpu="1", **PREEMPTING)
    manager.workload("low", "a")


async def preempt(manager: Running) -> None:
    evicting(manager)
    await manager.clock.advance(1)
    status_writes(manager)
    manager.workload("high", "a", spec={"priority": 10})
    await manager.clock.advance(1)


async def test_a_preemption_takes_the_room_only_when_it_is_stored_as_free() -> None:
    async with running(Running()) as manager:
        await preempt(manager)
        assert reason(manager, "low", "Evicted") == ("True", "Preempted")
        assert reason(manager, "low", "QuotaReserved") == ("True", "QuotaReserved")
        status_writes(manager)
        manager.pump.stopped(f"{TEAM}/low")
        await manager.clock.advance(1)
        names = [(write.name, "admission" in write.body["status"]) for write in status_writes(manager)]
        assert names[:2] == [("low", False), ("high", True)]
        assert reason(manager, "high", "Admitted") == ("True", "Admitted")


async def test_room_that_could_not_be_given_back_is_not_handed_out() -> None:
    async with running(Running()) as manager:
        await preempt(manager)
        await manager.clock.advance(1)
        status_writes(manager)
        manager.store.failures = [failing(RejectedError, 422, "Invalid")]
        manager.pump.stopped(f"{TEAM}/low")
        await manager.clock.advance(0.5)
        assert reason(manager, "low", "QuotaReserved") == ("True", "QuotaReserved")
        assert reason(manager, "high", "QuotaReserved")[0] == "False"
        await manager.clock.advance(5)
        assert reason(manager, "low", "QuotaReserved")[0] == "False"
        assert reason(manager, "high", "Admitted") == ("True", "Admitted")


async def test_a_refused_admission_leaves_the_workload_alone_for_a_while_and_says_why() -> None:
    async with running(Running()) as manager:
        manager.store.failures = [failing(RejectedError, 422, "Invalid")] * 2
        manager.queues("a")
        manager.workload("w", "a")
        await manager.clock.advance(0.6)
        assert manager.pump.backoff.workloads[f"{TEAM}/w"].why == "the API server refused our write: Invalid!"
        await manager.clock.advance(60)
        assert reason(manager, "w", "Admitted") == ("True", "Admitted")
        assert manager.pump.backoff.workloads == {}


async def test_a_server_that_always_refuses_is_asked_less_and_less() -> None:
    async with running(Running()) as manager:
        asked = 0

        def refuse(what: str) -> None:
            nonlocal asked
            if not what.startswith(READS):
                asked += 1
                raise failing(RejectedError, 422, "Invalid")

        manager.store.before = refuse
        manager.queues("a")
        manager.workload("w", "a")
        await manager.clock.advance(100)
        first = asked
        assert first < 40
        await manager.clock.advance(1000)
        assert asked - first < 20


@pytest.mark.parametrize("stored", [True, False], ids=["it was stored", "it was not stored"])
async def test_a_write_without_an_answer_is_read_back(stored: bool) -> None:
    async with running(Running()) as manager:
        manager.queues("a")
        await manager.clock.advance(1)
        real = manager.store.patch
        lost = 0

        async def patch(*args: Any, **options: Any) -> bytes:
            nonlocal lost
            if options.get("subresource") == "status" and not lost and args[0] is WORKLOADS:
                lost += 1
                if stored:
                    await real(*args, **options)
                raise failing(UnansweredError, 0, "Timeout")
            return await real(*args, **options)

        manager.store.patch = patch  # type: ignore[method-assign]  # an answer that gets lost
        manager.workload("w", "a")
        await manager.clock.advance(2)
        assert lost == 1
        assert len(status_writes(manager)) == 1
        assert reason(manager, "w", "Admitted") == ("True", "Admitted")


async def test_a_change_by_someone_else_in_between_is_kept_and_the_write_sent_again() -> None:
    async with running(Running()) as manager:
        manager.queues("a")
        await manager.clock.advance(1)
        real = manager.store.patch
        meddled = False

        async def patch(*args: Any, **options: Any) -> bytes:
            nonlocal meddled
            if not meddled and options.get("subresource") == "status" and args[0] is WORKLOADS:
                meddled = True
                manager.change_condition("w", "PodsReady", "False", "WaitForStart")
            return await real(*args, **options)

        manager.store.patch = patch  # type: ignore[method-assign]  # another writer is faster
        manager.workload("w", "a")
        await manager.clock.advance(2)
        assert reason(manager, "w", "Admitted") == ("True", "Admitted")
        assert reason(manager, "w", "PodsReady") == ("False", "WaitForStart")


async def test_a_workload_that_was_deactivated_in_between_is_not_admitted() -> None:
    async with running(Running()) as manager:
        manager.queues("a")
        await manager.clock.advance(1)
        real = manager.store.patch
        meddled = False

        async def patch(*args: Any, **options: Any) -> bytes:
            nonlocal meddled
            if not meddled and options.get("subresource") == "status" and args[0] is WORKLOADS:
                meddled = True
                manager.store.put(WORKLOADS, "w", TEAM, spec={"active": False})
            return await real(*args, **options)

        manager.store.patch = patch  # type: ignore[method-assign]  # a user is faster
        manager.workload("w", "a")
        await manager.clock.advance(2)
        assert reason(manager, "w", "QuotaReserved") == ("False", "Deactivated")
        assert reason(manager, "w", "Evicted") == ("True", "Deactivated")


async def test_others_who_never_stop_changing_a_workload_do_not_make_us_spin() -> None:
    async with running(Running()) as manager:
        manager.store.failures = [failing(ConflictError, 409, "Conflict")] * 7
        manager.queues("a")
        manager.workload("w", "a")
        await manager.clock.advance(30)
        assert reason(manager, "w", "Admitted") == ("True", "Admitted")


async def test_a_replica_that_leads_no_more_writes_nothing_and_believes_what_is_stored() -> None:
    async with running(Running()) as manager:
        manager.queues("a")
        manager.store.failures = [failing(NotLeadingError, 0, "NotLeading")] * 2
        manager.workload("w", "a")
        await settle()
        manager.pump.lead(False)
        await manager.clock.advance(5)
        assert status_writes(manager) == []
        level = manager.pump.engine.workload(f"{TEAM}/w")
        assert level is not None
        assert level.admission is None
        manager.lead()
        await manager.clock.advance(1)
        assert reason(manager, "w", "Admitted") == ("True", "Admitted")


async def test_a_deactivation_is_three_writes_in_order() -> None:
    async with running(Running()) as manager:
        manager.queues("a")
        manager.workload("w", "a", spec={"maximumExecutionTimeSeconds": 60})
        await manager.clock.advance(1)
        manager.store.written("Workload")
        await manager.clock.advance(70)
        first, second, third = manager.store.written("Workload")
        kinds = [c["type"] for c in first.body["status"]["conditions"]]
        assert "DeactivationTarget" in kinds
        assert second.body["spec"] == {"active": False}
        assert reason(manager, "w", "Evicted")[1] == "DeactivatedDueToMaximumExecutionTimeExceeded"
        assert "DeactivationTarget" not in [c["type"] for c in third.body["status"]["conditions"]]


async def test_a_workload_deleted_in_flight_is_forgotten() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="1")
        manager.workload("w", "a")
        await settle()
        manager.store.remove(WORKLOADS, "w", TEAM)
        await manager.clock.advance(2)
        assert manager.pump.engine.item(f"{TEAM}/w") is None
        manager.workload("x", "a")
        await manager.clock.advance(2)
        assert reason(manager, "x", "Admitted") == ("True", "Admitted")


async def test_a_workload_that_is_over_is_forgotten_and_its_room_is_free() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="1")
        manager.workload("w", "a")
        await manager.clock.advance(1)
        manager.workload("x", "a")
        await manager.clock.advance(2)
        manager.change_condition("w", "Finished", "True", "Succeeded")
        await manager.clock.advance(2)
        assert [item.key for item in manager.pump.engine.items()] == list(manager.pump.facts.read) == [f"{TEAM}/x"]
        assert reason(manager, "x", "Admitted") == ("True", "Admitted")
        manager.store.put(LIMIT_RANGES, "small", TEAM, spec={"limits": []})
        manager.store.put(WORKLOADS, "w", TEAM, metadata={"finalizers": []})
        await manager.clock.advance(2)
        assert [item.key for item in manager.pump.engine.items()] == [f"{TEAM}/x"]


async def test_a_limit_range_that_comes_later_is_heeded() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="0")
        manager.workload("w", "a")
        await manager.clock.advance(2)
        assert reason(manager, "w", "QuotaReserved") == ("False", "ExceedsMaxQuota")
        limits = [{"type": "Container", "max": {"cpu": "500m"}}]
        manager.store.put(LIMIT_RANGES, "small", TEAM, spec={"limits": limits})
        await manager.clock.advance(5)
        assert reason(manager, "w", "QuotaReserved") == ("False", "Misconfigured")


async def test_an_object_that_cannot_be_understood_counts_as_absent_until_it_can() -> None:
    async with running(Running()) as manager:
        manager.queues("a")
        manager.workload("w", "a", metadata={"creationTimestamp": "yesterday"})
        await manager.clock.advance(2)
        assert manager.pump.engine.item(f"{TEAM}/w") is None
        manager.workload("v", "a")
        await manager.clock.advance(2)
        assert reason(manager, "v", "Admitted") == ("True", "Admitted")


async def test_with_the_gate_for_merge_patches_the_outcome_is_the_same() -> None:
    loaded = read_configuration(MINIMAL, feature_gates="WorkloadRequestUseMergePatch=true")
    async with running(Running(loaded)) as manager:
        await preempt(manager)
        manager.pump.stopped(f"{TEAM}/low")
        await manager.clock.advance(2)
        assert reason(manager, "high", "Admitted") == ("True", "Admitted")
        assert reason(manager, "low", "QuotaReserved") == ("False", "WaitingForQuota")
        assert "admission" not in manager.store.at(WORKLOADS, "low", TEAM)["status"]
        assert {write.manager for write in status_writes(manager)} == {"kueue-admission"}


async def test_the_journal_replays_to_the_same_decisions_across_files(tmp_path: Path) -> None:
    manager = Running()
    manager.pump.journal = JournalFile(tmp_path / "journal", full=3000)
    async with running(manager):
        manager.queues("a", cpu="3", **PREEMPTING)
        for number in range(8):
            manager.workload(f"w{number}", "a", spec={"priority": number})
            await manager.clock.advance(1)
            manager.pump.stopped(f"{TEAM}/w0")
            await manager.clock.advance(1)
        assert manager.pump.journal is not None
        manager.pump.journal.close()
    files = sorted(tmp_path.iterdir())
    assert len(files) > 2
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    for file in files:
        assert list(replay(file.read_bytes().splitlines(keepends=True))) == []
