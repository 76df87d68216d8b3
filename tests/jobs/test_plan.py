"""Does every job get what it needs next, and nothing else? One row for each rule, with the exact words."""

import msgspec
import pytest

from pykueue.api.core import Tree
from pykueue.api.durations import SECOND, Micros
from pykueue.api.trees import member
from pykueue.jobs.actions import (
    Action,
    Await,
    CreateWorkload,
    DeleteJob,
    DeleteWorkload,
    Finish,
    LookAgain,
    Notice,
    PatchJob,
    RemoveFinalizer,
    SendEvent,
    Stopped,
    UpdateWorkload,
    WritePodsReady,
    WriteReclaimable,
)
from pykueue.jobs.batch import JobView
from pykueue.jobs.plan import plan
from pykueue.jobs.seen import Ancestor, Ancestry, JobInput, Rules
from pykueue.jobs.workload import Classes
from tests.jobs.objects import (
    ADMITTED,
    FINALIZER,
    GATED,
    KEY,
    LEAST,
    NAME,
    NOW,
    PLAIN,
    PREBUILT,
    PRIORITY,
    QUEUE,
    RESERVED,
    STOPPING,
    TEMPLATE,
    UNREADY,
    condition,
    evicted,
    job,
    later,
    seen,
    workload,
)

READY = Rules(pods_ready=True)
NUMBERED: Tree = {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}
DONE = {"conditions": [{"type": "Complete", "status": "True", "message": "Reached expected number of succeeded pods"}]}
FILLED: Tree = {
    "metadata": {
        "labels": {
            **TEMPLATE["metadata"]["labels"],  # type: ignore[index, call-overload, dict-item]  # decoded JSON is Json
            "kueue.x-k8s.io/podset": "main",
            "kueue.x-k8s.io/local-queue-name": "main",
            "kueue.x-k8s.io/cluster-queue-name": "shared",
        },
        "annotations": {"kueue.x-k8s.io/workload": NAME},
    },
    "spec": {
        **TEMPLATE["spec"],  # type: ignore[dict-item]  # decoded JSON is Json
        "nodeSelector": {"pool": "spot"},
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    },
}
"""The template of a job that runs."""
GIVEN: Tree = {
    "metadata": {
        "labels": {
            "kueue.x-k8s.io/podset": "main",
            "kueue.x-k8s.io/local-queue-name": "main",
            "kueue.x-k8s.io/cluster-queue-name": "shared",
        },
        "annotations": {"kueue.x-k8s.io/workload": NAME},
    },
    "spec": {
        "nodeSelector": {"pool": "spot"},
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    },
}
"""What a template is given when its job starts."""
STARTED = Notice("Started", "Admitted by clusterQueue shared")


def running(**parts: object) -> JobView:
    return job(
        **{"suspend": False, "template": FILLED, "status": {"startTime": "2026-01-01T11:30:00Z", "active": 3}, **parts}
    )


def stopping(text: str, *, confirm: bool = False) -> PatchJob:
    body: Tree = {"metadata": {"annotations": {STOPPING: "true"}}, "spec": {"suspend": True}}
    return PatchJob(body, notice=Notice("Stopped", text), confirm=confirm)


def told(reason: str, text: str) -> SendEvent:
    return SendEvent(Notice(reason, text, warning=True))


def finish(reason: str, message: str) -> Finish:
    return Finish(
        workload(RESERVED, ADMITTED),
        reason,
        message,
        Notice("FinishedWorkload", f"Workload '{KEY}' is declared finished"),
    )


def created(seen: JobInput) -> Tree:
    (action,) = plan(seen, NOW)
    assert isinstance(action, CreateWorkload)
    assert action.notice == Notice("CreatedWorkload", f"Created Workload: {KEY}")
    return action.tree


# Whose business a job is.


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(seen(job(), selected=False), id="in a namespace that is not selected, whatever its label"),
        pytest.param(seen(job(labels={QUEUE: ""})), id="without a queue"),
        pytest.param(seen(job(labels={QUEUE: ""}, suspend=False, status={"active": 1})), id="without a queue, running"),
        pytest.param(seen(None), id="gone, with nothing left of it"),
        pytest.param(seen(job(status=DONE)), id="finished, and without a Workload"),
        pytest.param(
            seen(job(status=DONE), workload(condition("Finished", True, "Succeeded"), finalizers=[])),
            id="finished, and told so",
        ),
        pytest.param(seen(running(), workload(RESERVED, ADMITTED)), id="running with its Workload admitted"),
        pytest.param(seen(job(), workload()), id="waiting"),
        pytest.param(seen(job(), workload(RESERVED)), id="waiting for checks that say nothing"),
        pytest.param(seen(job(labels={QUEUE: ""}), workload()), id="its queue taken away while it waits"),
    ],
)
def test_nothing_is_done_for_a_job_that_is(given: JobInput) -> None:
    assert plan(given, NOW) == ()


def test_a_job_without_a_queue_is_held_when_all_are() -> None:
    tree = created(seen(job(labels={QUEUE: ""}), rules=Rules(queueless=True)))
    assert "queueName" not in tree["spec"]  # type: ignore[operator]  # decoded JSON is Json


# Jobs of jobs.

CHILD = Ancestry(Ancestor("main", admitted=False))


@pytest.mark.parametrize(
    ("one", "owners", "does"),
    [
        pytest.param(
            job(suspend=False, labels={QUEUE: ""}),
            CHILD,
            (PatchJob({"spec": {"suspend": True}}, notice=Notice("Suspended", "Kueue managed child job suspended")),),
            id="is held back while its owner waits",
        ),
        pytest.param(job(suspend=False), CHILD, None, id="even with a queue of its own"),
        pytest.param(job(), CHILD, (), id="gets no Workload"),
        pytest.param(job(suspend=False), Ancestry(Ancestor("main", admitted=True)), (), id="runs while its owner may"),
        pytest.param(job(suspend=False, status=DONE), CHILD, (), id="is left alone once it is finished"),
        pytest.param(
            job(labels={QUEUE: ""}, suspend=False),
            Ancestry(Ancestor("", admitted=False)),
            (),
            id="of an owner without a queue is nobody's",
        ),
        pytest.param(job(), Ancestry(missing=True), (LookAgain(5.0),), id="waits for an owner that is not there"),
        pytest.param(
            job(),
            Ancestry(too_deep=True),
            (
                told(
                    "JobNestingTooDeep",
                    "Terminated search for Kueue-managed Job because ancestor depth exceeded limit of 10",
                ),
            ),
            id="too deep is told so",
        ),
    ],
)
def test_a_job_that_belongs_to_another(one: JobView, owners: Ancestry, does: tuple[Action, ...] | None) -> None:
    found = plan(seen(one, owners=owners), NOW)
    assert found == does if does is not None else len(found) == 1


# A job without a Workload.


def test_a_suspended_job_gets_a_workload() -> None:
    one = job(
        labels={"team": "a", "other": "b", "kueue.x-k8s.io/max-exec-time-seconds": "90"},
        annotations={GATED: "x.io/y", "provreq.kueue.x-k8s.io/zone": "b", "mine": "z"},
    )
    rules = Rules(labels_to_copy=("team", "absent"), annotations_to_copy=("mine", "absent"))
    assert created(seen(one, rules=rules)) == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": NAME,
            "namespace": "team",
            "labels": {"team": "a", "kueue.x-k8s.io/job-uid": "u-1"},
            "annotations": {GATED: "x.io/y", "provreq.kueue.x-k8s.io/zone": "b", "mine": "z"},
            "finalizers": [FINALIZER],
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": "train",
                    "uid": "u-1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "queueName": "main",
            "podSets": [{"name": "main", "count": 3, "template": PLAIN, "topologyRequest": NUMBERED}],
            "priority": 0,
            "maximumExecutionTimeSeconds": 90,
        },
    }


def test_gates_decide_what_the_workload_carries() -> None:
    one = job(annotations={GATED: "x.io/y", LEAST: "2"}, metadata={"name": "x" * 100})
    off = Rules(gated=False, partial=False, short_names=True)
    (action,) = plan(seen(one, rules=off), NOW)
    assert isinstance(action, CreateWorkload)
    metadata, spec = action.tree["metadata"], action.tree["spec"]
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    assert "annotations" not in metadata
    assert len(str(metadata["name"])) == 63
    assert spec["podSets"] == [{"name": "main", "count": 3, "template": PLAIN, "topologyRequest": NUMBERED}]


def test_a_uid_that_is_no_label_is_left_out() -> None:
    tree = plan(seen(job(metadata={"uid": "no/label"})), NOW)[0]
    assert isinstance(tree, CreateWorkload)
    assert member(tree.tree, "metadata", "labels") == {}


@pytest.mark.parametrize(
    ("one", "does"),
    [
        pytest.param(job(status={"active": 2}), (), id="waits for its pods to go"),
        pytest.param(
            job(suspend=False),
            (stopping("Missing Workload; unable to restore pod templates", confirm=True),),
            id="is stopped if it runs",
        ),
        pytest.param(
            job(labels={PRIORITY: "none"}),
            (told("WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "none" not found'), Await()),
            id="waits for its priority class",
        ),
        pytest.param(
            job(template={"spec": {"priorityClassName": "none", "containers": []}}),
            (told("PriorityClassNotFound", 'PriorityClass "none" not found'), Await()),
            id="waits for the class of its pods",
        ),
    ],
)
def test_a_job_without_a_workload(one: JobView, does: tuple[Action, ...]) -> None:
    assert plan(seen(one), NOW) == does


def test_a_job_that_asks_for_what_we_cannot_do_is_told_and_gets_no_workload() -> None:
    assert plan(seen(job(), beyond=("spec.x: not supported yet",)), NOW) == (
        SendEvent(Notice("Unsupported", "spec.x: not supported yet", warning=True, by_note=True)),
    )


def test_a_job_with_a_workload_goes_on_though_it_asks_for_what_we_cannot_do() -> None:
    given = seen(running(), workload(RESERVED, ADMITTED, evicted()), beyond=("spec.x: not supported yet",))
    assert plan(given, NOW) == (stopping("Preempted to accommodate a workload"),)


@pytest.mark.parametrize(
    ("labels", "template", "spec"),
    [
        pytest.param(
            {PRIORITY: "high"},
            TEMPLATE,
            {
                "priority": 7,
                "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
            },
            id="by its own class",
        ),
        pytest.param(
            {},
            {"spec": {"priorityClassName": "pods", "containers": []}},
            {
                "priority": 3,
                "priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "pods"},
            },
            id="by the class of its pods",
        ),
        pytest.param(
            {},
            TEMPLATE,
            {
                "priority": 1,
                "priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "usual"},
            },
            id="by the default for pods",
        ),
    ],
)
def test_the_priority_of_a_new_workload_comes(labels: dict[str, str], template: Tree, spec: Tree) -> None:
    classes = Classes({"high": 7}, {"pods": 3, "usual": 1}, "usual")
    found = created(seen(job(labels=labels, template=template), classes=classes))["spec"]
    assert isinstance(found, dict)
    assert {key: found[key] for key in spec} == spec


# The one Workload of a job.


def deleted(*parts: Tree, **more: object) -> DeleteWorkload:
    one = workload(*parts, **more)
    return DeleteWorkload(one, Notice("DeletedWorkload", f"Deleted not matching Workload: team/{one.name}"))


REWRITTEN = Notice("UpdatedWorkload", f"Updated not matching Workload for suspended job: {KEY}")


def test_a_pending_workload_is_rewritten_when_its_suspended_job_changes() -> None:
    one = job(parallelism=2, labels={PRIORITY: "high"})
    given = seen(one, workload(), classes=Classes({"high": 7}))
    spec: Tree = {
        "queueName": "main",
        "podSets": [{"name": "main", "count": 2, "template": PLAIN, "topologyRequest": NUMBERED}],
        "priority": 7,
        "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
        "maximumExecutionTimeSeconds": None,
    }
    assert plan(given, NOW) == (UpdateWorkload(workload(), {"spec": spec}, (REWRITTEN,)),)


def test_a_change_that_leaves_the_number_of_pods_alone_needs_no_new_workload() -> None:
    assert plan(seen(job(parallelism=5, completions=3), workload()), NOW) == ()


def test_a_rewritten_workload_keeps_its_priority_when_the_class_is_missing() -> None:
    before = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "low"}
    known = workload(priority=4, priorityClassRef=before)
    found = plan(seen(job(parallelism=2, labels={PRIORITY: "none"}), known), NOW)
    update, *rest = found
    assert isinstance(update, UpdateWorkload)
    spec = update.body["spec"]
    assert isinstance(spec, dict)
    assert (spec["priority"], spec["priorityClassRef"]) == (4, before)
    assert rest == [told("WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "none" not found'), Await()]


@pytest.mark.parametrize(
    ("one", "known", "does"),
    [
        pytest.param(
            job(parallelism=2), (workload(RESERVED),), (deleted(RESERVED),), id="changed while it holds quota"
        ),
        pytest.param(
            job(labels={"kueue.x-k8s.io/max-exec-time-seconds": "5"}),
            (workload(RESERVED),),
            (deleted(RESERVED),),
            id="its run time limited while it holds quota",
        ),
        pytest.param(job(), (workload(owner="u-0"),), (deleted(owner="u-0"),), id="made anew under the same name"),
        pytest.param(
            job(),
            (workload(), workload(name="a-second", uid="w-2")),
            (deleted(),),
            id="with two equal Workloads, of which the first by name stays",
        ),
        pytest.param(
            job(),
            (workload(), workload(RESERVED, name="z-second", uid="w-2")),
            (deleted(),),
            id="with two equal Workloads, of which the one with quota stays",
        ),
        pytest.param(
            running(parallelism=2),
            (workload(RESERVED, ADMITTED),),
            (stopping("No matching Workload; restoring pod templates according to existent Workload", confirm=True),),
            id="changed while it runs",
        ),
        pytest.param(
            running(parallelism=2),
            (workload(RESERVED, ADMITTED), workload(name="other", uid="w-2")),
            (stopping("Missing Workload; unable to restore pod templates", confirm=True),),
            id="changed while it runs, with more Workloads than one",
        ),
    ],
)
def test_a_workload_that_does_not_equal_its_job_goes(
    one: JobView, known: tuple[object, ...], does: tuple[Action, ...]
) -> None:
    assert plan(seen(one, *known), NOW) == does  # type: ignore[arg-type]  # a table gives it as an object


def test_what_a_finished_job_asks_for_does_not_matter() -> None:
    one = job(parallelism=2, status=DONE)
    (action,) = plan(seen(one, workload(RESERVED, ADMITTED)), NOW)
    assert isinstance(action, Finish)
    known = prebuilt(RESERVED, ADMITTED, count=1)
    (action,) = plan(seen(job(**ASKS, status=DONE), prebuilt=known), NOW)
    assert isinstance(action, Finish)
    assert action.reason == "Succeeded"


def test_without_finishing_orphans_the_name_of_the_owner_is_enough() -> None:
    given = seen(job(), workload(owner="u-0"), rules=Rules(finish_orphans=False))
    assert plan(given, NOW) == ()


def test_a_finished_workload_is_remembered_without_its_pods_and_stays_that_of_its_job() -> None:
    over = workload(condition("Finished", True, "Succeeded"), finalizers=[])
    bare = msgspec.structs.replace(over, spec=msgspec.structs.replace(over.spec, pod_sets=()))
    assert plan(seen(job(suspend=False), bare), NOW) == ()


# Start.


def test_an_admitted_job_starts_with_one_patch() -> None:
    assert plan(seen(job(), workload(RESERVED, ADMITTED)), NOW) == (
        PatchJob({"spec": {"suspend": False, "template": GIVEN}}, notice=STARTED, last=True),
    )


def test_a_start_takes_what_the_status_must_learn_along() -> None:
    known = workload(RESERVED, ADMITTED)
    found = plan(seen(job(), known, rules=READY), NOW)
    assert found[1:] == (WritePodsReady(known, False, "WaitForStart", "Not all pods are ready or succeeded"),)


def test_an_admitted_job_that_its_user_suspends_is_started_again() -> None:
    one = running(suspend=True)
    assert plan(seen(one, workload(RESERVED, ADMITTED)), NOW) == (
        PatchJob({"spec": {"suspend": False}}, notice=STARTED, last=True),
    )


def test_a_job_that_ran_before_it_was_queued_loses_its_start_time_first() -> None:
    one = job(status={"startTime": "2026-01-01T11:30:00Z"})
    found = plan(seen(one, workload(RESERVED, ADMITTED)), NOW)
    assert found == (PatchJob({"status": {"startTime": None}}, status=True),)


def test_fewer_pods_are_started_than_were_asked_for() -> None:
    least = {"minCount": 2}
    known = workload(RESERVED, ADMITTED, count=5, pod_set=least, given={"count": 3})
    one = job(parallelism=5, completions=5, annotations={LEAST: "2"})
    (action,) = plan(seen(one, known), NOW)
    assert isinstance(action, PatchJob)
    assert action.body["spec"] == {"suspend": False, "parallelism": 3, "template": GIVEN}
    now = running(parallelism=3, completions=5, annotations={LEAST: "2"})
    assert plan(seen(now, known), NOW) == ()


def test_a_missing_flavor_is_waited_for() -> None:
    assert plan(seen(job(), workload(RESERVED, ADMITTED), flavors={}), NOW) == (Await(),)


def test_a_check_that_contradicts_a_flavor_ends_the_workload() -> None:
    update = {"name": "main", "nodeSelector": {"pool": "other"}}
    check = {"name": "c", "state": "Ready", "podSetUpdates": [update]}
    known = workload(RESERVED, ADMITTED, status={"admissionChecks": [check]})
    (action,) = plan(seen(job(), known), NOW)
    assert isinstance(action, Finish)
    assert action.reason == "FailedToStart"
    assert action.message == (
        'in admission check "c": invalid admission check PodSetUpdate: '
        "conflict for nodeSelector: conflict for key=pool, value1=spot, value2=other"
    )


def test_a_flavor_that_contradicts_the_template_ends_the_workload() -> None:
    template: Tree = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"pool": "mine"}}}  # type: ignore[dict-item]  # decoded JSON is Json
    kept: Tree = {**PLAIN, "spec": template["spec"]}
    (action,) = plan(seen(job(template=template), workload(RESERVED, ADMITTED, template=kept)), NOW)
    assert isinstance(action, Finish)
    assert action.message == (
        "invalid admission check PodSetUpdate: "
        "conflict for nodeSelector: conflict for key=pool, value1=mine, value2=spot"
    )


def test_a_job_waits_for_its_checks_and_hears_of_them() -> None:
    checks = [
        {"name": "a", "state": "Pending", "message": "asked"},
        {"name": "b", "state": "Ready", "message": "fine"},
        {"name": "c", "state": "Pending", "message": "in line"},
        {"name": "d", "state": "Pending", "message": ""},
    ]
    known = workload(RESERVED, status={"admissionChecks": checks})
    assert plan(seen(job(), known), NOW) == (
        SendEvent(Notice("UpdatedAdmissionCheck", "a: asked; c: in line", by_note=True)),
    )


# Stop.


@pytest.mark.parametrize(
    ("one", "known", "does"),
    [
        pytest.param(
            running(),
            workload(RESERVED, ADMITTED, evicted()),
            (stopping("Preempted to accommodate a workload"),),
            id="evicted",
        ),
        pytest.param(
            running(template=TEMPLATE),
            workload(),
            (stopping("Not admitted by cluster queue", confirm=True),),
            id="not admitted",
        ),
        pytest.param(
            running(),
            workload(RESERVED, ADMITTED, metadata={"deletionTimestamp": "2026-01-01T11:59:00Z"}),
            (stopping("Workload is deleted"),),
            id="its Workload deleted",
        ),
    ],
)
def test_a_running_job_is_stopped_when(one: JobView, known: object, does: tuple[Action, ...]) -> None:
    assert plan(seen(one, known), NOW) == does  # type: ignore[arg-type]  # a table gives it as an object


EVICTED = workload(RESERVED, ADMITTED, evicted())


RESTORED: Tree = {
    "template": {
        "metadata": {
            "labels": {
                "kueue.x-k8s.io/podset": None,
                "kueue.x-k8s.io/local-queue-name": None,
                "kueue.x-k8s.io/cluster-queue-name": None,
            },
            "annotations": {"kueue.x-k8s.io/workload": None},
        },
        "spec": {"nodeSelector": {"pool": None}, "tolerations": None},
    }
}
HELD = {"suspend": True, "annotations": {STOPPING: "true"}}
RESTORE = PatchJob({"metadata": {"annotations": {STOPPING: None}}, "spec": RESTORED}, last=True)


def test_an_evicted_job_is_restored_when_its_pods_are_gone_and_then_says_so() -> None:
    assert plan(seen(running(**HELD), EVICTED), NOW) == ()
    assert plan(seen(running(**HELD, status={}), EVICTED), NOW) == (RESTORE, Stopped(EVICTED))
    assert plan(seen(job(status={"active": 3}), EVICTED), NOW) == ()
    assert plan(seen(job(), EVICTED), NOW) == (Stopped(EVICTED),)
    assert plan(seen(job(), workload(evicted())), NOW) == ()


def test_pods_may_appear_for_a_while_when_a_start_was_not_noticed() -> None:
    given = seen(running(**HELD, status={}), EVICTED, unsure_until=later(0.5))
    assert plan(given, NOW) == (RESTORE, LookAgain(0.5))
    assert plan(given, later(0.5)) == (RESTORE, Stopped(EVICTED))


def test_before_kubernetes_1_36_the_start_time_goes_first() -> None:
    one = running(**HELD, status={"startTime": "2026-01-01T11:30:00Z"})
    assert plan(seen(one, EVICTED), NOW) == (PatchJob({"status": {"startTime": None}}, status=True),)


def test_a_stop_that_was_begun_is_ended_though_the_quota_is_gone() -> None:
    assert plan(seen(running(**HELD, status={}), workload(evicted())), NOW) == (RESTORE,)


def test_the_template_of_a_job_that_its_user_edits_while_it_waits_is_left_alone() -> None:
    edited: Tree = {**TEMPLATE, "metadata": {"labels": {"app": "mine"}}}
    assert plan(seen(job(template=edited), workload(evicted())), NOW) == ()


def test_a_job_that_was_admitted_while_it_stopped_ends_its_stop_before_it_starts() -> None:
    one = job(annotations={STOPPING: "true"})
    assert plan(seen(one, workload(RESERVED, ADMITTED)), NOW) == (
        PatchJob({"metadata": {"annotations": {STOPPING: None}}}, last=True),
    )


def test_a_job_that_its_user_suspended_is_restored_all_the_same() -> None:
    assert plan(seen(running(suspend=True), EVICTED), NOW) == ()
    found = plan(seen(running(suspend=True, status={}), EVICTED), NOW)
    assert found == (PatchJob({"spec": RESTORED}, last=True), Stopped(EVICTED))


def test_a_job_that_must_change_waits_for_its_pods_before_it_starts() -> None:
    assert plan(seen(job(status={"active": 1}), workload(RESERVED, ADMITTED)), NOW) == ()


def test_the_finalizer_of_a_deleted_workload_stays_until_its_job_is_restored() -> None:
    going = workload(RESERVED, ADMITTED, metadata={"deletionTimestamp": "2026-01-01T11:59:00Z"})
    assert plan(seen(running(**HELD), going), NOW) == ()
    assert plan(seen(running(suspend=True), going), NOW) == ()
    assert plan(seen(running(**HELD, status={}), going), NOW) == (RESTORE,)


def test_the_finalizer_of_a_deleted_workload_goes_when_its_job_is_stopped() -> None:
    going = workload(RESERVED, ADMITTED, metadata={"deletionTimestamp": "2026-01-01T11:59:00Z"})
    assert plan(seen(job(status={"active": 3}), going), NOW) == (RemoveFinalizer(going),)


def test_a_missing_class_does_not_keep_an_evicted_job_from_stopping() -> None:
    given = seen(running(labels={PRIORITY: "none"}), EVICTED)
    assert plan(given, NOW) == (stopping("Preempted to accommodate a workload"),)


LIMITED = evicted("DeactivatedDueToRequeuingLimitExceeded", "over the limit")


@pytest.mark.parametrize(
    ("known", "keep", "does"),
    [
        pytest.param(
            workload(LIMITED, active=False),
            3600,
            (DeleteJob(Notice("Deleted", "Deleted job: deactivation retention period expired")),),
            id="after its time",
        ),
        pytest.param(workload(LIMITED, active=False), 4200, (LookAgain(600.0),), id="not before"),
        pytest.param(workload(LIMITED), 0, (), id="not once it is active again"),
        pytest.param(workload(evicted("Deactivated"), active=False), 0, (), id="not when its user deactivated it"),
        pytest.param(workload(LIMITED, active=False), None, (), id="not when jobs are kept"),
    ],
)
def test_a_job_that_we_deactivated_is_deleted(known: object, keep: int | None, does: tuple[Action, ...]) -> None:
    rules = Rules(delete_after=None if keep is None else Micros(keep * SECOND))
    assert plan(seen(job(), known, rules=rules), NOW) == does  # type: ignore[arg-type]  # a table gives it as an object


# The end.


@pytest.mark.parametrize(
    ("kind", "reason"), [pytest.param("Complete", "Succeeded", id="well"), pytest.param("Failed", "Failed", id="badly")]
)
def test_a_workload_is_finished_when_its_job_ended(kind: str, reason: str) -> None:
    status: Tree = {"conditions": [{"type": kind, "status": "True", "message": "so it was"}]}
    found = plan(seen(running(status=status), workload(RESERVED, ADMITTED)), NOW)
    assert found == (finish(reason, "so it was"),)


def test_a_job_that_is_about_to_end_is_not_finished() -> None:
    status: Tree = {"active": 1, "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}
    assert plan(seen(running(status=status), workload(RESERVED, ADMITTED)), NOW) == ()


@pytest.mark.parametrize(
    ("reason", "notice"),
    [
        pytest.param("Succeeded", None, id="told already"),
        pytest.param("ByHand", Notice("FinishedWorkload", f"Workload '{KEY}' is declared finished"), id="by another"),
    ],
)
def test_a_finished_workload_is_let_go(reason: str, notice: Notice | None) -> None:
    over = workload(RESERVED, ADMITTED, condition("Finished", True, reason))
    for one in (job(), running(), job(status=DONE)):
        assert plan(seen(one, over), NOW) == (RemoveFinalizer(over, notice),)


GOING = {"deletionTimestamp": "2026-01-01T11:59:00Z"}


@pytest.mark.parametrize(
    "one", [pytest.param(None, id="gone"), pytest.param(job(metadata=GOING, selected=False), id="being deleted")]
)
def test_the_workload_of_a_job_is_over_when_that_is(one: JobView | None) -> None:
    known = workload(RESERVED, ADMITTED)
    assert plan(seen(one, known), NOW) == (Finish(known, "OwnerNotFound", "The workload's owner no longer exists"),)
    over = workload(condition("Finished", True, "OwnerNotFound"))
    assert plan(seen(one, over), NOW) == (RemoveFinalizer(over),)
    going = workload(RESERVED, ADMITTED, metadata=GOING)
    assert plan(seen(one, going), NOW) == (RemoveFinalizer(going),)
    assert plan(seen(one, known, rules=Rules(finish_orphans=False)), NOW) == (RemoveFinalizer(known),)
    assert plan(seen(one, workload(condition("Finished", True), finalizers=[])), NOW) == ()


# Workloads that were made before their jobs.

ASKS = {"labels": {PREBUILT: "made"}}


def prebuilt(*conditions: Tree, **parts: object) -> object:
    return workload(*conditions, **{"name": "made", "finalizers": [], **parts})


def test_a_prebuilt_workload_becomes_that_of_its_job() -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c-1"}
    known = prebuilt(owner=None, metadata={"ownerReferences": [other], "labels": {}})
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "uid": "u-1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    body = {"metadata": {"ownerReferences": [other, owner], "labels": {"kueue.x-k8s.io/job-uid": "u-1"}}}
    assert plan(seen(job(**ASKS), prebuilt=known), NOW) == (UpdateWorkload(known, body),)  # type: ignore[arg-type]  # a table gives it as an object


@pytest.mark.parametrize(
    ("asks", "rules", "uses"),
    [
        pytest.param({"labels": {PREBUILT: "made"}}, Rules(), True, id="by label"),
        pytest.param({"annotations": {PREBUILT: "made"}}, Rules(), True, id="by annotation"),
        pytest.param(
            {"annotations": {PREBUILT: "made"}}, Rules(prebuilt_annotations=False), False, id="by annotation, gate off"
        ),
    ],
)
def test_a_job_names_its_workload(asks: dict[str, dict[str, str]], rules: Rules, uses: bool) -> None:
    (action,) = plan(seen(job(**asks), prebuilt=prebuilt(owner=None), rules=rules), NOW)
    assert isinstance(action, UpdateWorkload if uses else CreateWorkload)


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(None, id="there is none"),
        pytest.param(prebuilt(owner="u-9"), id="it is another's"),
        pytest.param(prebuilt(condition("Finished", True, "OutOfSync")), id="it was out of step"),
    ],
)
def test_a_job_waits_for_its_prebuilt_workload_when(known: object) -> None:
    assert plan(seen(job(**ASKS), prebuilt=known), NOW) == ()
    assert plan(seen(running(**ASKS), prebuilt=known), NOW) == (stopping("missing workload", confirm=True),)
    assert plan(seen(running(**ASKS, status=DONE), prebuilt=known), NOW) == ()


def test_a_prebuilt_workload_that_does_not_equal_its_job_is_over() -> None:
    known = prebuilt(count=2)
    says = "The prebuilt workload is out of sync with its user job"
    notice = Notice("FinishedWorkload", "Workload 'team/made' is declared finished")
    assert plan(seen(job(**ASKS), prebuilt=known), NOW) == (Finish(known, "OutOfSync", says, notice),)  # type: ignore[arg-type]  # a table gives it as an object


def test_a_prebuilt_workload_need_not_spell_out_what_the_server_fills_in() -> None:
    bare: Tree = {
        "spec": {
            "containers": [
                {"name": "main", "image": "example.com/train:1", "resources": {"requests": {"cpu": "1000m"}}}
            ],
            "restartPolicy": "Never",
        }
    }
    known = prebuilt(RESERVED, ADMITTED, template=bare)
    (action,) = plan(seen(job(**ASKS), known, prebuilt=known), NOW)  # type: ignore[arg-type]  # a table gives it as an object
    assert isinstance(action, PatchJob)
    assert action.notice == STARTED


def test_a_workload_of_our_own_goes_when_the_job_names_another() -> None:
    known = prebuilt()
    assert plan(seen(job(**ASKS), workload(), known, prebuilt=known), NOW) == (deleted(),)  # type: ignore[arg-type]  # a table gives it as an object


def test_the_priority_of_a_prebuilt_workload_is_its_own() -> None:
    known = prebuilt()
    one = job(labels={PREBUILT: "made", PRIORITY: "high"})
    assert plan(seen(one, known, prebuilt=known, classes=Classes({"high": 7})), NOW) == ()  # type: ignore[arg-type]  # a table gives it as an object
    moved = job(labels={PREBUILT: "made", QUEUE: "next"})
    update = UpdateWorkload(known, {"spec": {"queueName": "next"}})  # type: ignore[arg-type]  # a table gives it as an object
    assert plan(seen(moved, known, prebuilt=known), NOW) == (update,)  # type: ignore[arg-type]  # a table gives it as an object


# What the Workload learns of the job.


def ready(good: bool) -> dict[str, object]:
    return {"status": {"startTime": "2026-01-01T11:30:00Z", "active": 3, "ready": 3 if good else 2}}


@pytest.mark.parametrize(
    ("one", "conditions", "found"),
    [
        pytest.param(
            job(), (), (False, "WaitForStart", "Not all pods are ready or succeeded"), id="pending, unheard of"
        ),
        pytest.param(job(), (UNREADY,), None, id="pending"),
        pytest.param(
            job(),
            (condition("PodsReady", False, "WaitForRecovery"),),
            (False, "WaitForStart", "Not all pods are ready or succeeded"),
            id="pending again after an eviction",
        ),
        pytest.param(
            running(**ready(True)),
            (RESERVED, ADMITTED, UNREADY),
            (True, "Started", "All pods reached readiness and the workload is running"),
            id="ready",
        ),
        pytest.param(
            running(**ready(True)),
            (RESERVED, ADMITTED, condition("PodsReady", True, "PodsReady")),
            (True, "Started", "All pods reached readiness and the workload is running"),
            id="ready, by the name that the reason had before",
        ),
        pytest.param(
            running(**ready(True)),
            (RESERVED, ADMITTED, condition("PodsReady", True, "Started")),
            None,
            id="still ready",
        ),
        pytest.param(
            running(**ready(False)),
            (RESERVED, ADMITTED, condition("PodsReady", True, "Started")),
            (False, "WaitForRecovery", "At least one pod has failed, waiting for recovery"),
            id="one pod lost",
        ),
        pytest.param(
            running(**ready(False)),
            (RESERVED, ADMITTED, condition("PodsReady", False, "WaitForRecovery")),
            None,
            id="still lost",
        ),
        pytest.param(
            running(**ready(True)),
            (RESERVED, ADMITTED, condition("PodsReady", False, "WaitForRecovery")),
            (True, "Recovered", "All pods reached readiness and the workload is running"),
            id="replaced",
        ),
        pytest.param(
            running(**ready(True)),
            (RESERVED, ADMITTED, condition("PodsReady", True, "Recovered")),
            None,
            id="still replaced",
        ),
        pytest.param(
            running(**ready(False)),
            (RESERVED, ADMITTED, condition("PodsReady", False, "PodsReady")),
            (False, "WaitForStart", "Not all pods are ready or succeeded"),
            id="not ready, by the name that the reason had before",
        ),
    ],
)
def test_whether_the_pods_are_ready(
    one: JobView, conditions: tuple[Tree, ...], found: tuple[bool, str, str] | None
) -> None:
    known = workload(*conditions)
    does = () if found is None else (WritePodsReady(known, *found),)
    assert plan(seen(one, known, rules=READY), NOW) == does
    assert plan(seen(one, known), NOW) == ()


def test_whoever_gives_out_quota_writes_first() -> None:
    fresh = seen(job(), workload(), rules=READY, fresh_until=later(0.25))
    assert plan(fresh, NOW) == (LookAgain(0.25),)
    assert plan(fresh, later(0.25)) == (
        WritePodsReady(workload(), False, "WaitForStart", "Not all pods are ready or succeeded"),
    )


def test_a_job_that_starts_at_once_may_be_ready_or_over_before_its_pods_are_called_not_ready() -> None:
    known = workload(RESERVED, ADMITTED)
    starting = seen(job(), known, rules=READY, fresh_until=later(0.25))
    assert [type(one) for one in plan(starting, NOW)] == [PatchJob, LookAgain]
    assert [type(one) for one in plan(starting, later(0.25))] == [PatchJob, WritePodsReady]
    started = seen(running(**ready(True)), known, rules=READY, fresh_until=later(0.25))
    assert [(one.ready, one.reason) for one in plan(started, NOW) if isinstance(one, WritePodsReady)] == [
        (True, "Started")
    ]


def test_pods_that_must_go_are_no_failure() -> None:
    known = workload(RESERVED, ADMITTED, condition("PodsReady", True, "Started"), evicted())
    assert plan(seen(running(**ready(False)), known, rules=READY), NOW) == (
        stopping("Preempted to accommodate a workload"),
    )


@pytest.mark.parametrize(
    ("done", "before", "conditions", "writes"),
    [
        pytest.param(1, (), (RESERVED, ADMITTED), (("main", 1),), id="one is done"),
        pytest.param(1, (("main", 1),), (RESERVED, ADMITTED), None, id="known"),
        pytest.param(0, (("main", 1),), (RESERVED, ADMITTED), None, id="never fewer while quota is held"),
        pytest.param(2, (("main", 1),), (RESERVED, ADMITTED), (("main", 2),), id="more"),
    ],
)
def test_pods_that_are_done_give_their_quota_back(
    done: int,
    before: tuple[tuple[str, int], ...],
    conditions: tuple[Tree, ...],
    writes: tuple[tuple[str, int], ...] | None,
) -> None:
    known = workload(
        *conditions, status={"reclaimablePods": [{"name": name, "count": count} for name, count in before]}
    )
    one = running(status={"startTime": "2026-01-01T11:30:00Z", "active": 3 - done, "succeeded": done})
    assert plan(seen(one, known), NOW) == (() if writes is None else (WriteReclaimable(known, writes),))
    assert plan(seen(one, known, rules=Rules(reclaimable=False)), NOW) == ()


def test_a_pending_job_that_begins_anew_reclaims_nothing() -> None:
    known = workload(status={"reclaimablePods": [{"name": "main", "count": 1}]})
    assert plan(seen(job(), known), NOW) == (WriteReclaimable(known, ()),)


def test_no_more_pods_are_reclaimed_than_the_set_has() -> None:
    known = workload(RESERVED, ADMITTED, count=3, pod_set={"minCount": 2}, given={"count": 2})
    one = running(parallelism=2, completions=9, annotations={LEAST: "2"}, status={"active": 1, "succeeded": 9})
    (action,) = plan(seen(one, known), NOW)
    assert action == WriteReclaimable(known, (("main", 2),))


# The Workload follows its job.

HIGH = Classes({"high": 7, "low": 1}, {"pods": 3})
LOW: Tree = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "low"}
PODS: Tree = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "pods"}
RAISED: Tree = {"priority": 7, "priorityClassRef": {**LOW, "name": "high"}}
CHANGED = Notice("UpdatedWorkload", f"Updated workload priority class: {KEY}")


@pytest.mark.parametrize(
    ("label", "conditions", "spec", "writes"),
    [
        pytest.param("high", (), {"priority": 1, "priorityClassRef": LOW}, RAISED, id="another class"),
        pytest.param(
            "high", (RESERVED, ADMITTED), {"priority": 1, "priorityClassRef": LOW}, RAISED, id="another class, running"
        ),
        pytest.param("low", (), {"priority": 9, "priorityClassRef": LOW}, None, id="the same class, another value"),
        pytest.param("high", (), {}, RAISED, id="a first class"),
        pytest.param("high", (RESERVED, ADMITTED), {}, None, id="a first class, too late"),
        pytest.param("high", (), {"priority": 3, "priorityClassRef": PODS}, None, id="a class beside that of its pods"),
        pytest.param(
            "", (), {"priority": 1, "priorityClassRef": LOW}, {"priority": 0, "priorityClassRef": None}, id="none"
        ),
        pytest.param("", (RESERVED, ADMITTED), {"priority": 1, "priorityClassRef": LOW}, None, id="none, too late"),
    ],
)
def test_the_priority_follows_the_label(
    label: str, conditions: tuple[Tree, ...], spec: Tree, writes: Tree | None
) -> None:
    known = workload(*conditions, **spec)
    one = (running if conditions else job)(labels={PRIORITY: label})
    does = () if writes is None else (UpdateWorkload(known, {"spec": writes}, (CHANGED,)),)
    assert plan(seen(one, known, classes=HIGH), NOW) == does


def test_a_missing_class_is_told_and_the_old_priority_kept() -> None:
    known = workload(RESERVED, ADMITTED, priority=1, priorityClassRef=LOW)
    assert plan(seen(running(labels={PRIORITY: "none"}), known, classes=HIGH), NOW) == (
        told("WorkloadPriorityClassNotFound", 'WorkloadPriorityClass "none" not found'),
        Await(),
    )


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        pytest.param("x.io/a,x.io/b", "x.io/b", 'Updated workload AdmissionGatedBy to "x.io/b"', id="one gone"),
        pytest.param("x.io/a", "", 'Updated workload AdmissionGatedBy to ""', id="all gone"),
    ],
)
def test_gates_follow_the_annotation(before: str, now: str, says: str) -> None:
    known = workload(metadata={"annotations": {GATED: before}})
    one = job(annotations={GATED: now} if now else {})
    body: Tree = {"metadata": {"annotations": {GATED: now or None}}}
    assert plan(seen(one, known), NOW) == (UpdateWorkload(known, body, (Notice("UpdatedWorkload", says),)),)
    assert plan(seen(one, known, rules=Rules(gated=False)), NOW) == ()


def test_the_queue_follows_the_label_while_no_quota_is_held() -> None:
    one = job(labels={QUEUE: "next"})
    assert plan(seen(one, workload()), NOW) == (UpdateWorkload(workload(), {"spec": {"queueName": "next"}}),)
    assert plan(seen(one, workload(RESERVED)), NOW) == ()


def test_all_that_changed_is_one_patch() -> None:
    known = workload(metadata={"annotations": {GATED: "x.io/a"}}, priority=1, priorityClassRef=LOW)
    one = job(labels={QUEUE: "next", PRIORITY: "high"})
    (action,) = plan(seen(one, known, classes=HIGH), NOW)
    assert isinstance(action, UpdateWorkload)
    assert action.body == {
        "metadata": {"annotations": {GATED: None}},
        "spec": {**RAISED, "queueName": "next"},
    }
    assert len(action.notices) == 2
