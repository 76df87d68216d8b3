"""Does every Job that ends get one record, whatever happens to it and to this process?"""

import json
from typing import Any

import pytest

from pykueue.api.workload import Workload
from pykueue.apiserver.storage.finishedjobs import FinishedJobs
from pykueue.kube.port import JOBS
from pykueue.kubecontrollers.finishedrecorder import FIRST_RECORDS, FinishedRecorder
from pykueue.kubecontrollers.garbage import GarbageCollector
from pykueue.kubecontrollers.jobcontroller import JobController
from pykueue.kubecontrollers.ttl import Ttl
from tests.kubecontrollers.town import Town, new_town


def no_workload(key: str) -> Workload | None:
    return None


def table_of(town: Town) -> FinishedJobs:
    return FinishedJobs(town.kube.registry.store)


def workers(town: Town) -> tuple[JobController, FinishedRecorder]:
    jobs = JobController(town.counted, town.clock, town.notices.append, batch=0.0)
    return jobs, FinishedRecorder(town.kube, town.clock, table_of(town), jobs.jobs, jobs.pods, no_workload)


def records(town: Town) -> list[dict[str, Any]]:
    return [json.loads(body) for _, body in table_of(town).page(limit=10_000)]


def told(town: Town) -> list[tuple[str, str, int | None]]:
    return [(one["name"], one["state"], one["exitCode"]) for one in records(town)]


async def test_a_job_that_succeeds_and_one_that_fails() -> None:
    async with new_town() as town:
        jobs, recorder = workers(town)
        async with town.running(jobs.run, recorder.run):
            await town.job("good")
            await town.run_all()
            await town.advance(60)
            await town.end_all()
            await town.job("bad", backoffLimit=0)
            await town.run_all()
            await town.end_all("Failed", code=3)
            await town.advance(2)
        assert told(town) == [("bad", "FAILED", 3), ("good", "COMPLETED", 0)]
        good = records(town)[1]
        assert (good["ranSeconds"], good["waitedSeconds"], good["requests"]) == (60, 0, {"cpu": "1"})


async def test_who_reads_the_table_finds_what_has_just_ended() -> None:
    async with new_town() as town:
        jobs, recorder = workers(town)
        async with town.running(jobs.run, recorder.run):
            await town.job()
            await town.run_all()
            await town.end_all()
            await recorder.flush()
            assert told(town) == [("train", "COMPLETED", 0)]
            await town.job("second")
            await town.delete(JOBS, "second", propagation="Background")
            await recorder.flush()
            assert told(town)[0] == ("second", "CANCELLED", None)
            await town.advance(2)
        assert len(told(town)) == 2


async def test_a_job_that_is_deleted_is_cancelled() -> None:
    async with new_town() as town:
        jobs, recorder = workers(town)
        async with town.running(jobs.run, recorder.run):
            await town.job()
            await town.run_all()
            await town.advance(30)
            await town.delete(JOBS, "train", propagation="Background")
            await town.advance(2)
            assert told(town) == [("train", "CANCELLED", None)]
            assert records(town)[0]["ranSeconds"] >= 30
            # Another Job of the same name is another record.
            await town.job()
            await town.run_all()
            await town.end_all()
            await town.advance(2)
        assert told(town) == [("train", "COMPLETED", 0), ("train", "CANCELLED", None)]


async def test_a_job_that_is_kept_for_no_time() -> None:
    async with new_town() as town:
        jobs, recorder = workers(town)
        collector = GarbageCollector(town.kube, town.clock, lambda: [JOBS])
        async with town.running(jobs.run, recorder.run, Ttl(town.kube, town.clock, jobs.jobs).run, collector.run):
            await town.job(ttlSecondsAfterFinished=0)
            await town.end_all()
            await town.advance(5)
            assert await town.get(JOBS, "train") is None
        assert told(town) == [("train", "COMPLETED", 0)]


async def test_what_happens_while_nobody_records_is_recorded_later_and_once() -> None:
    async with new_town() as town:
        jobs, _ = workers(town)
        async with town.running(jobs.run):
            await town.job("done")
            await town.job("bad", backoffLimit=0)
            await town.job("gone")
            first, second, _ = await town.pods()
            await town.say(first["metadata"]["name"], "Succeeded")
            await town.say(second["metadata"]["name"], "Failed", code=7)
            await town.advance(2)
            await town.delete(JOBS, "gone", propagation="Background")
        assert records(town) == []
        for _ in range(2):
            jobs, recorder = workers(town)
            async with town.running(jobs.run, recorder.run):
                await town.advance(5)
            assert sorted(told(town)) == [("bad", "FAILED", 7), ("done", "COMPLETED", 0), ("gone", "CANCELLED", None)]


async def test_a_disruption_is_lost_work() -> None:
    async with new_town() as town:
        jobs, recorder = workers(town)
        async with town.running(jobs.run, recorder.run):
            await town.job(backoffLimit=3)
            (name,) = await town.run_all()
            await town.advance(40)
            conditions = [{"type": "DisruptionTarget", "status": "True"}]
            await town.say(name, "Failed", code=137, conditions=conditions)
            await town.advance(60)
            await town.run_all()
            await town.end_all()
            await town.advance(2)
        (found,) = records(town)
        assert (found["state"], found["exitCode"], found["lostSeconds"]) == ("COMPLETED", 0, 40)


async def test_a_failed_write_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with new_town() as town:
        jobs, recorder = workers(town)
        async with town.running(jobs.run, recorder.run):

            async def full(*_: object) -> None:
                raise OSError("the disk is full")

            with monkeypatch.context() as broken:
                broken.setattr(recorder.table, "add", full)
                await town.job()
                await town.end_all()
                await town.advance(5)
                assert told(town) == []
            await town.advance(15)
        assert told(town) == [("train", "COMPLETED", 0)]


async def test_a_first_start_records_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FIRST_RECORDS == 1_000
    monkeypatch.setattr("pykueue.kubecontrollers.finishedrecorder.FIRST_RECORDS", 2)
    async with new_town() as town:
        jobs, _ = workers(town)
        async with town.running(jobs.run):
            for name in ("a", "b", "c"):
                await town.job(name)
                await town.end_all()
                await town.advance(2)
        jobs, recorder = workers(town)
        async with town.running(jobs.run, recorder.run):
            await town.advance(5)
            assert [one["name"] for one in records(town)] == ["c", "b"]
            # The others get their records when they go.
            await town.delete(JOBS, "a", propagation="Background")
            await town.advance(5)
        assert sorted(one["name"] for one in records(town)) == ["a", "b", "c"]
