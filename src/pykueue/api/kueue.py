"""Wire types of queues and quotas: kueue.x-k8s.io/v1beta2, from ClusterQueue to Topology.

The annotations hold limits and defaults; see `core.about`. The next modules to read are `workload` and `checks`.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

from pykueue.api.core import (
    QUALIFIED,
    FewConditions,
    Int32,
    Int64,
    KubeObject,
    Labels,
    LabelSelector,
    Moment,
    ObjectName,
    Quantities,
    QuantityText,
    Taint,
    Toleration,
    about,
    keyed,
    limited,
)
from pykueue.api.names import ADMISSION_MODES
from pykueue.base.struct import Wire

CheckName: TypeAlias = Annotated[str, limited(minLength=1, maxLength=316)]
StopPolicy: TypeAlias = Literal["None", "Hold", "HoldAndDrain"]
Fungibility: TypeAlias = Literal["MayStopSearch", "TryNextFlavor"]


class ResourceQuota(Wire):
    """How much of one resource a queue or cohort has in one flavor."""

    name: Annotated[str, about("Name of the resource.")]
    nominal_quota: Annotated[QuantityText, about("Its own quota.")]
    borrowing_limit: Annotated[QuantityText | None, about("Most that it may borrow; without it, any amount.")] = None
    lending_limit: Annotated[
        QuantityText | None, about("Most of its own quota that others may borrow; without it, all of it.")
    ] = None


class FlavorQuotas(Wire):
    """Quotas of one flavor, one for each resource that its group covers."""

    name: Annotated[ObjectName, about("Name of the ResourceFlavor.")]
    resources: Annotated[
        tuple[ResourceQuota, ...],
        about("Quota of each resource, in the order of coveredResources."),
        keyed("name", minItems=1, maxItems=64),
    ]


class ResourceGroup(Wire):
    """Resources that are always taken from one and the same flavor."""

    covered_resources: Annotated[
        tuple[str, ...],
        about("Resources of this group.", minItems=1, maxItems=64, x_kubernetes_list_type="atomic"),
    ]
    flavors: Annotated[
        tuple[FlavorQuotas, ...],
        about("Flavors that offer these resources, the preferred one first."),
        keyed("name", minItems=1, maxItems=64),
    ]


ResourceGroups: TypeAlias = Annotated[
    tuple[ResourceGroup, ...],
    limited(maxItems=16, x_kubernetes_list_type="atomic"),
]


class FairSharing(Wire):
    """How large a share of what is borrowed is fair."""

    weight: Annotated[QuantityText, about("Weight of its claim on unused quota; 0 ranks behind all others.")] = 1


class FairSharingStatus(Wire):
    """How much of what it may fairly borrow is in use."""

    weighted_share: Annotated[Int64, about("Largest share of any borrowed resource, divided by the weight.")]


class AdmissionCheckRule(Wire):
    """One check that workloads must pass, and for which flavors."""

    name: Annotated[CheckName, about("Name of the AdmissionCheck.")]
    on_flavors: Annotated[
        tuple[ObjectName, ...],
        about("Flavors that need the check; none named means all.", maxItems=64, x_kubernetes_list_type="set"),
    ] = ()


class AdmissionChecksStrategy(Wire):
    """Which checks workloads must pass."""

    admission_checks: Annotated[
        tuple[AdmissionCheckRule, ...],
        about("Checks with the flavors they are for.", required=True),
        keyed("name", minItems=1, maxItems=64),
    ] = ()


class FlavorFungibility(Wire):
    """When to try the next flavor rather than borrow or preempt in this one."""

    when_can_borrow: Annotated[Fungibility, about("Whether a flavor that fits by borrowing ends the search.")] = (
        "MayStopSearch"
    )
    when_can_preempt: Annotated[Fungibility, about("Whether a flavor that fits by preempting ends the search.")] = (
        "TryNextFlavor"
    )
    preference: Annotated[
        Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] | None,
        about("Which of the two is preferred when every flavor needs one."),
    ] = None


class BorrowWithinCohort(Wire):
    """Whether a workload that needs to borrow may preempt in the cohort."""

    policy: Annotated[Literal["Never", "LowerPriority"], about("Which workloads such a workload may preempt.")] = (
        "Never"
    )
    max_priority_threshold: Annotated[Int32 | None, about("Highest priority that may be preempted in this way.")] = None


class ClusterQueuePreemption(Wire):
    """Which workloads a pending workload may preempt."""

    reclaim_within_cohort: Annotated[
        Literal["Never", "LowerPriority", "Any"], about("Which borrowers of the cohort may be preempted.")
    ] = "Never"
    borrow_within_cohort: Annotated[BorrowWithinCohort, about("Preemption while borrowing.", default={})] = (
        BorrowWithinCohort()
    )
    within_cluster_queue: Annotated[
        Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"],
        about("Which workloads of the same queue may be preempted."),
    ] = "Never"


class AdmissionScope(Wire):
    """Whether past usage of the LocalQueues decides the order."""

    admission_mode: Annotated[
        str,
        about(
            "Way in which the queue orders its LocalQueues.",
            required=True,
            enum=list(ADMISSION_MODES),
        ),
    ] = ""


class MigrationConstraints(Wire):
    """Limits on the flavors that a workload may move to."""

    last_acceptable_flavor_name: Annotated[
        ObjectName | None, about("Least preferred flavor that is still acceptable.")
    ] = None


class Migration(Wire):
    """Whether an admitted workload moves when a better flavor becomes free."""

    mode: Annotated[
        Literal["TryPreferredFlavors", "RetainFirstAdmission"],
        about("Whether to keep looking for a better flavor.", maxLength=253),
    ]
    constraints: Annotated[MigrationConstraints | None, about("Flavors that it may move to.")] = None


class ConcurrentAdmissionPolicy(Wire):
    """Whether a workload is tried in several flavors at once."""

    migration: Annotated[Migration, about("What happens after the first admission.")]


class ClusterQueueSpec(Wire):
    """Quotas and policies of a ClusterQueue."""

    resource_groups: Annotated[ResourceGroups, about("Quotas, by groups of resources.")] = ()
    cohort_name: Annotated[ObjectName | None, about("Cohort with which unused quota is shared.")] = None
    queueing_strategy: Annotated[
        Literal["StrictFIFO", "BestEffortFIFO"],
        about("Whether a workload that does not fit blocks those behind it."),
    ] = "BestEffortFIFO"
    namespace_selector: Annotated[
        LabelSelector | None,
        about("Namespaces whose workloads it admits; absent means none, empty all.", x_kubernetes_map_type="atomic"),
    ] = None
    flavor_fungibility: Annotated[FlavorFungibility, about("When to try the next flavor.", default={})] = (
        FlavorFungibility()
    )
    preemption: Annotated[ClusterQueuePreemption, about("Which workloads its workloads may preempt.", default={})] = (
        ClusterQueuePreemption()
    )
    admission_checks_strategy: Annotated[
        AdmissionChecksStrategy | None, about("Checks that its workloads must pass.")
    ] = None
    stop_policy: Annotated[
        StopPolicy, about("Hold admits nothing more; HoldAndDrain also evicts running workloads.")
    ] = "None"
    fair_sharing: Annotated[FairSharing | None, about("Its claim on unused quota.")] = None
    admission_scope: Annotated[AdmissionScope | None, about("Fairness between its LocalQueues.")] = None
    concurrent_admission_policy: Annotated[
        ConcurrentAdmissionPolicy | None, about("Trying several flavors at once.")
    ] = None


class ResourceUsage(Wire):
    """How much of one resource is taken."""

    name: Annotated[str, about("Name of the resource.")]
    total: Annotated[QuantityText | None, about("Amount in use, borrowed or not.")] = None
    borrowed: Annotated[QuantityText | None, about("Part of it that is borrowed from the cohort.")] = None


class FlavorUsage(Wire):
    """How much of one flavor is taken."""

    name: Annotated[ObjectName, about("Name of the ResourceFlavor.")]
    resources: Annotated[tuple[ResourceUsage, ...], about("Usage of each resource."), keyed("name", maxItems=64)]


FlavorUsages: TypeAlias = Annotated[tuple[FlavorUsage, ...], keyed("name", maxItems=64)]


class ClusterQueueStatus(Wire):
    """What a ClusterQueue holds at present."""

    conditions: Annotated[FewConditions, about("Whether it is active, and why not.")] = ()
    flavors_reservation: Annotated[FlavorUsages, about("Quota that is reserved, admitted or not.")] = ()
    flavors_usage: Annotated[FlavorUsages, about("Quota of admitted workloads.")] = ()
    pending_workloads: Annotated[Int32 | None, about("Pending workloads.")] = None
    reserving_workloads: Annotated[Int32 | None, about("Workloads that hold quota.")] = None
    admitted_workloads: Annotated[Int32 | None, about("Workloads that are admitted.")] = None
    fair_sharing: Annotated[FairSharingStatus | None, about("Its present share.")] = None


class ClusterQueue(KubeObject):
    """A pool of quota with the rules by which it is allocated."""

    spec: Annotated[ClusterQueueSpec, about("Quotas and policies.")] = ClusterQueueSpec()
    status: Annotated[ClusterQueueStatus, about("Its present state.")] = ClusterQueueStatus()


class LocalQueueSpec(Wire):
    """The ClusterQueue of a LocalQueue."""

    cluster_queue: Annotated[ObjectName | None, about("ClusterQueue that it submits to.")] = None
    stop_policy: Annotated[
        StopPolicy, about("Hold admits nothing more; HoldAndDrain also evicts running workloads.")
    ] = "None"
    fair_sharing: Annotated[FairSharing | None, about("Its claim among the LocalQueues of its ClusterQueue.")] = None


class LocalResourceUsage(Wire):
    """How much of one resource a LocalQueue's workloads take."""

    name: Annotated[str, about("Name of the resource.")]
    total: Annotated[QuantityText | None, about("Amount in use.")] = None


class LocalFlavorUsage(Wire):
    """How much of one flavor a LocalQueue's workloads take."""

    name: Annotated[ObjectName, about("Name of the ResourceFlavor.")]
    resources: Annotated[tuple[LocalResourceUsage, ...], about("Usage of each resource."), keyed("name", maxItems=64)]


LocalFlavorUsages: TypeAlias = Annotated[tuple[LocalFlavorUsage, ...], keyed("name", maxItems=64)]


class AdmissionFairSharingStatus(Wire):
    """Decayed usage of the past."""

    consumed_resources: Annotated[Quantities, about("Decayed usage of each resource.")]
    last_update: Annotated[Moment, about("When it was last computed.")]


class LocalFairSharingStatus(Wire):
    """A LocalQueue's present and past share."""

    weighted_share: Annotated[Int64, about("Largest share of any borrowed resource, divided by the weight.")]
    admission_fair_sharing_status: Annotated[AdmissionFairSharingStatus | None, about("Decayed usage of the past.")] = (
        None
    )


class LocalQueueStatus(Wire):
    """What a LocalQueue holds at present."""

    conditions: Annotated[FewConditions, about("Whether it is active, and why not.")] = ()
    flavors_reservation: Annotated[LocalFlavorUsages, about("Quota that is reserved, admitted or not.")] = ()
    flavors_usage: Annotated[LocalFlavorUsages, about("Quota of admitted workloads.")] = ()
    pending_workloads: Annotated[Int32 | None, about("Pending workloads.")] = None
    reserving_workloads: Annotated[Int32 | None, about("Workloads that hold quota.")] = None
    admitted_workloads: Annotated[Int32 | None, about("Workloads that are admitted.")] = None
    fair_sharing: Annotated[LocalFairSharingStatus | None, about("Its present and past share.")] = None


class LocalQueue(KubeObject):
    """A namespace's access to a ClusterQueue."""

    spec: Annotated[LocalQueueSpec, about("Its ClusterQueue and policies.")] = LocalQueueSpec()
    status: Annotated[LocalQueueStatus, about("Its present state.")] = LocalQueueStatus()


class CohortSpec(Wire):
    """Place in the tree of cohorts, and quota of its own."""

    parent_name: Annotated[ObjectName | None, about("Cohort that this one belongs to; without it, a root.")] = None
    resource_groups: Annotated[ResourceGroups, about("Quota that all members may use.")] = ()
    fair_sharing: Annotated[FairSharing | None, about("Its claim within its parent.")] = None


class CohortStatus(Wire):
    """What a Cohort uses at present."""

    fair_sharing: Annotated[FairSharingStatus | None, about("Its present share.")] = None


class Cohort(KubeObject):
    """ClusterQueues and cohorts that lend each other what they do not use."""

    spec: Annotated[CohortSpec, about("Place in the tree, and quota.")] = CohortSpec()
    status: Annotated[CohortStatus, about("Its present usage.")] = CohortStatus()


class ResourceFlavorSpec(Wire):
    """Which nodes a flavor stands for."""

    node_labels: Annotated[Labels, about("Labels of its nodes.", maxProperties=8, x_kubernetes_map_type="atomic")] = (
        msgspec.field(default_factory=dict)
    )
    node_taints: Annotated[
        tuple[Taint, ...],
        about("Taints of its nodes, which workloads must tolerate.", maxItems=8, x_kubernetes_list_type="atomic"),
    ] = ()
    tolerations: Annotated[
        tuple[Toleration, ...],
        about("Tolerations that are added to admitted pods.", maxItems=8, x_kubernetes_list_type="atomic"),
    ] = ()
    topology_name: Annotated[ObjectName | None, about("Topology by which its nodes are arranged.")] = None


class ResourceFlavor(KubeObject):
    """A sort of node: a model of GPU, a price, a zone."""

    spec: Annotated[ResourceFlavorSpec, about("Which nodes it stands for.")] = ResourceFlavorSpec()


class WorkloadPriorityClass(KubeObject):
    """A named priority for queueing, apart from the priority of pods."""

    value: Annotated[Int32, about("The priority; higher goes first.", required=True)] = 0
    description: Annotated[str | None, about("When to use this class.", maxLength=2048)] = None


class TopologyLevel(Wire):
    """One level of a topology."""

    node_label: Annotated[
        str, about("Node label whose value names the domain.", minLength=1, maxLength=316, pattern=QUALIFIED)
    ]


class TopologySpec(Wire):
    """How nodes are grouped."""

    levels: Annotated[
        tuple[TopologyLevel, ...],
        about("Levels, the widest first.", required=True, minItems=1, maxItems=16, x_kubernetes_list_type="atomic"),
    ] = ()


class Topology(KubeObject):
    """How nodes are grouped: blocks, racks, hosts."""

    spec: Annotated[TopologySpec, about("How nodes are grouped.")] = TopologySpec()
