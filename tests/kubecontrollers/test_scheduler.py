"""Are pods bound where they fit, told why they do not, and tried again when there is room?"""

from typing import Any

from pykueue.kube.port import PODS, PRIORITY_CLASSES, ConflictError
from pykueue.kubecontrollers.scheduler import Scheduler
from tests.builders import made, pod_spec
from tests.fakes.faulty import Object
from tests.kubecontrollers.town import NODES, Town, new_town

FULL = (
    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
    "0/1 nodes are available: 1 No preemption victims found for incoming pod."
)


def scheduler(town: Town) -> Scheduler:
    return Scheduler(town.counted, town.clock, town.counted.bind, town.notices.append)


async def pod(town: Town, name: str, cpu: str = "1", **spec: Any) -> Object:
    return await town.create(PODS, made(PODS, name, "team-a", spec=pod_spec(cpu, spec)), "team-a")


async def placed(town: Town) -> dict[str, str]:
    return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in await town.pods()}


async def scheduled(town: Town, name: str) -> tuple[str, ...]:
    found = await town.get(PODS, name)
    assert found is not None
    for one in found["status"].get("conditions", ()):
        if one["type"] == "PodScheduled":
            return one["status"], one.get("reason", ""), one.get("message", "")
    return ()


async def test_a_pod_that_fits_is_bound_with_one_write() -> None:
    async with new_town() as town:
        await town.node()
        async with town.running(scheduler(town).run):
            await pod(town, "a")
            assert await placed(town) == {"a": "here"}
            assert town.counted.took() == {"bind pods": 1}
            assert town.said() == [("Scheduled", "Successfully assigned team-a/a to here")]


async def test_a_pod_waits_until_another_ends() -> None:
    async with new_town() as town:
        await town.node()
        async with town.running(scheduler(town).run):
            await pod(town, "a", "3")
            await pod(town, "b", "2")
            assert await placed(town) == {"a": "here", "b": ""}
            assert await scheduled(town, "b") == ("False", "Unschedulable", FULL)
            assert town.said()[1:] == [("FailedScheduling", FULL)]
            town.counted.took()
            await town.patch(NODES, "here", {"metadata": {"labels": {"new": "label"}}})
            assert town.counted.took() == {}
            await town.say("a", "Succeeded")
            assert (await placed(town))["b"] == "here"
            assert (await scheduled(town, "b"))[0] == "True"


async def test_no_room_is_given_twice() -> None:
    async with new_town() as town:
        await town.node()
        for number in range(8):
            await pod(town, f"p{number}")
        async with town.running(scheduler(town).run):
            assert list((await placed(town)).values()).count("here") == 4
            await town.end_all("Succeeded")
            assert list((await placed(town)).values()).count("here") == 8


async def test_the_highest_priority_and_then_the_oldest_goes_first() -> None:
    async with new_town() as town:
        await town.node()
        async with town.running(scheduler(town).run):
            await pod(town, "busy", "4")
            await pod(town, "old", "4")
            await town.advance(10)
            await pod(town, "young", "4")
            await town.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 5})
            await pod(town, "high", "4", priorityClassName="high")
            for expected in ("high", "old", "young"):
                (running,) = [name for name, node in (await placed(town)).items() if node]
                await town.delete(PODS, running, grace=0)
                assert (await placed(town))[expected] == "here"


async def test_priority_counts_among_those_that_ask_for_different_things_too() -> None:
    async with new_town() as town:
        await town.node()
        await town.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 5})
        async with town.running(scheduler(town).run):
            await pod(town, "busy", "4")
            await pod(town, "low", "2")
            await pod(town, "high-1", "1900m", priorityClassName="high")
            await pod(town, "high-2", "1900m", priorityClassName="high")
            await town.delete(PODS, "busy", grace=0)
            assert await placed(town) == {"low": "", "high-1": "here", "high-2": "here"}


async def test_a_pod_that_asks_for_something_else_keeps_nobody_waiting() -> None:
    async with new_town() as town:
        await town.node()
        async with town.running(scheduler(town).run):
            await pod(town, "busy", "4")
            await pod(town, "changed", "4")
            await pod(town, "waiting", "4")
            await town.patch(PODS, "changed", {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}})
            await town.delete(PODS, "changed", grace=0)
            await town.delete(PODS, "busy", grace=0)
            assert await placed(town) == {"waiting": "here"}


async def test_nodes_on_which_nothing_runs_are_not_remembered() -> None:
    async with new_town() as town:
        await town.node()
        found = scheduler(town)
        async with town.running(found.run):
            for number in range(3):
                await pod(town, f"p{number}", nodeName=f"nowhere-{number}")
            assert len(found.used) == 3
            await pod(town, "a")
            await town.end_all()
            assert found.used == {}


async def test_gates_are_waited_for() -> None:
    async with new_town() as town:
        await town.node()
        async with town.running(scheduler(town).run):
            await pod(town, "a", schedulingGates=[{"name": "example.com/wait"}])
            assert await placed(town) == {"a": ""}
            assert town.counted.took() == {}
            await town.patch(PODS, "a", {"spec": {"schedulingGates": []}})
            assert await placed(town) == {"a": "here"}


async def test_a_pod_that_names_its_node_takes_room_there() -> None:
    async with new_town() as town:
        await town.node()
        async with town.running(scheduler(town).run):
            await pod(town, "a", "3", nodeName="here")
            assert town.counted.took() == {}
            await pod(town, "b", "2")
            assert (await placed(town))["b"] == ""


async def test_another_scheduler_is_not_disturbed() -> None:
    async with new_town() as town:
        await town.node()
        async with town.running(scheduler(town).run):
            await pod(town, "a", schedulerName="mine")
            assert await placed(town) == {"a": ""}


async def test_a_node_that_comes_late() -> None:
    async with new_town() as town, town.running(scheduler(town).run):
        await pod(town, "a")
        assert await scheduled(town, "a") == ("False", "Unschedulable", "no nodes available to schedule pods")
        await town.node()
        assert await placed(town) == {"a": "here"}


async def test_the_emptier_node_is_taken() -> None:
    async with new_town() as town:
        await town.node("one")
        await town.node("two")
        async with town.running(scheduler(town).run):
            await pod(town, "a", "2")
            await pod(town, "b", "1")
            assert await placed(town) == {"a": "one", "b": "two"}


async def test_a_bind_that_is_refused_gives_its_room_back() -> None:
    async with new_town() as town:
        await town.node()
        town.counted.failures_of["bind pods"] = [ConflictError("bind", 409, "Conflict", "it is bound")]
        found = scheduler(town)
        async with town.running(found.run):
            await pod(town, "a", "4")
            assert found.used == {}


async def test_of_many_that_wait_for_the_same_only_the_first_is_tried() -> None:
    async with new_town() as town:
        await town.node()
        found = scheduler(town)
        async with town.running(found.run):
            await pod(town, "busy", "4")
            for number in range(20):
                await pod(town, f"p{number:02}", "3")
            tried: list[str] = []
            found.controller.observe = lambda *_: tried.append("")
            await town.say("busy", "Succeeded")
            assert len(tried) <= 4
            assert sorted(name for name, node in (await placed(town)).items() if node) == ["busy", "p00"]
