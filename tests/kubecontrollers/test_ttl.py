"""Do finished Jobs go when their time is over, and no others?"""

from pykueue.kube.port import JOBS, ConflictError
from pykueue.kubecontrollers.jobcontroller import JobController
from pykueue.kubecontrollers.ttl import Ttl
from tests.kubecontrollers.town import Town, new_town


def workers(town: Town) -> tuple[JobController, Ttl]:
    jobs = JobController(town.counted, town.clock, town.notices.append, batch=0.0)
    return jobs, Ttl(town.counted, town.clock, jobs.jobs)


async def deleting(town: Town) -> bool:
    found = await town.get(JOBS, "train")
    return found is None or "deletionTimestamp" in found["metadata"]


async def test_a_job_goes_when_its_time_is_over() -> None:
    async with new_town() as town:
        jobs, ttl = workers(town)
        async with town.running(jobs.run, ttl.run):
            await town.job(ttlSecondsAfterFinished=30)
            await town.advance(60)
            assert not await deleting(town)
            await town.end_all()
            await town.advance(29)
            assert not await deleting(town)
            await town.advance(1)
            found = await town.get(JOBS, "train")
            assert found is not None
            assert found["metadata"]["finalizers"] == ["foregroundDeletion"]
            town.counted.took()
            await town.advance(60)
            assert town.counted.took() == {}


async def test_one_without_a_time_stays() -> None:
    async with new_town() as town:
        jobs, ttl = workers(town)
        async with town.running(jobs.run, ttl.run):
            await town.job()
            await town.end_all()
            await town.advance(10**6)
            assert not await deleting(town)


async def test_time_that_was_over_before_we_looked() -> None:
    async with new_town() as town:
        jobs, _ = workers(town)
        async with town.running(jobs.run):
            await town.job(ttlSecondsAfterFinished=30)
            await town.end_all("Succeeded")
        await town.advance(100)
        jobs, ttl = workers(town)
        async with town.running(jobs.run, ttl.run):
            assert await deleting(town)


async def test_more_time_is_given_in_the_meantime() -> None:
    async with new_town() as town:
        jobs, ttl = workers(town)
        async with town.running(jobs.run, ttl.run):
            await town.job(ttlSecondsAfterFinished=30)
            await town.end_all()
            await town.patch(JOBS, "train", {"spec": {"ttlSecondsAfterFinished": 100}})
            await town.advance(99)
            assert not await deleting(town)
            await town.advance(1)
            assert await deleting(town)


async def test_a_change_at_the_last_moment_is_looked_at_again() -> None:
    async with new_town() as town:
        jobs, ttl = workers(town)
        async with town.running(jobs.run, ttl.run):
            await town.job(ttlSecondsAfterFinished=30)
            await town.end_all()
            town.counted.failures_of["delete jobs"] = [ConflictError("delete", 409, "Conflict", "changed")]
            await town.advance(30)
            assert not await deleting(town)
            await town.patch(JOBS, "train", {"metadata": {"labels": {"a": "b"}}})
            assert await deleting(town)
