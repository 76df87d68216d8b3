"""What is kept of a Workload that is over? Who it is, whose, in which queue, and that it has ended; nothing else.

There may be a hundred thousand of them, and all that they have in common is kept once. What is written of a Workload
that is over are patches of its metadata and its priority: a husk is no ground for a write of its status.
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


def husks(*, timed: bool) -> Callable[[Workload], Workload]:
    """What makes a husk of a Workload that is over, and leaves any other as it is.

    When it ended is kept only where somebody asks for it.
    """

    def husk(seen: Workload) -> Workload:
        finished = held(seen, WorkloadCondition.FINISHED)
        # A job that could not start may be edited, and then differs from what its Workload says.
        if finished is None or finished.reason == FAILED_TO_START:
            return seen
        return Workload(
            TEXTS.same(seen.api_version),
            TEXTS.same(seen.kind),
            metadata(seen.metadata),
            spec(seen.spec),
            status(seen, finished, timed=timed),
        )

    return husk


def metadata(seen: ObjectMeta) -> ObjectMeta:
    """Who it is, and whose."""
    labels = NONE
    if not seen.owner_references and Label.JOB_UID in seen.labels:
        # Without an owner this tells that it had one.
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
    """An owner, in words that it shares with others."""
    return replace(
        seen,
        api_version=TEXTS.same(seen.api_version),
        kind=TEXTS.same(seen.kind),
        name=NAMES.same(seen.name),
        uid=NAMES.same(seen.uid),
    )


def spec(seen: WorkloadSpec) -> WorkloadSpec:
    """Where it was queued, and its priority, which still follows its class."""
    return SPECS.same(
        WorkloadSpec(
            queue_name=seen.queue_name,
            priority_class_ref=seen.priority_class_ref,
            priority=seen.priority,
            active=seen.active,
        )
    )


def status(seen: Workload, finished: Condition, *, timed: bool) -> WorkloadStatus:
    """Which conditions it has, and why it is over."""
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
