"""What each Event means, for docs/events.md, and the reasons that expressions in the code give."""

from collections.abc import Mapping
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.bridge.decisionevents import NEVER, PREEMPTED
from pykueue.controllers import barepods
from pykueue.engine.decisions import DeactivationCause, EvictionReason, WaitReason
from pykueue.jobs.actions import STOPPED
from pykueue.kubecontrollers import jobstatus
from pykueue.node.containers import CROWDED_REASON
from pykueue.node.podplan import DEADLINE_REASON

SILENT: Final = frozenset({WaitReason.SUSPENDED, WaitReason.DEACTIVATED, WaitReason.GATED})
"""Reasons to wait that only the condition shows, or that have an Event which is no warning."""
WAITS: Final = tuple(reason.value for reason in WaitReason if reason not in SILENT)
EVICTIONS: Final = tuple(f"EvictedDueTo{reason.value}" for reason in EvictionReason)
DEACTIVATIONS: Final = tuple(
    f"EvictedDueTo{EvictionReason.DEACTIVATED}DueTo{cause.value}" for cause in DeactivationCause
)
FAILURES: Final = tuple(
    verdict.reason
    for verdict in (
        jobstatus.BACKOFF_LIMIT,
        jobstatus.DEADLINE,
        jobstatus.TOO_MANY_FAILED_INDEXES,
        jobstatus.FAILED_INDEXES,
    )
)
COMPUTED: Final[Mapping[tuple[str, str, bool | None], tuple[str, ...]]] = {
    ("bridge/decisionevents.py", "reason", False): (*EVICTIONS, *DEACTIVATIONS, WaitReason.GATED.value),
    ("bridge/decisionevents.py", "reason", True): WAITS,
    ("bridge/decisionevents.py", "cause", True): (DeactivationCause.MAX_RUN.value,),
    ("controllers/barepods.py", "REASON", True): (barepods.REASON,),
    ("controllers/decisionwrites.py", "PREEMPTED", False): (PREEMPTED,),
    ("controllers/scheduling.py", "NEVER", True): (NEVER,),
    ("jobs/dependencygate.py", "reason", None): ("DependencyNeverMet", "WaitingForDependencies"),
    ("jobs/plan.py", "STOPPED", False): (STOPPED,),
    ("jobs/workloadsync.py", "f'{missing.kind}NotFound'", True): (
        "WorkloadPriorityClassNotFound",
        "PriorityClassNotFound",
    ),
    ("kubecontrollers/jobcontroller.py", "one.reason", None): (),
    ("kubecontrollers/jobplan.py", "verdict.reason", True): (*FAILURES, "PodFailurePolicy"),
    ("node/runner.py", "over.reason", False): (DEADLINE_REASON, CROWDED_REASON),
}
"""The reasons of Events by module, expression and whether they are warnings; empty for those of another call."""


class Meaning(Frozen):
    """What an Event of this reason says."""

    reason: str
    text: str


def waits() -> tuple[Meaning, ...]:
    """The Events of workloads that wait, each with its section of reasons.md."""
    return tuple(
        Meaning(reason, f"It waits, and the Event says for what: see [{reason}](reasons.md#{reason.lower()}).")
        for reason in WAITS
    )


def evictions() -> tuple[Meaning, ...]:
    """The Events of evictions."""
    texts = {
        EvictionReason.PREEMPTED: "It lost its quota to another workload.",
        EvictionReason.PODS_READY_TIMEOUT: "Its pods were not ready in time.",
        EvictionReason.ADMISSION_CHECK: "An admission check asked for another attempt.",
        EvictionReason.QUEUE_STOPPED: "Its ClusterQueue was stopped with `HoldAndDrain`.",
        EvictionReason.LOCAL_QUEUE_STOPPED: "Its LocalQueue was stopped with `HoldAndDrain`.",
        EvictionReason.DEACTIVATED: "It was deactivated: `spec.active` is false.",
    }
    causes = {
        DeactivationCause.REQUEUE_LIMIT: "It was deactivated after too many attempts to get its pods ready.",
        DeactivationCause.MAX_RUN: "It was deactivated at the end of its maximum execution time.",
        DeactivationCause.ADMISSION_CHECK: "It was deactivated because an admission check rejected it.",
    }
    said = [*texts.values(), *causes.values()]
    return tuple(Meaning(*pair) for pair in zip((*EVICTIONS, *DEACTIVATIONS), said, strict=True))


WORKLOADS: Final = (
    Meaning("QuotaReserved", "Quota is reserved; the text says how long it waited and which flavors were tried."),
    Meaning(
        "Admitted",
        "Its Job may start: quota is reserved and all admission checks are ready. "
        "With `--merge-admission-events`, also the Event of a reservation in the same step.",
    ),
    *waits(),
    Meaning("AdmissionGated", "It is not queued yet: a gate in `kueue.x-k8s.io/admission-gated-by` is left."),
    Meaning("AdmissionGateCleared", "The last gate is removed; it is queued."),
    *evictions(),
    Meaning("Preempted", "It was preempted; the text names the preemptor and both priorities."),
    Meaning("PreemptedWorkload", "It preempted the workload that the text names."),
    Meaning("MaximumExecutionTimeExceeded", "It ran as long as its label allows, and is deactivated."),
    Meaning("AdmissionCheckRejected", "An admission check rejected it; it is deactivated."),
    Meaning("AdmissionCheckUpdated", "The state of a provisioning check changed."),
    Meaning("ProvisioningRequestCreated", "The cluster-autoscaler is asked for its nodes."),
    Meaning("FailedCreate", "The ProvisioningRequest or its PodTemplate was rejected; it is tried again."),
    Meaning("Deleted", "It finished and was deleted after its retention time."),
)
JOBS: Final = (
    Meaning("CreatedWorkload", "Its Workload was created: it is queued."),
    Meaning("UpdatedWorkload", "Its Workload follows a change of the Job."),
    Meaning("DeletedWorkload", "A Workload that does not match the Job was deleted."),
    Meaning("UpdatedAdmissionCheck", "An admission check of its Workload has a new message or state."),
    Meaning("Started", "It was admitted and is no longer suspended."),
    Meaning("Stopped", "It was suspended; the text says why."),
    Meaning("PreemptedFor", "It was preempted for the Job that the text names, by the policy that it names."),
    Meaning("CanNeverStart", "It does not fit even an empty queue; the text says what to change."),
    Meaning("Suspended", "A Job inside of another queued job is suspended until that one is admitted."),
    Meaning("FinishedWorkload", "The Job ended, and its Workload is finished."),
    Meaning("Held", "Its owner holds it: `pykueue hold`."),
    Meaning("Released", "The hold was removed; it is queued again."),
    Meaning("Requeued", "It was stopped and queued again: `pykueue requeue`."),
    Meaning("WaitingForDependencies", "It waits for other Jobs or for a time (`--after`, `--after-ok`, `--begin`)."),
    Meaning("DependenciesMet", "It waits for nothing more and is queued."),
    Meaning("DependencyNeverMet", "A Job that it waits for failed or does not exist: it can never start."),
    Meaning("WorkloadPriorityClassNotFound", "It names a WorkloadPriorityClass that does not exist; it is not queued."),
    Meaning("PriorityClassNotFound", "Its pods name a PriorityClass that does not exist; it is not queued."),
    Meaning("Unsupported", "It uses a feature that is not built; the text names it. Also on Pods that name a queue."),
    Meaning("JobNestingTooDeep", "It has more than ten owners above it."),
    Meaning("Deleted", "It was deactivated and deleted after its retention time."),
)
KUBERNETES: Final = (
    Meaning("SuccessfulCreate", "A pod of the Job was created."),
    Meaning("FailedCreate", "A pod could not be created; the text says why."),
    Meaning("SuccessfulDelete", "A pod was deleted."),
    Meaning("FailedDelete", "A pod could not be deleted."),
    Meaning("Suspended", "The Job is suspended."),
    Meaning("Resumed", "The Job is no longer suspended."),
    Meaning("Completed", "The Job succeeded."),
    Meaning("TooManySucceededPods", "More pods succeeded than `completions` asks for."),
    Meaning("BackoffLimitExceeded", "The Job failed: too many of its pods failed."),
    Meaning("DeadlineExceeded", "The Job or pod reached `activeDeadlineSeconds`."),
    Meaning("MaxFailedIndexesExceeded", "The Job failed: too many of its indexes failed."),
    Meaning("FailedIndexes", "The Job failed: an index failed as often as it may."),
    Meaning("PodFailurePolicy", "The Job failed by a rule of its `podFailurePolicy`."),
    Meaning("PodsHeldBack", "Its pod template is large, so that fewer pods exist at a time than it asks for."),
    Meaning("Scheduled", "The pod has a node."),
    Meaning("FailedScheduling", "The pod has no node; the text says why."),
    Meaning("Created", "A container was created."),
    Meaning("Started", "A container was started."),
    Meaning("Killing", "A container is being stopped."),
    Meaning("BackOff", "A container failed and is started again after a pause."),
    Meaning("Unhealthy", "A probe failed."),
    Meaning("FailedPostStartHook", "A `postStart` hook failed; its container is stopped."),
    Meaning("FailedPreStopHook", "A `preStop` hook failed."),
    Meaning("Failed", "A container could not be started; the text says why."),
    Meaning("FailedMount", "A volume could not be set up."),
    Meaning("FailedCreatePodSandBox", "The pod could not be set up."),
    Meaning("InsufficientGPUs", "The pod waits for GPUs that processes of another pod still use."),
    Meaning(CROWDED_REASON, "The pod has more containers than a pod may have here."),
)
MEANINGS: Final = (
    ("On Workloads", "`kubectl describe workload NAME` shows them.", WORKLOADS),
    (
        "On Jobs",
        "`kubectl describe job NAME` shows them; `pykueue run` and `pykueue attach` print the important ones.",
        JOBS,
    ),
    ("On one machine", "What Kubernetes' own controllers and the kubelet report, from `pykueue up`.", KUBERNETES),
)
"""The chapters of the page."""
