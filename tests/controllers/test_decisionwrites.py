"""What is stored stays right, whatever the server or others do while a write is on its way."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pykueue.api.codec import decode_as
from pykueue.api.workload import Workload
from pykueue.controllers.decisionwrites import WriteQueue
from pykueue.controllers.journalfile import JournalFile
from pykueue.controllers.workloadwrites import merged
from pykueue.engine.facts import Leading
from pykueue.engine.record.journal import Recorder
from pykueue.kube.informer import version_of
from pykueue.kube.port import (
    ADMISSION_CHECKS,
    LOCAL_QUEUES,
    WORKLOADS,
    ConflictError,
    KubeError,
    RejectedError,
    UnansweredError,
)
from tests.controllers.running import TEAM, Running, running
from tests.controllers.test_scheduling import PREEMPTING, failing, preempt, reason, status_writes
from tests.fakes.faulty import Object, settle


class Gate:
    """Holds back the status writes on some Workloads, or has them fail, and counts what is asked of them."""

    def __init__(self, manager: Running) -> None:
        self.real = manager.store.patch
        self.shut: dict[str, asyncio.Event] = {}
        self.errors: dict[str, KubeError] = {}
        self.asked: dict[str, int] = {}
        manager.store.patch = self.patch  # type: ignore[method-assign]  # a server in a mood

    async def patch(self, *args: Any, **options: Any) -> bytes:
        name = args[1]
        if args[0] is WORKLOADS:
            self.asked[name] = self.asked.get(name, 0) + 1
            if name in self.shut:
                await self.shut[name].wait()
            if name in self.errors:
                await asyncio.sleep(0)
                raise self.errors[name]
        return await self.real(*args, **options)


async def asked_in_no_time(gate: Gate, name: str) -> int:
    """How often writes on a Workload are tried while no time passes."""
    before = gate.asked[name]
    for _ in range(20):
        await settle()
    return gate.asked[name] - before


async def test_what_changed_while_an_admission_waited_for_room_is_heeded() -> None:
    async with running(Running()) as manager:
        await preempt(manager)
        gate = Gate(manager)
        gate.shut["low"] = asyncio.Event()
        manager.pump.stopped(f"{TEAM}/low")
        await manager.clock.advance(0.1)
        manager.store.put(WORKLOADS, "high", TEAM, spec={"active": False})
        await manager.clock.advance(0.1)
        manager.store.written("Workload")
        gate.shut.pop("low").set()
        await manager.clock.advance(2)
        admitted = [
            w for w in manager.store.written("Workload") if w.name == "high" and "admission" in w.body["status"]
        ]
        assert admitted == []


async def test_a_workload_that_cannot_give_its_room_back_does_not_stop_the_others_of_its_tree() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="2", **PREEMPTING)
        manager.workload("low", "a")
        await manager.clock.advance(1)
        manager.workload("high", "a", cpu="2", spec={"priority": 10})
        await manager.clock.advance(1)
        gate = Gate(manager)
        gate.errors["low"] = failing(RejectedError, 422, "Invalid")
        manager.pump.stopped(f"{TEAM}/low")
        await manager.clock.advance(20)
        manager.store.remove(WORKLOADS, "high", TEAM)
        manager.workload("other", "a")
        await manager.clock.advance(10)
        assert reason(manager, "other", "Admitted") == ("True", "Admitted")


async def test_a_holder_whose_writes_are_refused_frees_its_room_as_soon_as_it_is_finished() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="1", **PREEMPTING)
        manager.workload("low", "a")
        await manager.clock.advance(1)
        gate = Gate(manager)
        gate.errors["low"] = failing(RejectedError, 422, "Invalid")
        manager.workload("high", "a", spec={"priority": 10})
        await manager.clock.advance(130)
        manager.change_condition("low", "Finished", "True", "Succeeded")
        await manager.clock.advance(10)
        assert reason(manager, "high", "Admitted") == ("True", "Admitted")


@pytest.mark.parametrize(
    "spec",
    [{"spec": {"active": False}}, {"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": "me/x"}}}],
    ids=["inactive", "gated"],
)
async def test_refused_writes_on_a_workload_without_quota_are_tried_less_and_less(spec: dict[str, Any]) -> None:
    async with running(Running()) as manager:
        manager.queues("a")
        gate = Gate(manager)
        gate.errors["w"] = failing(RejectedError, 422, "Invalid")
        await manager.clock.advance(1)
        manager.workload("w", "a", **spec)
        await manager.clock.advance(10)
        assert await asked_in_no_time(gate, "w") == 0


async def test_a_server_that_answers_500_for_long_is_asked_less_and_less() -> None:
    async with running(Running()) as manager:
        manager.queues("a")
        gate = Gate(manager)
        gate.errors["w"] = failing(UnansweredError, 500, "InternalError")
        await manager.clock.advance(1)
        manager.workload("w", "a")
        await manager.clock.advance(100)
        assert gate.asked["w"] < 100


async def test_a_workload_whose_last_form_cannot_be_read_is_not_tried_at_full_speed() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="1")
        manager.workload("first", "a")
        await manager.clock.advance(1)
        manager.workload("w", "a")
        await manager.clock.advance(3)
        manager.store.put(WORKLOADS, "w", TEAM, spec={"priority": "high"})
        gate = Gate(manager)
        manager.change_condition("first", "Finished", "True", "Succeeded")
        await manager.clock.advance(10)
        assert await asked_in_no_time(gate, "w") == 0


async def test_why_a_workload_waits_is_told_even_if_the_first_write_of_it_is_lost() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="1")
        manager.workload("first", "a")
        await manager.clock.advance(1)
        gate = Gate(manager)
        gate.errors["second"] = failing(ConflictError, 409, "Conflict")
        manager.workload("second", "a")
        await manager.clock.advance(2)
        assert gate.asked["second"] >= 5
        gate.errors.clear()
        await manager.clock.advance(60)
        assert reason(manager, "second", "QuotaReserved") == ("False", "WaitingForQuota")


async def test_a_reservation_that_is_taken_back_in_flight_is_stored_as_free_before_its_room_is_given_away() -> None:
    async with running(Running()) as manager:
        then = "2026-01-01T00:00:00Z"
        active = {"type": "Active", "status": "True", "reason": "r", "message": "", "lastTransitionTime": then}
        manager.store.put(ADMISSION_CHECKS, "check", spec={"controllerName": "x"}, status={"conditions": [active]})
        checks: dict[str, Any] = {"admissionChecksStrategy": {"admissionChecks": [{"name": "check"}]}}
        pending = {"name": "check", "state": "Pending", "message": "", "lastTransitionTime": then}
        listed: dict[str, Any] = {"status": {"admissionChecks": [pending]}}
        manager.queues("a", cpu="1", **checks)
        manager.store.put(LOCAL_QUEUES, "b", TEAM, spec={"clusterQueue": "a"})
        await manager.clock.advance(2)
        gate = Gate(manager)
        gate.shut["first"] = asyncio.Event()
        manager.workload("first", "a", **listed)
        await manager.clock.advance(0.2)
        assert gate.asked["first"] == 1
        manager.workload("second", "b", **listed)
        await manager.clock.advance(0.2)
        manager.store.put(LOCAL_QUEUES, "a", TEAM, spec={"stopPolicy": "Hold"})
        await manager.clock.advance(0.2)
        gate.shut["first"].set()
        gate.shut["first"] = asyncio.Event()
        await manager.clock.advance(1)
        holders = [n for n in ("first", "second") if reason(manager, n, "QuotaReserved")[0] == "True"]
        assert len(holders) == 1, holders


async def test_the_postponed_reason_is_not_written_on_what_is_finished() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="1")
        manager.workload("first", "a")
        await manager.clock.advance(1)
        manager.workload("second", "a")
        await manager.clock.advance(0.3)
        manager.store.written("Workload")
        manager.change_condition("second", "Finished", "True", "OwnerNotFound")
        await manager.clock.advance(10)
        assert [w.name for w in manager.store.written("Workload")] == []


def test_a_merge_patch_removes_what_is_gone_from_within_a_field() -> None:
    raw: Object = {
        "metadata": {"name": "w", "namespace": TEAM},
        "spec": {},
        "status": {"requeueState": {"count": 1, "requeueAt": "2026-01-01T00:00:00Z"}},
    }
    seen = decode_as(Workload, msgspec.json.encode({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", **raw}))
    assert merged(seen, {"requeueState": {"count": 1}})["requeueState"] == {"count": 1, "requeueAt": None}


async def test_a_journal_whose_checkpoint_is_larger_than_a_file_does_not_begin_a_file_for_every_fact(
    tmp_path: Path,
) -> None:
    begun = 0

    class Counted(JournalFile):
        def begin(self) -> None:
            nonlocal begun
            begun += 1
            super().begin()

    manager = Running()
    journal = manager.pump.journal = Counted(tmp_path / "journal", full=100)
    try:
        async with running(manager):
            assert isinstance(manager.pump.front, Recorder)
            before = begun
            for _ in range(5):
                manager.pump.observe(Leading(True))
            assert begun - before <= 1
    finally:
        journal.close()


async def test_a_full_disk_costs_the_journal_and_nothing_else(tmp_path: Path) -> None:
    class Full(JournalFile):
        def write(self, line: bytes) -> None:
            if b"Seen" in line:
                raise OSError(28, "No space left on device")

    manager = Running()
    manager.pump.journal = Full(tmp_path / "journal")
    async with running(manager):
        manager.queues("a")
        manager.workload("w", "a")
        await manager.clock.advance(2)
        assert reason(manager, "w", "Admitted") == ("True", "Admitted")


async def test_writes_that_were_not_begun_when_the_lease_was_lost_are_forgotten() -> None:
    async with running(Running()) as manager:
        manager.queues("a")
        await manager.clock.advance(1)
        manager.workload("w", "a")
        for _ in range(60):
            await asyncio.sleep(0)
            if manager.pump.writes.queues:
                break
        manager.pump.lead(False)
        await settle()
        assert manager.pump.writes.queues == {}


async def test_a_new_leader_decides_on_what_is_stored_though_its_watch_is_behind() -> None:
    manager = Running()
    manager.queues("a", cpu="1")
    manager.workload("first", "a")
    async with running(manager, leads=False):
        manager.workload("second", "a", spec={"priority": 10})
        await manager.clock.advance(0.1)
        manager.store.lag = asyncio.Event()
        # What the leader before us wrote last, before it heard of the second.
        usage = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}
        admission = {"clusterQueue": "a", "podSetAssignments": [usage]}
        manager.store.put(WORKLOADS, "first", TEAM, status={"admission": admission})
        manager.change_condition("first", "QuotaReserved", "True", "QuotaReserved")
        manager.change_condition("first", "Admitted", "True", "Admitted")
        await settle()
        manager.lead()
        await manager.clock.advance(1)
        assert reason(manager, "second", "QuotaReserved")[0] != "True"


async def test_that_a_job_has_stopped_is_not_forgotten_when_its_quota_could_not_be_given_back() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="1", **PREEMPTING)
        manager.workload("low", "a")
        await manager.clock.advance(1)
        gate = Gate(manager)
        gate.shut["low"] = asyncio.Event()
        manager.workload("high", "a", spec={"priority": 10})
        await manager.clock.advance(0.2)
        manager.pump.stopped(f"{TEAM}/low")
        await manager.clock.advance(0.2)
        real = gate.real

        async def once(*args: Any, **options: Any) -> bytes:
            stored = await real(*args, **options)
            if args[1] == "low":
                gate.errors["low"] = failing(ConflictError, 409, "Conflict")
            return stored

        gate.real = once
        gate.shut.pop("low").set()
        await manager.clock.advance(0.1)
        assert reason(manager, "low", "Evicted")[0] == "True"
        gate.real = real
        gate.errors.clear()
        await manager.clock.advance(60)
        assert reason(manager, "low", "QuotaReserved")[0] == "False"
        assert reason(manager, "high", "Admitted") == ("True", "Admitted")


async def test_nothing_is_written_on_what_is_over_even_if_it_was_decided_on_this_very_version() -> None:
    async with running(Running()) as manager:
        manager.queues("a")
        manager.workload("w", "a")
        await manager.clock.advance(1)
        manager.change_condition("w", "Finished", "True", "Succeeded")
        await manager.clock.advance(1)
        status_writes(manager)
        seen = manager.cluster.workloads.objects[f"{TEAM}/w"]
        queue = WriteQueue(manager.pump.facts.level(f"{TEAM}/w", seen), version_of(seen))
        assert not await manager.pump.writes.try_to_write(f"{TEAM}/w", queue, [], [])
        assert status_writes(manager) == []
