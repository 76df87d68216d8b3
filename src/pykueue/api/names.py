"""What is it called? Labels, annotations, finalizers, gates, conditions and reasons that users and tools rely on."""

from enum import StrEnum
from typing import Final

GROUP: Final = "kueue.x-k8s.io"
PROVISIONING_PARAMETER_PREFIX: Final = "provreq.kueue.x-k8s.io/"
"""An annotation with this prefix becomes a parameter of the ProvisioningRequest."""
DEFAULT_QUEUE: Final = "default"
DEFAULT_PRIORITY_CLASS: Final = "default"
DEFAULT_POD_SET: Final = "main"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"


class Label(StrEnum):
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


class Annotation(StrEnum):
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


class Finalizer(StrEnum):
    """What keeps an object from being removed."""

    RESOURCE_IN_USE = "kueue.x-k8s.io/resource-in-use"
    MANAGED_POD = "kueue.x-k8s.io/managed"


class SchedulingGate(StrEnum):
    """What keeps a pod from being scheduled."""

    ADMISSION = "kueue.x-k8s.io/admission"
    TOPOLOGY = "kueue.x-k8s.io/topology"
    ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"


class PreemptionGateName(StrEnum):
    """What keeps a workload from preempting others."""

    MULTIKUEUE = "kueue.x-k8s.io/multikueue"
    CONCURRENT_ADMISSION = "kueue.x-k8s.io/concurrent-admission"


class CheckController(StrEnum):
    """Who makes an admission check."""

    PROVISIONING = "kueue.x-k8s.io/provisioning-request"
    MULTIKUEUE = "kueue.x-k8s.io/multikueue"


class Dispatcher(StrEnum):
    """How a workload is offered to other clusters."""

    ALL_AT_ONCE = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
    INCREMENTAL = "kueue.x-k8s.io/multikueue-dispatcher-incremental"


class FieldManager(StrEnum):
    """In whose name fields are written."""

    ADMISSION = "kueue-admission"
    PODS_READY = "kueue-job-controller-PodsReady"
    RECLAIMABLE_PODS = "kueue-reclaimable-pods"
    POD_CONTROLLER = "kueue-pod-controller"
    MULTIKUEUE = "kueue.x-k8s.io/multikueue"
    PROVISIONING = "kueue.x-k8s.io/provisioning-request"
    POD_TERMINATION = "kueue"
    TRAIN_JOB = "kueue.x-k8s.io/manager"


class WorkloadCondition(StrEnum):
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


class QuotaReservedReason(StrEnum):
    """Why quota is reserved, or not."""

    QUOTA_RESERVED = "QuotaReserved"
    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    DEACTIVATED = "Deactivated"
    ADMISSION_GATED = "AdmissionGated"
    ON_HOLD = "OnHold"
    PENDING_EVALUATION = "PendingEvaluation"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    WAITING_FOR_PREEMPTED_WORKLOADS = "WaitingForPreemptedWorkloads"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    LEGACY_PENDING = "Pending"
    LEGACY_INADMISSIBLE = "Inadmissible"
    LEGACY_WAITING = "Waiting"


class AdmittedReason(StrEnum):
    """Why a workload is admitted, or not."""

    ADMITTED = "Admitted"
    NO_RESERVATION = "NoReservation"
    UNSATISFIED_ADMISSION_CHECKS = "UnsatisfiedAdmissionChecks"
    PENDING_DELAYED_TOPOLOGY_REQUESTS = "PendingDelayedTopologyRequests"
    LEGACY_UNSATISFIED_CHECKS = "UnsatisfiedChecks"
    LEGACY_NO_RESERVATION_UNSATISFIED_CHECKS = "NoReservationUnsatisfiedChecks"


class EvictedReason(StrEnum):
    """Why a workload was evicted."""

    PREEMPTED = "Preempted"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    ADMISSION_CHECK = "AdmissionCheck"
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    NODE_FAILURES = "NodeFailures"
    FLAVOR_MIGRATION = "FlavorMigration"
    DEACTIVATED = "Deactivated"
    VARIANT_EVICTED = "VariantEvicted"


DEACTIVATED_DUE_TO: Final = "DeactivatedDueTo"
"""Precedes a `DeactivationReason` in the reason of an eviction."""


class DeactivationReason(StrEnum):
    """Why a workload is to be deactivated."""

    REQUEUING_LIMIT_EXCEEDED = "RequeuingLimitExceeded"
    MAXIMUM_EXECUTION_TIME_EXCEEDED = "MaximumExecutionTimeExceeded"
    ADMISSION_CHECK = "AdmissionCheck"
    EVICTED_ON_MANAGER_CLUSTER = "EvictedOnManagerCluster"


class PreemptedReason(StrEnum):
    """On what ground a workload was preempted."""

    IN_CLUSTER_QUEUE = "InClusterQueue"
    IN_COHORT_RECLAMATION = "InCohortReclamation"
    IN_COHORT_FAIR_SHARING = "InCohortFairSharing"
    IN_COHORT_RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"


class RequeuedReason(StrEnum):
    """Why a workload may be queued again, apart from the reasons of its eviction."""

    REACTIVATED = "Reactivated"
    BACKOFF_FINISHED = "BackoffFinished"
    CLUSTER_QUEUE_RESTARTED = "ClusterQueueRestarted"
    LOCAL_QUEUE_RESTARTED = "LocalQueueRestarted"
    INADMISSIBLE = "Inadmissible"


class PodsReadyReason(StrEnum):
    """Why pods are ready, or not."""

    WAIT_FOR_START = "WaitForStart"
    WAIT_FOR_RECOVERY = "WaitForRecovery"
    STARTED = "Started"
    RECOVERED = "Recovered"


class FinishedReason(StrEnum):
    """How a workload ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    OUT_OF_SYNC = "OutOfSync"
    OWNER_NOT_FOUND = "OwnerNotFound"
    WORKLOAD_SLICE_REPLACED = "WorkloadSliceReplaced"
    FAILED_TO_START = "FailedToStart"


class PreemptionGatesReason(StrEnum):
    """Why a workload may not preempt."""

    PREEMPTION_GATED = "PreemptionGated"


class ReplacementPodsReason(StrEnum):
    """Why replacement pods are waited for, or not, apart from the reasons of an eviction."""

    PODS_FAILED = "PodsFailed"
    PODS_READY = "PodsReady"


ACTIVE: Final = "Active"
"""Type of the condition that queues, checks and clusters share."""
QUOTA_AUTOMATION: Final = "MultiKueueManagerQuotaAutomation"


class QuotaAutomationReason(StrEnum):
    """Whether a ClusterQueue's quota follows its worker clusters."""

    AUTOMATED = "QuotaAutomated"
    NOT_REQUESTED = "NotRequested"
    UNSUPPORTED_CONFIGURATION = "UnsupportedConfiguration"


class ClusterQueueReason(StrEnum):
    """Why a ClusterQueue is active, or not; the first that applies is given."""

    READY = "Ready"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"
    STOPPED = "Stopped"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    ADMISSION_CHECK_NOT_FOUND = "AdmissionCheckNotFound"
    ADMISSION_CHECK_INACTIVE = "AdmissionCheckInactive"
    MULTIPLE_MULTIKUEUE_CHECKS = "MultipleMultiKueueAdmissionChecks"
    MULTIKUEUE_CHECK_PER_FLAVOR = "MultiKueueAdmissionCheckAppliedPerFlavor"
    MULTIKUEUE_WITH_PROVISIONING = "MultiKueueWithProvisioningRequest"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"


class LocalQueueReason(StrEnum):
    """Why a LocalQueue is active, or not."""

    READY = "Ready"
    STOPPED = "Stopped"
    CLUSTER_QUEUE_DOES_NOT_EXIST = "ClusterQueueDoesNotExist"
    CLUSTER_QUEUE_IS_INACTIVE = "ClusterQueueIsInactive"


class AdmissionCheckReason(StrEnum):
    """Why an AdmissionCheck is active, or not."""

    ACTIVE = "Active"
    BAD_PARAMETERS_REF = "BadParametersRef"
    SOME_ACTIVE_CLUSTERS = "SomeActiveClusters"
    NO_USABLE_CLUSTERS = "NoUsableClusters"
    BAD_CONFIG = "BadConfig"


class MultiKueueClusterReason(StrEnum):
    """Why another cluster is connected, or not."""

    ACTIVE = "Active"
    CLUSTER_PROFILE_DISABLED = "MultiKueueClusterProfileFeatureDisabled"
    BAD_CLUSTER_PROFILE = "BadClusterProfile"
    BAD_REST_CONFIG = "BadRestConfig"
    BAD_KUBE_CONFIG = "BadKubeConfig"
    INSECURE_KUBE_CONFIG = "InsecureKubeConfig"
    CLIENT_CONNECTION_FAILED = "ClientConnectionFailed"


class PodCondition(StrEnum):
    """Types of conditions that are written on pods."""

    TERMINATION_TARGET = "TerminationTarget"
    TERMINATED_BY_KUEUE = "TerminatedByKueue"
    FAILURE_RECOVERY = "KueueFailureRecovery"


class PodTerminationReason(StrEnum):
    """Why a pod is stopped; `WORKLOAD_EVICTED_DUE_TO` is followed by the reason of the eviction."""

    WORKLOAD_DELETED = "WorkloadDeleted"
    WORKLOAD_EVICTED_DUE_TO = "WorkloadEvictedDueTo"
    NO_MATCHING_WORKLOAD = "NoMatchingWorkload"
    NOT_ADMITTED = "NotAdmitted"
    UNSCHEDULABLE = "UnschedulableOnAssignedNode"
    FORCEFULLY_DELETED = "KueueForcefullyDeleted"


class ProvisioningCondition(StrEnum):
    """Types of a ProvisioningRequest's conditions, the weightiest first."""

    FAILED = "Failed"
    CAPACITY_REVOKED = "CapacityRevoked"
    BOOKING_EXPIRED = "BookingExpired"
    PROVISIONED = "Provisioned"
    ACCEPTED = "Accepted"
