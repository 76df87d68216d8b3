"""Does a batch/v1 Job queue as it should?"""

from typing import Any

import msgspec
import pytest

from pykueue.api.core import Tree
from pykueue.jobs.batch import BATCH, JobSpec, JobView, follows, indexes_done, least_pods, pods_at_once, read_job
from pykueue.jobs.kind import JobPatch, Outcome, Pause
from pykueue.jobs.podsets import Info, InjectionError
from tests.jobs.objects import EQUAL, LEAST, PLAIN, PREBUILT, QUEUE, STOPPING, job, job_tree, workload

START = {"startTime": "2026-01-01T11:30:00Z"}


# Reading.


def test_a_job_is_read_with_its_defaults() -> None:
    found = read_job(b'{"metadata": {"name": "a"}, "spec": {"template": {"x": 1}}}')
    assert (found.spec.parallelism, found.spec.completions, found.spec.suspend) == (1, None, False)
    assert bytes(found.spec.template) == b'{"x": 1}'


def test_a_job_keeps_its_template_and_not_the_message_it_came_in() -> None:
    raw = msgspec.json.encode(job_tree())
    found = read_job(raw + b" " * 1_000_000)
    assert memoryview(memoryview(found.spec.template).obj).nbytes < 10_000


def test_nulls_are_absent_fields() -> None:
    found = read_job(b'{"metadata": {"name": "a", "labels": null}, "spec": {"parallelism": null, "suspend": null}}')
    assert (found.metadata.labels, found.spec.parallelism) == ({}, 1)


def test_what_kubectl_applied_is_not_kept() -> None:
    key = "kubectl.kubernetes.io/last-applied-configuration"
    assert job(annotations={key: "{}", "mine": "x"}).metadata.annotations == {"mine": "x"}


def test_what_is_no_job_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        read_job(b'{"metadata": {"name": "a"}, "spec": {"parallelism": "many"}}')


def test_of_a_job_that_is_over_little_is_kept() -> None:
    over: Tree = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}
    others: Tree = {"type": "FailureTarget", "status": "True", "message": "too often"}
    owner: Tree = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "daily", "uid": "u-0", "controller": True}
    seen: dict[str, Any] = {
        "labels": {"mine": "x"},
        "annotations": {PREBUILT: "made", "mine": "x"},
        "status": {"conditions": [others, over], "succeeded": 2, "startTime": "2026-01-01T11:30:00Z"},
        "metadata": {"generation": 2, "creationTimestamp": "2026-01-01T11:00:00Z", "ownerReferences": [owner]},
    }
    found, again = job(**seen), job(**seen)
    assert BATCH.finished(found) == Outcome(False, "too often")
    assert (found.name, found.namespace, found.metadata.uid, found.metadata.resource_version) == (
        "train",
        "team",
        "u-1",
        "5",
    )
    assert (found.metadata.labels, found.metadata.annotations) == ({QUEUE: "main"}, {PREBUILT: "made"})
    assert [one.name for one in found.metadata.owner_references] == ["daily"]
    assert (found.metadata.creation_timestamp, found.spec, found.status.succeeded) == (None, JobSpec(), 0)
    assert found.status is again.status
    assert found.metadata.labels is again.metadata.labels


def test_of_a_job_that_is_over_and_was_never_changed_it_is_known_when_it_came() -> None:
    over: Tree = {"type": "Complete", "status": "True", "message": "done"}
    at = "2026-01-01T11:00:00Z"
    found = job(status={"conditions": [over]}, metadata={"generation": 1, "creationTimestamp": at})
    assert found.metadata.creation_timestamp == at


# Its state.


@pytest.mark.parametrize(
    ("one", "suspended", "stopping"),
    [
        pytest.param(job(), True, False, id="suspended"),
        pytest.param(job(suspend=False), False, False, id="running"),
        pytest.param(job(annotations={STOPPING: "true"}), False, True, id="being stopped"),
        pytest.param(job(annotations={STOPPING: "false"}), True, False, id="not being stopped"),
        pytest.param(job(suspend=False, annotations={STOPPING: "true"}), False, False, id="let go by its user"),
    ],
)
def test_a_job_is(one: JobView, suspended: bool, stopping: bool) -> None:
    assert (BATCH.suspended(one), BATCH.stopping(one)) == (suspended, stopping)


@pytest.mark.parametrize(
    ("conditions", "outcome"),
    [
        pytest.param([], None, id="not at all"),
        pytest.param([("Complete", "True")], Outcome(True, "said"), id="well"),
        pytest.param([("Failed", "True")], Outcome(False, "said"), id="badly"),
        pytest.param([("Complete", "False"), ("Failed", "True")], Outcome(False, "said"), id="badly after all"),
        pytest.param([("SuccessCriteriaMet", "True"), ("FailureTarget", "True")], None, id="not yet"),
    ],
)
def test_a_job_has_ended(conditions: list[tuple[str, str]], outcome: Outcome | None) -> None:
    status: Tree = {"conditions": [{"type": kind, "status": state, "message": "said"} for kind, state in conditions]}
    assert BATCH.finished(job(status=status)) == outcome


# Its pods.


@pytest.mark.parametrize(
    ("parallelism", "completions", "count"), [(None, None, 1), (3, None, 3), (3, 2, 2), (2, 5, 2), (None, 0, 0)]
)
def test_so_many_pods_run_at_once(parallelism: int | None, completions: int | None, count: int) -> None:
    assert pods_at_once(parallelism, completions) == count


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("2", 2),
        ("+2", 2),
        ("02", 2),
        ("0", None),
        ("-1", None),
        ("x", None),
        ("9" * 30, None),
        pytest.param("0" * 9000 + "2", 2, id="many zeros"),
    ],
)
def test_the_least_number_of_pods_is_a_whole_number(text: str, least: int | None) -> None:
    assert least_pods({LEAST: text}) == least


@pytest.mark.parametrize(("text", "does"), [("true", True), ("1", True), ("false", False), ("x", False)])
def test_completions_follow_parallelism(text: str, does: bool) -> None:
    assert follows({EQUAL: text}) is does


def test_the_workload_carries_no_labels_of_the_job_controller_but_the_name() -> None:
    (found,) = BATCH.pod_sets(job(annotations={LEAST: "2"}), partial=True, topology=True)
    assert {**found, "topologyRequest": None} == {
        "name": "main",
        "count": 3,
        "minCount": 2,
        "template": PLAIN,
        "topologyRequest": None,
    }


def test_the_workload_names_the_label_that_numbers_the_pods() -> None:
    (found,) = BATCH.pod_sets(job(), partial=True, topology=True)
    assert found["topologyRequest"] == {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}
    (found,) = BATCH.pod_sets(job(), partial=True, topology=False)
    assert "topologyRequest" not in found


def test_fewer_pods_are_not_asked_for_when_the_gate_is_off() -> None:
    one = job(annotations={LEAST: "2"})
    assert "minCount" not in BATCH.pod_sets(one, partial=False, topology=True)[0]
    assert BATCH.shapes(one, partial=False)[0].min_count is None
    assert BATCH.shapes(one, partial=True)[0].min_count == 2


def test_a_job_equals_the_workload_that_was_made_of_it() -> None:
    (ours,) = BATCH.shapes(job(), partial=True)
    made = BATCH.pod_sets(job(), partial=True, topology=True)[0]["template"]
    (theirs,) = BATCH.shapes(job(template=made), partial=True)
    assert ours == theirs


# Start.


def test_a_job_starts_as_it_is_when_nothing_is_given() -> None:
    assert BATCH.start(job(), [Info("main", 3)]) == JobPatch({"spec": {"suspend": False}}, decisive=True, last=True)


@pytest.mark.parametrize("infos", [[], [Info("a"), Info("b")]])
def test_a_job_has_one_pod_set(infos: list[Info]) -> None:
    with pytest.raises(InjectionError, match=f"^invalid podset infos: expecting 1 podset, got {len(infos)}$"):
        BATCH.start(job(), infos)


@pytest.mark.parametrize(
    ("annotations", "spec"),
    [
        pytest.param({}, {"suspend": False}, id="as many as it says"),
        pytest.param({LEAST: "1"}, {"suspend": False, "parallelism": 2}, id="fewer"),
        pytest.param(
            {LEAST: "1", EQUAL: "true"},
            {"suspend": False, "parallelism": 2, "completions": 2},
            id="fewer, and as many completions",
        ),
    ],
)
def test_a_job_starts_with(annotations: dict[str, str], spec: Tree) -> None:
    found = BATCH.start(job(annotations=annotations), [Info("main", 2)])
    assert isinstance(found, JobPatch)
    assert found.body == {"spec": spec}


GIVEN = [Info("main", 3, node_selector={"a": "b"})]


def test_a_template_is_changed_when_no_pod_is_left_and_no_start_time() -> None:
    assert BATCH.start(job(status={"active": 1}), GIVEN) == Pause()
    assert BATCH.start(job(status=START), GIVEN) == JobPatch({"status": {"startTime": None}}, status=True)
    found = BATCH.start(job(), GIVEN)
    assert isinstance(found, JobPatch)
    assert found.body == {"spec": {"suspend": False, "template": {"spec": {"nodeSelector": {"a": "b"}}}}}


# Stop.


def stop(one: JobView, **parts: Any) -> JobPatch | Pause | None:
    return BATCH.stop(one, workload(**parts).spec.pod_sets)


def test_a_stop_restores_counts_and_heals() -> None:
    partial = {"annotations": {LEAST: "1", EQUAL: "true", STOPPING: "true"}, "parallelism": 2, "completions": 2}
    assert stop(job(**partial)) == JobPatch(
        {"metadata": {"annotations": {STOPPING: None}}, "spec": {"parallelism": 3, "completions": 3}}, last=True
    )
    assert stop(job(annotations={LEAST: "1"}, parallelism=2, completions=2)) is None


def test_without_a_workload_only_the_mark_goes() -> None:
    assert BATCH.stop(job(annotations={STOPPING: "true"}, status={**START, "active": 1}), ()) == JobPatch(
        {"metadata": {"annotations": {STOPPING: None}}}, last=True
    )
    assert BATCH.stop(job(), ()) is None


def test_a_child_is_held_back_and_no_more() -> None:
    assert BATCH.suspend(job(suspend=False)) == JobPatch({"spec": {"suspend": True}}, decisive=True)
    assert BATCH.suspend(job()) is None


# Counting.


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        pytest.param({}, False, id="none"),
        pytest.param({"ready": 3}, True, id="all ready"),
        pytest.param({"ready": 2}, False, id="one missing"),
        pytest.param({"ready": 1, "succeeded": 2}, True, id="some are done"),
        pytest.param(
            {"ready": 1, "succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["b"]}},
            True,
            id="one is done and not counted yet",
        ),
        pytest.param({"ready": 2, "uncountedTerminatedPods": {"failed": ["b"]}}, False, id="one has failed"),
    ],
)
def test_pods_are_ready(status: Tree, ready: bool) -> None:
    assert BATCH.pods_ready(job(status=status)) is ready


@pytest.mark.parametrize(
    ("parallelism", "completions", "succeeded", "count"),
    [
        (3, 3, 0, 0),
        (3, 3, 1, 1),
        (3, 3, 3, 3),
        (3, 10, 5, 0),
        (3, 10, 8, 1),
        (3, 10, 9, 2),
        (3, 10, 11, 3),
        (3, None, 1, 1),
        (1, 1, 1, 0),
        (10, 4, 0, 0),
        (10, 4, 1, 1),
        (10, 4, 4, 4),
        (10, 1, 1, 0),
        (0, 4, 1, 0),
    ],
)
def test_pods_without_work_give_their_quota_back(
    parallelism: int, completions: int | None, succeeded: int, count: int
) -> None:
    one = job(parallelism=parallelism, completions=completions, status={"succeeded": succeeded})
    assert BATCH.reclaimable(one) == ({"main": count} if count else {})


def test_of_an_indexed_job_failed_indexes_count_too() -> None:
    status = {"succeeded": 1, "completedIndexes": "0", "failedIndexes": "1", "failed": 4}
    assert BATCH.reclaimable(job(completionMode="Indexed", status=status)) == {"main": 2}


def test_of_an_indexed_job_no_more_come_back_than_run_at_once() -> None:
    status = {"succeeded": 1, "completedIndexes": "0", "failedIndexes": "1", "failed": 4}
    wide = job(completionMode="Indexed", parallelism=10, completions=4, status=status)
    assert BATCH.reclaimable(wide) == {"main": 2}


@pytest.mark.parametrize(
    ("texts", "done"),
    [
        pytest.param(("", ""), 0, id="none"),
        pytest.param(("0", ""), 1, id="the first"),
        pytest.param(("0-2,5", ""), 4, id="intervals"),
        pytest.param(("0-2", "1-3"), 4, id="both, each once"),
        pytest.param(("8-12", "10"), 2, id="no more than there are"),
        pytest.param(("3-1,x,4-,-2,1-2-3,", ""), 0, id="what makes no sense"),
        pytest.param(("99999999999", ""), 0, id="what is too large"),
    ],
)
def test_indexes_are_done(texts: tuple[str, str], done: int) -> None:
    assert indexes_done(texts, 10) == done
