"""The reduced form of a finished Workload: its identity, owner, queue and end.

There may be a hundred thousand of them, so equal values are interned. Only metadata and priority of a finished Workload
are patched: a reduced form must not be used to write a status.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from pykueue.api.core import Condition, ObjectMeta, OwnerReference
from pykueue.api.names import Label, WorkloadCondition
from pykueue.api.workload import Workload, WorkloadSpec, WorkloadStatus, held
from pykueue.base.share import NAMES, Mappings, Pool
from pykueue.jobs.plan import FAILED_TO_START

TEXTS: Final = Pool[str]()
FINALIZERS: Final = Pool[tuple[str, ...]]()
LABELS: Final = Mappings()
SPECS: Final = Pool[WorkloadSpec]()
STATUSES: Final = Pool[WorkloadStatus]()
NONE: Final = LABELS.same({})


def reducer(*, timed: bool, whole: Callable[[Workload], None] | None = None) -> Callable[[Workload], Workload]:
    """Returns the function that reduces a finished Workload, and returns any other unchanged.

    The time of its end is kept only if it is needed. `whole` is called with each finished Workload before.
    """

    def reduced(seen: Workload) -> Workload:
        finished = held(seen, WorkloadCondition.FINISHED)
        # The job of a Workload that could not start may be edited, and then no longer matches.
        if finished is None or finished.reason == FAILED_TO_START:
            return seen
        if whole is not None:
            whole(seen)
        return Workload(
            TEXTS.same(seen.api_version),
            TEXTS.same(seen.kind),
            metadata(seen.metadata),
            spec(seen.spec),
            status(seen, finished, timed=timed),
        )

    return reduced


def metadata(seen: ObjectMeta) -> ObjectMeta:
    """Its identity and owner."""
    labels = NONE
    if not seen.owner_references and Label.JOB_UID in seen.labels:
        # On an orphan this label shows that it had an owner.
        labels = {Label.JOB_UID.value: seen.labels[Label.JOB_UID]}
    return ObjectMeta(
        name=seen.name,
        namespace=TEXTS.same(seen.namespace or ""),
        uid=seen.uid,
        resource_version=seen.resource_version,
        generation=seen.generation,
        creation_timestamp=seen.creation_timestamp,
        deletion_timestamp=seen.deletion_timestamp,
        labels=labels,
        annotations=NONE,
        finalizers=FINALIZERS.same(seen.finalizers),
        owner_references=tuple(map(owner, seen.owner_references)),
    )


def owner(seen: OwnerReference) -> OwnerReference:
    """An owner, with interned texts."""
    return replace(
        seen,
        api_version=TEXTS.same(seen.api_version),
        kind=TEXTS.same(seen.kind),
        name=NAMES.same(seen.name),
        uid=NAMES.same(seen.uid),
    )


def spec(seen: WorkloadSpec) -> WorkloadSpec:
    """Its queue and its priority, which still follows its class."""
    return SPECS.same(
        WorkloadSpec(
            queue_name=seen.queue_name,
            priority_class_ref=seen.priority_class_ref,
            priority=seen.priority,
            active=seen.active,
        )
    )


def status(seen: Workload, finished: Condition, *, timed: bool) -> WorkloadStatus:
    """Its conditions, and why it is finished."""
    since = finished.last_transition_time if timed else None
    return STATUSES.same(
        WorkloadStatus(
            tuple(
                Condition(one.type, one.status, one.reason, "", since)
                if one is finished
                else Condition(one.type, one.status)
                for one in seen.status.conditions
            )
        )
    )
