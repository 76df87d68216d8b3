"""The engine's model of objects: frozen structs of integers, strings and tuples."""

from enum import StrEnum
from functools import lru_cache
from typing import Final

from pykueue.base.struct import Frozen
from pykueue.base.units import Instant, Seconds


class Strategy(StrEnum):
    """How a ClusterQueue treats a head that does not fit."""

    STRICT = "StrictFIFO"
    BEST_EFFORT = "BestEffortFIFO"


class StopPolicy(StrEnum):
    """Whether a queue admits workloads, and what happens to those it has admitted."""

    NONE = "None"
    HOLD = "Hold"
    DRAIN = "HoldAndDrain"


OPEN, HOLD, DRAIN = StopPolicy
# Names of their own, which Python 3.11 finds faster; see `items.IDLE`.


class Policy(StrEnum):
    """Which workloads may be preempted: the union of Kueue's three preemption policies."""

    NEVER = "Never"
    LOWER = "LowerPriority"
    LOWER_OR_NEWER = "LowerOrNewerEqualPriority"
    ANY = "Any"


NEVER, LOWER, LOWER_OR_NEWER, ANY = Policy


class Fungible(StrEnum):
    """Whether a flavor that needs borrowing or preemption ends the search."""

    STOP = "MayStopSearch"
    NEXT = "TryNextFlavor"


class Preference(StrEnum):
    """Which of two imperfect flavors is better."""

    BORROWING = "BorrowingOverPreemption"
    PREEMPTION = "PreemptionOverBorrowing"


class Selector(Frozen):
    """A label selector; every requirement must hold. Requirements are (key, operator, values)."""

    requirements: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    def matches(self, labels: tuple[tuple[str, str], ...]) -> bool:
        """Whether labels satisfy every requirement."""
        if not self.requirements:
            return True
        found = dict(labels)
        return all(requirement_holds(found, key, op, values) for key, op, values in self.requirements)


def requirement_holds(labels: dict[str, str], key: str, operator: str, values: tuple[str, ...]) -> bool:
    """Whether labels satisfy one requirement of a selector or of a node affinity term."""
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt":
            try:
                here, there = int(labels[key]), int(values[0])
            except (KeyError, IndexError, ValueError):
                return False
            return here > there if operator == "Gt" else here < there
        case _:
            return False


class Taint(Frozen):
    """A mark on a flavor's nodes that pods must tolerate."""

    key: str
    value: str
    effect: str


class Toleration(Frozen):
    """What a pod, or a flavor on its behalf, tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Flavor(Frozen, tag=True):
    """A ResourceFlavor: one kind of machine."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    unbuilt: str = ""
    """What this object requests that this version does not support, as text; empty if nothing."""


class Quota(Frozen):
    """How much of one resource in one flavor a queue or cohort owns, may borrow and may lend."""

    flavor: str
    resource: str
    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class ResourceGroup(Frozen):
    """Resources that are assigned together, and the flavors to try for them in order."""

    resources: tuple[str, ...]
    flavors: tuple[str, ...]


class Cohort(Frozen, tag=True):
    """Queues and cohorts that lend to each other, and quota of the cohort's own."""

    name: str
    parent: str = ""
    quotas: tuple[Quota, ...] = ()
    weight: float = 1.0
    """How much of what its parent lends is its fair part, compared with its siblings."""
    usage_based: bool = False
    """Whether children with less past use come first in the tournament, if `Options.admission_fair_sharing` is set."""


class CheckRule(Frozen):
    """An AdmissionCheck that a queue requires, for all of its flavors or for some."""

    check: str
    flavors: tuple[str, ...] = ()


class Preemption(Frozen):
    """The preemption policies of a ClusterQueue."""

    within_queue: Policy = Policy.NEVER
    reclaim: Policy = Policy.NEVER
    borrow_within_cohort: Policy = Policy.NEVER
    borrow_threshold: int | None = None


class Fungibility(Frozen):
    """When to continue with the next flavor, and which imperfect flavor to prefer."""

    when_can_borrow: Fungible = Fungible.STOP
    when_can_preempt: Fungible = Fungible.NEXT
    preference: Preference | None = None


class ClusterQueue(Frozen, tag=True):
    """A ClusterQueue: its quota and its policies."""

    name: str
    cohort: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    quotas: tuple[Quota, ...] = ()
    strategy: Strategy = Strategy.BEST_EFFORT
    namespaces: Selector | None = None
    preemption: Preemption = Preemption()
    fungibility: Fungibility = Fungibility()
    stop: StopPolicy = StopPolicy.NONE
    checks: tuple[CheckRule, ...] = ()
    terminating: bool = False
    unbuilt: str = ""
    weight: float = 1.0
    """How much of what its cohort lends is its fair part, compared with its siblings."""
    generation: int = 1
    """Counts the edits of the object, including fields that are not here; each edit causes a retry."""
    usage_based: bool = False
    """Whether workloads of LocalQueues with less past use come first, if `Options.admission_fair_sharing` is set."""


class LocalQueue(Frozen, tag=True):
    """A LocalQueue: it submits the workloads of a namespace to a ClusterQueue."""

    key: str
    queue: str
    stop: StopPolicy = StopPolicy.NONE
    terminating: bool = False
    weight: float = 1.0
    """Its claim among the LocalQueues of its ClusterQueue; with 0 it comes after all others."""
    consumed: tuple[tuple[str, str], ...] = ()
    """Its past use as a quantity of each resource, as stored in its status."""
    last_update: Instant | None = None
    """When `consumed` was computed."""


class Namespace(Frozen, tag=True):
    """A namespace and its labels."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()


class Check(Frozen, tag=True):
    """An AdmissionCheck object and whether its controller says that it is active."""

    name: str
    active: bool
    controller: str = ""


class PodSet(Frozen):
    """Pods of one template: how many, what each requests, and where they may run."""

    name: str
    count: int
    requests: tuple[tuple[str, int], ...] = ()
    min_count: int | None = None
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[tuple[str, str, tuple[str, ...]], ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    shape: str = ""
    """A digest of the parts of the template that the fields above do not carry."""


class Assignment(Frozen):
    """The assignment of one pod set: a flavor for each resource, the total usage, and the number of pods."""

    pod_set: str
    flavors: tuple[tuple[str, str], ...]
    usage: tuple[tuple[str, int], ...]
    count: int


class Admission(Frozen):
    """A reservation of quota in a ClusterQueue."""

    queue: str
    assignments: tuple[Assignment, ...]


class Evicted(Frozen):
    """The Evicted condition while it is true."""

    reason: str
    at: Instant
    message: str = ""


class Preempted(Frozen):
    """The Preempted condition while it is true."""

    reason: str
    at: Instant


class Requeued(Frozen):
    """The Requeued condition: whether an evicted workload may queue again."""

    may: bool
    reason: str


class CheckState(Frozen):
    """The state of an AdmissionCheck for one workload."""

    name: str
    state: str
    at: Instant = Instant(0)
    message: str = ""
    requeue_after: Seconds | None = None
    retries: int = 0


class PodsReady(Frozen):
    """The PodsReady condition."""

    ready: bool
    reason: str
    at: Instant


class Waiting(Frozen):
    """The QuotaReserved condition while it is false."""

    reason: str
    message: str


class DeactivationTarget(Frozen):
    """The DeactivationTarget condition while it is true: this workload is being deactivated, and why."""

    reason: str
    message: str


class Workload(Frozen, tag=True):
    """A Workload: its requests, and its state so far."""

    key: str
    uid: str
    local_queue: str
    created: Instant
    pod_sets: tuple[PodSet, ...] = ()
    priority: int = 0
    boost: int = 0
    generation: int = 1
    active: bool = True
    job_uid: str = ""
    gated_by: str = ""
    problem: str = ""
    """Why the pod templates cannot be scheduled whatever the quota, in Kueue's words; empty when they can."""
    unbuilt: str = ""
    max_run: Seconds | None = None
    past_run: Seconds = Seconds(0)
    finished: bool = False
    on_hold: bool = False
    replacing: bool = False
    held_off: bool = False
    """Whether no decisions are made for now because writes to it are refused; `problem` has the reason."""
    admission: Admission | None = None
    reserved_at: Instant | None = None
    admitted_at: Instant | None = None
    evicted: Evicted | None = None
    preempted: Preempted | None = None
    requeued: Requeued | None = None
    requeue_at: Instant | None = None
    requeue_count: int = 0
    deactivation: DeactivationTarget | None = None
    reclaimable: tuple[tuple[str, int], ...] = ()
    checks: tuple[CheckState, ...] = ()
    pods_ready: PodsReady | None = None
    waiting: Waiting | None = None

    @property
    def namespace(self) -> str:
        """The namespace part of the key."""
        return self.key.partition("/")[0]


Thing = Flavor | Cohort | ClusterQueue | LocalQueue | Namespace | Check | Workload


class Timestamp(StrEnum):
    """Which time orders a workload that was evicted because its pods did not become ready."""

    EVICTION = "Eviction"
    CREATION = "Creation"


class PodsReadyOptions(Frozen):
    """All-or-nothing with ready pods: the timeouts, and what follows them."""

    timeout: Seconds = Seconds(1800)
    recovery_timeout: Seconds | None = Seconds(1800)
    block_admission: bool = False
    timestamp: Timestamp = Timestamp.EVICTION
    backoff_base: Seconds = Seconds(60)
    backoff_max: Seconds = Seconds(3600)
    backoff_limit: int | None = None


class ShareStrategy(StrEnum):
    """Which comparison of shares lets a workload preempt one of another ClusterQueue under fair sharing."""

    FINAL = "LessThanOrEqualToFinalShare"
    """The preemptor's share, with the preemptor, is at most the share of the victim's side without the victim."""
    INITIAL = "LessThanInitialShare"
    """The preemptor's share, with the preemptor, is below the share of the victim's side with the victim."""


class AdmissionFairSharing(Frozen):
    """How the past use of LocalQueues is computed: Kueue's `admissionFairSharing`."""

    half_life_micros: int = 0
    """The time after which past use counts half; with 0, past use does not count."""
    sampling_micros: int = 300_000_000
    """How often present use is added to past use."""
    resource_weights: tuple[tuple[str, float], ...] = ()
    """What a unit of a resource counts for; 1 unless it is listed."""


class Options(Frozen):
    """Feature gates and configuration, resolved once. The last group are deliberate differences from Kueue."""

    pods_ready: PodsReadyOptions | None = PodsReadyOptions()
    partial_admission: bool = True
    flavor_fungibility: bool = True
    preserve_scan: bool = True
    priority_sorting: bool = True
    prioritize_preemptors: bool = False
    recompute_overlap: bool = True
    equivalence: bool = True
    reclaimable_pods: bool = True
    ignore_undeclared: bool = False
    observability: bool = True
    explicit_status: bool = False
    priority_boost: bool = False
    admission_gates: bool = True
    fair_sharing: tuple[ShareStrategy, ...] = ()
    """The strategies of fair sharing, in order; empty if it is off."""
    fair_prefers_nonborrowing: bool = True
    """Under fair sharing, a head whose side does not borrow what it requests goes before those whose sides do."""
    fair_within_nominal: bool = True
    """Under fair sharing, a preemptor within its queue's nominal quota takes from borrowers whatever the shares."""
    fair_refill: bool = False
    """Under fair sharing, the next workload of a queue whose head has started joins the cycle, if it fits."""
    fair_reevaluates: bool = False
    """Under fair sharing, candidates that failed the first strategy are tried again once own workloads were taken."""
    block_borrowing: bool = False
    """After a head that does not borrow, no other head of its tree borrows in that cycle, as in KEP-83."""
    scheduling: bool = True
    """Whether cycles run. Without them nothing is admitted or preempted; all other decisions are still made."""
    admission_fair_sharing: AdmissionFairSharing | None = None
    """How past use orders the LocalQueues of a usage-based ClusterQueue; None if it does not."""
    afs_anchor: bool = True
    """Whether use counts from the reservation of quota on; otherwise from the admission on."""
    seed: int = 0
    """Feeds the jitter of backoffs; the engine itself draws no random number."""

    reserve_for_preemptor: bool = True
    """Quota that victims release is reserved for their preemptor (PRE-8)."""
    admit_into_free_room_only: bool = True
    """Quota that victims still hold is not given to any workload until they have released it (CYC-4)."""
    wrap_scan: bool = True
    """A workload whose flavor scan was resumed half-way is tried from the first flavor before it is parked (FLV-7)."""
    search_counts_pods: bool = True
    """The victim search also frees the implied `pods` resource (PRE-3)."""
    clamp_reserve: bool = True
    """A blocked borrower above its limit reserves nothing, where Kueue would reserve a negative amount (CYC-3)."""
    partial_skips_reclaimed: bool = True
    """The search for a smaller count starts from the pods still to run (FLV-8)."""
    step_aside: bool = True
    """A head blocked only by quota reserved for a StrictFIFO head lets the next one of its queue try (QUE-2)."""
    retry_beside_borrowers: bool = True
    """An admission on borrowed quota requeues workloads that may preempt borrowers and had found none (QUE-5)."""
    forget_hopeless_preemptor: bool = True
    """A preemptor stays the head of its queue only while it waits for victims (QUE-3)."""
    judge_every_resource: bool = True
    """A flavor fits only if each of its resources does; Kueue checks only the least preferred one (FLV-5)."""


KUEUE_SETTING: Final = Options(
    reserve_for_preemptor=False,
    admit_into_free_room_only=False,
    wrap_scan=False,
    search_counts_pods=False,
    clamp_reserve=False,
    partial_skips_reclaimed=False,
    step_aside=False,
    retry_beside_borrowers=False,
    forget_hopeless_preemptor=False,
    judge_every_resource=False,
)
"""All deliberate differences set to the behaviour of Kueue 0.20."""


def effective_priority(workload: Workload, options: Options) -> int:
    """The priority that counts, with the boost when the gate PriorityBoost is on."""
    return workload.priority + workload.boost if options.priority_boost else workload.priority


@lru_cache(maxsize=4096)
def resource_rank(resource: str) -> int:
    """The 64-bit FNV-1a hash of a resource's name, by which resources are visited."""
    # spec: FLV-1
    digest = 0xCBF29CE484222325
    for byte in resource.encode():
        digest = ((digest ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return digest
