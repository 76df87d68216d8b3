"""Metric families of queues and workloads: names, labels and buckets; those of Kueue as its dashboards use them.

docs/metrics.md lists those of Kueue that are left out, because their features are not built.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from pykueue.base.struct import Frozen

Source: TypeAlias = Literal["ClusterQueue", "LocalQueue", "Cohort", "Workload"]
"""A kind of object that metrics can have custom labels of."""

ROLE: Final = "replica_role"
QUEUE: Final = ("cluster_queue",)
LOCAL: Final = ("name", "namespace")
COHORT: Final = ("cohort",)
PRIORITY: Final = ("priority_class",)
EVICTION: Final = ("reason", "underlying_cause")

SHORT_WAITS: Final = (1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240)
LONG_WAITS: Final = (*SHORT_WAITS, 20480, 40960)
CREATION: Final = tuple(round(0.01 * 2**n, 2) for n in range(11))
BRIEF: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Kind(Enum):
    """The type of a metric."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    GAUGE = "gauge"


class Family(Frozen):
    """One metric with all its series."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    source: Source | None = None
    """The kind of object that a series is about; custom labels of that kind are added to it."""
    by_workload: bool = False
    """Whether custom labels of Workloads are added, too."""


ALL: Final[list[Family]] = []
"""Every family, in the order in which they are shown."""


def counter(name: str, labels: tuple[str, ...], text: str, *, by_workload: bool = False) -> Family:
    """Define a counter."""
    return defined(Family(name, Kind.COUNTER, text, (*labels, ROLE), (), source_of(labels), by_workload))


def gauge(name: str, labels: tuple[str, ...], text: str, *, by_workload: bool = False) -> Family:
    """Define a gauge."""
    return defined(Family(name, Kind.GAUGE, text, (*labels, ROLE), (), source_of(labels), by_workload))


def histogram(
    name: str,
    labels: tuple[str, ...],
    buckets: tuple[float, ...],
    text: str,
    *,
    source: Source | None = None,
    by_workload: bool = False,
) -> Family:
    """Define a histogram of durations."""
    source = source or source_of(labels)
    return defined(Family(name, Kind.HISTOGRAM, text, (*labels, ROLE), buckets, source, by_workload))


def defined(family: Family) -> Family:
    """Add a family to all families."""
    ALL.append(family)
    return family


def source_of(labels: tuple[str, ...]) -> Source | None:
    """The kind of object that a family with these labels is about."""
    if labels[:2] == LOCAL:
        return "LocalQueue"
    if "cluster_queue" in labels or "preempting_cluster_queue" in labels:
        return "ClusterQueue"
    return "Cohort" if "cohort" in labels else None


def with_labels(family: Family, more: tuple[str, ...]) -> Family:
    """A family with more labels, before the last one."""
    return replace(family, labels=(*family.labels[:-1], *more, family.labels[-1])) if more else family


# The scheduler.
ATTEMPTS: Final = counter("kueue_admission_attempts_total", ("result",), "Scheduling cycles, by how they ended.")
ATTEMPT_SECONDS: Final = histogram(
    "kueue_admission_attempt_duration_seconds", ("result",), BRIEF, "How long scheduling cycles took."
)
PREEMPTION_SKIPS: Final = gauge(
    "kueue_admission_cycle_preemption_skips",
    QUEUE,
    "Workloads whose preemption was put off in the last cycle, because another one claimed the same room.",
)
RECOMPUTATIONS: Final = counter(
    "kueue_preemption_target_recomputations_total",
    (*QUEUE, "result"),
    "Heads whose victims were chosen again within a cycle, because another head had claimed them.",
)
CREATION_SECONDS: Final = histogram(
    "kueue_workload_creation_latency_seconds",
    ("job_kind",),
    CREATION,
    "Time between the creation of a job and that of its Workload.",
    source="LocalQueue",
)

ETA_CALIBRATION: Final = counter(
    "pykueue_eta_calibration_total",
    ("result",),
    "Jobs with an estimated start that started within the estimate (right), before it (early) or after it (late).",
)

# ClusterQueues.
PENDING: Final = gauge(
    "kueue_pending_workloads",
    (*QUEUE, "status"),
    "Workloads that wait: in line (active), or set aside until something changes (inadmissible).",
    by_workload=True,
)
PENDING_SHAPES: Final = gauge(
    "kueue_pending_scheduling_hashes",
    (*QUEUE, "status"),
    "Kinds of waiting workloads that no scheduling decision could tell apart.",
)
FINISHED_NOW: Final = gauge("kueue_finished_workloads", QUEUE, "Finished Workloads that still exist.")
FINISHED: Final = counter("kueue_finished_workloads_total", (*QUEUE, *PRIORITY), "Workloads that finished.")
EXECUTION: Final = histogram(
    "kueue_execution_time_seconds", (*QUEUE, *PRIORITY), LONG_WAITS, "For how long finished workloads were admitted."
)
RESERVED: Final = counter(
    "kueue_quota_reserved_workloads_total", (*QUEUE, *PRIORITY), "Workloads that quota was reserved for."
)
RESERVED_WAIT: Final = histogram(
    "kueue_quota_reserved_wait_time_seconds",
    (*QUEUE, *PRIORITY),
    SHORT_WAITS,
    "Time from when a workload was created, or put back in line, until quota was reserved for it.",
)
ADMITTED: Final = counter("kueue_admitted_workloads_total", (*QUEUE, *PRIORITY), "Workloads that were admitted.")
ADMITTED_WAIT: Final = histogram(
    "kueue_admission_wait_time_seconds",
    (*QUEUE, *PRIORITY),
    LONG_WAITS,
    "Time from when a workload was created, or put back in line, until it was admitted.",
)
CHECKS_WAIT: Final = histogram(
    "kueue_admission_checks_wait_time_seconds",
    (*QUEUE, *PRIORITY),
    SHORT_WAITS,
    "Time between the reservation of quota and admission.",
)
READY_WAIT: Final = histogram(
    "kueue_ready_wait_time_seconds",
    (*QUEUE, *PRIORITY),
    SHORT_WAITS,
    "Time from when a workload was created, or put back in line, until its pods were ready.",
)
ADMITTED_TO_READY: Final = histogram(
    "kueue_admitted_until_ready_wait_time_seconds",
    (*QUEUE, *PRIORITY),
    SHORT_WAITS,
    "Time between the admission of a workload and its pods being ready.",
)
EVICTED: Final = counter(
    "kueue_evicted_workloads_total", (*QUEUE, *EVICTION, *PRIORITY), "Evictions of workloads that held quota."
)
EVICTED_ONCE: Final = counter(
    "kueue_evicted_workloads_once_total",
    (*QUEUE, *EVICTION, *PRIORITY),
    "Workloads that were evicted for a reason for the first time.",
)
READY_TO_EVICTED: Final = histogram(
    "kueue_pods_ready_to_evicted_time_seconds",
    (*QUEUE, *EVICTION),
    SHORT_WAITS,
    "For how long the pods of evicted workloads had been ready.",
)
EVICTION_SECONDS: Final = histogram(
    "kueue_workload_eviction_latency_seconds",
    (*QUEUE, "reason"),
    SHORT_WAITS,
    "Time between the eviction of a workload and its quota being free.",
)
PREEMPTED: Final = counter(
    "kueue_preempted_workloads_total",
    ("preempting_cluster_queue", "reason"),
    "Workloads that had to leave for one of this ClusterQueue.",
)
RESERVING_NOW: Final = gauge("kueue_reserving_active_workloads", QUEUE, "Workloads that hold quota.")
ADMITTED_NOW: Final = gauge(
    "kueue_admitted_active_workloads", QUEUE, "Workloads that are admitted and not finished.", by_workload=True
)
QUEUE_STATUS: Final = gauge(
    "kueue_cluster_queue_status", (*QUEUE, "status"), "1 for the state it is in: pending, active or terminating."
)
UNADMITTED: Final = gauge(
    "kueue_unadmitted_workloads", (*QUEUE, *EVICTION), "Workloads that are not admitted, and what keeps them."
)
QUEUE_INFO: Final = gauge(
    "kueue_cluster_queue_info", (*QUEUE, "parent_cohort", "root_cohort"), "Where it stands in the tree of cohorts."
)

# Quota and usage of ClusterQueues, if the Configuration enables them.
PLACE: Final = ("cohort", *QUEUE, "flavor", "resource")
RESOURCE_RESERVATION: Final = gauge("kueue_cluster_queue_resource_reservation", PLACE, "Quota that is reserved.")
RESOURCE_USAGE: Final = gauge("kueue_cluster_queue_resource_usage", PLACE, "Quota of admitted workloads.")
NOMINAL_QUOTA: Final = gauge("kueue_cluster_queue_nominal_quota", PLACE, "Quota of its own.")
BORROWING_LIMIT: Final = gauge(
    "kueue_cluster_queue_borrowing_limit", PLACE, "Most that it may use beyond its own; infinite without a limit."
)
LENDING_LIMIT: Final = gauge(
    "kueue_cluster_queue_lending_limit", PLACE, "Most of its own that others may use; infinite without a limit."
)
RESOURCE_PENDING: Final = gauge(
    "kueue_cluster_queue_resource_pending", (*QUEUE, "resource"), "What its waiting workloads ask for."
)
# The texts of the two shares are Kueue's, because they define what the numbers mean.
QUEUE_SHARE: Final = gauge(
    "kueue_cluster_queue_weighted_share",
    (*QUEUE, *COHORT),
    "Reports a value that representing the maximum of the ratios of usage above nominal\n"
    "quota to the lendable resources in the cohort, among all the resources provided by\n"
    "the ClusterQueue, and divided by the weight.\n"
    "If zero, it means that the usage of the ClusterQueue is below the nominal quota.\n"
    "If the ClusterQueue has a weight of zero and is borrowing, this will return NaN.",
)

# Cohorts.
COHORT_SHARE: Final = gauge(
    "kueue_cohort_weighted_share",
    COHORT,
    "Reports a value that representing the maximum of the ratios of usage above nominal\n"
    "quota to the lendable resources in the Cohort, among all the resources provided by\n"
    "the Cohort, and divided by the weight.\n"
    "If zero, it means that the usage of the Cohort is below the nominal quota.\n"
    "If the Cohort has a weight of zero and is borrowing, this will return NaN.",
)
SUBTREE_QUOTA: Final = gauge(
    "kueue_cohort_subtree_quota", (*COHORT, "flavor", "resource"), "Quota of the cohort and all below it."
)
SUBTREE_RESERVATIONS: Final = gauge(
    "kueue_cohort_subtree_resource_reservations",
    (*COHORT, "flavor", "resource"),
    "Quota that the ClusterQueues below it have reserved.",
)
SUBTREE_ADMITTED: Final = counter(
    "kueue_cohort_subtree_admitted_workloads_total", (*COHORT, *PRIORITY), "Workloads that were admitted below it."
)
SUBTREE_ADMITTED_NOW: Final = gauge(
    "kueue_cohort_subtree_admitted_active_workloads", COHORT, "Workloads below it that are admitted and not finished."
)
COHORT_INFO: Final = gauge(
    "kueue_cohort_info", (*COHORT, "parent_cohort", "root_cohort"), "Where it stands in the tree of cohorts."
)

# LocalQueues, whose families mostly mirror those above.
LOCAL_PENDING: Final = gauge("kueue_local_queue_pending_workloads", (*LOCAL, "status"), PENDING.help)
LOCAL_FINISHED_NOW: Final = gauge("kueue_local_queue_finished_workloads", LOCAL, FINISHED_NOW.help)
LOCAL_FINISHED: Final = counter("kueue_local_queue_finished_workloads_total", (*LOCAL, *PRIORITY), FINISHED.help)
LOCAL_EXECUTION: Final = histogram(
    "kueue_local_queue_execution_time_seconds", (*LOCAL, *PRIORITY), LONG_WAITS, EXECUTION.help
)
LOCAL_RESERVED: Final = counter("kueue_local_queue_quota_reserved_workloads_total", (*LOCAL, *PRIORITY), RESERVED.help)
LOCAL_RESERVED_WAIT: Final = histogram(
    "kueue_local_queue_quota_reserved_wait_time_seconds", (*LOCAL, *PRIORITY), SHORT_WAITS, RESERVED_WAIT.help
)
LOCAL_ADMITTED: Final = counter(
    "kueue_local_queue_admitted_workloads_total", (*LOCAL, *PRIORITY), ADMITTED.help, by_workload=True
)
LOCAL_ADMITTED_WAIT: Final = histogram(
    "kueue_local_queue_admission_wait_time_seconds",
    (*LOCAL, *PRIORITY),
    SHORT_WAITS,
    ADMITTED_WAIT.help,
    by_workload=True,
)
LOCAL_CHECKS_WAIT: Final = histogram(
    "kueue_local_queue_admission_checks_wait_time_seconds", (*LOCAL, *PRIORITY), SHORT_WAITS, CHECKS_WAIT.help
)
LOCAL_READY_WAIT: Final = histogram(
    "kueue_local_queue_ready_wait_time_seconds", (*LOCAL, *PRIORITY), SHORT_WAITS, READY_WAIT.help
)
LOCAL_ADMITTED_TO_READY: Final = histogram(
    "kueue_local_queue_admitted_until_ready_wait_time_seconds",
    (*LOCAL, *PRIORITY),
    SHORT_WAITS,
    ADMITTED_TO_READY.help,
)
LOCAL_EVICTED: Final = counter(
    "kueue_local_queue_evicted_workloads_total", (*LOCAL, *EVICTION, *PRIORITY), EVICTED.help
)
LOCAL_RESERVING_NOW: Final = gauge("kueue_local_queue_reserving_active_workloads", LOCAL, RESERVING_NOW.help)
LOCAL_ADMITTED_NOW: Final = gauge(
    "kueue_local_queue_admitted_active_workloads", LOCAL, ADMITTED_NOW.help, by_workload=True
)
LOCAL_STATUS: Final = gauge(
    "kueue_local_queue_status", (*LOCAL, "active"), "1 for what its condition Active says: True, False or Unknown."
)
LOCAL_UNADMITTED: Final = gauge("kueue_local_queue_unadmitted_workloads", (*LOCAL, *QUEUE, *EVICTION), UNADMITTED.help)
LOCAL_RESERVATION: Final = gauge(
    "kueue_local_queue_resource_reservation", (*LOCAL, "flavor", "resource"), "Quota that its workloads have reserved."
)
LOCAL_USAGE: Final = gauge(
    "kueue_local_queue_resource_usage", (*LOCAL, "flavor", "resource"), "Quota of its admitted workloads."
)
LOCAL_PAST_USE: Final = gauge(
    "kueue_local_queue_admission_fair_sharing_usage",
    (*LOCAL, *QUEUE),
    "Its past use by which it is ordered under admission fair sharing: a weighted sum, divided by its weight.",
)

# Families of our own.
LINE_LENGTH: Final = gauge(
    "pykueue_line_length",
    (*QUEUE, "strategy"),
    "Workloads that are pending in a ClusterQueue, active or inadmissible.",
)
FIRST_WAIT: Final = gauge(
    "pykueue_line_first_wait_seconds",
    (*QUEUE, "strategy"),
    "How long the first workload of the queue has been first, in seconds; 0 if there is none.",
)
WAITED: Final = counter(
    "pykueue_wait_seconds_total",
    (*QUEUE, "reason"),
    "Time that workloads have waited for admission, in seconds, summed over workloads, by reason.",
)
LOCAL_WAITED: Final = counter("pykueue_local_queue_wait_seconds_total", (*LOCAL, "reason"), WAITED.help)
LOST_WORK: Final = counter(
    "pykueue_lost_work_seconds_total",
    (*QUEUE, "reason", "policy"),
    "Time between the admission and the eviction of workloads, in seconds, by reason and, for preemptions, by policy.",
)
UNSERVED: Final = counter(
    "pykueue_unserved_preemptions_total",
    (*QUEUE, "cause"),
    "Preempted workloads whose preemptor then did not start, by the ClusterQueue of the preemptor and by cause.",
)

LOCAL_FAMILIES: Final[Mapping[str, Family]] = {
    FINISHED.name: LOCAL_FINISHED,
    EXECUTION.name: LOCAL_EXECUTION,
    RESERVED.name: LOCAL_RESERVED,
    RESERVED_WAIT.name: LOCAL_RESERVED_WAIT,
    ADMITTED.name: LOCAL_ADMITTED,
    ADMITTED_WAIT.name: LOCAL_ADMITTED_WAIT,
    CHECKS_WAIT.name: LOCAL_CHECKS_WAIT,
    READY_WAIT.name: LOCAL_READY_WAIT,
    ADMITTED_TO_READY.name: LOCAL_ADMITTED_TO_READY,
    EVICTED.name: LOCAL_EVICTED,
}
"""The families of ClusterQueues by name, each with its counterpart for LocalQueues."""
