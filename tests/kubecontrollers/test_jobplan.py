"""Is the right thing planned for a Job, whatever its pods do and whenever the controller dies?"""

from typing import Any

import msgspec
import pytest

from pykueue.base.units import MICROS, Instant, format_instant
from pykueue.kubecontrollers.jobplan import MOST_AT_ONCE, NO_BACKOFF, Backoff, NewPod, PodPlan, plan
from pykueue.kubecontrollers.jobstatus import condition
from pykueue.kubecontrollers.jobviews import (
    ConditionPattern,
    ExitCodes,
    FailurePolicy,
    FailureRule,
    JobSpec,
    JobStatus,
    Pod,
    SuccessPolicy,
    SuccessRule,
    Uncounted,
    Work,
)

NOW = Instant(1_800_000_000 * MICROS)
STARTED = format_instant(Instant(NOW - 60 * MICROS))


def work(status: JobStatus | None = None, *, deleting: bool = False, **spec: Any) -> Work:
    return Work("job-uid", JobSpec(**spec), status or JobStatus(start_time=STARTED), deleting)


def indexed(status: JobStatus | None = None, **spec: Any) -> Work:
    return work(status, completion_mode="Indexed", **spec)


def pod(uid: str, phase: str = "Running", **facts: Any) -> Pod:
    usual: dict[str, Any] = {"tracked": True, "ready": phase == "Running", "node": "here", "ended": NOW - 60 * MICROS}
    return Pod("team-a", f"train-{uid}", 1, uid, "train", "job-uid", phase, **(usual | facts))


def types(status: JobStatus | None) -> dict[str, tuple[str, str, str]]:
    return {one.type: (one.status, one.reason, one.message) for one in status.conditions} if status is not None else {}


def counts(status: JobStatus | None) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(status))
    for key in ("conditions", "startTime", "completionTime"):
        tree.pop(key, None)
    return tree


def uids(pods: tuple[Pod, ...]) -> list[str]:
    return [one.uid for one in pods]


# How many pods.


def test_first_look_creates_pods_and_writes_when_it_began() -> None:
    found = plan(work(JobStatus(), parallelism=2, completions=3), (), NOW)
    assert found.create == (NewPod(), NewPod())
    assert found.status == JobStatus(
        start_time=format_instant(NOW), active=2, ready=0, terminating=0, uncounted_terminated_pods=Uncounted()
    )
    assert found.events == ()


def test_large_pods_are_created_a_few_at_a_time() -> None:
    large = work(parallelism=1000, completions=1000, template=msgspec.Raw(b'"' + b"x" * (1 << 20) + b'"'))
    found = plan(large, (), NOW)
    assert len(found.create) == 63, "64 MiB of templates"
    assert [(one.reason, one.warning) for one in found.events] == [("PodsHeldBack", True)]
    assert "63 exist at a time, and others are created as they finish" in found.events[0].note
    there = tuple(pod(f"p{number}") for number in range(62))
    assert len(plan(large, there, NOW).create) == 1
    assert not plan(large, (*there, pod("last", deleting=True)), NOW).create
    assert len(plan(large, (*there, pod("last", "Succeeded")), NOW).create) == 1
    small = work(parallelism=1000, completions=1000, template=msgspec.Raw(b"x" * 4096))
    assert len(plan(small, (), NOW).create) == MOST_AT_ONCE
    assert not plan(small, (), NOW).events


@pytest.mark.parametrize(
    ("spec", "status", "pods", "created"),
    [
        pytest.param({"parallelism": 3, "completions": 2}, JobStatus(), (), 2, id="no more than are to complete"),
        pytest.param({"parallelism": 3}, JobStatus(), (), 3, id="without completions as many as are parallel"),
        pytest.param({"parallelism": 3}, JobStatus(), (pod("a", "Succeeded"), pod("b")), 0, id="none after a success"),
        pytest.param(
            {"parallelism": 3, "completions": 5},
            JobStatus(succeeded=3),
            (pod("a"),),
            1,
            id="those that succeeded are not repeated",
        ),
        pytest.param(
            {"parallelism": 2, "completions": 2},
            JobStatus(),
            (pod("a"), pod("b", deleting=True)),
            0,
            id="a pod that is being deleted counts as failed, and delays its replacement",
        ),
        pytest.param(
            {"parallelism": 2, "completions": 2, "pod_replacement_policy": "Failed"},
            JobStatus(),
            (pod("a"), pod("b", deleting=True)),
            0,
            id="unless only failed pods are replaced",
        ),
        pytest.param({"parallelism": 0}, JobStatus(), (), 0, id="none in parallel"),
    ],
)
def test_number_of_pods(spec: dict[str, Any], status: JobStatus, pods: tuple[Pod, ...], created: int) -> None:
    pods = tuple(msgspec.structs.replace(one, ended=NOW) for one in pods)
    assert len(plan(work(status, **spec), pods, NOW).create) == created


def test_no_more_than_so_many_at_a_time() -> None:
    assert len(plan(work(parallelism=2000, completions=2000), (), NOW).create) == MOST_AT_ONCE


def test_a_terminating_pod_is_replaced_once_its_delay_is_over() -> None:
    found = plan(work(), (pod("a", deleting=True),), NOW)
    assert (len(found.create), uids(found.release)) == (1, ["a"])
    assert counts(found.status)["uncountedTerminatedPods"] == {"failed": ["a"]}
    assert (counts(found.status)["active"], counts(found.status)["terminating"]) == (1, 1)


def test_surplus_is_deleted_the_least_advanced_first() -> None:
    pods = (
        pod("ready long", ready_since=1),
        pod("ready of late", ready_since=2),
        pod("running", ready=False),
        pod("pending", "Pending"),
        pod("unbound", "Pending", node=""),
    )
    found = plan(work(parallelism=1, completions=9), pods, NOW)
    assert uids(found.delete) == ["unbound", "pending", "running", "ready of late"]
    assert found.removes_finalizer
    assert (counts(found.status)["active"], counts(found.status)["ready"], counts(found.status)["terminating"]) == (
        1,
        1,
        4,
    )
    assert found.release == ()


# The happy end.


def test_the_last_success_ends_the_job_in_one_write() -> None:
    status = JobStatus(start_time=STARTED, active=1, ready=1, terminating=0, uncounted_terminated_pods=Uncounted())
    found = plan(work(status, completions=1), (pod("a", "Succeeded"),), NOW)
    reached = ("True", "CompletionsReached", "Reached expected number of succeeded pods")
    assert types(found.status) == {"SuccessCriteriaMet": reached, "Complete": reached}
    assert counts(found.status) == {"ready": 0, "terminating": 0, "succeeded": 1, "uncountedTerminatedPods": {}}
    assert found.status is not None
    assert found.status.completion_time == format_instant(NOW)
    assert uids(found.release) == ["a"]
    assert [(one.reason, one.note) for one in found.events] == [("Completed", "Job completed")]


def test_a_success_before_the_last_is_uncounted_first_and_counted_when_its_finalizer_is_gone() -> None:
    first = plan(work(completions=2), (pod("a", "Succeeded"),), NOW)
    assert counts(first.status)["uncountedTerminatedPods"] == {"succeeded": ["a"]}
    assert (len(first.create), uids(first.release)) == (1, ["a"])
    second = plan(work(first.status, completions=2), (pod("b"),), NOW)
    assert counts(second.status) == {
        "active": 1,
        "ready": 1,
        "terminating": 0,
        "succeeded": 1,
        "uncountedTerminatedPods": {},
    }
    third = plan(work(second.status, completions=2), (pod("b"),), NOW)
    assert third == PodPlan()


def test_completion_waits_for_pods_that_are_on_their_way_out() -> None:
    pods = (pod("a", "Succeeded"), pod("b", deleting=True, tracked=False))
    found = plan(work(completions=1), pods, NOW)
    assert list(types(found.status)) == ["SuccessCriteriaMet"]
    assert counts(found.status)["uncountedTerminatedPods"] == {"succeeded": ["a"]}
    after = plan(work(found.status, completions=1), (), NOW)
    assert list(types(after.status)) == ["SuccessCriteriaMet", "Complete"]
    assert counts(after.status)["succeeded"] == 1


def test_too_many_successes_are_remarked_on() -> None:
    found = plan(work(completions=1), (pod("a", "Succeeded"), pod("b", "Succeeded")), NOW)
    assert [one.reason for one in found.events] == ["TooManySucceededPods", "Completed"]
    assert counts(found.status)["succeeded"] == 2


# Failures.


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(1, 10), (2, 20), (3, 40), (6, 320), (7, 360), (40, 360)],
)
def test_each_failure_doubles_the_delay(failures: int, seconds: int) -> None:
    assert Backoff(failures, NOW).due() == NOW + seconds * MICROS


def test_a_replacement_waits_and_the_failure_is_remembered_with_the_write() -> None:
    ended = Instant(NOW - 4 * MICROS)
    found = plan(work(), (pod("a", "Failed", ended=ended),), NOW)
    assert (found.create, found.wake) == ((), ended + 10 * MICROS)
    assert counts(found.status)["uncountedTerminatedPods"] == {"failed": ["a"]}
    assert found.backoff == Backoff(1, ended)
    later = plan(work(found.status), (), Instant(ended + 10 * MICROS), found.backoff)
    assert len(later.create) == 1
    assert counts(later.status)["failed"] == 1


def test_a_success_after_a_failure_ends_the_delay() -> None:
    pods = (pod("a", "Failed", ended=Instant(NOW - 2)), pod("b", "Succeeded", ended=Instant(NOW - 1)))
    found = plan(work(completions=3), pods, NOW, Backoff(5, Instant(NOW - 9)))
    assert (found.backoff, len(found.create)) == (NO_BACKOFF, 1)


def test_a_failure_after_a_success_begins_a_new_delay() -> None:
    pods = (pod("a", "Succeeded", ended=Instant(NOW - 2)), pod("b", "Failed", ended=Instant(NOW - 1)))
    assert plan(work(completions=3), pods, NOW, Backoff(5)).backoff == Backoff(1, Instant(NOW - 1))


def test_backoff_limit_fails_the_job_when_its_pods_have_ended() -> None:
    status = JobStatus(start_time=STARTED, failed=1)
    pods = (pod("a", "Failed"), pod("b"))
    found = plan(work(status, backoff_limit=1, parallelism=2, completions=2), pods, NOW)
    target = ("True", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    assert types(found.status) == {"FailureTarget": target}
    assert (uids(found.delete), found.removes_finalizer, uids(found.release)) == (["b"], False, ["a", "b"])
    assert counts(found.status) == {
        "failed": 1,
        "ready": 0,
        "terminating": 1,
        "uncountedTerminatedPods": {"failed": ["a", "b"]},
    }
    waiting = plan(work(found.status, backoff_limit=1), (pod("b", deleting=True, tracked=False),), NOW)
    assert (counts(waiting.status)["failed"], list(types(waiting.status))) == (3, ["FailureTarget"])
    over = plan(work(waiting.status, backoff_limit=1), (), NOW)
    assert types(over.status) == {"FailureTarget": target, "Failed": target}
    assert over.status is not None
    assert over.status.completion_time is None
    assert [(one.reason, one.warning) for one in over.events] == [("BackoffLimitExceeded", True)]


def test_a_failure_with_nothing_left_to_end_is_one_write() -> None:
    found = plan(work(backoff_limit=0), (pod("a", "Failed"),), NOW)
    assert list(types(found.status)) == ["FailureTarget", "Failed"]
    assert counts(found.status)["failed"] == 1


def test_a_verdict_is_not_written_when_pods_could_not_be_deleted() -> None:
    pods = (pod("a", "Failed"), pod("b"))
    found = plan(work(backoff_limit=0), pods, NOW, manage_pods=False)
    assert (found.delete, types(found.status)) == ((), {})


@pytest.mark.parametrize(
    ("limit", "restarts", "failed"),
    [
        pytest.param(0, 0, False, id="none allowed, none there"),
        pytest.param(0, 1, True, id="none allowed, one there"),
        pytest.param(2, 1, False, id="fewer than allowed"),
        pytest.param(2, 2, True, id="as many as allowed"),
    ],
)
def test_restarts_in_place_count_against_the_limit(limit: int, restarts: int, failed: bool) -> None:
    found = plan(work(backoff_limit=limit), (pod("a", restarts=restarts, restarts_itself=True),), NOW)
    assert ("FailureTarget" in types(found.status)) == failed


def test_deadline() -> None:
    busy = work(active_deadline_seconds=100)
    assert plan(busy, (pod("a"),), NOW).wake == NOW + 40 * MICROS
    found = plan(busy, (pod("a"),), Instant(NOW + 40 * MICROS))
    assert types(found.status) == {
        "FailureTarget": ("True", "DeadlineExceeded", "Job was active longer than specified deadline")
    }
    assert uids(found.delete) == ["a"]


def test_no_deadline_while_suspended() -> None:
    found = plan(work(active_deadline_seconds=1, suspend=True), (), NOW)
    assert (list(types(found.status)), found.wake) == (["Suspended"], None)


# Pod failure policy.

POLICY = FailurePolicy(
    (
        FailureRule("FailJob", ExitCodes("In", (42,))),
        FailureRule("Ignore", None, (ConditionPattern("DisruptionTarget"),)),
        FailureRule("FailIndex", ExitCodes("In", (13,))),
    )
)


def test_policy_fails_the_job() -> None:
    found = plan(work(pod_failure_policy=POLICY), (pod("a", "Failed", exits=(("main", 42),)),), NOW)
    note = "Container main for pod team-a/train-a failed with exit code 42 matching FailJob rule at index 0"
    assert types(found.status) == dict.fromkeys(("FailureTarget", "Failed"), ("True", "PodFailurePolicy", note))


def test_policy_ignores_a_failure() -> None:
    lost = pod("a", "Failed", conditions=(("DisruptionTarget", "True"),))
    found = plan(work(pod_failure_policy=POLICY, backoff_limit=0), (lost,), NOW)
    assert types(found.status) == {}
    assert counts(found.status)["uncountedTerminatedPods"] == {}
    assert uids(found.release) == ["a"]


def test_with_a_policy_a_pod_must_have_ended_to_be_replaced() -> None:
    assert plan(work(pod_failure_policy=POLICY), (pod("a", deleting=True),), NOW).create == ()


# Suspending and resuming.


def test_suspending_deletes_pods_uncounted_and_forgets_the_start() -> None:
    found = plan(work(suspend=True, completions=5), (pod("a"), pod("b", "Succeeded")), NOW)
    assert types(found.status) == {"Suspended": ("True", "JobSuspended", "Job suspended")}
    assert found.status is not None
    assert found.status.start_time is None
    assert (uids(found.delete), found.removes_finalizer, uids(found.release)) == (["a"], True, ["b"])
    assert counts(found.status)["terminating"] == 1
    assert [(one.reason, one.note) for one in found.events] == [("Suspended", "Job suspended")]


def test_a_suspended_job_says_so_once() -> None:
    status = plan(work(JobStatus(), suspend=True), (), NOW).status
    assert counts(status) == {"ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    assert plan(work(status, suspend=True), (), NOW) == PodPlan()


def test_resuming_starts_anew() -> None:
    said = (condition("Suspended", "True", "JobSuspended", "Job suspended", Instant(NOW - MICROS)),)
    found = plan(work(JobStatus(conditions=said)), (), NOW)
    assert types(found.status) == {"Suspended": ("False", "JobResumed", "Job resumed")}
    assert found.status is not None
    assert found.status.start_time == format_instant(NOW)
    assert [one.reason for one in found.events] == ["Resumed"]
    assert len(found.create) == 1


# Jobs that are being deleted.


def test_a_job_that_goes_lets_go_of_its_pods_and_makes_none() -> None:
    found = plan(work(deleting=True, completions=3, parallelism=3), (pod("a"), pod("b", "Succeeded")), NOW)
    assert (found.create, found.delete, uids(found.release)) == ((), (), ["a", "b"])


# Indexed Jobs.


def test_missing_indexes_are_created_in_order() -> None:
    status = JobStatus(start_time=STARTED, completed_indexes="0,2", succeeded=2)
    found = plan(indexed(status, parallelism=3, completions=6), (pod("a", index=3),), NOW)
    assert found.create == (NewPod(1), NewPod(4))


def test_completed_indexes_are_written_at_once() -> None:
    pods = (pod("c", "Succeeded", index=2), pod("a", "Succeeded", index=0), pod("b", index=1))
    found = plan(indexed(parallelism=3, completions=3), pods, NOW)
    assert counts(found.status) == {
        "active": 1,
        "ready": 1,
        "terminating": 0,
        "succeeded": 2,
        "completedIndexes": "0,2",
        "uncountedTerminatedPods": {},
    }
    assert uids(found.release) == ["a", "c"]


def test_an_index_counts_once() -> None:
    status = JobStatus(start_time=STARTED, completed_indexes="0", succeeded=1)
    found = plan(indexed(status, parallelism=2, completions=2), (pod("again", "Succeeded", index=0),), NOW)
    assert (counts(found.status)["succeeded"], uids(found.release)) == (1, ["again"])


def test_double_and_strange_indexes_are_deleted() -> None:
    pods = (
        pod("older", index=0, created=1),
        pod("younger", index=0, created=2),
        pod("none"),
        pod("beyond", index=7),
    )
    found = plan(indexed(parallelism=4, completions=4), pods, NOW)
    assert sorted(uids(found.delete)) == ["beyond", "none", "younger"]
    assert found.create == ()


def test_success_policy_ends_the_job_early() -> None:
    policy = SuccessPolicy((SuccessRule("0", None),))
    pods = (pod("a", "Succeeded", index=0), pod("b", index=1))
    found = plan(indexed(success_policy=policy, parallelism=2, completions=2), pods, NOW)
    met = ("True", "SuccessPolicy", "Matched rules at index 0")
    assert types(found.status) == {"SuccessCriteriaMet": met}
    assert uids(found.delete) == ["b"]
    assert counts(found.status)["uncountedTerminatedPods"] == {}
    over = plan(indexed(found.status, success_policy=policy, parallelism=2, completions=2), (), NOW)
    assert types(over.status) == {"SuccessCriteriaMet": met, "Complete": met}


# Backoff by index.


def test_a_failed_pod_is_kept_until_its_replacement_carries_on_its_count() -> None:
    spec: dict[str, Any] = {"parallelism": 2, "completions": 2, "backoff_limit_per_index": 3}
    ended = Instant(NOW - 4 * MICROS)
    lost = pod("a", "Failed", index=0, failures=1, ended=ended)
    waiting = plan(indexed(**spec), (lost, pod("b", index=1)), NOW)
    assert (waiting.create, waiting.release, waiting.wake) == ((), (), ended + 20 * MICROS)
    due = plan(indexed(**spec), (lost, pod("b", index=1)), Instant(ended + 20 * MICROS))
    assert due.create == (NewPod(0, 2, 0),)
    after = plan(indexed(**spec), (lost, pod("c", index=0, failures=2), pod("b", index=1)), NOW)
    assert uids(after.release) == ["a"]


def test_first_pods_of_indexes_count_from_zero() -> None:
    found = plan(indexed(parallelism=2, completions=2, backoff_limit_per_index=1), (), NOW)
    assert found.create == (NewPod(0, 0), NewPod(1, 0))


def test_ignored_failures_of_an_index_are_counted_apart() -> None:
    lost = pod("a", "Failed", index=0, conditions=(("DisruptionTarget", "True"),), ended=Instant(0))
    spec: dict[str, Any] = {"completions": 1, "backoff_limit_per_index": 0, "pod_failure_policy": POLICY}
    assert plan(indexed(**spec), (lost,), NOW).create == (NewPod(0, 0, 1),)


def test_an_index_fails_for_good_and_the_others_go_on() -> None:
    spec: dict[str, Any] = {"parallelism": 2, "completions": 3, "backoff_limit_per_index": 0}
    found = plan(indexed(**spec), (pod("a", "Failed", index=0), pod("b", index=1)), NOW)
    assert found.create == (NewPod(2, 0),)
    assert (counts(found.status)["failedIndexes"], uids(found.release)) == ("0", ["a"])
    assert types(found.status) == {}


def test_policy_fails_an_index() -> None:
    lost = pod("a", "Failed", index=0, exits=(("main", 13),))
    spec: dict[str, Any] = {"completions": 3, "backoff_limit_per_index": 5, "pod_failure_policy": POLICY}
    assert counts(plan(indexed(**spec), (lost,), NOW).status)["failedIndexes"] == "0"


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        pytest.param({}, "FailedIndexes", "Job has failed indexes", id="when all indexes are through"),
        pytest.param(
            {"max_failed_indexes": 0, "completions": 9},
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
            id="when too many have failed",
        ),
    ],
)
def test_failed_indexes_fail_the_job(spec: dict[str, Any], reason: str, message: str) -> None:
    spec = {"parallelism": 2, "completions": 2, "backoff_limit_per_index": 0} | spec
    pods = (pod("a", "Failed", index=0), pod("b", "Succeeded", index=1))
    assert types(plan(indexed(**spec), pods, NOW).status)["Failed"] == ("True", reason, message)


# Bounds.


def test_uncounted_pods_are_bounded_and_the_end_waits_for_the_rest() -> None:
    pods = tuple(pod(str(number), "Succeeded") for number in range(MOST_AT_ONCE + 100))
    job = work(completions=len(pods), parallelism=len(pods))
    first = plan(job, pods, NOW)
    assert first.status is not None
    assert first.status.uncounted_terminated_pods is not None
    assert len(first.status.uncounted_terminated_pods.succeeded) == len(first.release) == MOST_AT_ONCE
    assert list(types(first.status)) == ["SuccessCriteriaMet"]
    let_go = {one.uid for one in first.release}
    left = tuple(one for one in pods if one.uid not in let_go)
    second = plan(work(first.status, completions=len(pods), parallelism=len(pods)), left, NOW)
    assert (counts(second.status)["succeeded"], len(second.release)) == (len(pods), 100)
    assert list(types(second.status)) == ["SuccessCriteriaMet", "Complete"]


def test_after_a_kill_all_that_was_written_is_let_go_at_once() -> None:
    pods = tuple(pod(str(number), "Succeeded") for number in range(MOST_AT_ONCE))
    known = JobStatus(uncounted_terminated_pods=Uncounted(tuple(one.uid for one in pods)))
    found = plan(work(known, completions=900, parallelism=1), pods, NOW)
    assert len(found.release) == MOST_AT_ONCE
