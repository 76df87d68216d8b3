"""What is learned about run times, and how much of it is kept?"""

from typing import Any

import msgspec

from pykueue.api.jobsummary import FinishedJob, JobState
from pykueue.api.workload import Workload
from pykueue.base.units import MICROS, Instant
from pykueue.bridge import runtimes
from pykueue.bridge.runtimes import JobKind, Learned, LearnedKind, RunTimes, RunTimesTable, kind_of
from tests.builders import workload
from tests.engine.test_engine import workload as engine_workload

NOW = Instant(1_800_000_000 * MICROS)
ONE = JobKind("team/main", (("cpu", 1000),))


def finished(
    name: str = "w", *, seconds: int = 90, cpu: str = "1", reason: str = "Succeeded", **status: str
) -> Workload:
    tree: dict[str, Any] = workload(name, "main", cpu)
    tree["metadata"] = {"name": name, "namespace": "team", "uid": name}
    times = {"Admitted": "2026-01-01T00:00:00Z", "Finished": f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"}
    tree["status"] = {
        "conditions": [
            {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": at}
            for kind, at in {**times, **status}.items()
            if at
        ]
    }
    return msgspec.json.decode(msgspec.json.encode(tree), type=Workload)


def seconds_of(found: RunTimes) -> dict[JobKind, tuple[int, ...]]:
    return {one.kind: one.seconds for one in found.learned(NOW).kinds}


def test_a_finished_workload_is_learned_once_by_its_queue_and_requests() -> None:
    found = RunTimes()
    for one in (finished("a"), finished("a"), finished("b", seconds=30), finished("c", cpu="2")):
        found.learn(one)
    assert seconds_of(found) == {ONE: (30, 90), JobKind("team/main", (("cpu", 2000),)): (90,)}


def test_what_never_ran_is_left_out() -> None:
    found = RunTimes()
    found.learn(finished(Admitted=""))
    found.learn(finished(Finished=""))
    assert seconds_of(found) == {}


def test_what_did_not_succeed_is_left_out() -> None:
    found = RunTimes()
    found.learn(finished(reason="Failed"))
    for state in (JobState.FAILED, JobState.CANCELLED):
        began, ended = "2026-01-01T00:00:00Z", "2026-01-01T00:01:29Z"
        found.learn_job(
            FinishedJob("team", "w", "uid", state, queue="main", requests={"cpu": "1"}, started=began, ended=ended)
        )
    assert seconds_of(found) == {}


def test_the_record_of_a_job_is_the_same_as_its_workload() -> None:
    found = RunTimes()
    found.learn(finished("uid"))
    record = FinishedJob(
        "team",
        "w",
        "uid",
        JobState.COMPLETED,
        queue="main",
        requests={"cpu": "1"},
        started="2026-01-01T00:00:00Z",
        ended="2026-01-01T00:01:29Z",
        ran_seconds=89,
    )
    found.learn_job(record)
    assert seconds_of(found) == {ONE: (90,)}
    found.learn_job(msgspec.structs.replace(record, uid="other"))
    assert seconds_of(found) == {ONE: (89, 90)}


def test_the_latest_of_each_kind_are_kept_whatever_the_order(monkeypatch: Any) -> None:
    monkeypatch.setattr(runtimes, "SAMPLES_MAX", 3)
    monkeypatch.setattr(runtimes, "KINDS_MAX", 2)
    found = RunTimes()
    for number in (5, 1, 4, 2, 3):
        found.add(ONE, Instant(NOW + number * MICROS), str(number), number)
    assert seconds_of(found) == {ONE: (3, 4, 5)}
    for name in ("x", "y"):
        found.add(JobKind(name, ()), NOW, name, 1)
    assert [one.kind.queue for one in found.learned(NOW).kinds] == ["x", "y"]


def test_a_kind_is_as_frequent_as_its_ends() -> None:
    found = RunTimes()
    for hour in range(5):
        found.add(ONE, Instant(NOW - hour * 3600 * MICROS), str(hour), 60)
    assert [one.per_day for one in found.learned(NOW).kinds] == [24.0]


def test_without_its_own_kind_a_job_is_like_those_of_its_queue_or_like_all() -> None:
    other = JobKind("team/other", (("cpu", 5000),))
    table = RunTimesTable(Learned((LearnedKind(ONE, (1, 2), 0), LearnedKind(other, (7,), 0))))
    assert table.find(ONE) == ((1, 2), "kind")
    assert table.find(JobKind("team/main", ())) == ((1, 2), "queue")
    assert table.find(JobKind("team/new", ())) == ((1, 2, 7), "all")
    assert RunTimesTable(Learned()).find(ONE) == ((), "")


def test_the_kind_of_a_workload_is_its_total_request() -> None:
    assert kind_of(engine_workload(cpu=3)) == JobKind("red/q", (("cpu", 3),))
