"""What the labels and annotations mean that users and administrators set, for docs/fields.md."""

from typing import Final, Literal

from pykueue.api.names import Annotation, Label
from pykueue.base.struct import Frozen


class Key(Frozen):
    """A label or annotation of an object."""

    key: Label | Annotation
    on: str
    """Kinds of the objects that have it."""
    meaning: str

    @property
    def name(self) -> str:
        """Its key."""
        return self.key.value

    @property
    def sort(self) -> Literal["label", "annotation"]:
        """Whether it is a label or an annotation."""
        return "label" if isinstance(self.key, Label) else "annotation"


MEANINGS: Final = (
    Key(Label.QUEUE, "Job", "The LocalQueue in its namespace that the Job waits in."),
    Key(Label.PRIORITY_CLASS, "Job", "The WorkloadPriorityClass that decides its order and what it may preempt."),
    Key(Label.MAX_EXEC_TIME_SECONDS, "Job", "How long it may run, in seconds; then its Workload is deactivated."),
    Key(Label.PREBUILT_WORKLOAD, "Job", "A Workload that exists already and is used instead of a new one."),
    Key(Annotation.PREBUILT_WORKLOAD, "Job", "The same, also for names that are too long for a label."),
    Key(
        Annotation.JOB_MIN_PARALLELISM, "Job", "The smallest `parallelism` with which it may start (partial admission)."
    ),
    Key(
        Annotation.JOB_COMPLETIONS_EQUAL_PARALLELISM,
        "Job",
        "`true` keeps `completions` equal to `parallelism` when partial admission reduces it.",
    ),
    Key(Annotation.ADMISSION_GATED_BY, "Job", "Names of gates, with commas; the Job is queued when all are removed."),
    Key(Annotation.HOLD, "Job", "`true` keeps it from running, and stops it if it runs; `pykueue hold` sets it."),
    Key(Annotation.REQUEUE, "Job", "Each new value stops the Job and queues it again; `pykueue requeue` sets it."),
    Key(Annotation.AFTER, "Job", "Names of Jobs, with commas, that must have ended before it is queued."),
    Key(Annotation.AFTER_OK, "Job", "The same for Jobs that must have succeeded."),
    Key(Annotation.BEGIN, "Job", "The time before which it is not queued."),
    Key(Annotation.ARRAY, "Job", "The task numbers of an array; `pykueue run --array` sets it."),
    Key(
        Annotation.OUTPUT, "Job", "The file that its output goes to; `pykueue run --output` sets it. One machine only."
    ),
    Key(
        Annotation.NOTIFY,
        "pod template",
        "What to call when it starts and ends, a JSON list of words. One machine only.",
    ),
    Key(Annotation.UMASK, "pod template", "The umask of its processes. One machine only."),
    Key(
        Annotation.PRIORITY_BOOST, "Workload", "A number that is added to its priority, with the gate `PriorityBoost`."
    ),
    Key(
        Annotation.CHECK_TIMEOUT,
        "AdmissionCheck",
        "A provisioning attempt without capacity after this many seconds counts as failed.",
    ),
    Key(
        Annotation.ADMISSION_MODE,
        "Cohort",
        "`UsageBasedAdmissionFairSharing` orders its ClusterQueues and Cohorts by their past use.",
    ),
    Key(
        Label.BATCH_ADMIN,
        "ClusterRole",
        "`true` adds the rules of the role to `kueue-batch-admin-role`.",
    ),
    Key(
        Label.BATCH_USER,
        "ClusterRole",
        "`true` adds the rules of the role to `kueue-batch-user-role`.",
    ),
)
SET_BY_CONTROLLERS: Final = frozenset(
    {
        Label.JOB_UID,
        Label.MANAGED,
        Label.POD_SET,
        Label.CLUSTER_QUEUE,
        Label.LOCAL_QUEUE,
        Annotation.STOPPING,
        Annotation.WORKLOAD,
        Annotation.CONSUME_PROVISIONING_REQUEST,
        Annotation.PROVISIONING_CLASS,
        Annotation.ASKED_FOR,
        Annotation.CREATOR,
        Annotation.COMMAND,
        Annotation.DEACTIVATED_BY,
        Annotation.REQUEUED,
        Annotation.INTERACTIVE,
    }
)
"""Keys that controllers or commands write for themselves."""
UNBUILT: Final = frozenset(
    {
        Label.POD_GROUP,
        Label.POD_GROUP_POD_INDEX,
        Label.MULTIKUEUE_ORIGIN,
        Label.MULTIKUEUE_WORKER_POD,
        Label.CONCURRENT_ADMISSION_PARENT,
        Annotation.POD_GROUP,
        Annotation.POD_GROUP_TOTAL_COUNT,
        Annotation.POD_GROUP_FAST_ADMISSION,
        Annotation.POD_GROUP_SERVING,
        Annotation.POD_GROUP_POD_INDEX_LABEL,
        Annotation.RETRIABLE_IN_GROUP,
        Annotation.ROLE_HASH,
        Annotation.IS_GROUP_WORKLOAD,
        Annotation.POD_SUSPENDING_PARENT,
        Annotation.ELASTIC_JOB,
        Annotation.WORKLOAD_SLICE_NAME,
        Annotation.WORKLOAD_SLICE_REPLACEMENT_FOR,
        Annotation.RAYCLUSTER_REPLICA_SIZES,
        Annotation.RAYCLUSTER_GENERATION,
        Annotation.REQUIRED_TOPOLOGY,
        Annotation.PREFERRED_TOPOLOGY,
        Annotation.UNCONSTRAINED_TOPOLOGY,
        Annotation.SLICE_REQUIRED_TOPOLOGY,
        Annotation.SLICE_SIZE,
        Annotation.SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS,
        Annotation.POD_SET_GROUP,
        Annotation.POD_INDEX_OFFSET,
        Annotation.JOB_OWNER_GVK,
        Annotation.JOB_OWNER_NAME,
        Annotation.COMPONENT_WORKLOAD_INDEX,
        Annotation.MULTIKUEUE_ORIGIN_UID,
        Annotation.ALLOWED_RESOURCE_FLAVORS,
        Annotation.SAFE_TO_FORCEFULLY_DELETE,
    }
)
"""Keys of features that are not built."""
