"""Labels, annotations, finalizers and condition types that users and tools rely on."""

from typing import Final

from pykueue.base.words import Word

GROUP: Final = "kueue.x-k8s.io"
KUBERNETES_VERSION: Final = "v1.36.3"
"""The version of Kubernetes whose API is served."""
SERVER_VERSION: Final = f"{KUBERNETES_VERSION}+pykueue"
"""The version of the embedded API server and of its Node."""
DEFAULT_QUEUE: Final = "default"
DEFAULT_PRIORITY_CLASS: Final = "default"
DEFAULT_POD_SET: Final = "main"
RUN_CONTAINER: Final = "main"
"""The container of a Job that `pykueue run` creates."""
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
OWNER_NOT_FOUND: Final = "OwnerNotFound"
"""The reason of Finished on a Workload whose owner is gone."""
OWNER_NOT_FOUND_SAYS: Final = "The workload's owner no longer exists"


class Label(Word):
    """Keys of labels."""

    QUEUE = "kueue.x-k8s.io/queue-name"
    PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
    MAX_EXEC_TIME_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"
    PREBUILT_WORKLOAD = "kueue.x-k8s.io/prebuilt-workload-name"
    JOB_UID = "kueue.x-k8s.io/job-uid"
    MANAGED = "kueue.x-k8s.io/managed"
    POD_SET = "kueue.x-k8s.io/podset"
    CLUSTER_QUEUE = "kueue.x-k8s.io/cluster-queue-name"
    LOCAL_QUEUE = "kueue.x-k8s.io/local-queue-name"
    POD_GROUP = "kueue.x-k8s.io/pod-group-name"
    POD_GROUP_POD_INDEX = "kueue.x-k8s.io/pod-group-pod-index"
    MULTIKUEUE_ORIGIN = "kueue.x-k8s.io/multikueue-origin"
    MULTIKUEUE_WORKER_POD = "kueue.x-k8s.io/multikueue-worker-workload-pod"
    CONCURRENT_ADMISSION_PARENT = "kueue.x-k8s.io/concurrent-admission-parent"
    BATCH_ADMIN = "rbac.kueue.x-k8s.io/batch-admin"
    BATCH_USER = "rbac.kueue.x-k8s.io/batch-user"


class Annotation(Word):
    """Keys of annotations."""

    PREBUILT_WORKLOAD = "kueue.x-k8s.io/prebuilt-workload-name"
    POD_GROUP = "kueue.x-k8s.io/pod-group-name"
    POD_GROUP_TOTAL_COUNT = "kueue.x-k8s.io/pod-group-total-count"
    POD_GROUP_FAST_ADMISSION = "kueue.x-k8s.io/pod-group-fast-admission"
    POD_GROUP_SERVING = "kueue.x-k8s.io/pod-group-serving"
    POD_GROUP_POD_INDEX_LABEL = "kueue.x-k8s.io/pod-group-pod-index-label"
    RETRIABLE_IN_GROUP = "kueue.x-k8s.io/retriable-in-group"
    ROLE_HASH = "kueue.x-k8s.io/role-hash"
    IS_GROUP_WORKLOAD = "kueue.x-k8s.io/is-group-workload"
    POD_SUSPENDING_PARENT = "kueue.x-k8s.io/pod-suspending-parent"
    ADMISSION_GATED_BY = "kueue.x-k8s.io/admission-gated-by"
    ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
    WORKLOAD_SLICE_NAME = "kueue.x-k8s.io/workload-slice-name"
    WORKLOAD_SLICE_REPLACEMENT_FOR = "kueue.x-k8s.io/workload-slice-replacement-for"
    RAYCLUSTER_REPLICA_SIZES = "kueue.x-k8s.io/raycluster-podset-replica-sizes"
    RAYCLUSTER_GENERATION = "kueue.x-k8s.io/raycluster-generation"
    JOB_MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
    JOB_COMPLETIONS_EQUAL_PARALLELISM = "kueue.x-k8s.io/job-completions-equal-parallelism"
    STOPPING = "kueue.x-k8s.io/stopping"
    REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
    PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
    UNCONSTRAINED_TOPOLOGY = "kueue.x-k8s.io/podset-unconstrained-topology"
    SLICE_REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-slice-required-topology"
    SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
    SLICE_REQUIRED_TOPOLOGY_CONSTRAINTS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
    POD_SET_GROUP = "kueue.x-k8s.io/podset-group-name"
    POD_INDEX_OFFSET = "kueue.x-k8s.io/pod-index-offset"
    WORKLOAD = "kueue.x-k8s.io/workload"
    JOB_OWNER_GVK = "kueue.x-k8s.io/job-owner-gvk"
    JOB_OWNER_NAME = "kueue.x-k8s.io/job-owner-name"
    COMPONENT_WORKLOAD_INDEX = "kueue.x-k8s.io/component-workload-index"
    MULTIKUEUE_ORIGIN_UID = "kueue.x-k8s.io/multikueue-origin-uid"
    PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
    ALLOWED_RESOURCE_FLAVORS = "kueue.x-k8s.io/workload-allowed-resource-flavors"
    SAFE_TO_FORCEFULLY_DELETE = "kueue.x-k8s.io/safe-to-forcefully-delete"
    CONSUME_PROVISIONING_REQUEST = "autoscaling.x-k8s.io/consume-provisioning-request"
    PROVISIONING_CLASS = "autoscaling.x-k8s.io/provisioning-class-name"
    ASKED_FOR = "pykueue.io/asked-for"
    CHECK_TIMEOUT = "pykueue.io/check-timeout-seconds"
    UMASK = "pykueue.io/umask"
    CREATOR = "pykueue.io/created-by"
    COMMAND = "pykueue.io/command"
    HOLD = "pykueue.io/hold"
    REQUEUE = "pykueue.io/requeue"
    DEACTIVATED_BY = "pykueue.io/deactivated-by"
    REQUEUED = "pykueue.io/requeued"
    AFTER = "pykueue.io/after"
    AFTER_OK = "pykueue.io/after-ok"
    BEGIN = "pykueue.io/begin"
    ARRAY = "pykueue.io/array"
    NOTIFY = "pykueue.io/notify"
    OUTPUT = "pykueue.io/output"
    """The file to which a Job writes its standard output itself; %j and %A are its name, %a the task, %% is %."""
    ADMISSION_MODE = "pykueue.io/admission-mode"
    """On a Cohort: `UsageBasedAdmissionFairSharing` lets past use order its children, as in a ClusterQueue's scope."""
    INTERACTIVE = "pykueue.io/interactive"
    """The pod of `pykueue run --interactive`, which ends when its terminal is gone."""


DEPENDENCIES_GATE: Final = "pykueue.io/dependencies"
"""The admission gate of a Job that waits for other Jobs or for a time; our job controller removes it."""


class Finalizer(Word):
    """Keys of finalizers."""

    RESOURCE_IN_USE = "kueue.x-k8s.io/resource-in-use"
    MANAGED_POD = "kueue.x-k8s.io/managed"


class KubernetesFinalizer(Word):
    """Finalizers of Kubernetes itself."""

    ORPHAN = "orphan"
    FOREGROUND = "foregroundDeletion"
    NAMESPACE = "kubernetes"


class CheckController(Word):
    """Names of admission check controllers."""

    PROVISIONING = "kueue.x-k8s.io/provisioning-request"
    MULTIKUEUE = "kueue.x-k8s.io/multikueue"


class WorkloadCondition(Word):
    """Types of a Workload's conditions."""

    QUOTA_RESERVED = "QuotaReserved"
    ADMITTED = "Admitted"
    PODS_READY = "PodsReady"
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    REQUEUED = "Requeued"
    DEACTIVATION_TARGET = "DeactivationTarget"
    FINISHED = "Finished"
    BLOCKED_ON_PREEMPTION_GATES = "BlockedOnPreemptionGates"
    WAITING_FOR_REPLACEMENT_PODS = "WaitingForReplacementPods"


USAGE_BASED: Final = "UsageBasedAdmissionFairSharing"
"""The admission mode in which past use decides the order."""
ADMISSION_MODES: Final = (USAGE_BASED, "NoAdmissionFairSharing")
GPU: Final = "nvidia.com/gpu"
"""The resource of whole GPUs."""
GPU_SHARE: Final = "pykueue.io/gpu-share"
"""The resource of shares of one GPU, in thousandths."""
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""The label and annotation with the index of a pod of an Indexed Job."""
