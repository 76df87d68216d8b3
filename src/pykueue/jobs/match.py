"""Whether a Workload matches a job: whether both ask for the same."""

from pykueue.api.core import controller_of
from pykueue.api.workload import Workload
from pykueue.jobs.kind import Described
from pykueue.jobs.podsets import (
    Info,
    InjectionError,
    MissingFlavorError,
    injected,
    running_shapes,
    same_shapes,
    shapes_of,
)
from pykueue.jobs.seen import JobInput, admitted, finished, reserved
from pykueue.jobs.workload import run_limit


def equivalent(seen: JobInput, job: Described, workload: Workload) -> bool:
    """Whether a Workload matches the job as it is now."""
    owner = controller_of(workload.metadata)
    if owner is None or owner.name != job.metadata.name:
        return False
    if seen.rules.finish_orphans and owner.uid != job.metadata.uid:
        return False
    if finished(workload) and not workload.spec.pod_sets:
        # A finished job is kept without its pods.
        return True
    if workload.spec.maximum_execution_time_seconds != run_limit(job.metadata):
        return False
    ours = seen.kind.shapes(job, partial=seen.rules.partial)
    tolerations = not admitted(workload)
    infos = running_infos(seen, workload)
    running = None if infos is None else running_shapes(workload, infos)
    if running is not None and same_shapes(ours, running, tolerations=tolerations):
        return True
    if running is not None and not seen.kind.suspended(job):
        return False
    return same_shapes(ours, shapes_of(workload), tolerations=tolerations)


def running_infos(seen: JobInput, workload: Workload) -> tuple[Info, ...] | None:
    """What is injected into the pods of a Workload with quota; None if that cannot be determined."""
    if not reserved(workload):
        return None
    try:
        return injected(workload, seen.flavors, seen.rules.injection)
    except (MissingFlavorError, InjectionError):
        return None
