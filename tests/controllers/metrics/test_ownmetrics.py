"""Do the metrics that only pykueue has say what they promise?"""

import pytest

from pykueue.api.config.file import default_configuration
from pykueue.controllers.metrics.metrics import Metrics
from pykueue.kube.port import CLUSTER_QUEUES, WORKLOADS
from tests.controllers.running import TEAM, Running, running
from tests.prometheus import Page

ROLE = 'replica_role="leader"'


def page(manager: Running) -> Page:
    return Page(manager.metrics.page().decode())


async def test_waiting_is_added_up_by_reason_while_it_lasts() -> None:
    manager = Running()
    manager.queues("main", cpu="1")
    async with running(manager):
        for name in ("runs", "waits", "waits-too"):
            manager.workload(name, "main")
        await manager.clock.advance(60)
        quota = f'pykueue_wait_seconds_total{{cluster_queue="main",reason="WaitingForQuota",{ROLE}}}'
        assert page(manager)[quota] == pytest.approx(2 * 60, abs=8)
        local = f'name="main",namespace="team",reason="WaitingForQuota",{ROLE}'
        assert page(manager)[f"pykueue_local_queue_wait_seconds_total{{{local}}}"] == page(manager)[quota]
        before = page(manager)[quota]
        manager.change_condition("runs", "Finished", "True", "Succeeded")
        await manager.clock.advance(30)
        assert page(manager)[quota] - before == pytest.approx(30, abs=4)


async def test_a_new_leader_counts_only_the_time_in_which_it_leads() -> None:
    manager = Running()
    manager.queues("main", cpu="1", stopPolicy="Hold")
    manager.workload("w", "main")
    async with running(manager, leads=False):
        await manager.clock.advance(3600)
        assert page(manager)["pykueue_leading"] == 0
        manager.lead()
        await manager.clock.advance(10)
        found = page(manager)
        assert found["pykueue_leading"] == 1
        waited = [number for name, number in found.items() if name.startswith("pykueue_wait_seconds_total")]
        assert 5 <= sum(waited) <= 12


async def test_the_line_and_its_first_workload_are_shown_with_the_strategy() -> None:
    manager = Running()
    manager.queues("main", cpu="1", queueingStrategy="StrictFIFO")
    async with running(manager):
        labels = f'cluster_queue="main",strategy="StrictFIFO",{ROLE}'
        assert page(manager)[f"pykueue_line_first_wait_seconds{{{labels}}}"] == 0
        manager.workload("big", "main", cpu="2")
        await manager.clock.advance(50)
        manager.workload("small", "main")
        await manager.clock.advance(50)
        found = page(manager)
        assert found[f"pykueue_line_length{{{labels}}}"] == 2
        assert found[f"pykueue_line_first_wait_seconds{{{labels}}}"] == pytest.approx(100, abs=1)
        assert not any("big" in name for name in found), "no series for a workload"


async def test_work_that_is_lost_is_counted_by_reason_and_policy() -> None:
    manager = Running()
    manager.queues("main", cpu="1", preemption={"withinClusterQueue": "LowerPriority"})
    async with running(manager):
        manager.workload("low", "main")
        await manager.clock.advance(40)
        manager.workload("high", "main", spec={"priority": 10})
        await manager.clock.advance(2)
        lost = f'pykueue_lost_work_seconds_total{{cluster_queue="main",{ROLE}'
        assert page(manager)[f'{lost},reason="Preempted",policy="InClusterQueue"}}'] == pytest.approx(40, abs=2)
        manager.pump.stopped(f"{TEAM}/low")
        await manager.clock.advance(20)
        manager.store.put(WORKLOADS, "high", TEAM, spec={"active": False})
        await manager.clock.advance(2)
        assert page(manager)[f'{lost},reason="Deactivated",policy=""}}'] == pytest.approx(20, abs=2)
        manager.store.remove(CLUSTER_QUEUES, "main")


async def test_writes_and_reviews_are_counted() -> None:
    manager = Running()
    async with running(manager):
        ours = manager.metrics.self_metrics
        ours.wrote("Workload", "patch", "ok")
        ours.wrote("Workload", "patch", "conflict")
        ours.reviewed("/mutate-batch-v1-job", 200, 0.02)
        found = page(manager)
        assert found['pykueue_api_writes_total{kind="Workload",verb="patch",result="ok"}'] == 1
        assert found['pykueue_api_writes_total{kind="Workload",verb="patch",result="conflict"}'] == 1
        hook = 'webhook="/mutate-batch-v1-job"'
        assert found[f'controller_runtime_webhook_requests_total{{{hook},code="200"}}'] == 1
        assert found[f"controller_runtime_webhook_latency_seconds_sum{{{hook}}}"] == 0.02


async def test_a_page_is_rendered_in_steps() -> None:
    manager = Running()
    manager.queues(*(f"queue-{number}" for number in range(150)))
    async with running(manager):
        await manager.clock.advance(2)
        steps = manager.metrics.steps()
        times = 0
        while True:
            try:
                next(steps)
            except StopIteration as end:
                whole = end.value
                break
            times += 1
            if times == 1:
                manager.store.remove(CLUSTER_QUEUES, "queue-149")
                await manager.clock.advance(2)
        assert times > 3
        assert len(Page(b"".join(whole).decode())) > 150 * 10


def test_there_is_a_page_before_anything_is_watched() -> None:
    assert Page(Metrics(default_configuration()).page().decode())["pykueue_leading"] == 0
