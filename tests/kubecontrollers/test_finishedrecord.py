"""What is recorded of a Job?"""

from typing import Any

import msgspec

from pykueue.api.jobsummary import JobState
from pykueue.api.workload import Workload
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.kubecontrollers.finishedrecord import NONE, UNKNOWN, Failures, Past, counted, past_of, record_of, replaced
from pykueue.kubecontrollers.jobviews import JobBody, Pod, decoded_job

NOW = parse_instant("2026-01-01T03:00:00Z")


def job(status: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> JobBody:
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]}}
    tree = {
        "metadata": {
            "name": "train",
            "namespace": "lab",
            "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kueue.x-k8s.io/queue-name": "team-a"},
            "annotations": {"pykueue.io/created-by": "ann"},
            **(metadata or {}),
        },
        "spec": {"template": template, **spec},
        "status": status,
    }
    return decoded_job(msgspec.json.encode(tree))


def hour(number: float) -> Instant:
    return Instant(parse_instant("2026-01-01T00:00:00Z") + int(number * 3600 * MICROS))


def over(kind: str, at: str = "2026-01-01T02:00:00Z") -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": "True", "lastTransitionTime": at, "reason": "R", "message": "M"}]}


def test_a_job_that_was_preempted_waited_when_it_did_not_run() -> None:
    past = Past({"cpu": "2"}, preempted=2, lost_seconds=600)
    found = record_of(job({**over("Complete"), "startTime": "2026-01-01T01:00:00Z"}), past, NONE, NOW)
    assert (found.state, found.exit_code, found.owner, found.queue) == (JobState.COMPLETED, 0, "ann", "team-a")
    assert (found.ran_seconds, found.waited_seconds, found.lost_seconds, found.preempted) == (3600, 3000, 600, 2)
    assert (found.requests, found.started, found.ended) == (
        {"cpu": "2"},
        "2026-01-01T01:00:00Z",
        "2026-01-01T02:00:00Z",
    )


def test_without_a_workload_the_template_tells_what_it_asked_for() -> None:
    found = record_of(job(over("Complete"), parallelism=3, completions=2), UNKNOWN, NONE, NOW)
    assert found.requests == {"cpu": "1", "memory": "2Gi"}


def test_a_record_is_small_whatever_its_job_asks_for() -> None:
    many = {f"{'x' * 200}.example.com/r{number:04}": "1" * 100 for number in range(5_000)}
    ended = over("Failed")
    ended["conditions"][0] |= {"message": "M" * 100_000, "reason": "R" * 100_000}
    found = record_of(job(ended), Past({**many, "memory": "1Gi", "nvidia.com/gpu": "2"}), NONE, NOW)
    assert (len(found.requests), found.requests_left_out) == (16, 4_986)
    assert (found.requests["memory"], found.requests["nvidia.com/gpu"]) == ("1Gi", "2")
    assert len(msgspec.json.encode(found)) < 10_000


def test_a_record_names_the_queue_and_the_flavors_of_the_last_run() -> None:
    assignments = [{"flavors": {"cpu": "spot", "memory": "spot"}}, {"name": "other", "flavors": {"cpu": "reserved"}}]
    admission = {"clusterQueue": "red", "podSetAssignments": assignments}
    past = past_of(msgspec.convert({"status": {"admission": admission}}, Workload))
    found = record_of(job(over("Complete")), past, NONE, NOW)
    assert (found.cluster_queue, found.flavors) == ("red", {}), "flavors are of resources that are listed"
    asked = msgspec.structs.replace(past, requests={"cpu": "3", "memory": "1Gi"})
    assert record_of(job(over("Complete")), asked, NONE, NOW).flavors == {"cpu": "spot+reserved", "memory": "spot"}
    assert past_of(msgspec.convert({}, Workload)).cluster_queue == ""


def test_a_failed_job_has_the_code_of_the_pod_and_the_work_that_was_lost() -> None:
    found = record_of(job(over("Failed")), UNKNOWN, Failures(9, 5 * MICROS), NOW)
    assert (found.state, found.exit_code, found.lost_seconds, found.message) == (JobState.FAILED, 9, 5, "M")


def test_a_job_that_reached_its_time_limit_has_the_exit_code_of_timeout() -> None:
    ended = over("Failed")
    ended["conditions"][0]["reason"] = "DeadlineExceeded"
    assert record_of(job(ended), UNKNOWN, Failures(143), NOW).exit_code == 124


def test_a_job_did_not_run_while_its_machine_was_down() -> None:
    lost = counted(
        NONE, Pod("lab", "p", 1, created=hour(1), ended=hour(1.25), conditions=(("DisruptionTarget", "True"),))
    )
    found = replaced(lost, Pod("lab", "q", 2, created=hour(1.75)))
    ended = {**over("Complete"), "startTime": "2026-01-01T01:00:00Z"}
    made = record_of(job(ended), UNKNOWN, found, NOW)
    assert (made.ran_seconds, made.lost_seconds, made.waited_seconds) == (900, 900, 3600 + 1800)
    several = record_of(job(ended, parallelism=2, completions=2), UNKNOWN, found, NOW)
    assert several.ran_seconds == 3600, "the other pods ran"
    assert replaced(NONE, Pod("lab", "q", 2, created=hour(1.75))) == NONE, "a retry is no disruption"


def test_a_job_that_was_deleted_is_cancelled_at_its_deletion_or_now() -> None:
    running = {"startTime": "2026-01-01T01:00:00Z"}
    found = record_of(job(running), UNKNOWN, Failures(1), NOW)
    assert (found.state, found.exit_code, found.ran_seconds) == (JobState.CANCELLED, None, 7200)
    known = job(running, {"deletionTimestamp": "2026-01-01T01:30:00Z"})
    assert record_of(known, UNKNOWN, NONE, NOW).ended == "2026-01-01T01:30:00Z"
    # The start time of a suspended Job is of an earlier run.
    waiting = record_of(job(running, suspend=True), UNKNOWN, NONE, NOW)
    assert (waiting.started, waiting.ran_seconds, waiting.waited_seconds) == ("", 0, 3 * 3600)


def test_an_array_shows_how_far_it_got() -> None:
    status = {**over("Failed"), "completedIndexes": "0-36"}
    found = record_of(job(status, completionMode="Indexed", completions=100), UNKNOWN, NONE, NOW)
    assert found.progress == "37/100"
