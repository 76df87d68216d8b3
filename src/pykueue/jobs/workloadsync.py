"""How a Workload follows its job: creation, updates, reclaimable pods and readiness."""

from collections.abc import Sequence
from typing import Final

from pykueue.api.core import Json, Tree
from pykueue.api.names import Annotation, WorkloadCondition
from pykueue.api.workload import Workload, condition
from pykueue.base.units import MICROS, Instant
from pykueue.jobs.actions import (
    NOTHING,
    Actions,
    Await,
    CreateWorkload,
    DeleteWorkload,
    LookAgain,
    Notice,
    SendEvent,
    UpdateWorkload,
    WritePodsReady,
    WriteReclaimable,
)
from pykueue.jobs.activation import is_held, marks_of_new
from pykueue.jobs.kind import Described
from pykueue.jobs.seen import JobInput, admitted, finished, holds, key_of, owned, reserved
from pykueue.jobs.workload import (
    WORKLOAD_CLASS,
    MissingClass,
    Priority,
    carried_annotations,
    class_label,
    gates_annotation,
    owner_reference,
    pod_class_of,
    prebuilt_name,
    priority_of,
    queue_label,
    run_limit,
    spec_tree,
    uid_label,
    workload_name,
    workload_object,
)

WAIT_FOR_START: Final = "WaitForStart"
WAIT_FOR_RECOVERY: Final = "WaitForRecovery"
STARTED: Final = "Started"
RECOVERED: Final = "Recovered"
NOT_READY_SAYS: Final = "Not all pods are ready or succeeded"
RECOVERY_SAYS: Final = "At least one pod has failed, waiting for recovery"
READY_SAYS: Final = "All pods reached readiness and the workload is running"


def created(seen: JobInput, job: Described) -> Actions:
    """Create a Workload for the job, once no pod of it is left."""
    if seen.kind.active(job):
        return NOTHING
    if seen.beyond:
        return tuple(SendEvent(unsupported(text)) for text in seen.beyond)
    pod_sets, priority = asked(seen, job)
    if isinstance(priority, MissingClass):
        return (SendEvent(missing_notice(priority)), Await())
    metadata = job.metadata
    name = new_name(seen, job)
    labels: Tree = {key: metadata.labels[key] for key in seen.rules.labels_to_copy if key in metadata.labels}
    annotations = {
        key: metadata.annotations[key] for key in seen.rules.annotations_to_copy if key in metadata.annotations
    }
    tree = workload_object(
        name,
        seen.namespace,
        {**labels, **uid_label(metadata.uid or "")},
        {**annotations, **carried_annotations(metadata, gated=seen.rules.gated), **marks_of_new(metadata)},
        owner_of(seen, job),
        spec_of(job, pod_sets, priority) | ({"active": False} if is_held(metadata) else {}),
    )
    return (CreateWorkload(tree, Notice("CreatedWorkload", f"Created Workload: {seen.namespace}/{name}")),)


def new_name(seen: JobInput, job: Described) -> str:
    """The name of the job's Workload."""
    name, uid = job.metadata.name or "", job.metadata.uid or ""
    kind = seen.kind
    return workload_name(kind=kind.kind, group=kind.group, name=name, uid=uid, short=seen.rules.short_names)


def asked(seen: JobInput, job: Described) -> tuple[tuple[Tree, ...], Priority | MissingClass]:
    """The job's pod sets and priority."""
    pod_sets = seen.kind.pod_sets(job, partial=seen.rules.partial, topology=seen.rules.injection.workload)
    pod_class = seen.kind.priority_class(job) or pod_class_of(pod_sets)
    return pod_sets, priority_of(class_label(job.metadata), pod_class, seen.classes)


def spec_of(job: Described, pod_sets: Sequence[Tree], priority: Priority) -> Tree:
    """The spec of the job's Workload."""
    return spec_tree(pod_sets, queue_label(job.metadata), priority, run_limit(job.metadata))


def may_be_rewritten(job: Described, workload: Workload) -> bool:
    """Whether a Workload that does not match its suspended job can be updated to match."""
    return (
        owned(job, workload)
        and not reserved(workload)
        and not finished(workload)
        and workload.metadata.deletion_timestamp is None
    )


def rewritten(seen: JobInput, job: Described, workload: Workload, others: Sequence[Workload]) -> Actions:
    """Update a pending Workload to match its job; delete the others."""
    pod_sets, priority = asked(seen, job)
    sent: Actions = NOTHING
    if isinstance(priority, MissingClass):
        # The pod sets must be right even if the priority class is missing.
        sent = (SendEvent(missing_notice(priority)), Await())
        was = workload.spec.priority_class_ref
        value = workload.spec.priority or 0
        priority = Priority(value) if was is None else Priority(value, was.group, was.kind, was.name)
    body = spec_of(job, pod_sets, priority)
    body.setdefault("queueName", None)
    body.setdefault("priorityClassRef", None)
    body.setdefault("maximumExecutionTimeSeconds", None)
    notice = Notice("UpdatedWorkload", f"Updated not matching Workload for suspended job: {key_of(workload)}")
    return (*map(deleted, others), UpdateWorkload(workload, {"spec": body}, (notice,)), *sent)


def deleted(workload: Workload) -> DeleteWorkload:
    """Delete a superfluous Workload."""
    return DeleteWorkload(workload, Notice("DeletedWorkload", f"Deleted not matching Workload: {key_of(workload)}"))


def adopted(seen: JobInput, job: Described, workload: Workload) -> Tree:
    """The merge patch by which a job adopts a Workload."""
    others: list[Json] = [
        {
            "apiVersion": one.api_version,
            "kind": one.kind,
            "name": one.name,
            "uid": one.uid,
            **({} if one.controller is None else {"controller": one.controller}),
            **({} if one.block_owner_deletion is None else {"blockOwnerDeletion": one.block_owner_deletion}),
        }
        for one in workload.metadata.owner_references
        if one.uid != job.metadata.uid
    ]
    metadata: Tree = {"ownerReferences": [*others, owner_of(seen, job)]}
    labels = uid_label(job.metadata.uid or "")
    return {"metadata": {**metadata, "labels": labels} if labels else metadata}


def owner_of(seen: JobInput, job: Described) -> Tree:
    """The owner reference to the job."""
    version = f"{seen.kind.group}/{seen.kind.version}" if seen.kind.group else seen.kind.version
    return owner_reference(api_version=version, kind=seen.kind.kind, metadata=job.metadata)


def reclaimed(seen: JobInput, job: Described, workload: Workload) -> Actions:
    """Write the reclaimable pods; while quota is held, their number never decreases."""
    found = seen.kind.reclaimable(job) if seen.rules.reclaimable else None
    if found is None or not (found or workload.status.reclaimable_pods):
        return NOTHING
    sizes = {one.name: one.count for one in workload.spec.pod_sets}
    wanted = {name: min(count, sizes[name]) for name, count in found.items() if name in sizes}
    known = {one.name: one.count for one in workload.status.reclaimable_pods}
    if reserved(workload):
        wanted = {
            name: max(wanted.get(name, 0), known.get(name, 0)) for name in sizes if name in wanted or name in known
        }
    return NOTHING if wanted == known else (WriteReclaimable(workload, tuple(sorted(wanted.items()))),)


def readiness(seen: JobInput, job: Described, workload: Workload, now: Instant) -> Actions:
    """Write whether the pods are ready, if waitForPodsReady is on."""
    if not seen.rules.pods_ready:
        return NOTHING
    known = condition(workload, WorkloadCondition.PODS_READY)
    before = "" if known is None else known.reason
    if not admitted(workload):
        found = WritePodsReady(workload, False, WAIT_FOR_START, NOT_READY_SAYS)
    elif holds(workload, WorkloadCondition.EVICTED):
        # Its pods are being stopped; that is no failure to recover from.
        return NOTHING
    elif seen.kind.pods_ready(job):
        again = before in (WAIT_FOR_RECOVERY, RECOVERED)
        found = WritePodsReady(workload, True, RECOVERED if again else STARTED, READY_SAYS)
    elif known is not None and (known.status == "True" or before == WAIT_FOR_RECOVERY):
        found = WritePodsReady(workload, False, WAIT_FOR_RECOVERY, RECOVERY_SAYS)
    else:
        found = WritePodsReady(workload, False, WAIT_FOR_START, NOT_READY_SAYS)
    if known is None and not found.ready and seen.fresh_until is not None and now < seen.fresh_until:
        # Without the condition, pods count as not ready, too. Its admission is usually in flight, and two concurrent
        # writes would conflict; and often the pods are ready, or the job has ended, a moment later.
        return (LookAgain((seen.fresh_until - now) / MICROS),)
    same = known is not None and (known.status == "True", before) == (found.ready, found.reason)
    return NOTHING if same else (found,)


def kept_up(seen: JobInput, job: Described, workload: Workload) -> Actions:
    """Make queue, priority class and gates of the Workload follow those of a pending or running job."""
    if prebuilt_name(job.metadata, annotations=seen.rules.prebuilt_annotations):
        return queue_followed(seen, job, workload, {}, (), check_events(seen, job, workload))
    gates = gates_annotation(job.metadata)
    body: Tree = {}
    notices: list[Notice] = []
    if seen.rules.gated and gates != gates_annotation(workload.metadata):
        body["metadata"] = {"annotations": {Annotation.ADMISSION_GATED_BY.value: gates or None}}
        notices.append(Notice("UpdatedWorkload", f'Updated workload AdmissionGatedBy to "{gates}"'))
    sent = check_events(seen, job, workload)
    changed = class_changed(seen, job, workload)
    if isinstance(changed, MissingClass):
        sent = (*sent, SendEvent(missing_notice(changed)), Await())
    elif changed is not None:
        body["spec"] = {"priority": changed.value, "priorityClassRef": changed.reference()}
        notices.append(Notice("UpdatedWorkload", f"Updated workload priority class: {key_of(workload)}"))
    return queue_followed(seen, job, workload, body, tuple(notices), sent)


def queue_followed(
    seen: JobInput, job: Described, workload: Workload, body: Tree, notices: tuple[Notice, ...], sent: Actions
) -> Actions:
    """Add the job's queue to the Workload's patch, if it has changed and may change."""
    queue = queue_label(job.metadata)
    # The API forbids moving a Workload that holds quota, so the move waits until it has none.
    if queue != (workload.spec.queue_name or "") and seen.kind.suspended(job) and not reserved(workload):
        spec = body.get("spec")
        body = {**body, "spec": {**(spec if isinstance(spec, dict) else {}), "queueName": queue or None}}
    return (*sent, UpdateWorkload(workload, body, notices)) if body else sent


def class_changed(seen: JobInput, job: Described, workload: Workload) -> Priority | MissingClass | None:
    """The new priority after a change of the job's class; None if nothing changes."""
    was = workload.spec.priority_class_ref
    if was is not None and was.kind != WORKLOAD_CLASS:
        return None
    name = class_label(job.metadata)
    if name == ("" if was is None else was.name) or (was is None and reserved(workload)):
        return None
    pod_sets = (
        () if name else seen.kind.pod_sets(job, partial=seen.rules.partial, topology=seen.rules.injection.workload)
    )
    found = priority_of(name, seen.kind.priority_class(job) or pod_class_of(pod_sets), seen.classes)
    if isinstance(found, Priority) and found.kind != WORKLOAD_CLASS and reserved(workload):
        # While quota is held, the API allows only the name of a class to change.
        return None
    return found


def missing_notice(missing: MissingClass) -> Notice:
    """The Event for a class that does not exist."""
    return Notice(f"{missing.kind}NotFound", f'{missing.kind} "{missing.name}" not found', warning=True)


def unsupported(text: str) -> Notice:
    """The Event for a feature that is not supported yet."""
    return Notice("Unsupported", text, warning=True, by_note=True)


def check_events(seen: JobInput, job: Described, workload: Workload) -> Actions:
    """The Event with the messages of the checks that a job with quota still waits for."""
    if not seen.kind.suspended(job) or not reserved(workload) or admitted(workload):
        return NOTHING
    changes = [
        f"{one.name}: {one.message}"
        for one in workload.status.admission_checks
        if one.state == "Pending" and one.message
    ]
    # By note: each time of arrival that a check announces is an Event of its own.
    return (SendEvent(Notice("UpdatedAdmissionCheck", "; ".join(changes), by_note=True)),) if changes else NOTHING
