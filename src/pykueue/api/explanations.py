"""Wire types of the `explanations` of `query.pykueue.io`: why a workload waits, and who holds the quota of a queue.

Every answer has a tree of sentences for people, and the same facts as fields for programs. Amounts are quantities,
times are RFC 3339. Workloads are named as people know them (`Job train`); those of namespaces that the caller may not
list are counted in `otherNamespaces`.
"""

from typing import Final

from pykueue.api.core import ObjectMeta
from pykueue.api.query import QUERY_GROUP, QUERY_VERSION
from pykueue.base.struct import Wire

WORKLOAD_EXPLANATION: Final = "WorkloadExplanation"
QUEUE_EXPLANATION: Final = "QueueExplanation"
FINISH: Final = "Finish"
"""The kind of a past decision that is the end of the job."""
API_VERSION: Final = f"{QUERY_GROUP}/{QUERY_VERSION}"


class Sentence(Wire):
    """A sentence, and those that explain it."""

    code: str
    """What it is about; one of a fixed set of words."""
    text: str
    children: "tuple[Sentence, ...]" = ()


class Names(Wire):
    """Some workloads."""

    count: int
    named: tuple[str, ...] = ()
    """The first of them."""
    other_namespaces: int = 0
    """How many of the first are of namespaces that the caller may not list."""


class Place(Wire):
    """A place in line."""

    position: int
    """From 1."""
    total: int
    ahead: Names
    ahead_not_fitting: int = 0
    """How many of those ahead do not fit at present, so that others may start before them."""
    overtaken_by: Names | None = None
    """Those that were behind it and started before it, the latest first."""
    overtaken_by_smaller: int = 0
    turns: bool = False
    """Whether it changes with every start, because LocalQueues take turns by their past use."""


class FlavorRoom(Wire):
    """What a queue has of a resource in a flavor, and what a pod set needs of it."""

    flavor: str
    resource: str
    nominal: str
    used: str
    free: str
    """What the next workload may use, borrowing included."""
    borrowable: str = "0"
    """The part of what is free that is not its own."""
    borrowed: str = "0"
    lent: str = "0"
    most: str = ""
    """What it could use if nothing else used anything."""
    asked: str = ""
    missing: str = ""
    """Empty if it is enough."""
    limited_by: str = ""
    """The object and field that decides how much is free."""
    obstacle: str = ""
    """The kind of obstacle: Short, OverCapacity, Untolerated, Mismatch, FlavorMissing."""


class PodSetExplanation(Wire):
    """What a pod set asks for, and what there is."""

    name: str
    count: int
    flavors: tuple[FlavorRoom, ...] = ()
    uncovered: tuple[str, ...] = ()
    """Resources that the ClusterQueue does not cover."""


class CheckStanding(Wire):
    """The state of an AdmissionCheck."""

    name: str
    state: str
    message: str = ""


class ShareStanding(Wire):
    """The share of a ClusterQueue or Cohort under fair sharing."""

    kind: str
    name: str
    weighted_share: int
    """Per mille, divided by the weight and rounded up, as in its status."""
    weight: str = "1"
    past_use: str = ""
    """What orders it among its siblings, divided by the weight; absent unless its Cohort is usage-based."""


class ShareExplanation(Wire):
    """How the shares stand for a pending workload."""

    now: ShareStanding
    """Its ClusterQueue."""
    with_workload: int
    """The weighted share that its ClusterQueue would have with it."""
    goes_first: tuple[str, ...] = ()
    """ClusterQueues whose next workload is considered before it."""
    protected: tuple[str, ...] = ()
    """ClusterQueues in which it may not preempt, because of the shares."""


class PastUseStanding(Wire):
    """The past use of a LocalQueue in a usage-based ClusterQueue."""

    local_queue: str
    """Its name, with the namespace unless it is that of the explanation."""
    past_use: str
    """The number that orders LocalQueues, divided by the weight; `infinite` for a weight of 0."""
    weight: str = "1"
    pending: int = 0
    """How many of its workloads are pending."""
    time: str = ""
    """Up to when use counts: past use is brought up to date when the scheduler decides next."""
    lead: str = ""
    """About how much it can use until the LocalQueue of the workload goes first, as in `40 gpu-minutes`."""


class PastUseExplanation(Wire):
    """How the past use of LocalQueues stands for a pending workload or a queue."""

    own: PastUseStanding | None = None
    """The LocalQueue that the explanation is about; absent for a ClusterQueue."""
    count: int = 0
    """The number of other LocalQueues; for a workload of those that go before it."""
    others: tuple[PastUseStanding, ...] = ()
    """Those of them with the least past use."""
    other_namespaces: int = 0
    """How many of these are of namespaces that the caller may not list."""


class SparedCandidates(Wire):
    """Workloads that could have been preempted and were not, for one reason."""

    reason: str
    """NotNeeded, WithinQuota, NotWhileBorrowing, FairShare, SmallerShare, NotLeaving, OwnClusterQueue,
    WeakerClaim, HigherPriority, AdmittedEarlier or Tie."""
    workloads: Names


class Preemption(Wire):
    """What was preempted for the workload."""

    time: str
    victims: Names
    other_candidates: int = 0
    spared: tuple[SparedCandidates, ...] = ()
    """Some of the other candidates, and why they were not preempted."""
    flavors: tuple[str, ...] = ()
    """The flavors that it took, and those that it did not, and why."""


class Eviction(Wire):
    """The last eviction."""

    time: str
    reason: str
    message: str = ""
    preemptor: str = ""
    clause: str = ""
    """Which clause of the preemptor's policy allowed it."""
    lost_seconds: int | None = None
    """How long the workload had run."""
    preemptor_started: str = ""
    """When the preemptor started; empty if it did not, or if that is not recorded."""
    preemptor_waits: bool = False
    victims: int = 0
    """How many workloads had to leave together."""
    flavors: tuple[str, ...] = ()
    """The flavors that the preemptor took, and those that it did not, and why."""
    other_candidates: int | None = None
    """How many other workloads could have been preempted; None if that is not recorded."""
    spared: tuple[SparedCandidates, ...] = ()
    """Some of them, and why they were not."""


class Remedy(Wire):
    """A way to let the workload start."""

    kind: str
    """AwaitTime, AwaitEnd, OtherQueue, Shrink, Fix or Raise."""
    text: str
    time: str = ""
    """When it has effect at the latest, if that is known."""


class PastDecision(Wire):
    """A decision about the workload."""

    time: str
    kind: str
    text: str


class WorkloadExplanation(Wire):
    """Why a workload is where it is."""

    metadata: ObjectMeta
    state: str
    """Pending, Inactive, QuotaReserved, Admitted, Stopping or Finished."""
    tree: Sentence
    since: str = ""
    reason: str = ""
    """Why it is pending, as its condition states it."""
    can_never_start: bool = False
    local_queue: str = ""
    cluster_queue: str = ""
    queue_obstacle: str = ""
    """Why its queues admit nothing; empty if they do."""
    place: Place | None = None
    share: ShareExplanation | None = None
    """Only of a pending workload, under fair sharing."""
    past_use: PastUseExplanation | None = None
    """Only of a pending workload in a usage-based ClusterQueue."""
    pod_sets: tuple[PodSetExplanation, ...] = ()
    checks: tuple[CheckStanding, ...] = ()
    backoff_until: str = ""
    runs_until: str = ""
    eviction: Eviction | None = None
    preemption: Preemption | None = None
    """The last preemption for it, since it waits."""
    remedies: tuple[Remedy, ...] = ()
    """What would let it start, the easiest first."""
    decisions: tuple[PastDecision, ...] = ()
    """The last ones, the oldest first; not those to wait, if nothing else was decided. The end of the job is last."""
    older_decisions: bool = False
    """Whether there were more before them, which are forgotten."""
    kind: str = ""
    api_version: str = ""


class HolderRow(Wire):
    """A workload that holds quota."""

    name: str
    amounts: tuple[tuple[str, str, str], ...]
    """Flavor, resource and quantity."""
    since: str = ""
    until: str = ""
    """When it is stopped at the latest, if that is declared."""
    stopping: bool = False


class NeighbourRow(Wire):
    """What another ClusterQueue borrows or leaves unused."""

    cluster_queue: str
    flavor: str
    resource: str
    amount: str


class NewcomerRow(Wire):
    """What a new workload of one pod would meet."""

    resource: str
    amount: str
    fits: bool
    """Whether there is room for it now."""
    flavor: str = ""
    borrows: bool = False
    preempts: int = 0
    """How many workloads it would preempt to start, if there is no room."""
    too_many_candidates: bool = False
    """Whether so many run that it is not computed if preemption would help."""


class QueueExplanation(Wire):
    """Who holds the quota of a queue, who borrows, and what a newcomer would meet."""

    metadata: ObjectMeta
    tree: Sentence
    cluster_queue: str = ""
    obstacle: str = ""
    """Why it admits nothing; empty if it does."""
    strategy: str = ""
    cohorts: tuple[str, ...] = ()
    quota: tuple[FlavorRoom, ...] = ()
    holding: int = 0
    holders: tuple[HolderRow, ...] = ()
    holders_of_other_namespaces: int = 0
    """How many of the largest holders are not named."""
    borrowers: tuple[NeighbourRow, ...] = ()
    lenders: tuple[NeighbourRow, ...] = ()
    pending: Names | None = None
    newcomers: tuple[NewcomerRow, ...] = ()
    share: ShareStanding | None = None
    """Only under fair sharing."""
    siblings: tuple[ShareStanding, ...] = ()
    """The shares of others in its cohort, the largest first."""
    past_use: PastUseExplanation | None = None
    """Only in a usage-based ClusterQueue."""
    kind: str = ""
    api_version: str = ""
