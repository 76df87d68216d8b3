"""The kind batch/v1 Job: how it is decoded, suspended, started, stopped and counted."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pykueue.api.config.gates import TRUE
from pykueue.api.core import Condition, KubeObject, ObjectMeta, Tree
from pykueue.api.names import COMPLETION_INDEX, DEFAULT_POD_SET, Annotation, Label
from pykueue.api.pods import read_with
from pykueue.api.workload import PodSet
from pykueue.base.share import NAMES, Mappings, Pool
from pykueue.base.struct import Wire
from pykueue.base.units import UNLIMITED
from pykueue.jobs.kind import JobPatch, Outcome, Pause
from pykueue.jobs.podsets import (
    Info,
    InjectionError,
    Shape,
    fill_in,
    filled_in,
    looks,
    pod_set,
    put_back,
    template_tree,
)

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
KEPT_LABELS: Final = frozenset(
    ("job-name", "controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid")
)
"""Labels of the template that the Job controller sets."""
LEFT_OUT_LABELS: Final = KEPT_LABELS - {"batch.kubernetes.io/job-name"}
"""Those of them that the Workload does not carry."""
WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
DIGITS_MAX: Final = 19
"""Digits of a 64-bit number; a longer text is not converted."""
NO_TEMPLATE: Final = msgspec.Raw(b"{}")
INTERVAL: Final = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", re.ASCII)


class UncountedPods(Wire):
    """Finished pods that the Job's counters do not include yet."""

    succeeded: tuple[str, ...] = ()


class JobStatus(Wire):
    """The state of a Job."""

    conditions: tuple[Condition, ...] = ()
    start_time: str | None = None
    active: int = 0
    ready: int = 0
    terminating: int = 0
    """Pods that are being deleted and whose processes still run."""
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    failed_indexes: str = ""
    uncounted_terminated_pods: UncountedPods = UncountedPods()


class JobSpec(Wire):
    """The spec of a Job, with the template undecoded."""

    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    active_deadline_seconds: int | None = None
    managed_by: str | None = None
    template: msgspec.Raw = NO_TEMPLATE

    def __post_init__(self) -> None:
        # A decoded Raw refers to the whole message, and would keep an entire list response in memory.
        msgspec.structs.force_setattr(self, "template", self.template.copy())


class JobView(KubeObject):
    """A batch/v1 Job."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


JOB: Final = msgspec.json.Decoder(JobView)

READ_LABELS: Final = frozenset((Label.QUEUE, Label.PREBUILT_WORKLOAD))
READ_ANNOTATIONS: Final = frozenset((Annotation.PREBUILT_WORKLOAD,))
"""The annotations of a finished Job that are read."""
OVER: Final = JobSpec()
TEXTS: Final = Pool[str]()
NOTES: Final = Mappings()
STATUSES: Final = Pool[JobStatus]()


def read_job(raw: bytes) -> JobView:
    """Decode a Job without the parts that we do not need; raises `msgspec.ValidationError` if it is not a Job."""
    found = read_with(JOB, raw)
    over = end_of(found)
    if over is not None:
        return finished_view(found, over)
    notes = found.metadata.annotations
    if LAST_APPLIED not in notes:
        return found
    # It repeats the whole manifest, and is never read here.
    fewer = {key: text for key, text in notes.items() if key != LAST_APPLIED}
    metadata = msgspec.structs.replace(found.metadata, annotations=fewer)
    return msgspec.structs.replace(found, metadata=metadata)


def end_of(job: JobView) -> Condition | None:
    """The condition that says how a Job ended; None if it has not."""
    for condition in job.status.conditions:
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            return condition
    return None


def finished_view(job: JobView, over: Condition) -> JobView:
    """The part of a finished Job that is kept: its identity, owner, queue and outcome.

    There may be a hundred thousand of them, so equal values are interned.
    """
    seen = job.metadata
    generation = seen.generation or 1
    metadata = ObjectMeta(
        name=NAMES.same(seen.name or ""),
        namespace=TEXTS.same(seen.namespace or ""),
        uid=NAMES.same(seen.uid or ""),
        resource_version=seen.resource_version,
        generation=seen.generation,
        # The delay until its Workload is created is measured only for Jobs that never changed.
        creation_timestamp=seen.creation_timestamp if generation == 1 else None,
        deletion_timestamp=seen.deletion_timestamp,
        labels=NOTES.same({key: text for key, text in seen.labels.items() if key in READ_LABELS}),
        annotations=NOTES.same({key: text for key, text in seen.annotations.items() if key in READ_ANNOTATIONS}),
        owner_references=seen.owner_references,
    )
    status = STATUSES.same(JobStatus((Condition(over.type, "True", over.reason, over.message),)))
    return JobView(TEXTS.same(job.api_version), TEXTS.same(job.kind), metadata, OVER, status)


def pods_at_once(parallelism: int | None, completions: int | None) -> int:
    """The most pods of a Job that run at the same time."""
    most = 1 if parallelism is None else parallelism
    return most if completions is None else min(most, completions)


def whole_number(text: str) -> int | None:
    """The 64-bit number in a text; None if there is none."""
    digits = text.lstrip("+-").lstrip("0")
    if not WHOLE_NUMBER.fullmatch(text) or len(digits) > DIGITS_MAX:
        return None
    # Python refuses to parse a number of thousands of zeros.
    size = int(digits or "0")
    found = -size if text.startswith("-") else size
    return found if -UNLIMITED - 1 <= found <= UNLIMITED else None


def least_pods(annotations: Mapping[str, str]) -> int | None:
    """The minimum number of pods to start a Job with; None if absent or malformed."""
    found = whole_number(annotations.get(Annotation.JOB_MIN_PARALLELISM, ""))
    return found if found is not None and 0 < found < 2**31 else None


def follows(annotations: Mapping[str, str]) -> bool:
    """Whether the completions of a Job follow its parallelism."""
    return annotations.get(Annotation.JOB_COMPLETIONS_EQUAL_PARALLELISM) in TRUE


def indexes_done(texts: Iterable[str], completions: int) -> int:
    """How many indexes below `completions` are in intervals such as `1,3-5`, each counted once."""
    intervals: list[tuple[int, int]] = []
    for text in texts:
        for interval in text.split(","):
            found = INTERVAL.fullmatch(interval)
            if found is not None:
                first = int(found[1])
                intervals.append((first, min(int(found[2] or found[1]), completions - 1)))
    counted, last = 0, -1
    for first, end in sorted(intervals):
        begin = max(first, last + 1)
        if begin <= end:
            counted += end - begin + 1
            last = end
    return counted


class BatchJob:
    """The kind batch/v1 Job."""

    framework: Final = "batch/job"
    group: Final = "batch"
    version: Final = "v1"
    kind: Final = "Job"

    def suspended(self, job: JobView) -> bool:
        """Whether it is suspended, with nothing left to do to stop it."""
        return job.spec.suspend and not self.stopping(job)

    def stopping(self, job: JobView) -> bool:
        """Whether its stop has begun but is not complete."""
        return job.spec.suspend and job.metadata.annotations.get(Annotation.STOPPING) == "true"

    def noticed(self, job: JobView) -> bool:
        """Whether its controller has seen that it may run, so that its status counts its pods."""
        return job.status.start_time is not None

    def active(self, job: JobView) -> bool:
        """Whether it has pods."""
        return job.status.active != 0

    def finished(self, job: JobView) -> Outcome | None:
        """How it ended; None if it has not."""
        over = end_of(job)
        return None if over is None else Outcome(over.type == "Complete", over.message)

    def count(self, job: JobView) -> int:
        """The most pods that run at the same time."""
        return pods_at_once(job.spec.parallelism, job.spec.completions)

    def pod_sets(self, job: JobView, *, partial: bool, topology: bool) -> tuple[Tree, ...]:
        """Its pod sets for a Workload.

        `partial` says whether fewer pods may be admitted, `topology` whether the gate TopologyAwareScheduling is on:
        Kueue then says in every Workload which label numbers the pods, and compares Workloads without it.
        """
        template = template_tree(job.spec.template)
        metadata = template.get("metadata")
        labels = metadata.get("labels") if isinstance(metadata, dict) else None
        if isinstance(metadata, dict) and isinstance(labels, dict):
            metadata["labels"] = {key: text for key, text in labels.items() if key not in LEFT_OUT_LABELS} or None
        least = least_pods(job.metadata.annotations) if partial else None
        found = pod_set(DEFAULT_POD_SET, template, self.count(job), least)
        if topology:
            found["topologyRequest"] = {"podIndexLabel": COMPLETION_INDEX}
        return (found,)

    def shapes(self, job: JobView, *, partial: bool) -> tuple[Shape, ...]:
        """The parts of its pods whose change requires another Workload."""
        least = least_pods(job.metadata.annotations) if partial else None
        return (Shape(self.count(job), least, *looks(bytes(job.spec.template))),)

    def start(self, job: JobView, infos: Sequence[Info]) -> JobPatch | Pause:
        """The next write to start it; raises `InjectionError` if it can never start like that."""
        if len(infos) != 1:
            raise InjectionError(f"invalid podset infos: expecting 1 podset, got {len(infos)}")
        template = fill_in(template_tree(job.spec.template), infos[0])
        return self.made_mutable(job, template) or self.started(job, template, infos[0].count)

    def started(self, job: JobView, template: Tree, count: int) -> JobPatch:
        """The write that starts it, with this change of its template and this many pods."""
        spec: Tree = {"suspend": False, **self.counts(job, count)}
        if template:
            spec["template"] = template
        return JobPatch({"spec": spec}, decisive=True, last=True)

    def made_mutable(self, job: JobView, template: Tree) -> JobPatch | Pause | None:
        """The write that must precede a change of its template; None if none is needed.

        The server allows a change of a suspended Job's template only while it has no active pod, and, before Kubernetes
        1.36, only if it has no start time; since then the Job controller removes that.
        """
        if not template:
            return None
        if self.active(job):
            return Pause()
        return JobPatch({"status": {"startTime": None}}, status=True) if job.status.start_time is not None else None

    def counts(self, job: JobView, count: int) -> Tree:
        """The merge patch that reduces a Job to this many pods, if it may start with fewer."""
        if least_pods(job.metadata.annotations) is None or count == job.spec.parallelism:
            return {}
        found: Tree = {"parallelism": count}
        if follows(job.metadata.annotations):
            found["completions"] = count
        return found

    def stop(self, job: JobView, pod_sets: Sequence[PodSet]) -> JobPatch | Pause | None:
        """The next write to stop it, given its original pod sets; None if it is stopped.

        First it is suspended, and once its pods are gone its template and counts are restored. An annotation marks it
        from the first write to the last, so that the stop is completed after a crash; a Job that its user suspended is
        recognized by the injected fields that are still there.
        """
        if not job.spec.suspend:
            note: Tree = {"annotations": {Annotation.STOPPING.value: "true"}}
            return JobPatch({"metadata": note, "spec": {"suspend": True}}, decisive=True)
        template: Tree = template_tree(job.spec.template)
        original = template_tree(pod_sets[0].template) if pod_sets else {}
        if not self.stopping(job) and not (pod_sets and filled_in(template, original)):
            return None
        restored = put_back(template, original, KEPT_LABELS) if pod_sets else {}
        spec = self.counts(job, pod_sets[0].count) if pod_sets else {}
        if restored:
            spec["template"] = restored
        body: Tree = {"spec": spec} if spec else {}
        if self.stopping(job):
            body["metadata"] = {"annotations": {Annotation.STOPPING.value: None}}
        return self.made_mutable(job, restored) or JobPatch(body, last=True)

    def suspend(self, job: JobView) -> JobPatch | None:
        """The write that only suspends it; None if it is suspended."""
        return None if job.spec.suspend else JobPatch({"spec": {"suspend": True}}, decisive=True)

    def reclaimable(self, job: JobView) -> Mapping[str, int]:
        """The pods of the pod set that no longer need quota, because no work is left for them."""
        spec, status = job.spec, job.status
        # The pod set counts the pods that can run at once, so parallelism beyond completions frees nothing.
        most = self.count(job)
        wanted = spec.parallelism if spec.completions is None else spec.completions
        done = status.succeeded
        if spec.completion_mode == "Indexed":
            done = indexes_done((status.completed_indexes, status.failed_indexes), wanted)
        left = max(wanted - done, 0)
        return {DEFAULT_POD_SET: most - left} if most > 1 and done > 0 and left < most else {}

    def pods_ready(self, job: JobView) -> bool:
        """Whether all its pods are ready or have succeeded."""
        status = job.status
        good = status.succeeded + status.ready + len(status.uncounted_terminated_pods.succeeded)
        return good >= self.count(job)

    def priority_class(self, job: JobView) -> str:
        """Always empty: a Job names a class only in its template."""
        return ""


BATCH: Final = BatchJob()
