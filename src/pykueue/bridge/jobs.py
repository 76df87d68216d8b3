"""Which Workload stands for a job? A batch/v1 Job's manifest as the Workload that is queued for it."""

from collections.abc import Mapping
from difflib import get_close_matches
from hashlib import sha1
from typing import Final

from msgspec.structs import replace

from pykueue.api.convert import V1BETA2
from pykueue.api.core import Json, Tree
from pykueue.api.fields import FieldError, invalid, not_found, required
from pykueue.api.labels import dns_subdomain
from pykueue.api.names import DEFAULT_POD_SET, DEFAULT_PRIORITY_CLASS, DEFAULT_QUEUE, GROUP, Annotation, Label
from pykueue.api.pods import Job
from pykueue.base.struct import Frozen
from pykueue.bridge.requests import job_pod_counts

NAME_MAX: Final = 253
HASH_LENGTH: Final = 5
CARRIED: Final = (Annotation.ADMISSION_GATED_BY, Annotation.ELASTIC_JOB)
"""Annotations of a job that speak to whoever queues it."""
SECONDS_DIGITS_MAX: Final = 10


class Place(Frozen):
    """What a job finds where it is created."""

    default_queue: bool = False
    """Whether its namespace has a LocalQueue for jobs that name none."""
    classes: Mapping[str, int] = {}
    """The value of each WorkloadPriorityClass."""
    default_class: bool = True
    """Whether the class named default is for jobs that name none."""


def workload_name(*, kind: str, group: str, name: str, uid: str) -> str:
    """The name of the Workload for a job: the kind, the job's name, and a hash that no other job shares."""
    digest = sha1(f"{kind}\n{group}\n{name}\n{uid}".encode(), usedforsecurity=False).hexdigest()[:HASH_LENGTH]
    return f"{f'{kind.lower()}-{name}'[: NAME_MAX - HASH_LENGTH - 1]}-{digest}"


def queue_of(job: Job, place: Place) -> str:
    """The LocalQueue that a job goes to; empty when it names none and there is none by default."""
    return job.metadata.labels.get(Label.QUEUE, "") or (DEFAULT_QUEUE if place.default_queue else "")


def workload_tree(tree: Tree, job: Job, place: Place) -> tuple[Tree, tuple[FieldError, ...]]:
    """The Workload for a Job, and everything that keeps the Job from being queued; with mistakes, do not use it."""
    meta = job.metadata
    template, mistakes = template_of(tree)
    counts = job_pod_counts(job)
    priority, priority_class, errors = priority_of(job, place)
    mistakes += errors
    mistakes += malformed(job)
    limit, errors = run_limit(job)
    mistakes += errors
    if isinstance(counts, FieldError):
        return {}, (*mistakes, counts)
    pod_set: Tree = {"name": DEFAULT_POD_SET, "count": counts.count, "template": template}
    if counts.min_count is not None:
        pod_set["minCount"] = counts.min_count
    spec: Tree = {"queueName": queue_of(job, place), "podSets": [pod_set], "priority": priority, "active": True}
    if priority_class:
        spec["priorityClassRef"] = {"group": GROUP, "kind": "WorkloadPriorityClass", "name": priority_class}
    if limit is not None:
        spec["maximumExecutionTimeSeconds"] = limit
    uid = meta.uid or ""
    carried: Tree = {key: text for key, text in meta.annotations.items() if key in CARRIED}
    metadata: Tree = {
        "name": workload_name(kind="Job", group="batch", name=meta.name or "", uid=uid),
        "namespace": meta.namespace or "default",
        "labels": {Label.JOB_UID: uid},
        "annotations": carried,
    }
    if meta.creation_timestamp is not None:
        metadata["creationTimestamp"] = meta.creation_timestamp
    return {"apiVersion": V1BETA2, "kind": "Workload", "metadata": metadata, "spec": spec}, mistakes


def template_of(tree: Tree) -> tuple[Json, tuple[FieldError, ...]]:
    """The pod template of a Job as it came."""
    spec = tree.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    if not isinstance(template, dict):
        return {}, (required("spec.template", "say what the pods look like"),)
    return template, ()


def malformed(job: Job) -> tuple[FieldError, ...]:
    """What is wrong with a Job's queue label and with its counts."""
    found: list[FieldError] = []
    queue = job.metadata.labels.get(Label.QUEUE, "")
    if queue:
        path = f"metadata.labels[{Label.QUEUE}]"
        found += (invalid(path, queue, text) for text in dns_subdomain(queue))
    for field, count in (("parallelism", job.spec.parallelism), ("completions", job.spec.completions)):
        if count is not None and not 0 <= count < 2**31:
            found.append(invalid(f"spec.{field}", count, "must be a whole number from 0 to 2147483647"))
    return tuple(found)


def priority_of(job: Job, place: Place) -> tuple[int, str, tuple[FieldError, ...]]:
    """A job's priority, the class it comes from, and what is wrong with that."""
    name = job.metadata.labels.get(Label.PRIORITY_CLASS, "")
    if not name and place.default_class and DEFAULT_PRIORITY_CLASS in place.classes:
        name = DEFAULT_PRIORITY_CLASS
    if not name:
        return 0, "", ()
    if name in place.classes:
        return place.classes[name], name, ()
    near = get_close_matches(name[:NAME_MAX], place.classes, n=1)
    advice = f"did you mean {near[0]}?" if near else "create this WorkloadPriorityClass, or remove the label"
    error = not_found(f"metadata.labels[{Label.PRIORITY_CLASS}]", name)
    return 0, "", (replace(error, detail=advice),)


def run_limit(job: Job) -> tuple[int | None, tuple[FieldError, ...]]:
    """How long a job may be admitted, in seconds, and what is wrong with its label."""
    text = job.metadata.labels.get(Label.MAX_EXEC_TIME_SECONDS)
    if text is None:
        return None, ()
    if text.isascii() and text.isdigit() and len(text) <= SECONDS_DIGITS_MAX and 0 < int(text) < 2**31:
        return int(text), ()
    path = f"metadata.labels[{Label.MAX_EXEC_TIME_SECONDS}]"
    return None, (invalid(path, text, "should be greater than 0; write a whole number of seconds"),)
