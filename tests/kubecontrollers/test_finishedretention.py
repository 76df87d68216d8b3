"""Do only the oldest of what has ended go, when there is too much of it?"""

from pykueue.kube.port import JOBS, ConflictError, UnansweredError
from pykueue.kubecontrollers.finishedretention import Retention
from pykueue.kubecontrollers.jobcontroller import JobController
from tests.kubecontrollers.town import Town, names, new_town


def workers(town: Town, most_jobs: int | None, most_pods: int | None) -> tuple[JobController, Retention]:
    jobs = JobController(town.counted, town.clock, town.notices.append, batch=0.0)
    kept = Retention(
        town.counted,
        town.clock,
        jobs.jobs,
        jobs.pods,
        most_jobs=most_jobs,
        most_pods=most_pods,
    )
    return jobs, kept


async def finish(town: Town, *jobs: str) -> None:
    for name in jobs:
        await town.job(name)
        await town.end_all()
        await town.advance(10)


async def test_the_oldest_jobs_go() -> None:
    async with new_town() as town:
        jobs, kept = workers(town, 2, None)
        async with town.running(jobs.run, kept.run):
            await finish(town, "d", "c", "b", "a")
            await town.job("running")
            assert sorted(names(await town.all(JOBS))) == ["a", "b", "running"]
            assert len(await town.pods()) == 5


async def test_the_oldest_pods_go_and_their_jobs_stay() -> None:
    async with new_town() as town:
        jobs, kept = workers(town, None, 1)
        async with town.running(jobs.run, kept.run):
            await finish(town, "b", "a")
            await town.job("running")
            assert sorted(name[:2] for name in names(await town.pods())) == ["a-", "ru"]
            assert len(await town.all(JOBS)) == 3


async def test_what_was_too_much_before_we_looked() -> None:
    async with new_town() as town:
        jobs, _ = workers(town, None, None)
        async with town.running(jobs.run):
            await finish(town, "d", "c", "b", "a")
        jobs, kept = workers(town, 1, None)
        async with town.running(jobs.run, kept.run):
            assert names(await town.all(JOBS)) == ["a"]


async def test_what_changed_at_the_last_moment_is_considered_again() -> None:
    async with new_town() as town:
        jobs, kept = workers(town, 1, None)
        async with town.running(jobs.run, kept.run):
            town.counted.failures_of["delete jobs"] = [ConflictError("delete", 409, "Conflict", "changed")]
            await finish(town, "b", "a")
            await town.patch(JOBS, "b", {"metadata": {"labels": {"a": "b"}}})
            assert names(await town.all(JOBS)) == ["a"]


async def test_what_could_not_be_deleted_is_tried_again() -> None:
    async with new_town() as town:
        jobs, kept = workers(town, 1, None)
        async with town.running(jobs.run, kept.run):
            town.counted.failures_of["delete jobs"] = [UnansweredError("delete", 503, "", "no answer")]
            await finish(town, "b", "a")
            await town.advance(1)
            assert names(await town.all(JOBS)) == ["a"]


async def test_what_somebody_holds_on_to_does_not_cost_others_their_place() -> None:
    async with new_town() as town:
        jobs, kept = workers(town, 1, None)
        async with town.running(jobs.run, kept.run):
            await town.job("held", metadata={"finalizers": ["example.com/held"]})
            await town.end_all()
            await town.advance(10)
            await finish(town, "b", "a")
            assert sorted(names(await town.all(JOBS))) == ["a", "held"]


async def test_without_bounds_nothing_is_remembered() -> None:
    async with new_town() as town:
        jobs, kept = workers(town, None, None)
        async with town.running(jobs.run, kept.run):
            await finish(town, "b", "a")
            assert len(await town.all(JOBS)) == 2
            assert kept.jobs.order == []
