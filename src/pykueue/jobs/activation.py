"""Hold, release and requeue: annotations on a job that turn into `spec.active` of its Workload.

The owner of a job may annotate it but may not write its Workload. A hold deactivates the Workload until the annotation
is removed; a requeue deactivates it once for each value of its annotation, and activates it again when its quota is
released. Each step is one patch of the Workload at the version that was seen, and the patch records the step on the
Workload too: a kill between two steps repeats none, and what another client has deactivated is never activated here.
"""

from typing import Final

from pykueue.api.core import ObjectMeta, Tree
from pykueue.api.names import Annotation, WorkloadCondition
from pykueue.api.workload import Workload
from pykueue.jobs.actions import NOTHING, Actions, Notice, UpdateWorkload
from pykueue.jobs.kind import Described
from pykueue.jobs.seen import holds, reserved

YES: Final = "true"
VALUE_MAX: Final = 64
"""The longest value of a requeue: a timestamp, and room for others. A longer one is ignored."""
HOLD: Final = "hold"
REQUEUE: Final = "requeue"
"""Why we deactivated a Workload."""
HELD: Final = Notice("Held", f"Held by the annotation {Annotation.HOLD}")
RELEASED: Final = Notice("Released", f"Released: the annotation {Annotation.HOLD} was removed")
REQUEUED: Final = Notice("Requeued", f"Evicted and queued again by the annotation {Annotation.REQUEUE}")


def activation(job: Described, workload: Workload) -> Actions:
    """The next write to hold, release or requeue a job that has not finished; empty if there is none."""
    marks = workload.metadata.annotations
    hold, ours = is_held(job.metadata), marks.get(Annotation.DEACTIVATED_BY, "")
    asked = requeue_value(job.metadata)
    requeue = asked not in ("", marks.get(Annotation.REQUEUED, ""))
    done: Tree = {Annotation.REQUEUED.value: asked} if requeue else {}
    if workload.spec.active:
        if holds(workload, WorkloadCondition.DEACTIVATION_TARGET):
            # The scheduler is deactivating it, which a release must not undo.
            return NOTHING
        if hold:
            return updated(workload, {**done, **marked(HOLD)}, HELD, active=False)
        if requeue and reserved(workload) and not holds(workload, WorkloadCondition.EVICTED):
            return updated(workload, {**done, **marked(REQUEUE)}, REQUEUED, active=False)
        # If it is marked, another client has activated it; its next deactivation is not ours.
        return updated(workload, {**done, **(marked(None) if ours else {})})
    if not ours:
        return updated(workload, done)
    if hold:
        return updated(workload, {**done, **(marked(HOLD) if ours != HOLD else {})})
    if reserved(workload):
        return updated(workload, done)
    return updated(workload, {**done, **marked(None)}, RELEASED if ours == HOLD else None, active=True)


def is_held(metadata: ObjectMeta) -> bool:
    """Whether the owner of a job holds it."""
    return metadata.annotations.get(Annotation.HOLD) == YES


def requeue_value(metadata: ObjectMeta) -> str:
    """The value that asks for one requeue of a job; empty if there is none."""
    found = metadata.annotations.get(Annotation.REQUEUE, "")
    return found if len(found) <= VALUE_MAX else ""


def marks_of_new(metadata: ObjectMeta) -> Tree:
    """The annotations of a job's new Workload: a hold applies at once, and there is nothing to requeue yet."""
    asked = requeue_value(metadata)
    return {
        **(marked(HOLD) if is_held(metadata) else {}),
        **({Annotation.REQUEUED.value: asked} if asked else {}),
    }


def marked(by: str | None) -> Tree:
    """The annotation that records why we deactivated a Workload, or removes the record."""
    return {Annotation.DEACTIVATED_BY.value: by}


def updated(workload: Workload, marks: Tree, notice: Notice | None = None, *, active: bool | None = None) -> Actions:
    """Set these annotations of a Workload, and activate or deactivate it."""
    if not marks:
        return NOTHING
    spec: Tree = {} if active is None else {"spec": {"active": active}}
    return (
        UpdateWorkload(workload, {"metadata": {"annotations": marks}, **spec}, () if notice is None else (notice,)),
    )
