"""The Job controller's views of Jobs and pods: the few facts that its plan needs.

Of ended objects only a reduced form is kept: the store may hold 100,000 finished Jobs, and each costs a few hundred
bytes here.
"""

from collections.abc import Mapping
from sys import intern
from typing import Final

import msgspec

from pykueue.api.core import Condition as PodCondition
from pykueue.api.core import ObjectMeta, OwnerReference
from pykueue.api.exitcodes import DEADLINE, TIMED_OUT, shell_code
from pykueue.api.names import COMPLETION_INDEX, Annotation
from pykueue.api.pods import node_problem, read_with, start_problem
from pykueue.base.share import NAMES
from pykueue.base.struct import Frozen, Wire
from pykueue.base.units import MICROS, Instant, parse_instant
from pykueue.kubecontrollers.indexes import read_number

TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer that keeps a pod until it is counted."""
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
OURS: Final = "kubernetes.io/job-controller"
INT32_MAX: Final = 2**31 - 1
RETRIES: Final = 6
ENDED: Final = ("Succeeded", "Failed")


class ExitCodes(Wire):
    """The exit codes of a rule."""

    operator: str = ""
    values: tuple[int, ...] = ()
    container_name: str | None = None


class ConditionPattern(Wire):
    """The pod condition of a rule."""

    type: str = ""
    status: str = "True"


class FailureRule(Wire):
    """What to do about pods that failed in one way."""

    action: str = ""
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[ConditionPattern, ...] = ()


class FailurePolicy(Wire):
    """What to do about pods that failed; the first rule that matches decides."""

    rules: tuple[FailureRule, ...] = ()


class SuccessRule(Wire):
    """Which indexes, or how many of them, are sufficient."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(Wire):
    """When an Indexed Job succeeds although not all of its indexes have."""

    rules: tuple[SuccessRule, ...] = ()


class JobSpec(Wire):
    """The spec of a Job, with the template undecoded."""

    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    pod_failure_policy: FailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    active_deadline_seconds: int | None = None
    pod_replacement_policy: str | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    managed_by: str | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")

    @property
    def retries(self) -> int:
        """How many pods may fail."""
        if self.backoff_limit is not None:
            return self.backoff_limit
        return RETRIES if self.backoff_limit_per_index is None else INT32_MAX

    @property
    def indexed(self) -> bool:
        """Whether each pod has an index."""
        return self.completion_mode == "Indexed"

    @property
    def patient(self) -> bool:
        """Whether a pod is replaced only when it has ended, not already when it is being deleted."""
        return self.pod_replacement_policy == "Failed" or self.pod_failure_policy is not None


class Condition(Wire):
    """A condition of a Job."""

    type: str
    status: str
    last_probe_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class Uncounted(Wire):
    """Ended pods that the counters do not include yet."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Wire):
    """The state of a Job."""

    conditions: tuple[Condition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: Uncounted | None = None
    ready: int | None = None

    def condition(self, kind: str) -> Condition | None:
        """The condition of this type."""
        return next((one for one in self.conditions if one.type == kind), None)

    def holds(self, kind: str) -> Condition | None:
        """The condition of this type, if it is true."""
        found = self.condition(kind)
        return found if found is not None and found.status == "True" else None


class JobBody(Wire):
    """A batch/v1 Job in wire format."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class Work(Frozen):
    """An unfinished Job's spec and status."""

    uid: str
    spec: JobSpec
    status: JobStatus
    deleting: bool = False
    creator: str = ""
    """Who created it, as recorded at admission; its pods have the same creator."""


class Job(Frozen):
    """A Job as the controller sees it."""

    namespace: str
    name: str
    version: int
    work: Work | None = None
    """None if it is finished, or belongs to another controller."""
    ended: Instant | None = None
    """When it finished, if it has."""
    ttl: int | None = None
    """Seconds for which it is kept after that; None if it sets no limit."""
    deleting: bool = False

    @property
    def metadata(self) -> ObjectMeta:
        """The part of its metadata that caches need."""
        return ObjectMeta(name=self.name, namespace=self.namespace, resource_version=str(self.version))


class Terminated(Wire):
    """How a container ended."""

    exit_code: int = 0
    finished_at: str | None = None
    reason: str = ""
    message: str = ""


class Waiting(Wire):
    """Why a container does not run."""

    reason: str = ""
    message: str = ""


class ContainerState(Wire):
    """The state of a container."""

    terminated: Terminated | None = None
    waiting: Waiting | None = None


class ContainerStatus(Wire):
    """A container of a pod."""

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()


class InitContainer(Wire):
    """A container that runs first; one that is always restarted is a sidecar."""

    name: str = ""
    restart_policy: str | None = None


class PodSpec(Wire):
    """The part of a pod's spec that is used here."""

    node_name: str = ""
    restart_policy: str = "Always"
    init_containers: tuple[InitContainer, ...] = ()


class PodStatus(Wire):
    """The state of a pod."""

    phase: str = "Pending"
    reason: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class PodMeta(Wire):
    """The part of a pod's metadata that is used here."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()


class PodBody(Wire):
    """A Pod in wire format."""

    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Pod(Frozen):
    """A pod as the controller sees it."""

    namespace: str
    name: str
    version: int
    uid: str = ""
    job: str = ""
    """The Job that controls it; empty for other pods."""
    owner: str = ""
    """That Job's uid."""
    phase: str = "Pending"
    tracked: bool = False
    """Whether it has our finalizer."""
    deleting: bool = False
    index: int | None = None
    node: str = ""
    ready: bool = False
    ready_since: Instant = Instant(0)
    created: Instant = Instant(0)
    ended: Instant = Instant(0)
    """When it ended, as far as known; meaningful once it has ended or is being deleted."""
    restarts: int = 0
    """Of all its containers."""
    most_restarts: int = 0
    """Of one container."""
    restarts_itself: bool = False
    """Whether failed containers restart in place."""
    exits: tuple[tuple[str, int], ...] = ()
    """Containers that ended with a non-zero code, init containers last."""
    conditions: tuple[tuple[str, str], ...] = ()
    failures: int = 0
    """Failures of its index before it."""
    ignored: int = 0
    """Ignored failures of its index before it."""
    finalizers: tuple[str, ...] = ()
    creator: str = ""
    """Who created it, as recorded at admission."""
    problem: str = ""
    """Why a container cannot start; empty if all can."""
    unplaced: str = ""
    """Why it gets no node; empty if it has one, or is not refused one."""
    exit_code: int | None = None
    """The code of its first container that failed, as shells report it."""

    @property
    def metadata(self) -> ObjectMeta:
        """The part of its metadata that caches need."""
        return ObjectMeta(name=self.name, namespace=self.namespace, resource_version=str(self.version))

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.phase in ENDED

    @property
    def active(self) -> bool:
        """Whether it runs, or will run."""
        return not self.over and not self.deleting

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted and has not ended yet."""
        return self.deleting and not self.over


JOB: Final = msgspec.json.Decoder(JobBody)
POD: Final = msgspec.json.Decoder(PodBody)


def decoded_job(raw: bytes) -> JobBody:
    """Decode a Job."""
    return read_with(JOB, raw)


def decoded_pod(raw: bytes) -> PodBody:
    """Decode a pod."""
    return read_with(POD, raw)


def instant(text: str | None) -> Instant:
    """The instant in a text; the epoch if empty."""
    return parse_instant(text) if text else Instant(0)


def read_job(raw: bytes) -> Job:
    """The controller's view of a Job."""
    body = decoded_job(raw)
    metadata, spec, status = body.metadata, body.spec, body.status
    namespace, name = intern(metadata.namespace or ""), metadata.name or ""
    version = int(metadata.resource_version or 0)
    deleting = metadata.deletion_timestamp is not None
    finished = status.holds("Complete") or status.holds("Failed")
    if finished is not None:
        ended = instant(finished.last_transition_time)
        return Job(namespace, NAMES.same(name), version, None, ended, spec.ttl_seconds_after_finished, deleting)
    if spec.managed_by not in (None, OURS):
        return Job(namespace, name, version)
    # A decoded Raw refers to the whole message, and would keep an entire list response in memory.
    msgspec.structs.force_setattr(spec, "template", spec.template.copy())
    creator = metadata.annotations.get(Annotation.CREATOR, "")
    return Job(namespace, name, version, Work(metadata.uid or "", spec, status, deleting, creator))


def read_pod(raw: bytes, *, whole: bool = False) -> Pod:
    """The controller's view of a pod; unless `whole`, the reduced form of one that has ended and is counted."""
    body = decoded_pod(raw)
    metadata, spec, status = body.metadata, body.spec, body.status
    namespace, version = intern(metadata.namespace), int(metadata.resource_version)
    phase = intern(status.phase)
    tracked = TRACKING in metadata.finalizers
    owner = next((one for one in metadata.owner_references if one.controller), None)
    ours = owner is not None and owner.kind == "Job" and owner.api_version == "batch/v1"
    over = phase in ENDED
    if owner is None or not ours or (over and not tracked and not whole):
        reduced = Pod(namespace, metadata.name, version, phase=phase, ended=ending(body) if over else Instant(0))
        if not tracked:
            return reduced
        return msgspec.structs.replace(reduced, uid=metadata.uid, tracked=True, finalizers=metadata.finalizers)
    deleting = metadata.deletion_timestamp is not None
    ready = next((one for one in status.conditions if one.type == "Ready"), None)
    containers = (*status.container_statuses, *status.init_container_statuses)
    counts = [one.restart_count for one in containers]
    notes = metadata.annotations
    return Pod(
        namespace,
        metadata.name,
        version,
        metadata.uid,
        owner.name,
        owner.uid,
        phase,
        tracked,
        deleting,
        index_of(notes),
        spec.node_name,
        ready is not None and ready.status == "True",
        instant(ready.last_transition_time) if ready is not None else Instant(0),
        instant(metadata.creation_timestamp),
        ending(body) if over or deleting else Instant(0),
        sum(counts),
        max(counts, default=0),
        spec.restart_policy == "OnFailure",
        tuple(
            (one.name, one.state.terminated.exit_code)
            for one in containers
            if one.state.terminated is not None and one.state.terminated.exit_code != 0
        ),
        tuple((one.type, one.status) for one in status.conditions),
        count_of(notes.get(FAILURES)),
        count_of(notes.get(IGNORED_FAILURES)),
        metadata.finalizers,
        intern(notes.get(Annotation.CREATOR, "")),
        problem_of(body),
        unplaced_of(body),
        exit_code_of(body),
    )


def exit_code_of(pod: PodBody) -> int | None:
    """The exit code of the first container that failed, as shells report it; None if none did."""
    if pod.status.reason == DEADLINE:
        return TIMED_OUT
    ends = (one.state.terminated for one in (*pod.status.container_statuses, *pod.status.init_container_statuses))
    codes = (shell_code(end.exit_code, end.reason, end.message) for end in ends if end is not None and end.exit_code)
    return next(codes, None)


def unplaced_of(pod: PodBody) -> str:
    """Why a pod gets no node; empty if it has one, or is not refused one."""
    said = (node_problem(one.type, one.status, one.reason, one.message) for one in pod.status.conditions)
    return next(filter(None, said), "")


def problem_of(pod: PodBody) -> str:
    """Why a container of a pod cannot start; empty if all can."""
    for one in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if one.state.waiting is not None and (
            said := start_problem(one.state.waiting.reason, one.state.waiting.message)
        ):
            return said
    return ""


def index_of(annotations: Mapping[str, str]) -> int | None:
    """The completion index of a pod."""
    found = read_number(annotations.get(COMPLETION_INDEX, ""))
    return None if found is None or found < 0 else found


def count_of(text: str | None) -> int:
    """The count in an annotation; 0 if malformed."""
    found = read_number(text or "")
    return found if found is not None and 0 <= found <= INT32_MAX else 0


def ending(pod: PodBody) -> Instant:
    """When a pod ended: by its containers, the end of its readiness, its deletion, or its creation."""
    metadata, status = pod.metadata, pod.status
    sidecars = {one.name for one in pod.spec.init_containers if one.restart_policy == "Always"}
    counted = (*status.container_statuses, *(one for one in status.init_container_statuses if one.name in sidecars))
    ends = [one.state.terminated.finished_at if one.state.terminated is not None else None for one in counted]
    if ends and all(ends):
        return max(instant(end) for end in ends)
    for one in status.conditions:
        if one.type == "Ready" and one.status == "False" and one.last_transition_time:
            return instant(one.last_transition_time)
    if metadata.deletion_timestamp is not None:
        grace = metadata.deletion_grace_period_seconds or 0
        return Instant(instant(metadata.deletion_timestamp) - grace * MICROS)
    return instant(metadata.creation_timestamp)
