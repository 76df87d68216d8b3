"""Every workload that waits has a reason at once, and the reasons that are written keep within their budget."""

import asyncio
from typing import Any

from pykueue.api.config.file import MINIMAL, read_configuration
from pykueue.base.units import MICROS
from pykueue.controllers.pendingreasons import FEW, ONE_PART_IN, SHARED_EVERY_WHEN_IDLE
from pykueue.engine.wording import message
from pykueue.kube.port import CLUSTER_QUEUES, WORKLOADS
from tests.controllers.running import TEAM, Running, running
from tests.fakes.faulty import settle

ONE_MORE = "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 1 more needed"
IN_LINE = "Workload is pending evaluation in the scheduling queue"
BURST = 1_000
SLOW = MICROS // 5


def why(manager: Running, name: str) -> str:
    found = manager.pump.reasons.of(f"{TEAM}/{name}")
    return "" if found is None else message(found.why)


def written(manager: Running, name: str) -> tuple[str, str]:
    found = manager.condition(name, "QuotaReserved") or {}
    return found.get("reason", ""), found.get("message", "")


def statuses(manager: Running) -> list[str]:
    """Whose status was written since this was asked last."""
    return [write.name for write in manager.store.written("Workload") if write.subresource == "status"]


async def holding(manager: Running, cpu: str = "1", **spec: Any) -> None:
    """A queue that a first workload fills."""
    manager.queues("a", cpu=cpu, **spec)
    manager.workload("holder", "a", cpu)
    await manager.clock.advance(1)
    statuses(manager)


async def test_a_query_gets_the_reason_of_an_equal_workload_at_once() -> None:
    async with running(Running()) as manager:
        await holding(manager)
        for name in ("first", "second", "third"):
            manager.workload(name, "a")
        await manager.clock.advance(0.2)
        assert [why(manager, name) for name in ("first", "second", "third")] == [ONE_MORE] * 3
        assert statuses(manager) == []
        await manager.clock.advance(1.3)
        assert sorted(statuses(manager)) == ["first", "second", "third"]
        assert {written(manager, name) for name in ("first", "second", "third")} == {("WaitingForQuota", ONE_MORE)}
        await manager.clock.advance(60)
        assert statuses(manager) == []


async def test_the_answer_has_the_numbers_of_now_and_the_condition_is_not_written_for_them() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="2")
        manager.workload("holder", "a", "1")
        manager.workload("other", "a", "1")
        await manager.clock.advance(1)
        for name in ("first", "second", "third"):
            manager.workload(name, "a", "2")
        await manager.clock.advance(3)
        statuses(manager)
        manager.change_condition("other", "Finished", "True", "Succeeded")
        await manager.clock.advance(10)
        assert {why(manager, name) for name in ("second", "third")} == {ONE_MORE}
        assert len(statuses(manager)) == 1
        assert sum(written(manager, name)[1] == ONE_MORE for name in ("first", "second", "third")) == 1


async def test_who_stands_behind_the_head_of_a_strict_queue_is_in_line() -> None:
    async with running(Running()) as manager:
        await holding(manager, queueingStrategy="StrictFIFO")
        for name in ("first", "second"):
            manager.workload(name, "a")
            await manager.clock.advance(0.5)
        assert why(manager, "second") == IN_LINE
        await manager.clock.advance(1)
        assert written(manager, "second") == ("PendingEvaluation", IN_LINE)


async def test_a_new_workload_in_line_gets_no_condition_while_others_are_admitted() -> None:
    async with running(Running()) as manager:
        await holding(manager, queueingStrategy="StrictFIFO")
        manager.queues("b", cpu="100")
        manager.workload("first", "a")
        await manager.clock.advance(0.5)
        manager.workload("second", "a")
        for number in range(24):
            manager.workload(f"quick-{number}", "b")
            await manager.clock.advance(0.5)
            if number < 18:
                assert written(manager, "second") == ("", "")
        assert written(manager, "second") == ("PendingEvaluation", IN_LINE)


async def test_who_was_in_line_and_is_then_passed_over_gets_the_verdict_of_its_equal() -> None:
    async with running(Running()) as manager:
        await holding(manager, preemption={"withinClusterQueue": "LowerPriority"})
        manager.workload("urgent", "a", spec={"priority": 10})
        await manager.clock.advance(1)
        for name in ("first", "second", "third"):
            manager.workload(name, "a")
        await manager.clock.advance(2)
        assert {written(manager, name) for name in ("first", "second", "third")} == {("PendingEvaluation", IN_LINE)}
        manager.pump.stopped(f"{TEAM}/holder")
        await manager.clock.advance(3)
        assert {written(manager, name) for name in ("first", "second", "third")} == {("WaitingForQuota", ONE_MORE)}


async def test_after_a_stop_equal_workloads_get_the_verdict_of_the_one_that_was_judged() -> None:
    async with running(Running()) as manager:
        await holding(manager)
        names = ("first", "second", "third")
        for name in names:
            manager.workload(name, "a")
        await manager.clock.advance(5)
        manager.store.put(CLUSTER_QUEUES, "a", spec={"stopPolicy": "Hold"})
        await manager.clock.advance(5)
        assert {written(manager, name)[0] for name in names} == {"Suspended"}
        manager.store.put(CLUSTER_QUEUES, "a", spec={"stopPolicy": "None"})
        await manager.clock.advance(5)
        assert {written(manager, name) for name in names} == {("WaitingForQuota", ONE_MORE)}


async def test_a_preemptor_behind_another_head_no_longer_says_that_it_waits_for_its_victims() -> None:
    async with running(Running()) as manager:
        await holding(manager, queueingStrategy="StrictFIFO", preemption={"withinClusterQueue": "LowerPriority"})
        manager.workload("urgent", "a", spec={"priority": 5})
        await manager.clock.advance(2)
        assert written(manager, "urgent")[0] == "WaitingForPreemptedWorkloads"
        manager.workload("top", "a", "2", spec={"priority": 9})
        await manager.clock.advance(2)
        manager.pump.stopped(f"{TEAM}/holder")
        await manager.clock.advance(10)
        assert written(manager, "top")[0] == "ExceedsMaxQuota"
        assert written(manager, "urgent") == ("PendingEvaluation", IN_LINE)


async def test_with_the_gate_the_words_of_a_passed_over_workload_are_kueues() -> None:
    loaded = read_configuration(MINIMAL, feature_gates="UnadmittedWorkloadsExplicitStatus=true")
    async with running(Running(loaded)) as manager:
        await holding(manager)
        for name in ("first", "second"):
            manager.workload(name, "a")
            await manager.clock.advance(2)
        assert written(manager, "second") == (
            "WaitingForQuota",
            "Bypassed scheduling evaluation because an equivalent workload recently failed",
        )
        assert why(manager, "second") == ONE_MORE


async def test_a_hundred_that_wait_have_their_reason_within_two_seconds() -> None:
    async with running(Running()) as manager:
        await holding(manager)
        for number in range(FEW):
            manager.workload(f"w{number}", "a")
        await manager.clock.advance(1.9)
        assert len(statuses(manager)) == FEW
        assert {written(manager, f"w{number}") for number in range(FEW)} == {("WaitingForQuota", ONE_MORE)}


async def test_of_many_the_oldest_get_their_reason_first_and_faster_once_nothing_starts() -> None:
    async with running(Running()) as manager:
        await holding(manager)
        batches = [{f"{batch}{number}" for number in range(2 * FEW)} for batch in ("early", "late")]
        for batch in batches:
            for name in sorted(batch):
                manager.workload(name, "a")
            await manager.clock.advance(1)
        await manager.clock.advance(1)
        assert {why(manager, name) for name in set.union(*batches)} - {""} == {ONE_MORE}
        names = statuses(manager)
        assert len(names) < 10
        await manager.clock.advance(20)
        names += statuses(manager)
        assert set(names[: 2 * FEW]) == batches[0]
        assert sorted(names) == sorted(set.union(*batches))
        await manager.clock.advance(60)
        assert statuses(manager) == []


async def test_reasons_of_many_are_held_back_after_writes_that_took_long() -> None:
    async with running(Running()) as manager:
        await holding(manager)
        manager.pump.reasons.written(20 * MICROS // (ONE_PART_IN - 1), manager.clock.now())
        names = [f"w-{number}" for number in range(FEW + 1)]
        for number, name in enumerate(names):
            manager.workload(name, "a", str(number + 2))
        await manager.clock.advance(18)
        assert why(manager, "w-0").endswith("> maximum capacity (1)")
        early = statuses(manager)
        assert len(early) <= 18
        await manager.clock.advance(10)
        assert {*early, *statuses(manager)} == {*names}


async def test_reasons_of_few_are_not_held_back_after_writes_that_took_long() -> None:
    async with running(Running()) as manager:
        await holding(manager)
        manager.pump.reasons.written(5 * MICROS, manager.clock.now())
        manager.workload("first", "a")
        await manager.clock.advance(1.5)
        assert statuses(manager) == ["first"]


async def test_a_cycle_that_hardly_waited_for_its_writes_does_not_slow_reasons_down() -> None:
    async with running(Running()) as manager:
        await holding(manager)
        await manager.clock.advance(10)
        reasons, now = manager.pump.reasons, manager.clock.now()
        reasons.written(2, now)
        assert reasons.shared_every(now) == SHARED_EVERY_WHEN_IDLE


async def test_the_time_that_writes_take_is_measured() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="100")
        await manager.clock.advance(1)
        answered = asyncio.Event()
        manager.store.before = lambda call: answered.wait() if call.startswith("patch workloads") else None
        for number in range(10):
            manager.workload(f"w-{number}", "a")
        await manager.clock.advance(2)
        assert manager.pump.reasons.slow_delay == 0
        answered.set()
        await manager.clock.advance(1)
        assert manager.pump.reasons.slow_delay == (ONE_PART_IN - 1) * 2 * MICROS


async def test_reasons_of_many_are_written_one_at_a_time_with_pauses_as_long_as_the_server_is_slow() -> None:
    async with running(Running()) as manager:
        await holding(manager)
        await manager.clock.advance(10)
        in_flight: list[int] = [0]
        most = 0

        async def take_long() -> None:
            nonlocal most
            in_flight[0] += 1
            most = max(most, in_flight[0])
            await manager.clock.sleep(SLOW)
            in_flight[0] -= 1

        manager.store.before = lambda call: take_long() if call.startswith("patch workloads") else None
        for number in range(2 * FEW):
            manager.workload(f"w-{number}", "a", str(2 + number % 2))
        await manager.clock.advance(60)
        assert most == 1
        most_written = 60 * MICROS // (ONE_PART_IN * SLOW)
        assert 0.8 * most_written <= len(statuses(manager)) <= most_written
        manager.store.before = None
        await manager.clock.advance(10)
        assert {written(manager, f"w-{number}")[0] for number in range(2 * FEW)} == {"ExceedsMaxQuota"}


async def test_the_head_of_each_queue_and_those_behind_it_take_turns() -> None:
    async with running(Running()) as manager:
        await holding(manager, queueingStrategy="StrictFIFO")
        await manager.clock.advance(10)
        manager.store.before = lambda call: manager.clock.sleep(SLOW) if call.startswith("patch workloads") else None
        heads = [f"head-{number}" for number in range(FEW)]
        for number, name in enumerate(heads):
            manager.queues(f"q-{number}", cpu="1")
            manager.workload(name, f"q-{number}", "2")
        behind = [f"behind-{number}" for number in range(FEW)]
        for name in behind:
            manager.workload(name, "a")
        await manager.clock.advance(60)
        seen = {*statuses(manager)}
        counts = [len(seen & {*names}) for names in (heads, behind)]
        assert 10 <= min(counts) <= max(counts) <= 20


async def test_a_reason_whose_write_gets_no_answer_does_not_block_the_others() -> None:
    async with running(Running()) as manager:
        await holding(manager)
        await manager.clock.advance(10)
        answered = asyncio.Event()
        manager.store.before = lambda call: answered.wait() if call.startswith("patch workloads") else None
        for number in range(FEW + 1):
            manager.workload(f"w-{number}", "a", str(number + 2))
        await manager.clock.advance(30)
        assert len(manager.pump.writes.queues) == 1
        manager.store.before = None
        await manager.clock.advance(60)
        assert len(statuses(manager)) == FEW
        answered.set()
        await manager.clock.advance(1)
        assert len(statuses(manager)) == 1


async def test_reasons_follow_at_once_when_few_are_left() -> None:
    async with running(Running()) as manager:
        await holding(manager)
        await manager.clock.advance(10)
        manager.store.before = lambda call: manager.clock.sleep(SLOW) if call.startswith("patch workloads") else None
        names = [f"w-{number}" for number in range(FEW + 10)]
        for name in names:
            manager.workload(name, "a")
        await manager.clock.advance(5)
        assert len(statuses(manager)) <= 5
        for name in names[:20]:
            await manager.store.delete(WORKLOADS, name, TEAM)
        await manager.clock.advance(2)
        assert all(written(manager, name)[0] for name in names[20:])


async def test_a_burst_of_equal_workloads_that_soon_start_costs_one_write_each() -> None:
    async with running(Running()) as manager:
        manager.queues("a", cpu="50")
        for number in range(BURST):
            manager.workload(f"w{number}", "a")
        await settle()
        seconds, done = 0, set[str]()
        while len(done) < BURST:
            await manager.clock.advance(1)
            seconds += 1
            for key, tree in list(manager.store.all(WORKLOADS).items()):
                if tree.get("status", {}).get("admission") and key not in done:
                    done.add(key)
                    manager.change_condition(tree["metadata"]["name"], "Finished", "True", "Succeeded")
        more = len(statuses(manager)) - BURST
        assert seconds >= BURST / 50
        assert more <= FEW + 2 * seconds, f"{more} writes beside the admissions in {seconds} s"
