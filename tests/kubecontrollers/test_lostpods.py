"""Are pods of a node that is gone given up after a while, and no others?"""

from collections.abc import Callable, Coroutine

from pykueue.kube.port import PODS
from pykueue.kubecontrollers.jobcontroller import JobController
from pykueue.kubecontrollers.lostpods import LostPods
from pykueue.kubecontrollers.scheduler import Scheduler
from tests.kubecontrollers.town import NODES, Town, names, new_town, phase_of


def workers(town: Town) -> list[Callable[[], Coroutine[None, None, None]]]:
    scheduler = Scheduler(town.counted, town.clock, town.counted.bind, town.notices.append)
    jobs = JobController(town.counted, town.clock, town.notices.append, batch=0.0)
    return [scheduler.run, jobs.run, LostPods(town.counted, town.clock, scheduler.nodes, scheduler.pods).run]


async def started(town: Town) -> str:
    """A Job whose pod runs on a node; the pod."""
    await town.node()
    await town.job()
    (name,) = names(await town.pods())
    await town.say(name, "Running")
    return name


async def test_a_node_that_stays_away_loses_its_pods() -> None:
    async with new_town() as town, town.running(*workers(town)):
        name = await started(town)
        await town.delete(NODES, "here")
        await town.advance(39)
        assert phase_of((await town.pods())[0]) == "Running"
        await town.advance(1)
        assert await town.get(PODS, name) is None
        assert (await town.status())["failed"] == 1
        await town.advance(10)
        assert (await town.status())["active"] == 1


async def test_a_node_that_comes_back_keeps_them() -> None:
    async with new_town() as town, town.running(*workers(town)):
        await started(town)
        await town.delete(NODES, "here")
        await town.advance(30)
        await town.node()
        await town.advance(60)
        await town.delete(NODES, "here")
        await town.advance(39)
        assert phase_of((await town.pods())[0]) == "Running"


async def test_a_node_that_has_lost_its_pods_is_missed_anew_for_the_next() -> None:
    async with new_town() as town:
        scheduler = Scheduler(town.counted, town.clock, town.counted.bind, town.notices.append)
        lost = LostPods(town.counted, town.clock, scheduler.nodes, scheduler.pods)
        async with town.running(scheduler.run, lost.run):
            for name in ("first", "second"):
                spec = {"containers": [{"name": "main", "image": "a:1"}], "nodeName": "gone"}
                await town.create(PODS, {"metadata": {"name": name, "namespace": "team-a"}, "spec": spec}, "team-a")
                await town.advance(39)
                assert names(await town.pods()) == [name]
                await town.advance(1)
                assert await town.pods() == []
                assert lost.since == {}
                await town.advance(600)


async def test_what_it_says_of_them() -> None:
    async with new_town() as town:
        await town.node()
        spec = {"containers": [{"name": "main", "image": "a:1"}], "nodeName": "gone"}
        metadata = {"name": "plain", "namespace": "team-a", "finalizers": ["example.com/held"]}
        await town.create(PODS, {"metadata": metadata, "spec": spec}, "team-a")
        async with town.running(*workers(town)):
            await town.advance(40)
            pod = await town.get(PODS, "plain")
            assert pod is not None
            assert (phase_of(pod), "deletionTimestamp" in pod["metadata"]) == ("Failed", True)
            lost = pod["status"]["conditions"][-1]
            assert (lost["type"], lost["status"], lost["reason"], lost["message"]) == (
                "DisruptionTarget",
                "True",
                "DeletionByPodGC",
                "PodGC: node no longer exists",
            )
            town.counted.took()
            await town.advance(100)
            assert town.counted.took() == {}
