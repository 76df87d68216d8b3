"""Do Jobs get their pods, and are these counted, in few writes, whatever fails and whenever the controller dies?"""

from typing import Any

import msgspec
import pytest

from pykueue.kube.port import JOBS, PODS, ConflictError, RejectedError, UnansweredError
from pykueue.kubecontrollers.jobcontroller import JobController
from tests.kubecontrollers.town import TEMPLATE, Town, finalizers, names, new_town, phase_of

TRACKING = "batch.kubernetes.io/job-tracking"
QUOTA = 'pods "train-" is forbidden: exceeded quota'


def controller(town: Town, batch: float = 0.0) -> JobController:
    return JobController(town.counted, town.clock, town.notices.append, batch=batch)


async def test_a_job_of_one_pod_takes_five_writes() -> None:
    async with new_town() as town:
        jobs = controller(town, batch=0.1)
        async with town.running(jobs.run):
            await town.job()
            assert town.counted.took() == {"create pods": 1, "patch jobs/status": 1}
            assert await town.status() == {
                "active": 1,
                "ready": 0,
                "terminating": 0,
                "uncountedTerminatedPods": {},
            }
            (pod,) = await town.run_all()
            assert town.counted.took() == {}
            await town.say(pod, "Succeeded")
            assert town.counted.took() == {"patch jobs/status": 1, "patch pods": 1}
            assert await town.status() == {
                "ready": 0,
                "succeeded": 1,
                "terminating": 0,
                "uncountedTerminatedPods": {},
            }
            reached = "True CompletionsReached"
            assert await town.conditions() == {"SuccessCriteriaMet": reached, "Complete": reached}
            assert [finalizers(one) for one in await town.pods()] == [[]]
            assert town.said() == [("SuccessfulCreate", f"Created pod: {pod}"), ("Completed", "Job completed")]
            await town.advance(3600)
            assert town.counted.took() == {}
            # Nothing is left of it but two husks.
            assert jobs.jobs.get("team-a/train").work is None  # type: ignore[union-attr]  # None would end the test
            assert not jobs.by_job.values
            assert not jobs.controller.queue.failures


async def test_ready_pods_are_counted_a_moment_later() -> None:
    async with new_town() as town, town.running(controller(town, batch=0.1).run):
        await town.job(parallelism=2, completions=2)
        await town.run_all()
        town.counted.took()
        await town.advance(0.1)
        assert town.counted.took() == {"patch jobs/status": 1}
        assert (await town.status())["ready"] == 2


async def test_a_job_that_is_suspended_for_a_moment_only_is_not_said_to_be() -> None:
    async with new_town() as town, town.running(controller(town, batch=0.1).run):
        await town.job(suspend=True)
        await town.patch(JOBS, "train", {"spec": {"suspend": False}})
        assert town.counted.took() == {"create pods": 1, "patch jobs/status": 1}
        assert await town.conditions() == {}
        await town.job("waits", suspend=True)
        await town.advance(0.9)
        assert town.counted.took() == {}
        await town.advance(0.1)
        assert await town.conditions("waits") == {"Suspended": "True JobSuspended"}


async def test_among_many_new_jobs_one_has_longer_until_it_is_said_to_be_suspended() -> None:
    async with new_town() as town, town.running(controller(town, batch=0.1).run):
        for number in range(52):
            await town.job(f"one-{number}", suspend=True)
        await town.advance(1)
        assert town.counted.took() == {"patch jobs/status": 51}
        await town.advance(4)
        assert town.counted.took() == {"patch jobs/status": 1}


async def test_many_pods_that_end_together_are_counted_together() -> None:
    async with new_town() as town, town.running(controller(town, batch=0.1).run):
        await town.job(parallelism=51, completions=51)
        town.counted.took()
        await town.end_all()
        assert town.counted.took() == {}
        await town.advance(0.1)
        assert town.counted.took() == {"patch jobs/status": 1, "patch pods": 51}
        assert (await town.status())["succeeded"] == 51


async def test_a_pod_belongs_to_its_job() -> None:
    async with new_town() as town:
        async with town.running(controller(town).run):
            job = await town.job(metadata={"annotations": {"pykueue.io/created-by": "ann"}})
            (pod,) = await town.pods()
        metadata = pod["metadata"]
        assert metadata["name"].startswith("train-")
        assert metadata["labels"].items() >= {"app": "train"}.items()
        assert metadata["annotations"] == {"pykueue.io/created-by": "ann"}
        assert metadata["ownerReferences"] == [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "train",
                "uid": job["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
        assert finalizers(pod) == [TRACKING]
        assert pod["spec"]["containers"][0]["image"] == "a:1"


async def test_an_indexed_job() -> None:
    async with new_town() as town, town.running(controller(town).run):
        await town.job(completionMode="Indexed", completions=3, parallelism=3)
        first, *others = sorted(names(await town.pods()))
        assert first.startswith("train-0-")
        for pod in (first, *others[1:]):
            await town.say(pod, "Succeeded")
        status = await town.status()
        assert (status["completedIndexes"], status["succeeded"], status["active"]) == ("0,2", 2, 1)
        await town.say(others[0], "Succeeded")
        assert (await town.status())["completedIndexes"] == "0-2"
        assert "Complete" in await town.conditions()


async def test_failures_are_replaced_after_a_delay_until_the_limit() -> None:
    async with new_town() as town, town.running(controller(town).run):
        await town.job(backoffLimit=2)
        for delay in (10, 20):
            await town.end_all("Failed")
            assert (await town.status()).get("active", 0) == 0
            await town.advance(delay - 1)
            assert (await town.status()).get("active", 0) == 0
            await town.advance(1)
            assert (await town.status())["active"] == 1
        await town.end_all("Failed")
        limit = "True BackoffLimitExceeded"
        assert await town.conditions() == {"FailureTarget": limit, "Failed": limit}
        assert (await town.status())["failed"] == 3
        assert town.said()[-1] == ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        assert [finalizers(one) for one in await town.pods()] == [[], [], []]


async def test_suspending_and_resuming() -> None:
    async with new_town() as town, town.running(controller(town).run):
        await town.job(parallelism=2, completions=2)
        for name in names(await town.pods()):
            await town.kube.bind("team-a", name, "here")
        await town.run_all()
        town.said()
        await town.patch(JOBS, "train", {"spec": {"suspend": True}})
        status = await town.status()
        assert (status.get("active", 0), status["ready"], status["terminating"]) == (0, 0, 2)
        assert await town.conditions() == {"Suspended": "True JobSuspended"}
        assert sorted(reason for reason, _ in town.said()) == ["SuccessfulDelete", "SuccessfulDelete", "Suspended"]
        job = await town.get(JOBS, "train")
        assert job is not None
        assert "startTime" not in job["status"]
        await town.bury()
        assert (await town.status())["terminating"] == 0
        assert (await town.status()).get("failed", 0) == 0
        await town.advance(5)
        await town.patch(JOBS, "train", {"spec": {"suspend": False}})
        assert (await town.status())["active"] == 2
        assert await town.conditions() == {"Suspended": "False JobResumed"}


async def test_deadline() -> None:
    async with new_town() as town, town.running(controller(town).run):
        await town.job(activeDeadlineSeconds=30)
        (name,) = names(await town.pods())
        await town.kube.bind("team-a", name, "here")
        await town.run_all()
        await town.advance(29)
        assert await town.conditions() == {}
        await town.advance(1)
        assert await town.conditions() == {"FailureTarget": "True DeadlineExceeded"}
        await town.bury()
        assert list(await town.conditions()) == ["FailureTarget", "Failed"]
        assert (await town.status())["failed"] == 1


async def test_a_job_that_is_deleted_lets_go_of_its_pods() -> None:
    async with new_town() as town, town.running(controller(town).run):
        await town.job()
        await town.delete(JOBS, "train")
        assert [finalizers(one) for one in await town.pods()] == [[]]


@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded"])
@pytest.mark.parametrize(
    "others", [[], [{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "1", "controller": True}]]
)
async def test_a_pod_that_lost_its_job_loses_our_finalizer(phase: str, others: list[Any]) -> None:
    async with new_town() as town:
        metadata = {"name": "p", "namespace": "team-a", "finalizers": ["a.b/c", TRACKING], "ownerReferences": others}
        await town.create(PODS, {"metadata": metadata, "spec": TEMPLATE["spec"]}, "team-a")
        await town.say("p", phase)
        async with town.running(controller(town).run):
            assert [finalizers(one) for one in await town.pods()] == [["a.b/c"]]
            await town.job()
            name = names(await town.pods())[-1]
            await town.patch(PODS, name, {"metadata": {"ownerReferences": None}})
            assert [finalizers(one) for one in await town.pods()] == [["a.b/c"], [], [TRACKING]]


async def test_a_pod_that_somebody_else_created_is_not_counted() -> None:
    async with new_town() as town:
        jobs = controller(town)
        async with town.running(jobs.run):
            job = await town.job(metadata={"annotations": {"pykueue.io/created-by": "ann"}})
            reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job["metadata"]["uid"]}
            metadata = {
                "name": "forged",
                "namespace": "team-a",
                "annotations": {"pykueue.io/created-by": "bob"},
                "finalizers": [TRACKING],
                "ownerReferences": [{**reference, "controller": True}],
            }
            await town.create(PODS, {"metadata": metadata, "spec": TEMPLATE["spec"]}, "team-a")
            await town.say("forged", "Succeeded")
            assert "Complete" not in await town.conditions()
            assert (await town.status())["active"] == 1
            forged = await town.get(PODS, "forged")
            assert forged is not None
            assert finalizers(forged) == []
            await town.end_all()
            assert "Complete" in await town.conditions()


async def test_pods_of_a_finished_job_lose_their_finalizer_after_a_kill() -> None:
    async with new_town() as town:
        async with town.running(controller(town).run):
            await town.job()
            town.counted.dies_after = 1
            await town.end_all()
            assert "Complete" in await town.conditions()
            assert [finalizers(one) for one in await town.pods()] == [[TRACKING]]
        town.counted.dies_after = None
        async with town.running(controller(town).run):
            assert [finalizers(one) for one in await town.pods()] == [[]]
            assert (await town.status())["succeeded"] == 1


@pytest.mark.parametrize("writes", range(14))
async def test_counts_survive_a_kill_after_any_write(writes: int) -> None:
    async with new_town() as town:
        town.counted.dies_after = writes
        async with town.running(controller(town).run):
            await town.job(parallelism=3, completions=3, backoffLimit=9)
            await town.end_all("Failed")
            await town.advance(60)
            await town.end_all("Succeeded")
        town.counted.dies_after = None
        for _ in range(3):
            async with town.running(controller(town).run):
                await town.advance(400)
                await town.end_all("Succeeded")
        status = await town.status()
        phases = [phase_of(pod) for pod in await town.pods()]
        assert (status["succeeded"], status.get("failed", 0)) == (phases.count("Succeeded"), phases.count("Failed"))
        assert "Complete" in await town.conditions()


async def test_what_cannot_be_created_is_said_and_tried_again() -> None:
    async with new_town() as town:
        refused = RejectedError("create pods", 403, "Forbidden", QUOTA)
        town.counted.failures_of["create pods"] = [refused]
        async with town.running(controller(town).run):
            await town.job(parallelism=3, completions=3)
            assert (await town.status()).get("active", 0) == 0
            assert town.said() == [("FailedCreate", f"Error creating: {QUOTA}")]
            await town.advance(1)
            assert (await town.status())["active"] == 3


@pytest.mark.parametrize("what", ["patch jobs/status", "patch pods", "create pods"])
async def test_no_answer_is_no_harm(what: str) -> None:
    async with new_town() as town:
        town.counted.failures_of[what] = [UnansweredError(what, 503, "", "no answer")] * 2
        async with town.running(controller(town).run):
            await town.job(parallelism=2, completions=2)
            await town.advance(5)
            await town.end_all()
            await town.advance(5)
            assert (await town.status())["succeeded"] == 2
            assert len(await town.pods()) == 2


async def test_somebody_else_writes_the_job_at_the_same_time() -> None:
    async with new_town() as town:
        jobs = controller(town)
        async with town.running(jobs.run):
            await town.job()
            # The controller is told nothing of this before it writes.
            jobs.jobs.told = 10**9
            await town.patch(JOBS, "train", {"metadata": {"labels": {"seen": "yes"}}})
            await town.end_all()
            await town.advance(1)
            assert "Complete" in await town.conditions()


async def test_conflicts_in_a_row_do_not_hold_everybody_up() -> None:
    async with new_town() as town:
        lost = ConflictError("patch pods", 409, "Conflict", "the object has been modified")
        town.counted.failures_of["patch pods"] = [lost] * 150
        async with town.running(controller(town).run):
            await town.job()
            await town.end_all()
            assert [finalizers(one) for one in await town.pods()] == [[TRACKING]]
            await town.advance(1)
            assert [finalizers(one) for one in await town.pods()] == [[]]


async def test_a_job_of_another_controller_is_left_alone() -> None:
    async with new_town() as town, town.running(controller(town).run):
        await town.job(managedBy="example.com/other")
        assert await town.pods() == []
        assert town.counted.took() == {}


async def test_surplus_pods_go_when_parallelism_falls() -> None:
    async with new_town() as town, town.running(controller(town).run):
        await town.job(parallelism=4, completions=8)
        await town.patch(JOBS, "train", {"spec": {"parallelism": 1}})
        assert len(await town.pods()) == 1
        status = await town.status()
        assert (status["active"], status.get("failed", 0), status["terminating"]) == (1, 0, 0)


async def test_a_pod_is_deleted_once_though_the_watch_is_behind() -> None:
    async with new_town() as town:
        jobs = controller(town)
        async with town.running(jobs.run):
            await town.job(parallelism=2, completions=4)
            for name in names(await town.pods()):
                await town.kube.bind("team-a", name, "here")
            # Of the deletion nothing is heard yet; of what the pod did before it, late.
            take = jobs.pods.take
            jobs.pods.take = lambda key, arrived: None if arrived.deleting else take(key, arrived)  # type: ignore[method-assign]  # the test stands in between
            await town.patch(JOBS, "train", {"spec": {"parallelism": 1}})
            (uid,) = jobs.deleting_uids
            (key,) = [key for key, pod in jobs.pods.objects.items() if pod.uid == uid]
            jobs.pods.put(key, msgspec.structs.replace(jobs.pods.objects[key], ready=True))
            await town.settle()
            assert town.counted.took()["delete pods"] == 1
            assert (await town.status())["active"] == 1


async def test_a_pod_that_cannot_be_deleted_is_not_taken_to_be_going() -> None:
    async with new_town() as town:
        jobs = controller(town)
        async with town.running(jobs.run):
            await town.job(parallelism=2, completions=2)
            await town.run_all()
            town.counted.failures_of["delete pods"] = [OverflowError("date value out of range")]
            await town.patch(JOBS, "train", {"spec": {"suspend": True}})
            assert not jobs.deleting_uids
            assert (await town.status())["active"] == len(await town.pods()) == 1
            why = "Error deleting: OverflowError('date value out of range')"
            assert ("FailedDelete", why) in town.said()
            await town.advance(1)
            assert (await town.status()).get("active", 0) == len(await town.pods()) == 0


async def test_a_pod_that_somebody_deletes_counts_as_failed_and_is_replaced() -> None:
    async with new_town() as town, town.running(controller(town).run):
        await town.job()
        (name,) = names(await town.pods())
        await town.delete(PODS, name)
        await town.advance(10)
        status = await town.status()
        assert (status["active"], status["failed"]) == (1, 1)
        assert name not in names(await town.pods())


async def test_policy_fails_the_job_and_names_the_pod() -> None:
    policy: dict[str, Any] = {
        "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}],
    }
    async with new_town() as town, town.running(controller(town).run):
        await town.job(podFailurePolicy=policy, backoffLimit=6)
        (name,) = await town.end_all("Failed", 42)
        job = await town.get(JOBS, "train")
        assert job is not None
        message = job["status"]["conditions"][-1]["message"]
        assert (
            message == f"Container main for pod team-a/{name} failed with exit code 42 matching FailJob rule at index 0"
        )


async def test_a_template_cannot_say_in_whose_name_its_pods_run() -> None:
    async with new_town() as town:
        forged = TEMPLATE | {"metadata": {"labels": {"a": "b"}, "annotations": {"pykueue.io/created-by": "root"}}}
        async with town.running(controller(town).run):
            await town.job(template=forged)
            (pod,) = await town.pods()
            assert "pykueue.io/created-by" not in pod["metadata"].get("annotations", {})
