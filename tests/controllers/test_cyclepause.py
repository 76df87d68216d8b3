"""After a cycle that started nothing, arrivals wait for one another, and a release of quota ends the wait."""

from collections.abc import Callable

import pytest

from pykueue.base.units import MICROS, Instant
from pykueue.controllers.cyclepause import LONGEST_MICROS
from pykueue.engine.decisions import Decision
from pykueue.kube.port import WORKLOADS, RejectedError
from tests.builders import workload
from tests.controllers.running import TEAM, Running, running

SLOW = MICROS // 25
"""How long a write takes on a slow server: 40 ms."""


def counted(manager: Running) -> Callable[[], int]:
    """How many cycles there were since the last question: each plans for the one head of the one queue."""
    seen = manager.pump.engine.evaluations

    def since() -> int:
        nonlocal seen
        found, seen = manager.pump.engine.evaluations - seen, manager.pump.engine.evaluations
        return found

    return since


def admitted(manager: Running, *names: str) -> list[str]:
    return [name for name in names if (manager.condition(name, "Admitted") or {}).get("status") == "True"]


def finish(manager: Running, name: str) -> None:
    manager.change_condition(name, "Finished", "True", "Succeeded")


async def full(manager: Running, *names: str) -> None:
    """A queue that these workloads fill."""
    manager.queues("a", cpu=str(len(names)))
    for name in names:
        manager.workload(name, "a")
    await manager.clock.advance(1)
    assert admitted(manager, *names) == list(names)


async def test_quota_that_is_given_back_in_a_pause_is_used_at_once() -> None:
    async with running(Running()) as manager:
        await full(manager, "first")
        manager.workload("second", "a")
        await manager.clock.advance(0.01)
        finish(manager, "first")
        await manager.clock.advance(0)
        assert admitted(manager, "second") == ["second"]


async def test_a_workload_that_is_deleted_ends_the_pause_too() -> None:
    async with running(Running()) as manager:
        await full(manager, "first")
        manager.workload("second", "a")
        await manager.clock.advance(0.01)
        manager.store.drop(WORKLOADS, "first", TEAM)
        await manager.clock.advance(0)
        assert admitted(manager, "second") == ["second"]


async def test_a_victim_that_has_stopped_ends_the_pause() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="1", preemption={"withinClusterQueue": "LowerPriority"})
        manager.workload("low", "a")
        await manager.clock.advance(1)
        manager.workload("high", "a", spec={"priority": 10})
        await manager.clock.advance(1)
        manager.workload("other", "a", spec={"priority": 5})
        await manager.clock.advance(0.01)
        manager.pump.stopped(f"{TEAM}/low")
        await manager.clock.advance(0)
        assert admitted(manager, "high") == ["high"]


async def test_a_deactivated_workload_ends_the_pause() -> None:
    async with running(Running()) as manager:
        await full(manager, "first")
        manager.workload("second", "a")
        await manager.clock.advance(0.01)
        first = manager.store.at(WORKLOADS, "first", TEAM)
        manager.store.put(WORKLOADS, "first", TEAM, spec={**first["spec"], "active": False})
        await manager.clock.advance(0)
        assert admitted(manager, "second") == ["second"]


async def test_quota_that_someone_else_takes_away_ends_the_pause() -> None:
    async with running(Running()) as manager:
        await full(manager, "first")
        manager.workload("second", "a", spec={"priority": 10})
        await manager.clock.advance(0.01)
        manager.change_condition("first", "QuotaReserved", "False", "Pending")
        manager.store.put(WORKLOADS, "first", TEAM, status={"admission": None})
        await manager.clock.advance(0)
        assert admitted(manager, "second") == ["second"]


async def test_pods_that_are_done_end_the_pause() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="2")
        pods = {**workload("first", "a")["spec"]["podSets"][0], "count": 2}
        manager.workload("first", "a", spec={"podSets": [pods]})
        await manager.clock.advance(1)
        assert admitted(manager, "first") == ["first"]
        manager.workload("second", "a")
        await manager.clock.advance(0.01)
        manager.store.put(WORKLOADS, "first", TEAM, status={"reclaimablePods": [{"name": "main", "count": 1}]})
        await manager.clock.advance(0)
        assert admitted(manager, "second") == ["second"]


async def test_a_refused_admission_ends_the_pause() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="1")
        manager.store.before = lambda call: manager.clock.sleep(SLOW) if call.startswith("patch workloads") else None
        manager.store.failures_of = {"patch workloads/status": [RejectedError("patch", 422, "Invalid", "no!")]}
        manager.workload("first", "a")
        await manager.clock.advance(0.01)
        manager.workload("second", "a")
        assert "patch workloads/status second" not in manager.store.calls
        await manager.clock.advance(SLOW / MICROS)
        assert "patch workloads/status second" in manager.store.calls


async def test_workloads_that_arrive_in_a_pause_are_considered_together() -> None:
    async with running(Running()) as manager:
        await full(manager, "first")
        cycles = counted(manager)
        for number in range(30):
            manager.workload(f"w-{number}", "a", spec={"priority": number})
            await manager.clock.advance(0.01)
        assert 1 < cycles() <= 4
        await manager.clock.advance(1)
        finish(manager, "first")
        await manager.clock.advance(0)
        assert admitted(manager, *(f"w-{number}" for number in range(30))) == ["w-29"]


async def test_the_deletion_of_one_that_waits_does_not_end_the_pause() -> None:
    async with running(Running()) as manager:
        await full(manager, "first")
        manager.workload("second", "a")
        manager.workload("third", "a")
        await manager.clock.advance(0.01)
        cycles = counted(manager)
        manager.store.drop(WORKLOADS, "second", TEAM)
        await manager.clock.advance(0.05)
        assert cycles() == 0


async def test_a_pause_that_was_ended_leaves_the_next_one_its_whole_length() -> None:
    async with running(Running()) as manager:
        await full(manager, "first", "other")
        manager.workload("second", "a", "2")
        await manager.clock.advance(0.09)
        finish(manager, "first")
        await manager.clock.advance(0)
        cycles = counted(manager)
        manager.workload("third", "a", "2", spec={"priority": 5})
        await manager.clock.advance(0.05)
        assert cycles() == 0
        await manager.clock.advance(0.05)
        assert cycles() == 1


async def test_while_writes_are_slow_more_quota_is_waited_for() -> None:
    async with running(Running()) as manager:
        manager.store.before = lambda call: manager.clock.sleep(SLOW) if call.startswith("patch workloads") else None
        names = [f"w-{number}" for number in range(60)]
        await full(manager, *names)
        assert 0.9 * SLOW < manager.pump.writes.latency <= SLOW
        for number in range(3):
            manager.workload(f"next-{number}", "a")
        await manager.clock.advance(0.01)
        cycles = counted(manager)
        for name in names[:3]:
            finish(manager, name)
            await manager.clock.advance(0.005)
        await manager.clock.advance(0.01)
        assert cycles() == 0
        await manager.clock.advance(2 * SLOW / MICROS)
        assert admitted(manager, "next-0") == ["next-0"]
        await manager.clock.advance(1)
        assert admitted(manager, "next-1", "next-2") == ["next-1", "next-2"]


async def test_a_pause_ends_in_time_however_slow_writes_are() -> None:
    async with running(Running()) as manager:
        await full(manager, "first")
        manager.pump.writes.latency = MICROS
        manager.workload("second", "a")
        await manager.clock.advance(0.01)
        finish(manager, "first")
        await manager.clock.advance(LONGEST_MICROS / MICROS)
        assert admitted(manager, "second") == ["second"]


async def test_cycles_that_start_nothing_take_a_part_of_the_time_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(Running()) as manager:
        await full(manager, "first", "second")
        cycles = counted(manager)
        decide = manager.pump.engine.decide

        def slow(now: Instant) -> list[Decision]:
            manager.clock.turn_to(Instant(manager.clock.now() + LONGEST_MICROS // 10))
            return decide(now)

        # As in a large cluster.
        monkeypatch.setattr(manager.pump.front, "decide", slow)
        manager.workload("next", "a", "2")
        await manager.clock.advance(0.02)
        assert cycles() == 1
        finish(manager, "first")
        await manager.clock.advance(0.02)
        assert cycles() == 0
        await manager.clock.advance(0.03)
        assert cycles() == 1
