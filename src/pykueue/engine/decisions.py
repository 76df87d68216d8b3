"""The decisions of the engine as a sum type, with their reasons as data."""

from enum import StrEnum

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant
from pykueue.engine.model import Admission


class WaitReason(StrEnum):
    """The reason of QuotaReserved=False, in Kueue's spelling."""

    MISCONFIGURED = "Misconfigured"
    SUSPENDED = "Suspended"
    DEACTIVATED = "Deactivated"
    GATED = "AdmissionGated"
    PENDING_EVALUATION = "PendingEvaluation"
    NO_MATCHING_FLAVOR = "NoMatchingFlavor"
    EXCEEDS_MAX_QUOTA = "ExceedsMaxQuota"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    WAITING_FOR_PREEMPTED = "WaitingForPreemptedWorkloads"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    PENDING = "Pending"
    """These three stand for the others when the gate UnadmittedWorkloadsObservability is off."""
    WAITING = "Waiting"
    INADMISSIBLE = "Inadmissible"


class EvictionReason(StrEnum):
    """The reason of Evicted=True, in Kueue's spelling."""

    PREEMPTED = "Preempted"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    ADMISSION_CHECK = "AdmissionCheck"
    QUEUE_STOPPED = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    DEACTIVATED = "Deactivated"


class PreemptionReason(StrEnum):
    """The reason of Preempted=True: which clause of the preemptor's policy allowed it."""

    IN_QUEUE = "InClusterQueue"
    RECLAIM = "InCohortReclamation"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FAIR_SHARING = "InCohortFairSharing"


class SparedReason(StrEnum):
    """Why a candidate for preemption was not preempted: it was not needed, or not allowed, or others went before it."""

    NOT_NEEDED = "NotNeeded"
    """The preemptor fits without it, although it comes before a victim in the order of candidates."""
    WITHIN_QUOTA = "WithinQuota"
    """Its ClusterQueue or cohort no longer exceeds its own quota, once candidates before it have left."""
    WHILE_BORROWING = "NotWhileBorrowing"
    """It may be preempted only if the preemptor's ClusterQueue does not borrow."""
    FAIR_SHARE = "FairShare"
    """Under fair sharing: the preemptor's share would be too large compared with that of the candidate's side."""
    SMALLER_SHARE = "SmallerShare"
    """Under fair sharing: enough others come before it, whose ClusterQueue or cohort has a larger share."""
    NOT_LEAVING = "NotLeaving"
    """Those that are evicted already come first. This and all that follow: enough others come before it."""
    OWN_QUEUE = "OwnClusterQueue"
    """Those of other ClusterQueues, which borrow, come first."""
    WEAKER_CLAIM = "WeakerClaim"
    """Those come first that use quota within which the preemptor fits without borrowing."""
    LESS_PAST_USE = "LessPastUse"
    """Those of LocalQueues with more past use come first, in a usage-based ClusterQueue."""
    HIGHER_PRIORITY = "HigherPriority"
    ADMITTED_EARLIER = "AdmittedEarlier"
    """Those of the same priority come first that have held their quota for a shorter time."""
    TIE = "Tie"
    """It is equal to a victim in all of this; the uid decides."""


class RequeueReason(StrEnum):
    """The reason of Requeued=True when it is not an eviction's."""

    BACKOFF_FINISHED = "BackoffFinished"
    REACTIVATED = "Reactivated"
    QUEUE_RESTARTED = "ClusterQueueRestarted"
    LOCAL_QUEUE_RESTARTED = "LocalQueueRestarted"


class DeactivationCause(StrEnum):
    """The reason of DeactivationTarget, in Kueue's spelling."""

    REQUEUE_LIMIT = "RequeuingLimitExceeded"
    MAX_RUN = "MaximumExecutionTimeExceeded"
    ADMISSION_CHECK = "AdmissionCheck"


class Uncovered(Frozen, tag=True):
    """The queue covers no such resource."""

    resource: str


class FlavorMissing(Frozen, tag=True):
    """The queue names a flavor that does not exist."""

    flavor: str


class Untolerated(Frozen, tag=True):
    """The flavor has a taint that neither the pods nor the flavor tolerate."""

    flavor: str
    key: str
    value: str
    effect: str


class Mismatch(Frozen, tag=True):
    """The pods' node selection excludes the flavor's labels."""

    flavor: str


class OverCapacity(Frozen, tag=True):
    """The request exceeds what this queue can ever use of this flavor."""

    flavor: str
    resource: str
    earlier: int
    """The amount that earlier pod sets of the workload use."""
    request: int
    capacity: int


class Short(Frozen, tag=True):
    """The amount that is missing now."""

    flavor: str
    resource: str
    missing: int


class NotNominated(Frozen, tag=True):
    """While re-planning, only the flavor chosen at nomination is tried."""

    flavor: str
    resource: str


Obstacle = Uncovered | FlavorMissing | Untolerated | Mismatch | OverCapacity | Short | NotNominated


class PodSetObstacles(Frozen):
    """Why one pod set got no flavors, or none without preemption."""

    pod_set: str
    obstacles: tuple[Obstacle, ...]


class Unassigned(Frozen, tag=True):
    """No flavors fit now; victims may be leaving."""

    pod_sets: tuple[PodSetObstacles, ...]
    victims: int = 0
    """How many preempted workloads have yet to leave."""
    inadequate: bool = False
    """Whether preemption is allowed but no set of victims suffices."""


class QueueMissing(Frozen, tag=True):
    """The LocalQueue or ClusterQueue does not exist, or is being deleted under a reservation."""

    kind: str
    name: str
    lost_reservation: bool = False


class QueueInactive(Frozen, tag=True):
    """The LocalQueue or ClusterQueue is stopped or cannot admit."""

    kind: str
    name: str
    lost_reservation: bool = False
    why: str = ""


class NamespaceMissing(Frozen, tag=True):
    """The workload's namespace does not exist."""

    namespace: str


class NamespaceMismatch(Frozen, tag=True):
    """The ClusterQueue does not serve the workload's namespace."""

    queue: str


class Invalid(Frozen, tag=True):
    """The pod templates request something that can never be scheduled, or that this version does not support."""

    message: str


class GatedBy(Frozen, tag=True):
    """Admission gates are still closed."""

    gates: str


class GatesCleared(Frozen, tag=True):
    """The last admission gate was removed."""


class Inactive(Frozen, tag=True):
    """The workload is deactivated."""


class FailedChecks(Frozen, tag=True):
    """An AdmissionCheck is still in state Retry or Rejected."""


class Queued(Frozen, tag=True):
    """It waits for its turn to be evaluated."""


class Bypassed(Frozen, tag=True):
    """An equal workload was just evaluated, and this one shares its verdict."""


class Overlap(Frozen, tag=True):
    """Its victims are already promised to another workload of this cycle."""


class DeferredFit(Frozen, tag=True):
    """It will fit when the victims of other workloads have left."""


class NoLongerFits(Frozen, tag=True):
    """A workload considered earlier in the cycle took the quota."""


class PodsNotReady(Frozen, tag=True):
    """Admission waits until all admitted workloads have their pods ready."""

    workload: str


class AfterEviction(Frozen, tag=True):
    """It was evicted and has given its quota back."""

    message: str


Why = (
    Unassigned
    | QueueMissing
    | QueueInactive
    | NamespaceMissing
    | NamespaceMismatch
    | Invalid
    | GatedBy
    | GatesCleared
    | Inactive
    | FailedChecks
    | Queued
    | Bypassed
    | Overlap
    | DeferredFit
    | NoLongerFits
    | PodsNotReady
    | AfterEviction
)


class Considered(Frozen):
    """A flavor that was tried for a pod set and did not fit without borrowing or preemption."""

    pod_set: str
    flavor: str
    mode: str
    """NoFit, NoCandidates, Preempt, Reclaim, or Fit for one that borrows."""
    borrowing: int
    obstacles: tuple[Obstacle, ...] = ()


class Reserve(Frozen, tag=True):
    """Quota is reserved; admission follows when the AdmissionChecks are ready."""

    workload: str
    admission: Admission
    borrowing: int
    at: Instant
    considered: tuple[Considered, ...] = ()
    checks: tuple[str, ...] = ()
    """Those that must be ready, by name."""
    after: tuple[str, ...] = ()
    """The workloads whose releases of quota must be stored before this is; if one is refused, so is this."""


class Admit(Frozen, tag=True):
    """The job may start. Quota is reserved with the same write unless it was reserved earlier."""

    workload: str
    admission: Admission
    borrowing: int
    at: Instant
    reserved_before: bool = False
    considered: tuple[Considered, ...] = ()
    after: tuple[str, ...] = ()
    """As for `Reserve`; empty if quota was reserved before."""


class Evict(Frozen, tag=True):
    """The job must stop; its quota is kept until it has."""

    workload: str
    reason: EvictionReason
    message: str
    at: Instant
    cause: str = ""
    """The underlying cause: of a timeout, or of a deactivation."""
    by: str = ""
    """The preemptor."""
    by_uid: str = ""
    preemption: PreemptionReason | None = None
    requeue_count: int = 0
    requeue_at: Instant | None = None


class Unreserve(Frozen, tag=True):
    """The quota is released: after an eviction, or because the queue was stopped or deleted before the job started."""

    workload: str
    reason: WaitReason
    why: Why
    at: Instant
    requeued: bool | None = None
    """Whether it may queue at once; None when it was not evicted, so that no condition is written."""
    requeued_reason: str = ""


class Requeue(Frozen, tag=True):
    """An evicted workload may queue again."""

    workload: str
    reason: RequeueReason
    at: Instant


class Deactivate(Frozen, tag=True):
    """The workload is made inactive, and its retry state is cleared."""

    workload: str
    cause: DeactivationCause | None
    message: str
    at: Instant


class Wait(Frozen, tag=True):
    """The workload stays pending for this reason; decided only when the reason changes."""

    workload: str
    reason: WaitReason
    why: Why
    at: Instant


Decision = Reserve | Admit | Evict | Unreserve | Requeue | Deactivate | Wait
