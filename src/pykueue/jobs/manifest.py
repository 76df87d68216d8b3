"""A Job's manifest as the Workload that would be queued for it, with every mistake in it."""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from msgspec.structs import replace

from pykueue.api.config.gates import FALSE, TRUE
from pykueue.api.convert import V1BETA2
from pykueue.api.core import Tree
from pykueue.api.fields import FieldError, invalid, not_found, required
from pykueue.api.labels import dns_subdomain
from pykueue.api.names import DEFAULT_POD_SET, DEFAULT_PRIORITY_CLASS, DEFAULT_QUEUE, Annotation, Label
from pykueue.api.pods import Job
from pykueue.api.priorityclass import SYSTEM
from pykueue.api.trees import mappings, text
from pykueue.base.struct import Frozen
from pykueue.jobs.admit_batch import (
    AT_CLASS,
    AT_EQUAL,
    AT_LIMIT,
    AT_MINIMUM,
    AT_QUEUE,
    NOT_INDEXED,
    NOT_POSITIVE,
    UNEQUAL,
    number_or_complaint,
    quoted,
)
from pykueue.jobs.batch import pods_at_once
from pykueue.jobs.podsets import pod_set
from pykueue.jobs.workload import (
    NAME_MAX,
    WORKLOAD_CLASS,
    Classes,
    MissingClass,
    Priority,
    class_label,
    pod_class_of,
    prebuilt_name,
    priority_of,
    queue_label,
    run_limit,
    spec_tree,
    workload_name,
)

CARRIED: Final = (Annotation.ADMISSION_GATED_BY, Annotation.ELASTIC_JOB)
"""Annotations of a job that address the queueing system."""
AT_POD_CLASS: Final = "spec.template.spec.priorityClassName"
OWN_FIELDS: Final[Mapping[str, str]] = {
    "spec.podSets[0].template": "spec.template",
    "spec.podSets[0].count": "spec.parallelism",
    "spec.podSets[0].minCount": AT_MINIMUM,
    "spec.queueName": AT_QUEUE,
    "spec.maximumExecutionTimeSeconds": AT_LIMIT,
}
"""Fields of a Workload, and where the author of a Job finds the same."""


class Place(Frozen):
    """The namespace and cluster in which a job would be created."""

    default_queue: bool = False
    """Whether its namespace has a LocalQueue for jobs that name none."""
    classes: Mapping[str, int] = {}
    """The value of each WorkloadPriorityClass."""
    default_class: bool = True
    """Whether the class `default` applies to jobs that name none."""
    pod_classes: Mapping[str, int] = {}
    """The value of each PriorityClass, besides the system classes."""
    default_pod_class: str = ""
    """The PriorityClass for pods that name none."""
    selected: bool = True
    """Whether managedJobsNamespaceSelector selects its namespace."""
    queueless: bool = False
    """Whether jobs that name no queue are suspended too: manageJobsWithoutQueueName."""


class PodCounts(Frozen):
    """How many pods are wanted, and the minimum to start with; `None` if it equals the count."""

    count: int
    min_count: int | None = None


def queue_of(job: Job, place: Place) -> str:
    """The LocalQueue of a job; empty if it names none and there is no default."""
    return queue_label(job.metadata) or (DEFAULT_QUEUE if place.default_queue else "")


def left_out(tree: Tree, job: Job, place: Place) -> str:
    """Why no Workload is created for a Job; empty if one is."""
    for kind in ("Complete", "Failed"):
        if any(text(one, "type") == kind and text(one, "status") == "True" for one in conditions(tree)):
            return f"its status says that it is {kind}, so there is nothing left to run"
    if not place.selected:
        return "managedJobsNamespaceSelector does not select its namespace, so it never starts"
    if not queue_of(job, place) and not place.queueless:
        return f"it has no label {Label.QUEUE}, so it is not queued"
    if name := prebuilt_name(job.metadata, annotations=True):
        return f"its Workload, {name}, is made before it; that one is simulated if it is among the manifests"
    return ""


def conditions(tree: Tree) -> Iterator[Mapping[str, object]]:
    """The conditions in a Job's status."""
    for _, one in mappings(tree, "status", "conditions"):
        yield one


def with_job_paths(sentence: str) -> str:
    """A sentence about a Workload, with the paths replaced by those of its Job."""
    for path, own in OWN_FIELDS.items():
        sentence = sentence.replace(path, own)
    return sentence


def workload_tree(tree: Tree, job: Job, place: Place) -> tuple[Tree, tuple[FieldError, ...]]:
    """The Workload for a Job, and everything that prevents the Job from being queued.

    If there are mistakes, use the Workload only to look for further ones.
    """
    meta = job.metadata
    template, mistakes = template_of(tree)
    counts = job_pod_counts(job)
    if isinstance(counts, FieldError):
        mistakes += (counts,)
        counts = PodCounts(pods_of(job))
    pod_sets = (pod_set(DEFAULT_POD_SET, template, counts.count, counts.min_count),)
    priority, errors = judged_priority(job, pod_sets, place)
    mistakes += (*errors, *malformed(job), *unequal(tree, job), *judged_limit(job))
    spec = spec_tree(pod_sets, queue_of(job, place), priority, run_limit(meta))
    uid = meta.uid or ""
    carried: Tree = {key: value for key, value in meta.annotations.items() if key in CARRIED}
    metadata: Tree = {
        "name": workload_name(kind="Job", group="batch", name=meta.name or "", uid=uid),
        "namespace": meta.namespace or "default",
        "labels": {Label.JOB_UID: uid},
        "annotations": carried,
    }
    if meta.creation_timestamp is not None:
        metadata["creationTimestamp"] = meta.creation_timestamp
    return {"apiVersion": V1BETA2, "kind": "Workload", "metadata": metadata, "spec": spec}, mistakes


def template_of(tree: Tree) -> tuple[Tree, tuple[FieldError, ...]]:
    """The undecoded pod template of a Job."""
    spec = tree.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    if not isinstance(template, dict):
        return {}, (required("spec.template", "say what the pods look like"),)
    return template, ()


def malformed(job: Job) -> tuple[FieldError, ...]:
    """What is wrong with a Job's queue label and with its counts."""
    found: list[FieldError] = []
    queue = queue_label(job.metadata)
    if queue:
        found += (invalid(AT_QUEUE, queue, wrong) for wrong in dns_subdomain(queue))
    for field, count in (("parallelism", job.spec.parallelism), ("completions", job.spec.completions)):
        if count is not None and not 0 <= count < 2**31:
            found.append(invalid(f"spec.{field}", count, "must be a whole number from 0 to 2147483647"))
    return tuple(found)


def job_pod_counts(job: Job) -> PodCounts | FieldError:
    """How many pods a Job runs at once, with the minimum it accepts; or what is wrong with that annotation."""
    count = pods_of(job)
    asked = job.metadata.annotations.get(Annotation.JOB_MIN_PARALLELISM)
    if asked is None:
        return PodCounts(count)
    least = number_or_complaint(asked)
    if isinstance(least, str):
        return invalid(AT_MINIMUM, asked, least)
    if not 0 < least < count:
        return invalid(AT_MINIMUM, least, f"should be between 0 and {count - 1}")
    return PodCounts(count, least)


def pods_of(job: Job) -> int:
    """The most pods of a Job that run at the same time."""
    return pods_at_once(job.spec.parallelism, job.spec.completions)


def unequal(tree: Tree, job: Job) -> Iterator[FieldError]:
    """What is wrong with a Job that asks for completions equal to parallelism."""
    asked = job.metadata.annotations.get(Annotation.JOB_COMPLETIONS_EQUAL_PARALLELISM)
    if asked is None or asked in FALSE:
        return
    if asked not in TRUE:
        complaint = f"strconv.ParseBool: parsing {quoted(asked)}: invalid syntax"
        yield invalid(AT_EQUAL, asked, f'{complaint}; write "true" or "false"')
        return
    if text(tree, "spec", "completionMode") != "Indexed":
        yield invalid(AT_EQUAL, asked, NOT_INDEXED)
    parallelism, completions = (1 if count is None else count for count in (job.spec.parallelism, job.spec.completions))
    if parallelism != completions:
        yield invalid("spec.completions", completions, UNEQUAL)


def judged_priority(job: Job, pod_sets: tuple[Tree, ...], place: Place) -> tuple[Priority, tuple[FieldError, ...]]:
    """A job's priority, and what is wrong with its class."""
    name = class_label(job.metadata)
    if not name and place.default_class and DEFAULT_PRIORITY_CLASS in place.classes:
        name = DEFAULT_PRIORITY_CLASS
    classes = Classes(place.classes, place.pod_classes, place.default_pod_class)
    found = priority_of(name, pod_class_of(pod_sets), classes)
    if not isinstance(found, MissingClass):
        return found, ()
    if found.kind == WORKLOAD_CLASS:
        path, remedy, known = AT_CLASS, "remove the label", [*place.classes]
    else:
        path, remedy, known = AT_POD_CLASS, "remove the field", [*SYSTEM, *place.pod_classes]
    near = get_close_matches(found.name[:NAME_MAX], known, n=1)
    advice = f"did you mean {near[0]}?" if near else f"create this {found.kind}, or {remedy}"
    return Priority(), (replace(not_found(path, found.name), detail=advice),)


def judged_limit(job: Job) -> tuple[FieldError, ...]:
    """What is wrong with a job's maximum execution time."""
    asked = job.metadata.labels.get(Label.MAX_EXEC_TIME_SECONDS)
    if asked is None or run_limit(job.metadata) is not None:
        return ()
    return (invalid(AT_LIMIT, asked, f"{NOT_POSITIVE}; write a whole number of seconds"),)
